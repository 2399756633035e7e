// Which conversations of an owner begin like the one that was just sent whole. For speed only: it chooses what need not be
// rendered and encoded again, never what a response follows. A wrong or missing entry costs time.
import { extendHash } from '../protocol/item-hash.ts'
import type { Item } from '../protocol/items.ts'
import type { Chain } from './chain.ts'

/** Conversations that grew from one beginning, forks included: they share memory, so they go together. */
type Group = {
  readonly keys: string[]
  readonly responses: string[]
  bytes: number
  /** Tokens and their JSON, as measured last. */
  tokens: number
  used: number
}
export type IndexLimits = {
  /** Bytes of all conversations, estimated from above. */
  readonly keepBytes: number
  /** How long one that nobody goes on with stays, in milliseconds. */
  readonly keepMs: number
}

export class PrefixIndex {
  readonly #limits: IndexLimits
  readonly #chains = new Map<string, Chain>()
  /** By the first link, the longest unused first. */
  readonly #groups = new Map<Chain, Group>()
  readonly #byResponse = new Map<string, Chain>()
  readonly #sweep: NodeJS.Timeout
  #bytes = 0
  /** Full resends that were looked up, and items of theirs that were known. */
  readonly counts = { lookups: 0, items: 0, known: 0 }

  constructor(limits: IndexLimits) {
    this.#limits = limits
    const every = Math.min(60_000, Math.max(1000, limits.keepMs / 4))
    this.#sweep = setInterval(() => this.#forgetOld(), every).unref()
  }
  /** The deepest known chain of this owner that the items begin with, and how many of them it holds. */
  find(owner: string, items: readonly Item[]): { readonly chain: Chain; readonly items: number } | undefined {
    this.counts.lookups++
    this.counts.items += items.length
    if (this.#chains.size === 0) return undefined
    let hash = ''
    let best: { chain: Chain; items: number } | undefined
    for (const [n, item] of items.entries()) {
      hash = extendHash(hash, item)
      const chain = this.#chains.get(`${owner}\0${hash}`)
      if (chain) best = { chain, items: n + 1 }
    }
    if (!best) return undefined
    this.counts.known += best.items
    this.#touch(best.chain.first)
    return best
  }
  /** From now on a conversation that begins like this one is known. Synchronous, and cheap: one entry for each new link. */
  add(chain: Chain): void {
    if (this.#limits.keepBytes === 0) return
    const { first } = chain
    const group = this.#groups.get(first) ?? { keys: [], responses: [], bytes: 0, tokens: 0, used: 0 }
    for (let link: Chain | undefined = chain; link && link.from !== 'root'; link = link.parent) {
      const key = `${link.owner}\0${link.hash}`
      const known = this.#chains.get(key)
      if (known === link) break
      // Said twice: the newer one has what the engine knows.
      if (known && known.first !== first) this.#drop(known.first)
      this.#chains.set(key, link)
      if (!known) group.keys.push(key)
      group.bytes += link.bytes
      this.#bytes += link.bytes
      if (group.responses.at(-1) !== link.response) group.responses.push(link.response)
      this.#byResponse.set(link.response, first)
    }
    this.#groups.set(first, group)
    const tokens = chain.encoded?.prompt.bytes ?? chain.parent?.encoded?.prompt.bytes ?? group.tokens
    this.#bytes += tokens - group.tokens
    group.tokens = tokens
    this.#touch(first)
    for (const oldest of this.#groups.keys()) {
      if (this.#bytes <= this.#limits.keepBytes) break
      this.#drop(oldest)
    }
  }
  /** Nothing of the conversation that this response belongs to is known any more. */
  forget(response: string): void {
    const first = this.#byResponse.get(response)
    if (first) this.#drop(first)
  }
  get bytes(): number {
    return this.#bytes
  }
  get size(): number {
    return this.#chains.size
  }
  close(): void {
    clearInterval(this.#sweep)
  }

  #touch(first: Chain): void {
    const group = this.#groups.get(first)
    if (!group) return
    group.used = Date.now()
    this.#groups.delete(first)
    this.#groups.set(first, group)
  }
  #drop(first: Chain): void {
    const group = this.#groups.get(first)
    if (!group) return
    this.#groups.delete(first)
    this.#bytes -= group.bytes + group.tokens
    for (const key of group.keys) if (this.#chains.get(key)?.first === first) this.#chains.delete(key)
    for (const id of group.responses) if (this.#byResponse.get(id) === first) this.#byResponse.delete(id)
  }
  #forgetOld(): void {
    const before = Date.now() - this.#limits.keepMs
    for (const [first, { used }] of this.#groups) {
      if (used > before) return
      this.#drop(first)
    }
  }
}
