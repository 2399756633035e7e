// A `tokenizer.json` of the byte-level BPE kind, read: what it says and whether it is one. What is not understood is
// refused by name, never passed over. https://huggingface.co/docs/tokenizers/api
import { literal, parsePattern, type Pattern } from './bpe-pattern.ts'

/** One step that cuts text into pieces. `gaps`: what lies between matches is a piece too, else it is dropped. */
export type Split = { readonly pattern: Pattern; readonly gaps: boolean }
export type BpeFile = {
  readonly size: number
  /** Bytes of every id of the vocabulary, and texts of the control tokens by id. */
  readonly bytes: TokenBytes
  readonly names: ReadonlyMap<number, string>
  /** Of every byte, its id. */
  readonly byteIds: Int32Array
  /** Left, right and whole of every merge, in the order of their ranks. */
  readonly merges: Int32Array
  /** A piece that is in the vocabulary as it stands is not merged (`ignore_merges`); undefined where all are. */
  readonly whole: ((bytes: Uint8Array) => number | undefined) | undefined
  readonly splits: readonly Split[]
  readonly nfc: boolean
  /** All that gives the ids their meaning, for a hash. */
  readonly content: readonly (string | Uint8Array)[]
}

export type Fields = Readonly<Record<string, unknown>>
export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
export const isList = (value: unknown): value is readonly unknown[] => Array.isArray(value)
export const shown = (value: unknown): string => (JSON.stringify(value) ?? 'undefined').slice(0, 100)

const largestId = 4_000_000
const mostMerges = 2 ** 20
/** GPT-2's, which ByteLevel has built in. */
const gpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
const punctuation = '[!-\\/:-@\\[-`\\{-~\\p{P}]'

/** The character that stands for each byte in such a vocabulary. */
export const byteChars: readonly string[] = (() => {
  let next = 256
  const plain = (b: number): boolean => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(plain(byte) ? byte : next++))
})()
/** By the character's code. */
export const byteOf = new Int16Array(0x10000).fill(-1)
byteChars.forEach((char, byte) => (byteOf[char.charCodeAt(0)] = byte))

/** Throws an Error that says what it is about the file that this encoder does not do. */
export function readBpe(json: unknown): BpeFile {
  if (!isFields(json) || !isFields(json['model'])) throw new Error('there is no model in it')
  const model = json['model']
  if (model['type'] !== 'BPE' && !(model['type'] === undefined && model['merges'] !== undefined))
    throw new Error(`its model is ${shown(model['type'])}, not BPE`)
  for (const name of ['dropout', 'continuing_subword_prefix', 'end_of_word_suffix', 'byte_fallback'])
    if (model[name]) throw new Error(`its model has ${name} ${shown(model[name])}`)
  const splits = readSplits(json['pre_tokenizer'])
  const nfc = readNormalizer(json['normalizer'])
  const { ids, tokens, bytes } = readVocabulary(model['vocab'])
  const names = readAdded(json['added_tokens'])
  const byteIds = Int32Array.from(byteChars, (char, byte) => {
    const id = ids.get(char)
    // Bytes that no UTF-8 text has may be missing.
    if (id === undefined && byte !== 0xc0 && byte !== 0xc1 && byte < 0xf5)
      throw new Error(`its vocabulary has no token for the byte ${byte}`)
    if (id !== undefined && names.has(id)) throw new Error(`its token for the byte ${byte} is an added token`)
    return id ?? 0
  })
  const merges = readMerges(model['merges'], ids, names)
  return {
    size: [...names.keys()].reduce((most, id) => Math.max(most, id + 1), tokens.length),
    bytes,
    names,
    byteIds,
    merges,
    whole: model['ignore_merges'] === true ? wholePieces(ids, names, bytes.longest) : undefined,
    splits,
    nfc,
    content: [
      tokens.join('\0'),
      new Uint8Array(merges.buffer),
      JSON.stringify([...names].sort(([one], [other]) => one - other)),
    ],
  }
}

/** A list of parts, of which a Sequence has more than one. */
export function parts(value: unknown, list: string): readonly Fields[] {
  if (value === null || value === undefined) return []
  if (!isFields(value)) throw new Error(`${shown(value)} stands where an object belongs`)
  if (value['type'] !== 'Sequence') return [value]
  const inner = value[list]
  if (!isList(inner)) throw new Error(`a Sequence in it has no ${list}`)
  return inner.flatMap((part) => parts(part, list))
}

function readNormalizer(value: unknown): boolean {
  const all = parts(value, 'normalizers')
  const other = all.find((part) => part['type'] !== 'NFC')
  if (other) throw new Error(`its normalizer is ${shown(other['type'])}`)
  return all.length > 0
}

