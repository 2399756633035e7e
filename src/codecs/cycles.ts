// Where a user message drops the reasoning in front of it, for families that keep it while a tool loop still runs.
import { namingOf } from '../protocol/functions.ts'
import type { Item } from '../protocol/items.ts'
import type { Chain } from '../turn/chain.ts'
import { pieceOf, segmentOf } from './turns.ts'

/** The model's newest turn as far as it matters here: has it called, and may the next item still belong to it? */
export type Cycle = { readonly last: 'none' | 'reasoning' | 'said' | 'called'; readonly grows: boolean }
export const noCycle: Cycle = { last: 'none', grows: false }

/** A link from one of its items on. */
export type Part = { readonly link: Chain; readonly from: number }

const names = namingOf([])

/** Groups items into turns as `beginsAnew` does. */
export function cycleBehind(cycle: Cycle, item: Item): Cycle {
  const piece = pieceOf(item, names)
  if (!piece) return segmentOf(item, () => undefined) ? { last: cycle.last, grows: false } : cycle
  if (piece.kind === 'call') return { last: 'called', grows: true }
  if (piece.kind === 'reasoning') return { last: 'reasoning', grows: true }
  return { last: cycle.grows && cycle.last === 'called' ? 'called' : 'said', grows: true }
}
const byUser = (item: Item | undefined): boolean => item?.type === 'message' && item.role === 'user'

/**
 * The newest user message among these links that drops reasoning: the number of its link, and its place in it.
 * `cycle`: what stands in front of them, where the family keeps reasoning until an answer.
 */
export function lastQuery(links: readonly Part[], cycle?: Cycle): { link: number; item: number } | undefined {
  if (cycle) return lastAnswered(links, cycle)
  for (let n = links.length - 1; n >= 0; n--) {
    const part = links[n]
    if (!part || part.link.from !== 'input') continue
    for (let item = part.link.items.length - 1; item >= part.from; item--)
      if (byUser(part.link.items[item])) return { link: n, item }
  }
  return undefined
}
function lastAnswered(links: readonly Part[], before: Cycle): { link: number; item: number } | undefined {
  let cycle = before
  let found: { link: number; item: number } | undefined
  for (const [n, { link, from }] of links.entries())
    for (let at = from; at < link.items.length; at++) {
      const item = link.items[at]
      if (!item) continue
      cycle = cycleBehind(cycle, item)
      if (byUser(item) && cycle.last !== 'called') found = { link: n, item: at }
    }
  return found
}
