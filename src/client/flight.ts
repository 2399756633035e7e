// One call from `create` to its end: what was asked, how far the answer has come, and the reader's end of it.
import { isTerminal } from '../protocol/events.ts'
import type { ClientCall, Item } from '../protocol/items.ts'
import type { Response } from '../protocol/response.ts'
import { Cancelled, SlowConsumer, type ClientError } from './failures.ts'
import type { CreateBody, Plan, Received } from './history.ts'
import type { ServerEvent } from './frame.ts'
import type { Echo } from './lean.ts'
import { Mailbox } from './mailbox.ts'

/** A call as its owner sees it. Iterate it once, or only await `finished`; leaving the loop early cancels. */
export type Call = AsyncIterable<ServerEvent> & {
  /** Id of the response, once `response.created` is here. */
  readonly responseId: string | undefined
  /** True when the request went out as a delta on an earlier response. */
  readonly delta: boolean
  /** Name of the lane it runs on, '' for the one without; undefined before it is sent. */
  readonly lane: string | undefined
  /**
   * The response as its terminal event has it: completed, incomplete or failed. Rejects with a ClientError when the
   * call ends without one.
   */
  readonly finished: Promise<Response>
  cancel(): void
}

/** What a rollout's calls return: an output for each of them, and messages of the user beside them. */
export type Answer = (calls: readonly ClientCall[]) => readonly Item[] | Promise<readonly Item[]>

export type CallOptions = {
  /** Of a rollout: asked each time the server waits. */
  readonly answer?: Answer
  readonly signal?: AbortSignal | undefined
  /** `never`: always send the full input. */
  readonly chain?: 'auto' | 'never'
  /** The caller never changes an item object once it was sent or received: digests of items are then kept. */
  readonly frozen?: boolean
  /**
   * Hold `created`, `in_progress` and `queued` back until the model says something, so that a connection lost in between
   * can be replaced without the reader noticing. Keepalives end the wait.
   */
  readonly quietStart?: boolean
}

export type BufferLimits = { readonly maxEvents: number; readonly maxBytes: number }

/** Finished items by `output_index`, as the list they make. */
export const inOrder = (items: ReadonlyMap<number, Item>): Item[] =>
  [...items].sort(([a], [b]) => a - b).map(([, item]) => item)

const opening = new Set(['response.created', 'response.in_progress', 'response.queued'])

/** The inside of a `Call`, for the connection. */
export class Flight implements Call {
  readonly body: CreateBody
  readonly options: CallOptions
  /** The lane the caller named; undefined: any. */
  readonly wanted: string | undefined
  lane: string | undefined
  plan: Plan | undefined
  /** Set while it is out as a lean turn: what its events lack. */
  echo: Echo | undefined
  sends = 0
  responseId: string | undefined
  /** The consumer has no interest any more, but the server has not ended the response. */
  draining = false
  readonly finished: Promise<Response>
  /** Finished items, and what was appended between them. */
  received: Received[] = []
  appended = 0
  /** Something was appended, and nothing has shown yet that the server took it. */
  unsure = false
  /** Of a rollout: finished, and not answered yet. */
  calls: ClientCall[] = []
  readonly #onCancel: (flight: Flight) => void
  readonly #box: Mailbox<ServerEvent>
  #held: [ServerEvent, number][] = []
  #released = false
  #spoken = false
  #heard = false
  #iterated = false
  #over = false
  #lastNumber = -1
  #resolve: (response: Response) => void = ignore
  #reject: (error: Error) => void = ignore

  constructor(
    body: CreateBody,
    wanted: string | undefined,
    options: CallOptions,
    limits: BufferLimits,
    onCancel: (flight: Flight) => void,
  ) {
    this.body = body
    this.wanted = wanted
    this.options = options
    this.#box = new Mailbox(limits.maxEvents, limits.maxBytes)
    this.#onCancel = onCancel
    this.finished = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    // Whoever reads the events learns of a failure there; not awaiting `finished` as well is no mistake.
    this.finished.catch(ignore)
    if (options.signal?.aborted) this.cancel()
    else options.signal?.addEventListener('abort', this.#abort, { once: true })
  }

  get delta(): boolean {
    return this.plan?.previous !== undefined
  }
  get isOver(): boolean {
    return this.#over
  }
  /** True once any event of this sending has come. */
  get heard(): boolean {
    return this.#heard
  }
  /** True while sending the request again cannot be noticed as doubled output. */
  get untold(): boolean {
    return this.options.quietStart === true ? !this.#released : !this.#spoken
  }

  /** A new sending starts: what came of the one before does not count. */
  restart(): void {
    this.responseId = undefined
    this.received = []
    this.appended = 0
    this.unsure = false
    this.calls = []
    this.#held = []
    this.#heard = false
    this.#lastNumber = -1
  }

  /** False when events before this one are missing. Keepalives have no number of their own. */
  follows(event: ServerEvent): boolean {
    if (event.type === 'keepalive' || typeof event.sequence_number !== 'number') return true
    const follows = event.sequence_number <= this.#lastNumber + 1
    this.#lastNumber = event.sequence_number
    return follows
  }
  /** Takes an event of this call in. */
  take(event: ServerEvent, bytes: number): void {
    this.#heard = true
    if (event.type === 'response.created') this.responseId = event.response.id
    if (this.#over) return
    if (this.options.quietStart === true && !this.#released && opening.has(event.type)) {
      this.#held.push([event, bytes])
      return
    }
    this.#release()
    if (!opening.has(event.type) && event.type !== 'keepalive') this.#spoken = true
    this.#keep(event, bytes)
  }
  finish(response: Response): void {
    if (!this.#end()) return
    this.#release()
    this.#box.end()
    this.#resolve(response)
  }
  fail(error: ClientError): void {
    if (!this.#end()) return
    this.#box.end(error)
    this.#reject(error)
  }
  cancel(): void {
    this.#stop(undefined)
  }
  [Symbol.asyncIterator](): AsyncIterator<ServerEvent, undefined> {
    this.#iterated = true
    return {
      next: async () => {
        const value = await this.#box.next()
        return value === undefined ? { done: true, value: undefined } : { done: false, value }
      },
      return: async () => {
        this.cancel()
        return { done: true, value: undefined }
      },
    }
  }
  /** An event that is here already; saves a reader that writes in batches one wait per event. */
  poll(): ServerEvent | undefined {
    return this.#box.poll()
  }

  readonly #abort = (): void =>
    this.#stop(new Cancelled('The call was cancelled by its signal', this.options.signal?.reason))

  #stop(error: Cancelled | undefined): void {
    if (!this.#end()) return
    this.#box.abandon(error)
    this.#reject(error ?? new Cancelled('The call was cancelled'))
    this.#onCancel(this)
  }
  #end(): boolean {
    if (this.#over) return false
    this.#over = true
    this.options.signal?.removeEventListener('abort', this.#abort)
    return true
  }
  #release(): void {
    if (this.#released) return
    this.#released = true
    for (const [event, bytes] of this.#held) this.#keep(event, bytes)
    this.#held = []
  }
  #keep(event: ServerEvent, bytes: number): void {
    if (this.#box.push(event, bytes)) return
    const error = new SlowConsumer('The events of this call were not read fast enough and its buffer is full')
    this.#box.abandon(error)
    // With nobody in the loop somebody may still wait for the end; with a reader there, the reader cannot go on.
    if (!this.#iterated || isTerminal(event) || !this.#end()) return
    this.#reject(error)
    this.#onCancel(this)
  }
}

function ignore(): void {}
