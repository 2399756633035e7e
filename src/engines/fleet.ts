// Several replicas of one model as one engine: where a turn goes (to the cache that knows it), who waits, what is tried
// elsewhere. A turn moves to another replica only before its first chunk and only for trouble that may pass.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { ApiError } from '../protocol/errors.ts'
import type { Settings } from '../protocol/request.ts'
import type { Chain } from '../turn/chain.ts'
import type { Call, Chunk, Constraint, Description, Engine } from '../turn/ports.ts'
import { FairQueue } from './fair-queue.ts'
import { Replica } from './replica.ts'

const count = z.number().int().positive()
/** How turns are spread over the replicas. Times in milliseconds. */
export const fleetOptions = z.strictObject({
  /** Generations at once on each replica. */
  concurrency: count.default(64),
  /** Turns that may wait for a free replica; more are refused as overload. */
  queue: z.number().int().nonnegative().default(256),
  /** Replicas one turn may try. */
  attempts: count.default(3),
  /** Failures in a row that take a replica out. */
  failures: count.default(2),
  /** How long it is out at first and at most; doubled from time to time. */
  backoffMs: count.default(1_000),
  maxBackoffMs: count.default(30_000),
})
export type FleetInput = z.input<typeof fleetOptions> & {
  /** The fleet's id, in error sentences. Default `fleet`. */
  readonly id?: string
  /** At least one, ids unique: affinity goes by them. */
  readonly replicas: readonly Engine[]
}
/** What the fleet gives back as `warm`: the replica, and what that replica wanted back. */
type FleetWarm = { readonly replica: string; readonly inner: unknown }
type Slot = { readonly replica: Replica; readonly free: () => void }

export class Fleet implements Engine {
  readonly id: string
  readonly takes: 'items' | 'tokens'
  readonly #replicas: readonly Replica[]
  readonly #queue: FairQueue<Slot>
  readonly #attempts: number

  constructor({ id, replicas, ...rules }: FleetInput) {
    const options = fleetOptions.parse(rules)
    if (replicas.length === 0) throw new Error('a fleet needs at least one replica')
    if (new Set(replicas.map((r) => r.id)).size < replicas.length)
      throw new Error('the replicas of a fleet need different ids')
    this.id = id ?? 'fleet'
    this.takes = replicas[0]?.takes ?? 'items'
    this.#replicas = replicas.map((engine) => new Replica(engine, options))
    this.#queue = new FairQueue(options.queue)
    this.#attempts = options.attempts
  }
  /** Admitted if any replica would take it. */
  admit(settings: Settings, chain: Chain, constraint?: Constraint): void {
    let refused: unknown
    for (const { engine } of this.#replicas) {
      try {
        return engine.admit(settings, chain, constraint)
      } catch (e) {
        refused ??= e
      }
    }
    throw refused
  }
  generate(call: Call): AsyncIterable<Chunk> {
    return { [Symbol.asyncIterator]: () => new Passage(this, call) }
  }
  /** The models of all replicas; throws only when none can be reached. */
  async probe(signal: AbortSignal): Promise<readonly string[]> {
    const all = await Promise.allSettled(this.#replicas.map(({ engine }) => engine.probe(signal)))
    const models = all.flatMap((r) => (r.status === 'fulfilled' ? r.value : []))
    const broken = all.flatMap((r) => (r.status === 'rejected' ? [r.reason as unknown] : []))
    if (broken.length === all.length) throw broken[0]
    return [...new Set(models)]
  }
  /** By the first replica that answers: they serve one model. */
  async describe(signal: AbortSignal): Promise<Description> {
    return await this.#any((engine) => engine.describe?.(signal) ?? Promise.resolve({}))
  }
  async tokenize(texts: readonly string[], signal: AbortSignal): Promise<readonly (readonly number[])[]> {
    return await this.#any((engine) => engine.tokenize?.(texts, signal) ?? Promise.resolve([]))
  }
  async #any<T>(ask: (engine: Engine) => Promise<T>): Promise<T> {
    let failed: unknown
    for (const { engine } of this.#replicas)
      try {
        return await ask(engine)
      } catch (e) {
        failed ??= e
      }
    throw failed
  }
  async close(): Promise<void> {
    this.#queue.failAll(new ApiError('server_is_overloaded', 'The server is shutting down.'))
    await Promise.all(this.#replicas.map(({ engine }) => engine.close()))
  }

  /** How many replicas one turn may try. */
  get attempts(): number {
    return Math.min(this.#attempts, this.#replicas.length)
  }
  /** A slot on the best replica that was not tried yet, now or once one is free. Throws and rejects with ApiErrors. */
  async slot(call: Call, tried: ReadonlySet<Replica>): Promise<Slot> {
    const attempt = (): Slot | undefined => {
      const replica = this.#best(call, this.#able(call, tried))
      if (replica === undefined) return undefined
      const give = replica.take()
      const free = (): void => {
        give()
        this.#queue.offer()
      }
      return { replica, free }
    }
    const now = this.#queue.size === 0 ? attempt() : undefined
    if (now) return now
    // Whoever comes anew stands behind those who wait; what is free and of no use to them is offered at once.
    const later = this.#queue.wait(call.principal.owner, call.signal, attempt)
    this.#queue.offer()
    return later
  }
  /** Replicas worth asking, free or not. Throws when there is none. */
  #able(call: Call, tried: ReadonlySet<Replica>): Replica[] {
    const left = this.#replicas.filter((r) => !tried.has(r))
    const now = performance.now()
    const ready = left.filter((r) => r.ready(now))
    // All are out: the one that is due next is asked anyway, so that the first turn after a repair gets through.
    const due = left.filter((r) => !r.trying).sort((a, b) => a.outUntil - b.outUntil)[0]
    const able = ready.length > 0 ? ready : due ? [due] : []
    if (able.length === 0)
      throw new ApiError('server_error', `Every replica of the engine '${this.id}' is down; try again in a moment.`)
    if (able.length === 1) return able
    const taking = able.filter((r) => takes(r.engine, call))
    return taking.length > 0 ? taking : able
  }
  #best(call: Call, able: readonly Replica[]): Replica | undefined {
    const free = able.filter((r) => !r.full)
    const warm = warmOf(call)
    const known = warm && free.find((r) => r.id === warm.replica)
    if (known) return known
    const key = call.settings.prompt_cache_key
    if (key !== null) {
      // Rendezvous: each key has its own order of replicas, and keeps it when others come or go.
      const owner = `${call.principal.owner}\0${key}\0`
      return maxBy(free, (r) => weight(owner + r.id))
    }
    return maxBy(free, (r) => -r.running)
  }
}

/** One turn's way through the fleet. */
class Passage implements AsyncIterator<Chunk> {
  readonly #fleet: Fleet
  readonly #call: Call
  /** Fires with the turn's own signal, and when the reader has had enough. */
  readonly #stop = new AbortController()
  readonly #onAbort = (): void => this.#stop.abort(this.#call.signal.reason)
  readonly #tried = new Set<Replica>()
  #slot: Slot | undefined = undefined
  #inner: AsyncIterator<Chunk> | undefined = undefined
  #begun = false
  #over = false

