// Outputs of models for tests of parsers, given as text with control tokens by name.
import { familyCodec } from '../../src/codecs/codec.ts'
import type { Family } from '../../src/codecs/family.ts'
import type { Delta, Finish } from '../../src/turn/ports.ts'
import { bytesFor, resent, settingsOf } from './talks.ts'

export type Read = {
  readonly deltas: readonly Delta[]
  readonly ids: ArrayLike<number>
  readonly stop: string | undefined
}
export type Reader = {
  /** As ids, `size` at a time. A marker between ‹ and › stands for its letters. */
  ids(output: string, size?: number, finish?: Finish): Read
  /** As an engine gives it that sends text, `size` characters at a time. Knows no quoted markers. */
  text(output: string, size?: number, finish?: Finish): Read
  /** What these ids are, control tokens by name. */
  spell(ids: ArrayLike<number>): string
}

/** Reads outputs of a family, as answers to a user who offers these tools. */
export function reader(family: Family, tools: readonly object[], more: object = {}): Reader {
  const codec = familyCodec(family, bytesFor(family))
  const { tokenizer } = codec
  const settings = settingsOf({ tools, ...more })
  const chain = resent([{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'go' }] }], 0)
  const names = [...new Set([...family.stops, ...family.needs, ...family.markers])]
  const any = new RegExp(`(${names.map((n) => n.replaceAll(/[|[\]]/g, String.raw`\$&`)).join('|')})`)
  const encode = (output: string): number[] =>
    output
      .split(/‹(.*?)›/s)
      .flatMap((outer, m) =>
        m % 2 === 1
          ? [...Buffer.from(outer)]
          : outer
              .split(any)
              .flatMap((part, n) => (n % 2 === 1 ? [tokenizer.control(part) ?? -1] : [...Buffer.from(part)])),
      )
  const read = (chunks: readonly { tokens?: number[]; text?: string }[], finish: Finish): Read => {
    const decoder = codec.decoder(settings, chain)
    const deltas = chunks.flatMap((chunk) => [...decoder.push(chunk)])
    deltas.push(...decoder.end(finish))
    return { deltas, ids: decoder.ids, stop: decoder.stop }
  }
  return {
    ids: (output, size = 1, finish = 'length') =>
      read(
        pieces(encode(output), size).map((tokens) => ({ tokens })),
        finish,
      ),
    text: (output, size = 1, finish = 'length') =>
      read(
        pieces(Array.from(output), size).map((chars) => ({ text: chars.join('') })),
        finish,
      ),
    spell: (ids) => tokenizer.decode(ids),
  }
}
function pieces<T>(all: readonly T[], size: number): T[][] {
  const out: T[][] = []
  for (let at = 0; at < all.length; at += size) out.push(all.slice(at, at + size))
  return out
}
/** Deltas in short: `think:…`, `text:…`, `ls{…}`; `~` behind what was broken off. */
export function short(deltas: readonly Delta[]): string[] {
  const out: string[] = []
  let open = false
  const add = (text: string): void => void (out[out.length - 1] += text)
  for (const delta of deltas) {
    if (delta.type === 'end') {
      if (!delta.whole) add('~')
      open = false
    } else if (delta.type === 'call') {
      out.push(delta.name)
      open = true
    } else {
      if (!open) out.push(delta.type === 'reasoning' ? 'think:' : 'text:')
      open = true
      add(delta.text)
    }
  }
  return out
}
/** Ids that belong to each item and all before it, spelt. */
export const ends = ({ deltas, ids }: Read, { spell }: Reader): string[] =>
  deltas.flatMap((delta) => (delta.type === 'end' ? [spell(Array.from(ids).slice(0, delta.at))] : []))