function readSplits(value: unknown): Split[] {
  const all = parts(value, 'pretokenizers')
  const last = all.at(-1)
  if (last?.['type'] !== 'ByteLevel') throw new Error('its pre-tokenizer does not end in ByteLevel')
  if (last['add_prefix_space'] === true) throw new Error('its ByteLevel has add_prefix_space')
  const splits = all.slice(0, -1).map(readSplit)
  if (last['use_regex'] !== false) splits.push({ pattern: parsePattern(gpt2), gaps: true })
  return splits
}
function readSplit(part: Fields): Split {
  const isolated = (source: string): Split => ({ pattern: parsePattern(source), gaps: true })
  switch (part['type']) {
    case 'Split': {
      const pattern = readPattern(part['pattern'])
      if (part['behavior'] === 'Isolated') return { pattern, gaps: true }
      if (part['behavior'] === 'Removed' && part['invert'] === true) return { pattern, gaps: false }
      throw new Error(`its Split has the behavior ${shown(part['behavior'])}`)
    }
    case 'Digits':
      return isolated(part['individual_digits'] === true ? '\\p{N}' : '\\p{N}+')
    case 'Punctuation':
      if (part['behavior'] === 'Contiguous') return isolated(`${punctuation}+`)
      if (part['behavior'] === 'Isolated' || part['behavior'] === undefined) return isolated(punctuation)
      throw new Error(`its Punctuation has the behavior ${shown(part['behavior'])}`)
    default:
      throw new Error(`its pre-tokenizer has the step ${shown(part['type'])}`)
  }
}
function readPattern(value: unknown): Pattern {
  if (isFields(value) && typeof value['Regex'] === 'string') return parsePattern(value['Regex'])
  if (isFields(value) && typeof value['String'] === 'string' && value['String'] !== '') return literal(value['String'])
  throw new Error(`its Split has the pattern ${shown(value)}`)
}

type Vocabulary = {
  readonly ids: ReadonlyMap<string, number>
  readonly tokens: readonly string[]
  readonly bytes: TokenBytes
}
function readVocabulary(value: unknown): Vocabulary {
  if (!isFields(value)) throw new Error('its model has no vocab')
  const ids = new Map<string, number>()
  let size = 0
  for (const token of Object.keys(value)) {
    const id = value[token]
    checkId(id)
    ids.set(token, id)
    if (id >= size) size = id + 1
  }
  const tokens = Array.from({ length: size }, () => '')
  for (const [token, id] of ids) tokens[id] = token
  return { ids, tokens, bytes: new TokenBytes(tokens) }
}
function checkId(id: unknown): asserts id is number {
  if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || id > largestId)
    throw new Error(`${shown(id)} stands where a token id from 0 to ${largestId} belongs`)
}

/** The bytes of all tokens in one array. */
export class TokenBytes {
  readonly longest: number = 0
  readonly #bytes: Uint8Array
  readonly #starts: Uint32Array

  constructor(tokens: readonly string[]) {
    this.#bytes = new Uint8Array(tokens.reduce((sum, token) => sum + 3 * token.length, 0))
    this.#starts = new Uint32Array(tokens.length + 1)
    let end = 0
    for (let id = 0; id < tokens.length; id++) {
      const token = tokens[id] ?? ''
      const start = end
      for (let n = 0; n < token.length && end >= start; n++) {
        const byte = byteOf[token.charCodeAt(n)] ?? -1
        if (byte >= 0) this.#bytes[end++] = byte
        else end = -1
      }
      // A token that is not of bytes stands for its own text; plain text never gives it.
      if (end < 0) end = start + Buffer.from(token).copy(this.#bytes, start)
      this.#starts[id + 1] = end
      if (end - start > this.longest) this.longest = end - start
    }
  }
  /** Empty for an id that no token has. */
  of(id: number): Uint8Array {
    return this.#bytes.subarray(this.#starts[id] ?? 0, this.#starts[id + 1] ?? 0)
  }
}

export function readAdded(value: unknown): Map<number, string> {
  const names = new Map<number, string>()
  if (value === null || value === undefined) return names
  if (!isList(value)) throw new Error('its added_tokens are no list')
  for (const token of value) {
    if (!isFields(token) || typeof token['content'] !== 'string' || token['content'] === '')
      throw new Error(`its added_tokens have ${shown(token)}`)
    checkId(token['id'])
    names.set(token['id'], token['content'])
  }
  return names
}

/** Merges that would make a control token are left out: plain text never gives one. */
function readMerges(value: unknown, ids: ReadonlyMap<string, number>, names: ReadonlyMap<number, string>): Int32Array {
  if (!isList(value)) throw new Error('its model has no merges')
  if (value.length >= mostMerges) throw new Error(`it has ${value.length} merges`)
  const merges = new Int32Array(value.length * 3)
  let end = 0
  for (const merge of value) {
    const pair: unknown = typeof merge === 'string' ? merge.split(' ') : merge
    if (!isList(pair) || pair.length !== 2) throw new Error(`its merges have ${shown(merge)}`)
    const [left, right] = pair
    if (typeof left !== 'string' || typeof right !== 'string') throw new Error(`its merges have ${shown(merge)}`)
    const [a, b, whole] = [ids.get(left), ids.get(right), ids.get(left + right)]
    if (a === undefined || b === undefined || whole === undefined)
      throw new Error(`its merge ${shown(merge)} is not of its vocabulary`)
    if (names.has(whole)) continue
    merges[end++] = a
    merges[end++] = b
    merges[end++] = whole
  }
  return merges.slice(0, end)
}

function wholePieces(
  ids: ReadonlyMap<string, number>,
  names: ReadonlyMap<number, string>,
  longest: number,
): (bytes: Uint8Array) => number | undefined {
  return (bytes) => {
    if (bytes.length > longest) return undefined
    let token = ''
    for (const byte of bytes) token += byteChars[byte] ?? ''
    const id = ids.get(token)
    return id === undefined || names.has(id) ? undefined : id
  }
}