  constructor(fleet: Fleet, call: Call) {
    this.#fleet = fleet
    this.#call = call
    if (call.signal.aborted) this.#onAbort()
    else call.signal.addEventListener('abort', this.#onAbort, { once: true })
  }
  async next(): Promise<IteratorResult<Chunk>> {
    while (!this.#over) {
      try {
        const inner = (this.#inner ??= await this.#enter())
        const result = await inner.next()
        if (result.done === true) {
          this.#slot?.replica.worked()
          break
        }
        return { value: this.#pass(result.value), done: false }
      } catch (e) {
        if (!this.#again(e)) {
          this.#leave()
          throw e
        }
      }
    }
    this.#leave()
    return { value: undefined, done: true }
  }
  return(): Promise<IteratorResult<Chunk>> {
    const inner = this.#inner
    this.#leave()
    this.#stop.abort(new Error('no longer read'))
    // Not awaited: the far side is not waited for. What it says now interests nobody.
    inner?.return?.()?.then(undefined, () => {})
    return Promise.resolve({ value: undefined, done: true })
  }

  async #enter(): Promise<AsyncIterator<Chunk>> {
    const { signal } = this.#stop
    signal.throwIfAborted()
    const slot = await this.#fleet.slot({ ...this.#call, signal }, this.#tried)
    if (this.#over) {
      slot.free()
      throw new Error('no longer read')
    }
    this.#slot = slot
    const warm = warmOf(this.#call)
    const own = warm && warm.replica === slot.replica.id && warm.inner !== undefined && this.#call.warm
    // Another replica knows nothing of what the last one computed.
    const prompt = own ? this.#call.prompt : this.#call.prompt && { ...this.#call.prompt, common: 0 }
    const call = { ...this.#call, signal, prompt, warm: own ? { value: warm.inner, at: own.at } : undefined }
    return slot.replica.engine.generate(call)[Symbol.asyncIterator]()
  }
  #pass(chunk: Chunk): Chunk {
    const slot = this.#slot
    const first = !this.#begun
    this.#begun = true
    if (slot === undefined || (!first && chunk.warm === undefined)) return chunk
    slot.replica.worked()
    return { ...chunk, warm: { replica: slot.replica.id, inner: chunk.warm } satisfies FleetWarm }
  }
  /** Notes a failure; true where another replica is to be tried. */
  #again(e: unknown): boolean {
    const slot = this.#slot
    if (slot === undefined || this.#over || this.#stop.signal.aborted) return false
    const error = ApiError.of(e)
    if (!this.#begun && error.code === 'server_error') slot.replica.failed(performance.now())
    if (this.#begun || !error.transient) return false
    this.#tried.add(slot.replica)
    if (this.#tried.size >= this.#fleet.attempts) return false
    slot.free()
    this.#slot = this.#inner = undefined
    return true
  }
  #leave(): void {
    this.#over = true
    this.#call.signal.removeEventListener('abort', this.#onAbort)
    this.#slot?.free()
    this.#slot = this.#inner = undefined
  }
}

function warmOf(call: Call): FleetWarm | undefined {
  const value = call.warm?.value
  return typeof value === 'object' && value !== null && 'replica' in value ? (value as FleetWarm) : undefined
}
function takes(engine: Engine, call: Call): boolean {
  try {
    engine.admit(call.settings, call.chain, call.prompt?.constraint)
    return true
  } catch {
    return false
  }
}
const weight = (text: string): number => createHash('sha256').update(text).digest().readUInt32BE(0)
function maxBy<T>(all: readonly T[], of: (one: T) => number): T | undefined {
  let best: { one: T; value: number } | undefined
  for (const one of all) {
    const value = of(one)
    if (best === undefined || value > best.value) best = { one, value }
  }
  return best?.one
}

/** One engine made of several. Throws for no replicas, or two with one id. */
export function fleet(options: FleetInput): Fleet {
  return new Fleet(options)
}
export default fleet
