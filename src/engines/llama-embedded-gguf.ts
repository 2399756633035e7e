// What a GGUF file says of its model: the chat template, and the vocabulary in the shape of a `tokenizer.json`.
// Keys: ggml's docs/gguf.md, section "Tokenizer". How a text is cut into words is not in the file, only a name for it;
// the patterns are those of the models' own tokenizer.json.

type Fields = Readonly<Record<string, unknown>>
const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null
/** As the reader of node-llama-cpp gives it: one object a dot. */
export type Metadata = Fields
export const metadataOf = (value: unknown): Metadata => (isFields(value) ? value : {})

const at = (from: unknown, ...path: readonly string[]): unknown =>
  path.reduce<unknown>((value, key) => (isFields(value) ? value[key] : undefined), from)
const texts = (value: unknown): readonly string[] | undefined =>
  Array.isArray(value) && value.every((one) => typeof one === 'string') ? value : undefined

export function templateOf(metadata: Metadata): string | undefined {
  const template = at(metadata, 'tokenizer', 'chat_template')
  return typeof template === 'string' ? template : undefined
}

type Cutting = { readonly patterns: readonly string[]; readonly nfc?: true; readonly ignoreMerges?: true }
const contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
const blanks = '\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+'
const upper = '[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]'
const lower = '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]'
const words = (digits: string): string =>
  `${contractions}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${blanks}`
const cased = (digits: string, suffix: string): string =>
  `[^\\r\\n\\p{L}\\p{N}]?${upper}*${lower}+${suffix}|[^\\r\\n\\p{L}\\p{N}]?${upper}+${lower}*${suffix}|${digits}` +
  `| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${blanks}`
const qwen2: Cutting = { patterns: [words('\\p{N}')], nfc: true }
const llama3: Cutting = { patterns: [words('\\p{N}{1,3}')], ignoreMerges: true }
const o200k: Cutting = { patterns: [cased('\\p{N}{1,3}', `${contractions}?`)], ignoreMerges: true }
/** By `tokenizer.ggml.pre`. */
const cuttings: Readonly<Record<string, Cutting>> = {
  qwen2,
  'deepseek-r1-qwen': qwen2,
  qwen35: {
    patterns: [
      `${contractions}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|${blanks}`,
    ],
    nfc: true,
  },
  'llama-bpe': llama3,
  llama3,
  'llama-v3': llama3,
  glm4: { patterns: [words('\\p{N}{1,3}')] },
  'gpt-4o': o200k,
  llama4: o200k,
  tekken: { patterns: [cased('\\p{N}', '')], ignoreMerges: true },
  'deepseek-v3': {
    patterns: [
      '\\p{N}{1,3}',
      '[一-龥぀-ゟ゠-ヿ]+',
      '[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+' +
        '| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+',
    ],
  },
}

/** `tokenizer.ggml.token_type`. */
const control = 3
const userDefined = 4

/** Undefined for vocabularies that are no byte-level BPE, or are cut in a way that is not known here. */
export function tokenizerOf(metadata: Metadata): Record<string, unknown> | undefined {
  const ggml = at(metadata, 'tokenizer', 'ggml')
  const [tokens, merges] = [texts(at(ggml, 'tokens')), texts(at(ggml, 'merges'))]
  const types = at(ggml, 'token_type')
  const pre = at(ggml, 'pre')
  const cutting = typeof pre === 'string' && Object.hasOwn(cuttings, pre) ? cuttings[pre] : undefined
  if (at(ggml, 'model') !== 'gpt2' || !tokens || !merges || !cutting || !Array.isArray(types)) return undefined

  const vocab: Record<string, number> = Object.create(null) as Record<string, number>
  const added: Record<string, unknown>[] = []
  for (const [id, content] of tokens.entries()) {
    const type = Number(types[id])
    if (type === 1) vocab[content] = id
    else if (type === control || type === userDefined)
      added.push({
        id,
        content,
        single_word: false,
        lstrip: false,
        rstrip: false,
        normalized: false,
        special: type === control,
      })
  }
  const bytes = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false }
  const split = (pattern: string) => ({
    type: 'Split',
    pattern: { Regex: pattern },
    behavior: 'Isolated',
    invert: false,
  })
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: added,
    normalizer: cutting.nfc ? { type: 'NFC' } : null,
    pre_tokenizer: { type: 'Sequence', pretokenizers: [...cutting.patterns.map(split), bytes] },
    post_processor: null,
    decoder: bytes,
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: cutting.ignoreMerges ?? false,
      vocab,
      merges,
    },
  }
}
