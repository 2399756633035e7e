// Two lists of items, side by side: how far they are the same to a model, and how the first that differs does.
import { extendHash } from './protocol/item-hash.ts'
import { type Item, textOf } from './protocol/items.ts'

/** `item`: of the conversation, 0 the first. `opening`: where the model's turn begins. */
export type Place =
  | { readonly in: 'model' }
  | { readonly in: 'opening' }
  | { readonly in: 'head'; readonly part: 'instructions' | 'tools' | 'date' | 'reasoning.effort' }
  | {
      readonly in: 'item'
      readonly item: number
      readonly type: string
      readonly role?: string | undefined
      readonly call_id?: string | undefined
      readonly name?: string | undefined
    }
export type Cause =
  | 'model'
  | ('date' | 'clock' | 'instructions' | 'tools' | 'order' | 'effort')
  | ('old clock' | 'edited' | 'removed' | 'inserted')
  | 'reasoning'
  | 'written'

/** Items at the start that say the same to a model. */
export function sameItems(a: readonly Item[], b: readonly Item[]): number {
  const most = Math.min(a.length, b.length)
  let n = 0
  while (n < most && same(a[n], b[n])) n++
  return n
}
const same = (a: Item | undefined, b: Item | undefined): boolean =>
  a === b || (a !== undefined && b !== undefined && extendHash('', a) === extendHash('', b))

export function placeOf(items: readonly Item[], item: number): Place {
  const it = items[item] as { type: string; role?: unknown; call_id?: unknown; name?: unknown } | undefined
  const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)
  return {
    in: 'item',
    item,
    type: it?.type ?? 'item',
    role: text(it?.role),
    call_id: text(it?.call_id),
    name: text(it?.name),
  }
}

/** Items that are looked through for where the two go on alike. */
const farthest = 1000
type Text = (what: string, a: string, b: string) => { readonly clock: boolean; readonly why: string }

/** How the items at `n`, the first that differ, became what they are. `text` compares two texts. */
export function itemDifference(
  a: readonly Item[],
  b: readonly Item[],
  n: number,
  text: Text,
): { readonly cause: Cause; readonly why: string } {
  const [one, two] = [a[n], b[n]]
  const gone = a.slice(n + 1, n + 1 + farthest).findIndex((item) => same(item, two)) + 1
  const more = b.slice(n + 1, n + 1 + farthest).findIndex((item) => same(item, one)) + 1
  if (gone > 0 && (more === 0 || gone <= more))
    return { cause: 'removed', why: `${count(gone)} of the first, ${places(n, gone)}, ${are(gone)} not in the second` }
  if (more > 0)
    return { cause: 'inserted', why: `${count(more)}, ${places(n, more)} of the second, ${are(more)} not in the first` }
  if (!one || !two || kindOf(one) !== kindOf(two))
    return { cause: 'edited', why: `${kindOf(two)} stands where the first has ${kindOf(one)}` }
  for (const [what, of] of fields) {
    const [before, now] = [of(one), of(two)]
    if (before === now) continue
    const { clock, why } = text(what, before, now)
    return { cause: clock ? 'old clock' : 'edited', why }
  }
  return { cause: 'edited', why: 'what it holds beside text changed' }
}
const count = (n: number): string => (n === 1 ? 'an item' : `${n} items`)
const are = (n: number): string => (n === 1 ? 'is' : 'are')
const places = (n: number, many: number): string => (many === 1 ? `number ${n}` : `numbers ${n} to ${n + many - 1}`)

function kindOf(item: Item | undefined): string {
  if (!item) return 'nothing'
  return item.type === 'message' ? `a message (${item.role})` : `an item of type ${item.type}`
}
const fields: readonly (readonly [what: string, of: (item: Item) => string])[] = [
  ['its name', (item) => textIn(item, 'name')],
  ['its text', (item) => ('content' in item ? textOf(item.content as { type: string }[]) : '')],
  ['its summary', (item) => (item.type === 'reasoning' ? textOf(item.summary) : '')],
  ['its arguments', (item) => textIn(item, 'arguments')],
  ['its input', (item) => textIn(item, 'input')],
  ['its output', (item) => ('output' in item ? textOf(item.output as string) : '')],
  ['its call_id', (item) => textIn(item, 'call_id')],
]
function textIn(item: Item, field: string): string {
  const value = (item as unknown as Record<string, unknown>)[field]
  return typeof value === 'string' ? value : ''
}

/** A name from outside, for a sentence. */
export const quoted = (text: string): string => JSON.stringify(text.slice(0, 256))
