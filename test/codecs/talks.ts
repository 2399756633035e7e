// Conversations as chains for tests of codecs: made of golden cases or of random pieces, with ids that a model could have
// written.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Item, textOf } from '../../src/protocol/items.ts'
import { parseCreate, type Settings } from '../../src/protocol/request.ts'
import { Chain } from '../../src/turn/chain.ts'
import type { Codec, Decoder, Delta, Encoded, Engine, Tokenizer } from '../../src/turn/ports.ts'
import type { Family } from '../../src/codecs/family.ts'
import { bpeTokenizer } from '../../src/tokenizers/bpe.ts'
import { byteTokenizer } from '../../src/tokenizers/bytes.ts'
import { Voice } from '../../src/turn/voice.ts'

/**
 * A byte-level BPE tokenizer of a few merges with the control tokens of a family, so that a text can be written in more
 * than one way: `spelt` gives the ids of its bytes.
 */
export const smallBpe = (family: Family): Tokenizer => bpeTokenizer(smallBpeJson(family))
/** Its `tokenizer.json`. */
export function smallBpeJson(family: Family): object {
  const chars = byteChars()
  const vocab: Record<string, number> = Object.fromEntries(chars.map((c, byte) => [c, byte]))
  const merges: string[] = []
  for (const word of [
    'th',
    'the',
    'in',
    'er',
    'ing',
    'Ġt',
    'Ġth',
    'ĊĊ',
    '":',
    'Ġ"',
    'ä¸',
    'Ã¤',
    'ls',
    'ĠĠ',
    '<|',
    '</',
  ]) {
    const [a, b] = [word.slice(0, -1), word.slice(-1)]
    vocab[word] = Object.keys(vocab).length
    merges.push(`${a} ${b}`)
  }
  const names = [...new Set([...family.needs, ...family.stops, ...family.markers])]
  const first = Object.keys(vocab).length
  const added_tokens = names.map((content, n) => ({ id: first + n, content, special: true, normalized: false }))
  return {
    model: { type: 'BPE', vocab, merges },
    added_tokens,
    normalizer: null,
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, use_regex: true, trim_offsets: true },
    decoder: { type: 'ByteLevel' },
  }
}
let folder: string | undefined
/** The same, written to a file for as long as the tests run. */
export function smallBpeFile(family: Family): string {
  if (folder === undefined) {
    const made = (folder = mkdtempSync(join(tmpdir(), 'continuo-bpe-')))
    process.on('exit', () => rmSync(made, { recursive: true, force: true }))
  }
  const path = join(folder, `${family.name}.json`)
  writeFileSync(path, JSON.stringify(smallBpeJson(family)))
  return path
}
/** The same text in other ids: byte by byte. */
export const spelt = (ids: readonly number[], tokenizer: Tokenizer): number[] =>
  ids.flatMap((id) => {
    const text = tokenizer.nameOf(id) === undefined ? tokenizer.decode([id]) : ''
    // Half a character has no text of its own.
    return text === '' || text.includes('\ufffd') ? [id] : [...Buffer.from(text)]
  })
/** Byte → the character that stands for it in byte-level vocabularies. */
function byteChars(): string[] {
  let other = 256
  return Array.from({ length: 256 }, (_, byte) => {
    const shown = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174
    return String.fromCharCode(shown ? byte : other++)
  })
}

/** A tokenizer of bytes with the control tokens of a family. */
export const bytesFor = ({ needs, stops, markers }: Family): Tokenizer =>
  byteTokenizer([...new Set([...needs, ...stops, ...markers])])

/** Settings of a request that says only this. */
export const settingsOf = (some: object = {}): Settings => parseCreate({ model: 'm', input: [], ...some }).settings

const byModel = (item: Item): boolean =>
  item.type === 'reasoning' ||
  item.type === 'function_call' ||
  item.type === 'custom_tool_call' ||
  (item.type === 'message' && item.role === 'assistant')

