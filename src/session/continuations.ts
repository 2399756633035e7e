// The session cache: which responses this connection may continue. Semantics, not speed: entries come and go as the
// protocol says (OpenAI guide "WebSocket mode"), with one superset: the last `limit` responses, not only each lane's latest.
import type { Chain } from '../turn/chain.ts'

type Kept = { readonly chain: Chain; readonly lane: string }

export class Continuations {
  readonly #kept = new Map<string, Kept>()
  readonly #latest = new Map<string, string>()
  readonly #limit: number
  readonly #bytes: number

  /** `bytes`: of all conversations together, estimated from above; the newest of each lane is kept in any case. */
  constructor(limit: number, bytes = Infinity) {
    this.#limit = limit
    this.#bytes = bytes
  }
  get(id: string): Chain | undefined {
    return this.#kept.get(id)?.chain
  }
  keep(id: string, chain: Chain, lane: string): void {
    this.#kept.set(id, { chain, lane })
    this.#latest.set(lane, id)
    for (const [old, { lane: from }] of this.#kept) {
      if (this.#kept.size <= this.#limit && this.#held() <= this.#bytes) return
      if (this.#latest.get(from) !== old) this.#kept.delete(old)
    }
  }
  /** Chains that grew from one beginning share it: each conversation counts once, by its longest. */
  #held(): number {
    if (this.#bytes === Infinity) return 0
    const longest = new Map<Chain, number>()
    for (const { chain } of this.#kept.values())
      longest.set(chain.first, Math.max(longest.get(chain.first) ?? 0, chain.allBytes))
    let sum = 0
    for (const bytes of longest.values()) sum += bytes
    return sum
  }
  /** A continuation of `id` on `lane` has failed: on the lane that made it, it is gone; a failed fork leaves it. */
  failed(id: string, lane: string): void {
    if (this.#kept.get(id)?.lane === lane) this.#kept.delete(id)
  }
}
