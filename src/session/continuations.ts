// The session cache: which responses this connection may continue. Semantics, not speed: entries come and go as the
// protocol says (OpenAI guide "WebSocket mode"), with one superset: the last `limit` responses, not only each lane's latest.
import type { Chain } from '../turn/chain.ts'

type Kept = { readonly chain: Chain; readonly lane: string }

export class Continuations {
  readonly #kept = new Map<string, Kept>()
  readonly #latest = new Map<string, string>()
  readonly #limit: number
  constructor(limit: number) {
    this.#limit = limit
  }
  get(id: string): Chain | undefined {
    return this.#kept.get(id)?.chain
  }
  keep(id: string, chain: Chain, lane: string): void {
    this.#kept.set(id, { chain, lane })
    this.#latest.set(lane, id)
    if (this.#kept.size <= this.#limit) return
    for (const [old, { lane: from }] of this.#kept)
      if (this.#latest.get(from) !== old) {
        this.#kept.delete(old)
        return
      }
  }
  /** A continuation of `id` on `lane` has failed: on the lane that made it, it is gone; a failed fork leaves it. */
  failed(id: string, lane: string): void {
    if (this.#kept.get(id)?.lane === lane) this.#kept.delete(id)
  }
}
