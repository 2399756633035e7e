// One replica of a fleet: its slots, and whether it is worth asking.
import type { Engine } from '../turn/ports.ts'

export type ReplicaRules = {
  /** Generations at once. */
  readonly concurrency: number
  /** Failures in a row, before any output, that take it out. */
  readonly failures: number
  /** First and longest time out, doubled from time to time. */
  readonly backoffMs: number
  readonly maxBackoffMs: number
}

export class Replica {
  readonly engine: Engine
  readonly #rules: ReplicaRules
  running = 0
  #failed = 0
  /** `performance.now()` from which one real request may try it again; 0 while it is in. */
  #outUntil = 0
  #trying = false

  constructor(engine: Engine, rules: ReplicaRules) {
    this.engine = engine
    this.#rules = rules
  }
  get id(): string {
    return this.engine.id
  }
  get out(): boolean {
    return this.#outUntil > 0
  }
  get outUntil(): number {
    return this.#outUntil
  }
  /** One that is out is tried by a single request at a time, and by the first one after its time. */
  ready(now: number): boolean {
    return !this.out || (!this.#trying && now >= this.#outUntil)
  }
  get trying(): boolean {
    return this.#trying
  }
  get full(): boolean {
    return this.running >= this.#rules.concurrency
  }
  /** Takes a slot; the result gives it back, once, however often it is called. */
  take(): () => void {
    this.running++
    const tries = this.out
    if (tries) this.#trying = true
    let given = false
    return () => {
      if (given) return
      given = true
      this.running--
      if (tries) this.#trying = false
    }
  }
  worked(): void {
    this.#failed = 0
    this.#outUntil = 0
  }
  failed(now: number): void {
    this.#failed++
    const { failures, backoffMs, maxBackoffMs } = this.#rules
    if (this.#failed < failures) return
    const wait = Math.min(maxBackoffMs, backoffMs * 2 ** Math.min(20, this.#failed - failures))
    // Spread, so that replicas that went down together are not all tried in one moment.
    this.#outUntil = now + wait * (0.75 + Math.random() / 2)
  }
}
