// Makes tiny models for llama.cpp: random weights from a seed, the same bytes every time, with a byte-level vocabulary of
// our own (256 bytes, some merges, control tokens as in Qwen3) or one cut out of a given tokenizer.json. GGUF version 3.
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

export type TokenizerJson = {
  readonly model: { readonly vocab: Record<string, number>; readonly merges: readonly (string | readonly string[])[] }
  readonly added_tokens?: readonly { readonly id: number; readonly content: string; readonly special: boolean }[]
}
export type TinyOptions = {
  /** gemma3: with a sliding window, whose cache cannot be cut anywhere. */
  readonly arch?: 'qwen3' | 'llama' | 'gemma3'
  readonly layers?: number
  readonly width?: number
  /** Of attention. One is the fastest over long prompts. */
  readonly heads?: number
  readonly context?: number
  readonly seed?: number
  /** Default: `tinyTokenizer()`. */
  readonly tokenizer?: TokenizerJson
  /** Keep this many of the given tokenizer's ids, and all its control tokens behind them. */
  readonly vocab?: number
  /** `tokenizer.ggml.pre`: how llama.cpp cuts a text into words. */
  readonly pre?: string
  readonly template?: string
  readonly eos?: string
}

export const tinyControls = [
  '<|endoftext|>',
  '<|im_start|>',
  '<|im_end|>',
  '<tool_call>',
  '</tool_call>',
  '<tool_response>',
  '</tool_response>',
  '<think>',
  '</think>',
] as const
const frequent =
  ' the and you that with this have from user assistant system tool call name arguments name file path true false null ' +
  ' is a to of in it for on as at be or an if so no do go we he me my by up us "type" "name" "arguments" {" "} ": ", \n\n'

/** Bytes as the printable characters that byte-level vocabularies spell them with. */
export const byteLetters: readonly string[] = (() => {
  const plain = (b: number): boolean => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174
  let next = 256
  return Array.from({ length: 256 }, (_, b) => String.fromCodePoint(plain(b) ? b : next++))
})()
const spelled = (text: string): string => Array.from(Buffer.from(text), (b) => byteLetters[b] ?? '').join('')

/**
 * A tokenizer.json: ids 0 to 255 are the bytes, then merges unless `words` is false, then control tokens. Without merges
 * its ids are those of src/tokenizers/bytes.ts.
 */
export function tinyTokenizer(controls: readonly string[] = tinyControls, words = true): TokenizerJson {
  const vocab: Record<string, number> = {}
  for (const letter of byteLetters) vocab[letter] = Object.keys(vocab).length
  const merges: string[] = []
  for (const word of words ? (frequent.match(/ ?[^ ]+/g) ?? []) : []) {
    const letters = Array.from(spelled(word))
    for (let n = 1; n < letters.length; n++) {
      const [left, right] = [letters.slice(0, n).join(''), letters[n] ?? '']
      if (Object.hasOwn(vocab, left + right)) continue
      merges.push(`${left} ${right}`)
      vocab[left + right] = Object.keys(vocab).length
    }
  }
  const first = Object.keys(vocab).length
  const added = controls.map((content, n) => ({ id: first + n, content, special: /^<[|｜]/.test(content) }))
  return { model: { vocab, merges }, added_tokens: added }
}

type Vocabulary = { readonly tokens: string[]; readonly types: number[]; readonly merges: string[] }
function vocabularyOf({ model, added_tokens = [] }: TokenizerJson, cut: number | undefined): Vocabulary {
  const merges = model.merges.map((m) => (typeof m === 'string' ? m : m.join(' ')))
  const kept = Object.entries(model.vocab).filter(([, id]) => cut === undefined || id < cut)
  const known = new Set(kept.map(([token]) => token))
  const tokens: string[] = []
  const types: number[] = []
  for (const [token, id] of kept) [tokens[id], types[id]] = [token, 1]
  const controls = [...added_tokens].sort((a, b) => a.id - b.id)
  for (const [n, { id, content, special: isSpecial }] of controls.entries()) {
    const place = cut === undefined ? id : cut + n
    ;[tokens[place], types[place]] = [content, isSpecial ? 3 : 4]
  }
  for (let id = 0; id < tokens.length; id++) if (tokens[id] === undefined) [tokens[id], types[id]] = [`[PAD${id}]`, 5]
  const usable = merges.filter((m) => {
    const [left = '', right = ''] = m.split(' ')
    return known.has(left) && known.has(right) && known.has(left + right)
  })
  return { tokens, types, merges: usable }
}

