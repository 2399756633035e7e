// Which beginnings of conversations the simulated engine has computed before: its prefix cache, item by item.
import type { Chain } from '../turn/chain.ts'
import { goOn, type Head, seenOf } from './scenario-prompt.ts'
import type { Item } from '../protocol/items.ts'

export class PrefixCache {
  /** Oldest use first. */
  readonly #known = new Set<string>()
  readonly #limit: number

  /** `limit`: beginnings that are kept; one an item. */
  constructor(limit: number) {
    this.#limit = limit
  }
  get size(): number {
    return this.#known.size
  }
  /** Tokens of the longest known beginning of this prompt. */
  cached(head: Head, chain: Chain): number {
    for (let link: Chain | undefined = chain; link; link = link.parent) {
      const { keys, weights } = seenOf(link)
      for (let n = keys.length - 1; n >= 0; n--)
        if (this.#has(head.key + keys[n])) return head.weight + (weights[n] ?? 0)
    }
    return this.#has(head.key) ? head.weight : 0
  }
  /** The prompt was computed; so, later, was what the model wrote behind it. */
  learn(head: Head, chain: Chain, made: readonly Item[] = []): void {
    const fresh: string[] = goOn(seenOf(chain), made, chain).keys.map((k) => head.key + k)
    for (let link: Chain | undefined = chain; link; link = link.parent) {
      const { keys } = seenOf(link)
      let n = keys.length - 1
      for (; n >= 0 && !this.#known.has(head.key + keys[n]); n--) fresh.push(head.key + keys[n])
      if (n >= 0) break
    }
    if (head.weight > 0) fresh.push(head.key)
    for (const key of fresh) this.#add(key)
  }
  #has(key: string): boolean {
    if (!this.#known.has(key)) return false
    this.#add(key)
    return true
  }
  #add(key: string): void {
    this.#known.delete(key)
    this.#known.add(key)
    if (this.#known.size <= this.#limit) return
    for (const oldest of this.#known) {
      this.#known.delete(oldest)
      break
    }
  }
}
