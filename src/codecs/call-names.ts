// The name of each call, for outputs: formats name the tool where items carry the call's id alone.
import type { Naming } from '../protocol/functions.ts'
import type { Item } from '../protocol/items.ts'
import type { Chain } from '../turn/chain.ts'

/** Of the newest call with an id. Looks at each item once at most, however many outputs ask. */
export class CallNames {
  readonly #naming: Naming
  /** Calls that were met, and those in front of them as far as somebody had to look back. */
  readonly #met = new Map<string, string>()
  readonly #earlier = new Map<string, string>()
  #back: Iterator<Item> | undefined = undefined

  constructor(naming: Naming) {
    this.#naming = naming
  }
  /** The next item, number `n` of a link: they come in order, and those in front of the first are looked up. */
  met(item: Item, link: Chain, n: number): void {
    this.#back ??= backwards(link, n)
    this.#note(item, this.#met)
  }
  of(callId: string): string | undefined {
    const known = this.#met.get(callId) ?? this.#earlier.get(callId)
    if (known !== undefined || !this.#back) return known
    for (let next = this.#back.next(); next.done !== true; next = this.#back.next()) {
      this.#note(next.value, this.#earlier)
      const found = this.#earlier.get(callId)
      if (found !== undefined) return found
    }
    return undefined
  }
  #note(item: Item, into: Map<string, string>): void {
    if (item.type !== 'function_call' && item.type !== 'custom_tool_call') return
    // Looking back, the newest comes first.
    if (into === this.#earlier && into.has(item.call_id)) return
    into.set(item.call_id, this.#naming.flat(item.name, item.namespace))
  }
}
function* backwards(link: Chain, before: number): Generator<Item, undefined> {
  let upTo = before
  for (let at: Chain | undefined = link; at; at = at.parent) {
    for (let n = Math.min(upTo, at.items.length) - 1; n >= 0; n--) {
      const item = at.items[n]
      if (item) yield item
    }
    upTo = Infinity
  }
  return undefined
}