/** Numbers of a normal distribution, the same for the same seed. */
function normals(seed: number): () => number {
  let state = seed >>> 0
  const uniform = (): number => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform())
}

type Value = string | number | boolean | { readonly f32: number } | readonly string[] | Int32Array
const [u32, i32, f32, bool, text, list] = [4, 5, 6, 7, 8, 9]

/** The bytes of a GGUF file, little endian. */
class Gguf {
  readonly #parts: Buffer[] = []
  length = 0
  add(bytes: Buffer): void {
    this.#parts.push(bytes)
    this.length += bytes.length
  }
  pad(to: number): void {
    this.add(Buffer.alloc((to - (this.length % to)) % to))
  }
  int(value: number): void {
    const b = Buffer.alloc(4)
    b.writeUInt32LE(value)
    this.add(b)
  }
  long(value: number): void {
    const b = Buffer.alloc(8)
    b.writeBigUInt64LE(BigInt(value))
    this.add(b)
  }
  text(value: string): void {
    const b = Buffer.from(value)
    this.long(b.length)
    this.add(b)
  }
  field(key: string, value: Value): void {
    this.text(key)
    if (typeof value === 'string') {
      this.int(text)
      this.text(value)
    } else if (typeof value === 'number') {
      this.int(u32)
      this.int(value)
    } else if (typeof value === 'boolean') {
      this.int(bool)
      this.add(Buffer.from([value ? 1 : 0]))
    } else if (value instanceof Int32Array) {
      this.int(list)
      this.int(i32)
      this.long(value.length)
      this.add(Buffer.from(value.buffer))
    } else if ('f32' in value) {
      this.int(f32)
      this.add(Buffer.from(Float32Array.of(value.f32).buffer))
    } else {
      this.int(list)
      this.int(text)
      this.long(value.length)
      for (const one of value) this.text(one)
    }
  }
  bytes(): Buffer {
    return Buffer.concat(this.#parts)
  }
}

type Tensor = { readonly name: string; readonly shape: readonly number[]; readonly data: Buffer }

type Shape = { readonly layers: number; readonly width: number; readonly heads: number }
/** Heads that keys and values have. */
const sharedOf = (heads: number): number => Math.ceil(heads / 2)

function tensorsOf(arch: string, { layers, width, heads }: Shape, vocab: number, next: () => number): Tensor[] {
  const shared = sharedOf(heads)
  const head = width / heads
  const out: Tensor[] = []
  const add = (name: string, shape: number[], fill: () => number): void => {
    const data = Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, fill)
    out.push({ name, shape, data: Buffer.from(data.buffer) })
  }
  const random = (deviation: number) => () => next() * deviation
  const one = (): number => 1
  const unit = 1 / Math.sqrt(width)
  add('token_embd.weight', [width, vocab], random(0.5))
  for (let n = 0; n < layers; n++) {
    const layer = (name: string): string => `blk.${n}.${name}.weight`
    add(layer('attn_norm'), [width], one)
    add(layer('attn_q'), [width, heads * head], random(unit))
    add(layer('attn_k'), [width, shared * head], random(unit))
    add(layer('attn_v'), [width, shared * head], random(unit))
    if (arch !== 'llama') {
      add(layer('attn_q_norm'), [head], one)
      add(layer('attn_k_norm'), [head], one)
    }
    add(layer('attn_output'), [heads * head, width], random(0.4 * unit))
    if (arch === 'gemma3') {
      add(layer('post_attention_norm'), [width], one)
      add(layer('post_ffw_norm'), [width], one)
    }
    add(layer('ffn_norm'), [width], one)
    add(layer('ffn_gate'), [width, 2 * width], random(unit))
    add(layer('ffn_up'), [width, 2 * width], random(unit))
    add(layer('ffn_down'), [2 * width, width], random(0.4 * unit))
  }
  add('output_norm.weight', [width], one)
  add('output.weight', [width, vocab], random(unit))
  return out
}

