// A conversation as immutable links, newest first: one per run of input or of model output. A response id names its
// last link, a fork is a pointer. Owns links and what they add up to; looking responses up is the session's.
import { extendHash } from '../protocol/item-hash.ts'
import { answeredCall, calledAs, type Item } from '../protocol/items.ts'
import type { Tool } from '../protocol/tools.ts'
import type { TokenRun } from './tokens.ts'
import { sizeOf, weigh } from './weigh.ts'

/** What an engine gave back, and the chain it knew then: everything in `chain.since(at)` is new to it. */
export type Warm = { readonly value: unknown; readonly at: Chain }
/** What the model wrote for a link, as it wrote it. */
export type Generated = {
  /** Codec.id: to any other codec these ids mean nothing. */
  readonly codec: string
  /** Ids that opened the model's turn, and those it wrote, without the one that ended it. */
  readonly opening: Uint32Array
  readonly ids: Uint32Array
  /** The control token that ended the turn; undefined where it was broken off. */
  readonly stop: string | undefined
  /** The prompt with `ids` behind it, for as long as nobody had to copy it. */
  run: TokenRun | undefined
}
/** What a codec made of a chain; a memo on its link. */
export type Encoded = {
  readonly codec: string
  readonly upto: Chain
  /** Where the next input is appended. */
  readonly tokens: TokenRun
  /** `tokens`, and what opens the model's turn. */
  readonly prompt: TokenRun
  /** The place in `prompt` where what opens the model's turn begins. */
  readonly opens: number
  /** It goes on from `cached` without taking anything of it back: what stands in front stays as it was. */
  readonly grew: boolean
  /** What the codec must know to go on; its own affair. */
  readonly state: unknown
  /** Where this prompt left the one that `cached` stands for; undefined where it only grew. */
  readonly broke?: Broke | undefined
}
/** A prefix that did not hold: at which token, in which item of the conversation (0 is the first), and why. */
export type Broke = { readonly at: number; readonly item: number | undefined; readonly why: string }
type Link = {
  readonly response: string
  readonly from: 'input' | 'model'
  /** As the model sees them. */
  readonly items: readonly Item[]
  /** As the client sees them, where that differs (sealed content). */
  readonly wire?: readonly Item[]
  readonly generated?: Generated | undefined
  /** What the engine of this name gave back. */
  readonly warm?: { readonly engine: string; readonly value: unknown } | undefined
  readonly checked?: string | undefined
  /** The response may be stored. Default: it may not. */
  readonly store?: boolean
}

export class Chain {
  readonly parent: Chain | undefined
  /** The response this link was made in. */
  readonly response: string
  readonly owner: string
  readonly from: 'root' | 'input' | 'model'
  readonly items: readonly Item[]
  readonly wire: readonly Item[]
  /** Of all items from the root, as the model sees them; settings are not in it. */
  readonly hash: string
  /** The first link of the conversation; itself for a root. */
  readonly first: Chain
  /** Bytes that this link alone holds in memory, estimated from above; and all links from the root. */
  readonly bytes: number
  readonly allBytes: number
  /** Estimated tokens of all items from the root. */
  readonly weight: number
  /** Images in all items from the root. */
  readonly pictures: number
  /** Tools that items of this conversation brought along (`additional_tools`, `tool_search_output`), oldest first. */
  readonly tools: readonly Tool[]
  // What the engine gave back at this link, or at the newest one in front of it that has something.
  readonly #warm: { readonly engine: string; readonly value: unknown; readonly at: Chain | undefined } | undefined
  /** The classifiers' rolling context after this link. */
  readonly checked: string | undefined
  /** Everything from the root to here may be stored: no response of it was sent with `store: false`. */
  readonly mayStore: boolean
  /** Milliseconds since 1970 at which the conversation began: prompts that name a day keep that one. */
  readonly began: number
  /** Undefined for links of clients, of engines that take items, and where they were found to be wrong. */
  generated: Generated | undefined
  /** What a codec made of the conversation up to here. A memo, not state: dropping it costs time only. */
  encoded: Encoded | undefined = undefined

