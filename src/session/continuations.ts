// The session cache: which responses this connection may continue. Semantics, not speed: entries come and go as the
// protocol says (OpenAI guide "WebSocket mode"), with one superset: the last `limit` responses, not only each lane's latest.
import { toolsJson } from '../protocol/known-tools.ts'
import type { Create, Settings } from '../protocol/request.ts'
import type { Chain } from '../turn/chain.ts'

/** `bytes`: of the settings that are no text of their own below: roughly, as JSON. */
type Kept = { readonly chain: Chain; readonly lane: string; readonly settings: Settings; readonly bytes: number }

export class Continuations {
  readonly #kept = new Map<string, Kept>()
  readonly #latest = new Map<string, string>()
  readonly #limit: number
  readonly #bytes: number
  #newest: Settings | undefined

  /** `bytes`: of all conversations and settings together, estimated from above; the newest of each lane is kept in any case. */
  constructor(limit: number, bytes = Infinity) {
    this.#limit = limit
    this.#bytes = bytes
  }
  get(id: string): Chain | undefined {
    return this.#kept.get(id)?.chain
  }
  /** The request with what it inherits; names of which nothing is known here stay in its `lean.inherit`. */
  filled(request: Create): Create {
    const { lean, previous } = request
    const before = lean && previous !== undefined ? this.#kept.get(previous)?.settings : undefined
    if (!lean || !before) return request
    const taken: Partial<Settings> = Object.fromEntries(lean.inherit.map((name) => [name, before[name]]))
    return { ...request, settings: { ...request.settings, ...taken }, lean: { ...lean, inherit: [] } }
  }
  keep(id: string, chain: Chain, lane: string, asked: Settings): void {
    // Who sends everything sends the same text each time: it is held once.
    const same = asked.instructions !== null && asked.instructions === this.#newest?.instructions
    const settings = same ? { ...asked, instructions: this.#newest?.instructions ?? null } : asked
    this.#newest = settings
    const { tools: _, instructions: __, ...rest } = settings
    this.#kept.set(id, { chain, lane, settings, bytes: JSON.stringify(rest).length })
    this.#latest.set(lane, id)
    for (const [old, { lane: from }] of this.#kept) {
      if (this.#kept.size <= this.#limit && this.#held() <= this.#bytes) return
      if (this.#latest.get(from) !== old) this.#kept.delete(old)
    }
  }
  /** Chains that grew from one beginning share it: each conversation counts once, by its longest; so do texts and tools. */
  #held(): number {
    if (this.#bytes === Infinity) return 0
    const longest = new Map<Chain, number>()
    const said = new Set<string | Settings['tools'] | null>()
    let sum = 0
    for (const { chain, settings, bytes } of this.#kept.values()) {
      longest.set(chain.first, Math.max(longest.get(chain.first) ?? 0, chain.allBytes))
      said.add(settings.tools).add(settings.instructions)
      sum += bytes
    }
    for (const one of said) sum += typeof one === 'string' ? one.length : one === null ? 0 : toolsJson(one).length
    for (const bytes of longest.values()) sum += bytes
    return sum
  }
  /** A continuation of `id` on `lane` has failed: on the lane that made it, it is gone; a failed fork leaves it. */
  failed(id: string, lane: string): void {
    if (this.#kept.get(id)?.lane === lane) this.#kept.delete(id)
  }
}