/** The file's bytes. */
export function tinyGguf(options: TinyOptions = {}): Buffer {
  const { arch = 'qwen3', layers = 2, width = 64, heads = 4, context = 32_768, seed = 1, pre, template } = options
  const { tokens, types, merges } = vocabularyOf(options.tokenizer ?? tinyTokenizer(), options.vocab)
  const tensors = tensorsOf(arch, { layers, width, heads }, tokens.length, normals(seed))
  const idOf = (token: string): number | undefined => {
    const id = tokens.indexOf(token)
    return id < 0 ? undefined : id
  }
  const fields: [string, Value | undefined][] = [
    ['general.architecture', arch],
    ['general.name', `tiny-${arch}`],
    ['general.type', 'model'],
    ['general.file_type', 0],
    ['general.quantization_version', 2],
    [`${arch}.block_count`, layers],
    [`${arch}.context_length`, context],
    [`${arch}.embedding_length`, width],
    [`${arch}.feed_forward_length`, 2 * width],
    [`${arch}.attention.head_count`, heads],
    [`${arch}.attention.head_count_kv`, sharedOf(heads)],
    [`${arch}.attention.key_length`, width / heads],
    [`${arch}.attention.value_length`, width / heads],
    [`${arch}.attention.layer_norm_rms_epsilon`, { f32: 1e-6 }],
    [`${arch}.rope.freq_base`, { f32: 1e6 }],
    [`${arch}.attention.sliding_window`, arch === 'gemma3' ? 64 : undefined],
    [`${arch}.vocab_size`, arch === 'llama' ? tokens.length : undefined],
    [`${arch}.rope.dimension_count`, arch === 'llama' ? width / heads : undefined],
    ['tokenizer.ggml.model', 'gpt2'],
    ['tokenizer.ggml.pre', pre ?? 'qwen2'],
    ['tokenizer.ggml.tokens', tokens],
    ['tokenizer.ggml.token_type', Int32Array.from(types)],
    ['tokenizer.ggml.merges', merges],
    ['tokenizer.ggml.eos_token_id', idOf(options.eos ?? '<|im_end|>')],
    ['tokenizer.ggml.padding_token_id', idOf('<|endoftext|>')],
    ['tokenizer.ggml.add_bos_token', false],
    ['tokenizer.chat_template', template],
  ]
  const given = fields.filter((field): field is [string, Value] => field[1] !== undefined)
  const file = new Gguf()
  file.add(Buffer.from('GGUF'))
  file.int(3)
  file.long(tensors.length)
  file.long(given.length)
  for (const [key, value] of given) file.field(key, value)
  let offset = 0
  for (const { name, shape, data } of tensors) {
    file.text(name)
    file.int(shape.length)
    for (const n of shape) file.long(n)
    file.int(0)
    file.long(offset)
    offset += Math.ceil(data.length / 32) * 32
  }
  file.pad(32)
  for (const { data } of tensors) {
    file.add(data)
    file.pad(32)
  }
  return file.bytes()
}

/** Whole or not there, so that tests that run beside each other may make the same one. */
export function writeTinyGguf(file: string, options: TinyOptions = {}): string {
  mkdirSync(dirname(file), { recursive: true })
  const part = `${file}.${process.pid}`
  writeFileSync(part, tinyGguf(options))
  renameSync(part, file)
  return file
}
