// Where two prompts part, why, what that costs, and what to do: what `continuo explain` says. By tokens where a codec writes
// the prompts, else by items and settings. Unlike the log it quotes.
import type { Side } from './explain-sides.ts'
import { type Cause, itemDifference, type Place, placeOf, quoted, sameItems } from './explain-items.ts'
import { type Item, textOf } from './protocol/items.ts'
import { toolsJson } from './protocol/known-tools.ts'
import { differ } from './registry-codecs.ts'
import type { Chain } from './turn/chain.ts'
import type { Codec, Tokenizer } from './turn/ports.ts'
import { weigh, weighText } from './turn/weigh.ts'

export type { Cause, Place } from './explain-items.ts'

/** A run of text; `control`: one control token by its name. */
export type Run = { readonly text: string; readonly control: boolean }
/** The last that both have in common, and the first that differs in each. `cut`: there is more in front, and behind each. */
export type Around = {
  readonly common: readonly Run[]
  readonly first: readonly Run[]
  readonly second: readonly Run[]
  readonly cut: { readonly common: boolean; readonly first: boolean; readonly second: boolean }
}
export type Explanation = {
  /** Ids of the codec's vocabulary; `bytes` where its engine is sent text; `estimated tokens` without a codec. */
  readonly unit: 'tokens' | 'bytes' | 'estimated tokens'
  readonly first: { readonly tokens: number | undefined; readonly items: number }
  readonly second: { readonly tokens: number; readonly items: number }
  /** Of the second, seen from the first. */
  readonly relation: 'identical' | 'extends' | 'is the beginning' | 'parts'
  /** Tokens at the start that are the same. */
  readonly common: number
  /** Tokens of the second that its engine must compute, given the first; and those among them that the model itself wrote. */
  readonly prefill: number
  readonly own: number
  /** Tokens of the first, of no use any more. */
  readonly again: number
  readonly parted?: {
    readonly place: Place
    readonly cause: Cause
    readonly why: string
    readonly around: Around | undefined
  }
}

/** `codec`: that of the model of both. Throws what the codec throws for items that its format has no place for. */
export async function explain(first: Side, second: Side, codec: Codec | undefined): Promise<Explanation> {
  const drawn = [await drawing(first, codec), await drawing(second, codec)] as const
  const [a, b] = drawn
  const { unit } = b
  const sizes = {
    unit,
    first: { tokens: a.length, items: a.items.length },
    second: { tokens: b.length, items: b.items.length },
  }
  if (first.settings.model !== second.settings.model)
    return {
      ...sizes,
      first: { ...sizes.first, tokens: undefined },
      ...{ relation: 'parts', common: 0, prefill: b.length, own: 0, again: b.length },
      parted: {
        place: { in: 'model' },
        cause: 'model',
        why: `the requests name other models, ${quoted(first.settings.model)} and ${quoted(second.settings.model)}`,
        around: undefined,
      },
    }
  const head = (await differ()).headDifference(baseOf(first), baseOf(second))
  const found = codec ? byTokens(a, b) : byItems(a, b, head !== undefined)
  const { relation, common } = found
  const prefill = b.length - common
  if (relation !== 'parts') {
    const own = relation === 'extends' ? await ownWords(a, b, second, codec, common) : 0
    return { ...sizes, relation, common, prefill, own, again: 0 }
  }
  const lost = codec && lostReasoning(a, b, common, codec.tokenizer)
  const { place, cause, why } = await reasonOf(a, b, head, common, await headLength(b, second, codec), lost)
  const around = codec ? near(a.ids, b.ids, common, codec.tokenizer) : textNear(place, first, second)
  const again = Math.min(Math.max(0, a.opens - common), prefill)
  return { ...sizes, relation, common, prefill, own: 0, again, parted: { place, cause, why, around } }
}

