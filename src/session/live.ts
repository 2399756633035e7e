// Every response that runs, and the event logs of those that ended a while ago, so that a lost client can read on.
// Bounded in time and bytes, the oldest go first.
import type { Log } from '../turn/log.ts'
import type { Turn } from '../turn/run.ts'
import { toolsJson } from '../protocol/known-tools.ts'
import type { Settings } from '../protocol/request.ts'
import type { Response } from '../protocol/response.ts'

type Entry = {
  readonly log: Log
  turn: Turn | undefined
  endedAt: number
  bytes: number
  readonly waiting: (() => void)[]
}
export type LiveLimits = { readonly keepMs: number; readonly keepBytes: number }

export class Live {
  readonly #entries = new Map<string, Entry>()
  /** Ids of ended responses, oldest first. */
  readonly #ended = new Set<string>()
  #bytes = 0
  readonly #limits: LiveLimits
  readonly #sweeper: NodeJS.Timeout

  constructor(limits: LiveLimits) {
    this.#limits = limits
    this.#sweeper = setInterval(() => this.#sweep(), Math.min(10_000, Math.max(50, limits.keepMs / 4)))
    this.#sweeper.unref()
  }
  add(turn: Turn): void {
    this.#entries.set(turn.id, { log: turn.events, turn, endedAt: 0, bytes: 0, waiting: [] })
  }
  /** The turn is over; its events stay readable for a while. */
  ended(id: string): void {
    const entry = this.#entries.get(id)
    if (!entry) return
    entry.bytes = entry.log.bytes + (entry.turn ? echoed(entry.turn.request.settings) : 0)
    entry.turn = undefined
    entry.log.close()
    entry.endedAt = Date.now()
    this.#bytes += entry.bytes
    this.#ended.add(id)
    for (const wake of entry.waiting) wake()
    this.#sweep()
  }
  /** Nobody may read it any more. */
  drop(id: string): void {
    const entry = this.#entries.get(id)
    this.#entries.delete(id)
    if (entry && this.#ended.delete(id)) this.#bytes -= entry.bytes
    for (const wake of entry?.waiting ?? []) wake()
  }
  log(id: string, owner: string): Log | undefined {
    const log = this.#entries.get(id)?.log
    return log?.owner === owner ? log : undefined
  }
  /** A turn that still runs. */
  turn(id: string, owner: string): Turn | undefined {
    const turn = this.#entries.get(id)?.turn
    return turn?.principal.owner === owner ? turn : undefined
  }
  /** Resolves when this turn is over; at once where it does not run. */
  async over(id: string, owner: string): Promise<void> {
    const entry = this.#entries.get(id)
    if (entry?.turn?.principal.owner === owner) await new Promise<void>((resolve) => entry.waiting.push(resolve))
  }
  /** The response as it stands or as it ended. */
  response(id: string, owner: string): Response | undefined {
    const end = this.log(id, owner)?.terminal
    return end && 'response' in end ? end.response : this.turn(id, owner)?.output.snapshot()
  }
  get running(): number {
    return this.#entries.size - this.#ended.size
  }
  get bytes(): number {
    return this.#bytes
  }
  close(): void {
    clearInterval(this.#sweeper)
  }
  #sweep(): void {
    const old = Date.now() - this.#limits.keepMs
    for (const id of this.#ended) {
      const entry = this.#entries.get(id)
      if (entry && entry.endedAt > old && this.#bytes <= this.#limits.keepBytes) return
      this.drop(id)
    }
  }
}

/** Characters of what every event with a response in it says again, and what the log itself does not count. */
function echoed({ tools, instructions, ...rest }: Settings): number {
  return toolsJson(tools).length + (instructions?.length ?? 0) + JSON.stringify(rest).length
}
