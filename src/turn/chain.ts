// A conversation as immutable links, newest first: one per run of input or of model output. A response id names its
// last link, a fork is a pointer. Owns links and what they add up to; looking responses up is the session's.
import { answeredCall, calledAs, type Item } from '../protocol/items.ts'
import type { Tool } from '../protocol/tools.ts'
import { weigh } from './weigh.ts'

/** What an engine gave back, and the chain it knew then: everything in `chain.since(at)` is new to it. */
export type Warm = { readonly value: unknown; readonly at: Chain }
type Link = {
  readonly response: string
  readonly from: 'input' | 'model'
  /** As the model sees them. */
  readonly items: readonly Item[]
  /** As the client sees them, where that differs (sealed content). */
  readonly wire?: readonly Item[]
  readonly warm?: unknown
  readonly checked?: string | undefined
}

export class Chain {
  readonly parent: Chain | undefined
  /** The response this link was made in. */
  readonly response: string
  readonly owner: string
  readonly from: 'root' | 'input' | 'model'
  readonly items: readonly Item[]
  readonly wire: readonly Item[]
  /** Estimated tokens of all items from the root. */
  readonly weight: number
  /** Tools that items of this conversation brought along (`additional_tools`, `tool_search_output`), oldest first. */
  readonly tools: readonly Tool[]
  readonly #warm: { readonly value: unknown; readonly at: Chain | undefined } | undefined
  /** The classifiers' rolling context after this link. */
  readonly checked: string | undefined

  private constructor(owner: string, parent: Chain | undefined, link: Link | undefined) {
    this.owner = owner
    this.parent = parent
    this.response = link?.response ?? ''
    this.from = link?.from ?? 'root'
    this.items = link?.items ?? []
    this.wire = link?.wire ?? this.items
    this.weight = (parent?.weight ?? 0) + weigh(this.items)
    this.tools = broughtTools(parent?.tools ?? [], this.items)
    this.#warm = link?.warm === undefined ? parent?.warm : { value: link.warm, at: undefined }
    this.checked = link?.checked ?? parent?.checked
  }
  static root(owner: string): Chain {
    return new Chain(owner, undefined, undefined)
  }
  add(link: Link): Chain {
    return new Chain(this.owner, this, link)
  }
  /** What the engine gave back last in this conversation, and the link it knew then. */
  get warm(): Warm | undefined {
    return this.#warm && { value: this.#warm.value, at: this.#warm.at ?? this }
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

function broughtTools(before: readonly Tool[], items: readonly Item[]): readonly Tool[] {
  const brought = items.flatMap((item) =>
    item.type === 'additional_tools' || item.type === 'tool_search_output'
      ? ((item as { tools?: readonly Tool[] }).tools ?? [])
      : [],
  )
  return brought.length > 0 ? [...before, ...brought] : before
}
