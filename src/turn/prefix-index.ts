// Which conversations of an owner begin like the one that was just sent whole, and the chains of stored responses. For speed
// only: it chooses what need not be rendered, encoded or read back again, never what a response follows. A missing entry
// costs time.
import { extendHash } from '../protocol/item-hash.ts'
import type { Item } from '../protocol/items.ts'
import type { Chain } from './chain.ts'
import type { TokenRun } from './tokens.ts'

/** Conversations that grew from one beginning, forks included: they share memory, so they go together. */
type Group = {
  readonly links: Set<Chain>
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
  readonly #byResponse = new Map<string, { chain: Chain; stored: boolean }>()
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
  /**
   * From now on a conversation that begins like this one is known, and the response that made its last link, where that is
   * stored. Synchronous, and cheap: one entry for each new link.
   */
  add(chain: Chain, stored: boolean): void {
    if (this.#limits.keepBytes === 0) return
    const { first } = chain
    const group = this.#groups.get(first) ?? { links: new Set(), responses: [], bytes: 0, tokens: 0, used: 0 }
    // Said twice: the newer one has what the engine knows. Where only the beginning is the same, both go on.
    const said = this.#chains.get(keyOf(chain))
    if (said && said.first !== first) this.#drop(said.first)
    let newer: TokenRun | undefined
    for (let link: Chain | undefined = chain; link && link.from !== 'root'; link = link.parent) {
      const run = link.generated?.run ?? link.encoded?.prompt
      // A fork that was copied has memory of its own.
      const own = newer && run && !newer.shares(run) ? newer.bytes : 0
      group.bytes += own
      this.#bytes += own
      newer = run ?? newer
      if (group.links.has(link)) break
      group.links.add(link)
      // Where nothing was said yet, every conversation begins.
      if (link.hash !== '') this.#chains.set(keyOf(link), link)
      group.bytes += link.bytes
      this.#bytes += link.bytes
      if (!this.#byResponse.has(link.response)) {
        group.responses.push(link.response)
        this.#byResponse.set(link.response, { chain: link, stored: false })
      }
    }
    if (!this.#byResponse.has(chain.response)) group.responses.push(chain.response)
    this.#byResponse.set(chain.response, { chain, stored })
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
    const known = this.#byResponse.get(response)
    if (known) this.#drop(known.chain.first)
  }
  /** The chain of a stored response of this owner, so that it need not be read back. */
  stored(response: string, owner: string): Chain | undefined {
    const known = this.#byResponse.get(response)
    if (!known?.stored || known.chain.owner !== owner) return undefined
    this.#touch(known.chain.first)
    return known.chain
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
    for (const link of group.links) if (this.#chains.get(keyOf(link)) === link) this.#chains.delete(keyOf(link))
    for (const id of group.responses) if (this.#byResponse.get(id)?.chain.first === first) this.#byResponse.delete(id)
  }
  #forgetOld(): void {
    const before = Date.now() - this.#limits.keepMs
    for (const [first, { used }] of this.#groups) {
      if (used > before) return
      this.#drop(first)
    }
  }
}
const keyOf = ({ owner, hash }: Chain): string => `${owner}\0${hash}`
