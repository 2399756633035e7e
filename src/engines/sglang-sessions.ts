// Which sessions are open on an SGLang server, and what they cost it: it keeps the ids of every request of a session until
// the session is closed. Owns the bounds; the least recently used goes first.
import { randomUUID } from 'node:crypto'

export type SessionRules = {
  /** Sessions at once. */
  readonly most: number
  /** Ids that the server keeps for all of them. A session with more than a quarter of it is closed. */
  readonly ids: number
}

export class SglangSessions {
  readonly #rules: SessionRules
  readonly #close: (id: string) => void
  /** Ids kept, by session; the oldest first. */
  readonly #open = new Map<string, number>()
  #ids = 0

  /** `close` tells the server, and waits for nothing. */
  constructor(rules: SessionRules, close: (id: string) => void) {
    this.#rules = rules
    this.#close = close
  }
  get size(): number {
    return this.#open.size
  }
  /** A name for one that is about to be opened. */
  static name(): string {
    return `continuo-${randomUUID()}`
  }
  has(id: string): boolean {
    return this.#open.has(id)
  }
  /** A request of `ids` ids, output included, has ended in this session; it is open from then on. */
  used(id: string, ids: number): void {
    const kept = (this.#open.get(id) ?? 0) + ids
    this.#forget(id)
    this.#open.set(id, kept)
    this.#ids += kept
    if (kept > this.#rules.ids / 4) this.drop(id)
    for (const [oldest] of this.#open) {
      if (this.#open.size <= this.#rules.most && this.#ids <= this.#rules.ids) break
      this.drop(oldest)
    }
  }
  /** No longer wanted, or lost. */
  drop(id: string): void {
    if (this.#forget(id)) this.#close(id)
  }
  /** Closes all. */
  clear(): void {
    for (const [id] of this.#open) this.drop(id)
  }
  #forget(id: string): boolean {
    const kept = this.#open.get(id)
    if (kept === undefined) return false
    this.#ids -= kept
    return this.#open.delete(id)
  }
}
