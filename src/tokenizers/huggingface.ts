// Tokenizers that bpe.ts does not do, over the library that the format comes from: SentencePiece kinds (BPE or Unigram with
// `▁` for a space) and byte-level BPE with unusual steps. The library knows added tokens in the text; here it gets none,
// and their texts in the vocabulary are made unreachable, so that plain text never gives a control token.
import { createHash } from 'node:crypto'
import { Tokenizer as Untyped } from '@huggingface/tokenizers'
import type { Tokenizer } from '../turn/ports.ts'
import { byteChars, byteOf, type Fields, isFields, isList, parts, readAdded, shown } from './bpe-file.ts'
import { IdTexts } from './id-text.ts'
import { wellFormed } from './nfc.ts'
import { atOnce, inSlices, spent, type Work } from './slices.ts'

const space = '\u2581'
/** UTF-16 units that are encoded without a pause. */
const most = 8 * 1024
const window = 4 * 1024
const byteShape = /^<0x([\dA-F]{2})>$/
const byteToken = (byte: number): string => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`

/** The library as it is used here; its own declarations cannot be resolved by Node's rules. */
const Library = Untyped as unknown as new (
  json: object,
  config: object,
) => {
  readonly normalizer: ((text: string) => string) | null
  readonly pre_tokenizer: ((text: string, options: object) => string[]) | null
  readonly model: {
    readonly tokens_to_ids: ReadonlyMap<string, number>
    fuse_unk: boolean
    (parts: string[]): string[]
  }
}

/** `json`: a parsed `tokenizer.json`. Throws an Error that says what cannot be done with it. */
export function huggingFaceTokenizer(json: unknown): Tokenizer {
  if (!isFields(json) || !isFields(json['model'])) throw new Error('there is no model in it')
  const names = readAdded(json['added_tokens'])
  const model = withoutControls(json['model'], names)
  const levels = readsLevels(json['decoder'])
  const { steps, prefix } = readPrefix(json)
  const library = new Library(
    { ...json, ...steps, model, added_tokens: [], post_processor: null },
    { clean_up_tokenization_spaces: false },
  )
  const { normalizer: normalize, pre_tokenizer: split, model: run } = library
  run.fuse_unk = false
  const ids = run.tokens_to_ids
  const vocabulary = new Map(
    [...ids].map(([token, id]) => [id, token.startsWith(hide) ? token.slice(1) : token] as const),
  )
  const fallback = unknowns(json['model'], ids, names, levels)
  const crossed = pairsWithin(ids.keys())

  function* encode(text: string): Work<number[]> {
    const whole = wellFormed(text)
    let rest = normalize ? normalize(whole) : whole
    if (prefix !== 'none' && rest !== '' && !(prefix === 'missing' && /^[ \u2581]/.test(rest))) rest = space + rest
    const out: number[] = []
    for (let at = 0; at < rest.length;) {
      const end = levels ? cutWords(rest, at) : cut(rest, at, crossed)
      const part = rest.slice(at, end)
      for (const token of run(split ? split(part, { section_index: 0 }) : [part])) {
        const id = ids.get(token)
        if (id === undefined) for (const other of fallback(token)) out.push(other)
        else out.push(id)
      }
      at = end
      if (spent()) yield
    }
    return out
  }
  const texts = new IdTexts((id) => {
    const token = vocabulary.get(id)
    return token === undefined || names.has(id) ? new Uint8Array(0) : bytesOf(token, levels)
  }, names)
  const controls = new Map([...names].map(([id, name]) => [name, id] as const))
  const unprefixed = (text: string): string => (prefix !== 'none' && text.startsWith(' ') ? text.slice(1) : text)
  return {
    id: `hf-${hashOf([...ids], [...names])}`,
    size: [...ids.values(), ...names.keys()].reduce((top, id) => Math.max(top, id + 1), 0),
    encode: (text) => (text.length > most ? inSlices(encode(text)) : atOnce(encode(text))),
    control: (name) => controls.get(name),
    nameOf: (id) => names.get(id),
    stream: () => {
      const stream = texts.stream()
      let begun = false
      const first = (text: string): string => {
        if (begun || text === '') return text
        begun = true
        return unprefixed(text)
      }
      return { push: (id) => first(stream.push(id)), end: () => first(stream.end()) }
    },
    decode: (tokens) => unprefixed(texts.decode(tokens)),
  }
}

/** In front of a token, it puts it out of reach: well-formed text holds no surrogate by itself. */
const hide = '\ud800'
/**
 * The model with its control tokens out of reach. Unigram would also find the names of bytes in the text; the bytes of
 * what it does not know are found by `unknowns`.
 */
function withoutControls(model: Fields, names: ReadonlyMap<number, string>): Fields {
  const hidden = (token: string, id: unknown): string =>
    typeof id === 'number' && names.has(id) ? hide + token : token
  const { vocab, merges } = model
  if (model['type'] === 'Unigram' && isList(vocab)) {
    const rows = vocab.map((row, id) => {
      if (!isList(row) || typeof row[0] !== 'string') throw new Error(`its vocab has ${shown(row)}`)
      return [byteShape.test(row[0]) ? hide + row[0] : hidden(row[0], id), row[1]]
    })
    return { ...model, vocab: rows }
  }
  if (model['type'] !== 'BPE' || !isFields(vocab) || !isList(merges))
    throw new Error(`its model is ${shown(model['type'])}, and only BPE and Unigram are supported`)
  const control = (token: string): boolean => {
    const id = vocab[token]
    return typeof id === 'number' && names.has(id)
  }
  return {
    ...model,
    unk_token: null,
    vocab: Object.fromEntries(Object.entries(vocab).map(([token, id]) => [hidden(token, id), id])),
    merges: merges.filter((merge) => {
      const pair: unknown = typeof merge === 'string' ? merge.split(' ') : merge
      if (!isList(pair)) throw new Error(`its merges have ${shown(merge)}`)
      return !control(pair.join(''))
    }),
  }
}

/** True where the characters of a token are bytes, as in byte-level BPE; false where `▁` is a space. */
function readsLevels(decoder: unknown): boolean {
  const all = parts(decoder, 'decoders')
  if (all.length === 1 && all[0]?.['type'] === 'ByteLevel') return true
  const other = all.find(({ type }) => !/^(Replace|ByteFallback|Fuse|Strip|Metaspace)$/.test(String(type)))
  if (other || all.length === 0) throw new Error(`its decoder is ${shown(other?.['type'] ?? null)}`)
  return false
}

/** Whether a text is given a space in front; here, not by the library, which sees a text in parts. */
function readPrefix(json: Fields): { prefix: 'none' | 'missing' | 'always'; steps: Fields } {
  const normalizers = parts(json['normalizer'], 'normalizers')
  const splits = parts(json['pre_tokenizer'], 'pretokenizers')
  const prepends = normalizers.some(({ type }) => type === 'Prepend')
  const metaspace = splits.find(({ type }) => type === 'Metaspace')
  // `first` is the text at the very start only; ours follows a control token.
  const scheme = metaspace?.['prepend_scheme'] ?? (metaspace?.['add_prefix_space'] === false ? 'never' : 'always')
  return {
    prefix: prepends ? 'always' : metaspace && scheme === 'always' ? 'missing' : 'none',
    steps: {
      normalizer: { type: 'Sequence', normalizers: normalizers.filter(({ type }) => type !== 'Prepend') },
      pre_tokenizer:
        splits.length === 0
          ? null
          : {
              type: 'Sequence',
              pretokenizers: splits.map((step) => (step === metaspace ? { ...step, prepend_scheme: 'never' } : step)),
            },
    },
  }
}

/** Ids of what is not in the vocabulary. Throws where that could only be a control token. */
function unknowns(
  model: Fields,
  ids: ReadonlyMap<string, number>,
  names: ReadonlyMap<number, string>,
  levels: boolean,
): (text: string) => readonly number[] {
  const tokens = Array.from({ length: 256 }, (_, byte) =>
    levels ? ids.get(byteChars[byte] ?? '') : (ids.get(byteToken(byte)) ?? ids.get(hide + byteToken(byte))),
  )
  // Bytes that no UTF-8 text has may be missing.
  const whole = tokens.every((id, byte) => id !== undefined || byte === 0xc0 || byte === 0xc1 || byte >= 0xf5)
  if (whole && levels) return () => []
  if (whole && model['byte_fallback'] === true)
    return (text) => Array.from(Buffer.from(text), (byte) => tokens[byte] ?? 0)
  const unknown = model['type'] === 'Unigram' ? model['unk_id'] : undefined
  if (typeof unknown === 'number' && !names.has(unknown)) return () => [unknown]
  throw new Error('characters that are not in its vocabulary have no tokens but a control token')
}

const bytesOf = (token: string, levels: boolean): Uint8Array => {
  const byte = byteShape.exec(token)
  if (!levels)
    return byte ? Uint8Array.of(Number.parseInt(byte[1] ?? '', 16)) : Buffer.from(token.replaceAll(space, ' '))
  const codes = Array.from(token, (char) => byteOf[char.charCodeAt(0)] ?? -1)
  return codes.includes(-1) ? Buffer.from(token) : Uint8Array.from(codes)
}

/** Pairs of characters that stand side by side in some token. Between any other two a text can be cut. */
function pairsWithin(tokens: Iterable<string>): ReadonlySet<string> {
  const pairs = new Set<string>()
  for (const token of tokens) {
    let before = ''
    for (const char of token) {
      if (before !== '') pairs.add(before + char)
      before = char
    }
  }
  return pairs
}
/** Where a part that begins at `from` may end. One character over and over is cut anywhere: other ids, the same text. */
function cut(text: string, from: number, crossed: ReadonlySet<string>): number {
  const edge = from + window
  if (edge >= text.length) return text.length
  for (let at = edge; at > from + window / 2; at--) {
    if (isLow(text, at) || isLow(text, at - 1)) continue
    const [left, right] = [text.charAt(at - 1), text.charAt(at)]
    if (right !== ' ' && left !== ' ' && !crossed.has(left + right)) return at
  }
  return isLow(text, edge) ? edge - 1 : edge
}
/**
 * The same for byte-level vocabularies, whose tokens spell bytes and whose texts are split into words first: in front of a
 * letter behind a line's end, of the blank of a word, or of a mark behind a letter. No pattern that splits texts joins what
 * stands there.
 */
function cutWords(text: string, from: number): number {
  const edge = from + window
  if (edge >= text.length) return text.length
  for (let at = edge; at > from + 1; at--) if (partsWords(text, at)) return at
  return isLow(text, edge) ? edge - 1 : edge
}
function partsWords(text: string, at: number): boolean {
  if (text.charAt(at - 1) === '\n') return /^\S\n\p{L}/u.test(text.slice(at - 2, at + 2))
  if (text.charAt(at) === ' ') return /^\S \p{L}/u.test(text.slice(at - 1, at + 3))
  return /^\p{L}[^\s\p{L}\p{M}\p{N}'’]/u.test(text.slice(at - 1, at + 1))
}
const isLow = (text: string, at: number): boolean => {
  const code = text.charCodeAt(at)
  return code >= 0xdc00 && code < 0xe000
}
const hashOf = (...content: unknown[]): string =>
  createHash('sha256').update(JSON.stringify(content)).digest('base64url').slice(0, 16)