  private constructor(owner: string, parent: Chain | undefined, link: Link | undefined, began: number) {
    this.owner = owner
    this.parent = parent
    this.response = link?.response ?? ''
    this.from = link?.from ?? 'root'
    this.items = link?.items ?? []
    this.wire = link?.wire ?? this.items
    this.hash = this.items.reduce(extendHash, parent?.hash ?? '')
    this.first = parent === undefined || parent.from === 'root' ? this : parent.first
    const apart = this.wire.filter((item, n) => item !== this.items[n])
    this.bytes = linkBytes + sizeOf(this.items) + sizeOf(apart) + (link?.generated?.ids.length ?? 0) * 4
    this.allBytes = this.bytes + (parent?.allBytes ?? 0)
    this.weight = (parent?.weight ?? 0) + weigh(this.items)
    this.pictures = (parent?.pictures ?? 0) + pictures(this.items)
    this.tools = broughtTools(parent?.tools ?? [], this.items)
    const before = parent === undefined ? undefined : parent.#warm && { ...parent.#warm, at: parent.#warm.at ?? parent }
    this.#warm = link?.warm === undefined ? before : { ...link.warm, at: undefined }
    this.mayStore = parent === undefined || (parent.mayStore && link?.store === true)
    this.checked = link?.checked ?? parent?.checked
    this.generated = link?.generated
    this.began = began
  }
  static root(owner: string, began: number = Date.now()): Chain {
    return new Chain(owner, undefined, undefined, began)
  }
  add(link: Link): Chain {
    return new Chain(this.owner, this, link, this.began)
  }
  /** What this engine gave back last in this conversation, and the link it knew then; nothing of what another one gave. */
  warm(engine: string): Warm | undefined {
    if (this.#warm?.engine !== engine) return undefined
    return { value: this.#warm.value, at: this.#warm.at ?? this }
  }
  /** Its tokens were found to be wrong: from the root on nothing of them is used again. */
  distrust(): void {
    for (let link: Chain | undefined = this; link; link = link.parent) link.generated = link.encoded = undefined
  }
  /** Links after `from`, oldest first; undefined when `from` is no ancestor. `undefined` stands before the root. */
  since(from: Chain | undefined): Chain[] | undefined {
    const out: Chain[] = []
    let link: Chain | undefined = this
    for (; link && link !== from; link = link.parent) out.push(link)
    return link === from ? out.reverse() : undefined
  }
  /** Every item as the model sees it, oldest first. Costs the whole history: not for the warm path. */
  all(): Item[] {
    return (this.since(undefined) ?? []).flatMap((link) => link.items)
  }
  /** Input that no model has answered: the newest, and that of warm-ups and of turns without output in front of it. */
  unanswered(): readonly Item[] {
    if (this.parent?.from !== 'input') return this.items
    const runs: (readonly Item[])[] = []
    for (let link: Chain | undefined = this; link && link.from === 'input'; link = link.parent) runs.push(link.items)
    return runs.reverse().flat()
  }
  /** The first output among `items` whose call is neither in this conversation nor in front of it in `items`. */
  unanswerable(items: readonly Item[]): string | undefined {
    const called = new Set<string>()
    const missing = new Set<string>()
    for (const item of items) {
      const made = calledAs(item)
      if (made !== undefined) called.add(made)
      const answers = answeredCall(item)
      if (answers !== undefined && !called.has(answers)) missing.add(answers)
    }
    // One walk for all of them, from the newest link back: a tool loop finds its calls at once.
    for (let link: Chain | undefined = this; link && missing.size > 0; link = link.parent)
      for (const item of link.items) {
        const made = calledAs(item)
        if (made !== undefined) missing.delete(made)
      }
    const [first] = missing
    return first
  }
}

/** A link without items: its fields, memo and place in caches. */
const linkBytes = 1024

function broughtTools(before: readonly Tool[], items: readonly Item[]): readonly Tool[] {
  const brought = items.flatMap((item) =>
    item.type === 'additional_tools' || item.type === 'tool_search_output'
      ? ((item as { tools?: readonly Tool[] }).tools ?? [])
      : [],
  )
  return brought.length > 0 ? [...before, ...brought] : before
}

function pictures(items: readonly Item[]): number {
  let sum = 0
  for (const item of items) {
    const parts = item.type === 'message' ? item.content : 'output' in item ? item.output : undefined
    if (Array.isArray(parts)) for (const part of parts as { type?: unknown }[]) if (part.type === 'input_image') sum++
  }
  return sum
}