// ── the prompts ──────────────────────────────────────────────────────────────────────────────────────────────────────
/** `opens`: tokens in front of what opens the model's turn. `starts`: tokens in front of each item, from below. */
export type Drawn = {
  readonly unit: Explanation['unit']
  readonly ids: Uint32Array
  readonly length: number
  readonly opens: number
  readonly starts: readonly number[]
  readonly items: readonly Item[]
}
async function drawing({ chain, settings }: Side, codec: Codec | undefined): Promise<Drawn> {
  const items = chain.all()
  if (codec) {
    const { ids, starts } = await codec.layout(chain, settings)
    const { opens } = await codec.encode(chain, settings)
    const unit = codec.tokenizer.id.startsWith('bytes-') ? 'bytes' : 'tokens'
    return { unit, ids, length: ids.length, opens, starts, items }
  }
  let length = weighText(settings.instructions ?? '') + weighText(toolsJson(settings.tools))
  const starts = items.map((item) => (length += weigh([item])) - weigh([item]))
  return { unit: 'estimated tokens', ids: new Uint32Array(0), length, opens: length, starts, items }
}
/** What the head of a prompt depends on. */
const baseOf = ({ settings, chain }: Side) => ({
  instructions: settings.instructions,
  tools: settings.tools,
  brought: chain.tools,
  thinking: settings.reasoning?.effort !== 'none',
  effort: settings.reasoning?.effort ?? null,
  date: new Date(chain.began).toISOString().slice(0, 10),
})

type Found = {
  readonly relation: Explanation['relation']
  readonly common: number
}
function byTokens(a: Drawn, b: Drawn): Found {
  const most = Math.min(a.length, b.length)
  let common = 0
  while (common < most && a.ids[common] === b.ids[common]) common++
  if (common === most && a.length === b.length) return { relation: 'identical', common }
  if (common >= a.opens && b.opens > a.opens) return { relation: 'extends', common }
  return { relation: common >= b.opens && a.opens > b.opens ? 'is the beginning' : 'parts', common }
}
function byItems(a: Drawn, b: Drawn, head: boolean): Found {
  const same = sameItems(a.items, b.items)
  const most = Math.min(a.items.length, b.items.length)
  if (head) return { relation: 'parts', common: 0 }
  if (same < most) return { relation: 'parts', common: b.starts[same] ?? b.length }
  if (a.items.length === b.items.length) return { relation: 'identical', common: b.length }
  return a.items.length < b.items.length
    ? { relation: 'extends', common: a.length }
    : { relation: 'is the beginning', common: b.length }
}
/** Tokens directly behind the first prompt that the model wrote in answer to it. */
async function ownWords(a: Drawn, b: Drawn, second: Side, codec: Codec | undefined, common: number): Promise<number> {
  const theirs = b.items.slice(a.items.length)
  const behind = theirs.findIndex((item) => !isOwn(item))
  const own = behind < 0 ? theirs.length : behind
  if (own === 0 || sameItems(a.items, b.items) < a.items.length) return 0
  if (!codec) return weigh(theirs.slice(0, own))
  const { opens } = await codec.encode(headOf(second.chain, a.items.length + own), second.settings)
  return Math.max(0, Math.min(opens, b.opens) - common)
}
const isOwn = (item: Item): boolean =>
  item.type === 'message' ? item.role === 'assistant' : item.type === 'reasoning' || item.type.endsWith('_call')
/** Tokens of the head: instructions, tools and the system messages that lead, as far as the format writes them there. */
async function headLength({ items }: Drawn, { chain, settings }: Side, codec: Codec | undefined): Promise<number> {
  if (!codec) return 0
  try {
    const { opens } = await codec.encode(headOf(chain, leads(items)), settings)
    return opens
  } catch {
    // Some templates refuse a conversation without a message of the user.
    return 0
  }
}
/** System messages in front of everything else. */
function leads(items: readonly Item[]): number {
  const behind = items.findIndex((item) => !isSystem(item))
  return behind < 0 ? items.length : behind
}
/** The conversation's first items alone. */
function headOf(chain: Chain, items: number): Chain {
  const root = chain.since(undefined)?.[0] ?? chain
  return root.add({ response: '', from: 'input', items: chain.all().slice(0, items) })
}

// ── why ──────────────────────────────────────────────────────────────────────────────────────────────────────────────
type Reason = { readonly place: Place; readonly cause: Cause; readonly why: string }
type Head = Awaited<ReturnType<typeof differ>>['headDifference'] extends (...of: never) => infer D ? D : never

const parts = {
  date: 'date',
  clock: 'instructions',
  instructions: 'instructions',
  tools: 'tools',
  order: 'tools',
  effort: 'reasoning.effort',
} as const