/** Runs of items as links, the model's as links of the model; `cut` says where else a link of the client ends. */
export function runsOf(items: readonly Item[]): { from: 'input' | 'model'; items: Item[] }[] {
  const runs: { from: 'input' | 'model'; items: Item[] }[] = []
  for (const item of items) {
    const from = byModel(item) ? 'model' : 'input'
    const last = runs.at(-1)
    if (last?.from === from) last.items.push(item)
    else runs.push({ from, items: [item] })
  }
  return runs
}
/** The whole conversation as one link of the client, as in a request that resends everything. */
export const resent = (items: readonly Item[], began: number): Chain =>
  Chain.root('o', began).add({ response: 'r', from: 'input', items })

export const now = <T>(value: T | Promise<T>): T => {
  if (value instanceof Promise) throw new Error('a short text was encoded in slices')
  return value
}
export const idsOf = (encoded: Encoded | Promise<Encoded>): number[] => [...now(encoded).prompt.view()]

/** Ids of an encoding that goes on from nothing. */
export const fromScratch = (codec: Codec, chain: Chain, settings: Settings): number[] =>
  idsOf(codec.encode(chain, settings))

/** What a model of this codec writes for these items, in canonical ids. */
export const writtenIds = (codec: Codec, items: readonly Item[], settings: Settings, chain: Chain): number[] =>
  Array.from(now(codec.written(items, settings, chain)))

let responses = 0
/** A turn of the model behind `chain` in which it writes these ids, kept as a server keeps it. Nothing said, no link. */
export function speakInto(
  chain: Chain,
  codec: Codec,
  settings: Settings,
  ids: readonly number[],
  finish: 'stop' | 'length' = 'stop',
): Chain {
  const engine = { id: 'none' } as unknown as Engine
  const voice = new Voice({ name: 'm', engine, codec, context: undefined }, chain, settings, undefined)
  now(voice.encode())
  const deltas = [...voice.deltas({ tokens: ids }), ...voice.rest(finish)]
  const end = deltas.findLast((d) => d.type === 'end')?.at ?? 0
  const items = itemsOf(deltas)
  if (items.length === 0) return chain
  return chain.add({ response: `r${responses++}`, from: 'model', items, generated: voice.generated(end) })
}

/** What a decoder says of these ids, cut into chunks of the given sizes. */
export function decoded(decoder: Decoder, ids: readonly number[], sizes: readonly number[] = [1]): Delta[] {
  const out: Delta[] = []
  let at = 0
  for (let n = 0; at < ids.length; n++) {
    const size = Math.max(1, sizes[n % sizes.length] ?? 1)
    out.push(...decoder.push({ tokens: ids.slice(at, at + size) }))
    at += size
  }
  out.push(...decoder.end('stop'))
  return out
}
/** Deltas as the items that they amount to. */
export function itemsOf(deltas: readonly Delta[]): Item[] {
  const items: Item[] = []
  let open: Item | undefined
  for (const delta of deltas) {
    if (delta.type === 'end') {
      if (open) items.push({ ...open, status: delta.whole ? 'completed' : 'incomplete' } as Item)
      open = undefined
    } else if (delta.type === 'call')
      open =
        delta.kind === 'custom'
          ? { type: 'custom_tool_call', call_id: delta.callId ?? `call_${items.length}`, name: delta.name, input: '' }
          : { type: 'function_call', call_id: delta.callId ?? `call_${items.length}`, name: delta.name, arguments: '' }
    else if (delta.type === 'arguments') {
      if (open?.type === 'function_call') open = { ...open, arguments: open.arguments + delta.text }
      else if (open?.type === 'custom_tool_call') open = { ...open, input: open.input + delta.text }
    } else if (delta.type === 'reasoning') {
      const before = open?.type === 'reasoning' ? textOf(open.content) : ''
      open = { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: before + delta.text }] }
    } else {
      const before = open?.type === 'message' ? textOf(open.content) : ''
      const content = [{ type: 'output_text' as const, text: before + delta.text, annotations: [] }]
      open = { type: 'message', role: 'assistant', content }
    }
  }
  return items
}
/** Items without what a decoder cannot know: ids, statuses, annotations. */
export const bare = (items: readonly Item[]): object[] =>
  items.map((item) => {
    if (item.type === 'message') return { text: textOf(item.content) }
    if (item.type === 'reasoning') return { reasoning: textOf(item.content) }
    if (item.type === 'function_call') return { name: item.name, arguments: JSON.parse(item.arguments) as unknown }
    if (item.type === 'custom_tool_call') return { name: item.name, input: item.input }
    return item
  })