async function reasonOf(
  a: Drawn,
  b: Drawn,
  head: Head,
  common: number,
  length: number,
  lost: number | undefined,
): Promise<Reason> {
  const same = sameItems(a.items, b.items)
  const edited = same < Math.min(a.items.length, b.items.length)
  const at = itemAt(b, common)
  const byItem = edited && same >= leads(b.items) && common >= (b.starts[same] ?? b.length) && common >= length
  if (head && !(byItem && b.ids.length > 0)) {
    if (b.ids.length === 0 || common < length) return { ...head, place: { in: 'head', part: parts[head.cause] } }
    return { ...head, place: common >= Math.min(a.opens, b.opens) ? { in: 'opening' } : placeOf(b.items, at) }
  }
  if (lost !== undefined) {
    const why = 'a new user message drops the reasoning in front of it'
    return { place: placeOf(b.items, lost), cause: 'reasoning', why }
  }
  if (edited) {
    const { cause, why } = itemDifference(a.items, b.items, same, (await differ()).textDifference)
    return { place: placeOf(b.items, same), cause, why }
  }
  const why = 'the items are the same up to here, and are written differently because of what follows'
  return { place: common >= b.opens ? { in: 'opening' } : placeOf(b.items, at), cause: 'written', why }
}
const isSystem = (item: Item): boolean =>
  item.type === 'message' && (item.role === 'system' || item.role === 'developer')
/** The last item that may have begun by this token. */
function itemAt({ starts }: Drawn, token: number): number {
  const behind = starts.findIndex((start) => start > token)
  return Math.max(0, (behind < 0 ? starts.length : behind) - 1)
}
/** Reasoning of both that stands where they part in the first only, with a user message behind it in the second only. */
function lostReasoning(a: Drawn, b: Drawn, at: number, tokenizer: Tokenizer): number | undefined {
  const isUser = (item: Item): boolean => item.type === 'message' && item.role === 'user'
  const same = sameItems(a.items, b.items)
  const [from, until] = [a.items.findLastIndex(isUser) + 1, Math.min(same, b.items.findLastIndex(isUser))]
  const text = ({ ids }: Drawn): string => tokenizer.decode(ids.subarray(Math.max(0, at - shown)))
  const [one, two] = until > from ? [text(a), text(b)] : ['', '']
  for (let n = from; n < until; n++) {
    const item = b.items[n]
    if (item?.type !== 'reasoning') continue
    const said = textOf(item.content?.length ? item.content : item.summary).trim()
    const window = said.length + nearby
    if (said !== '' && one.slice(0, window).includes(said) && !two.slice(0, window).includes(said)) return n
  }
  return undefined
}

// ── what stands there ────────────────────────────────────────────────────────────────────────────────────────────────
/** Tokens that are shown on each side, and characters where there are none. */
const shown = 24
const shownBytes = 80
const shownText = 60
/** Characters within which dropped reasoning must begin, from a little in front of where they part. */
const nearby = 400

function near(a: Uint32Array, b: Uint32Array, at: number, tokenizer: Tokenizer): Around {
  const most = tokenizer.id.startsWith('bytes-') ? shownBytes : shown
  return {
    common: runs(a.subarray(Math.max(0, at - most), at), tokenizer),
    first: runs(a.subarray(at, at + most), tokenizer),
    second: runs(b.subarray(at, at + most), tokenizer),
    cut: { common: at > most, first: a.length > at + most, second: b.length > at + most },
  }
}
function runs(ids: Uint32Array, tokenizer: Tokenizer): Run[] {
  const out: Run[] = []
  let plain: number[] = []
  const flush = (): void => {
    if (plain.length > 0) out.push({ text: tokenizer.decode(plain), control: false })
    plain = []
  }
  for (const id of ids) {
    const name = tokenizer.nameOf(id)
    if (name === undefined) plain.push(id)
    else {
      flush()
      out.push({ text: name, control: true })
    }
  }
  flush()
  return out
}
function textNear(place: Place, first: Side, second: Side): Around | undefined {
  const text = ({ settings, chain }: Side): string => {
    if (place.in === 'item') {
      const { id: _, status: __, ...said } = { id: '', status: '', ...chain.all()[place.item] }
      return JSON.stringify(said)
    }
    if (place.in !== 'head') return ''
    if (place.part === 'tools') return toolsJson([...chain.tools, ...settings.tools])
    return place.part === 'instructions' ? (settings.instructions ?? '') : ''
  }
  const [a, b] = [text(first), text(second)]
  if (a === b) return undefined
  let at = 0
  while (at < a.length && a[at] === b[at]) at++
  const run = (of: string): Run[] => (of === '' ? [] : [{ text: of, control: false }])
  return {
    common: run(a.slice(Math.max(0, at - shownText), at)),
    first: run(a.slice(at, at + shownText)),
    second: run(b.slice(at, at + shownText)),
    cut: { common: at > shownText, first: a.length > at + shownText, second: b.length > at + shownText },
  }
}
