// A connection that outlives its sockets: calls queue here, go out on lanes, and go out again when a socket is lost
// before their answer began. Events reach the call they belong to and no other.
import { isTerminal } from '../protocol/events.ts'
import { linkOptions, type ConnectOptions } from './connect-options.ts'
import { Cancelled, ClientError, ConnectionLost, RequestRejected, UpgradeRefused } from './failures.ts'
import { type Answer, Flight, type BufferLimits, type Call, type CallOptions } from './flight.ts'
import { inFull, itemsOf, type CreateBody } from './history.ts'
import type { ServerEvent } from './frame.ts'
import { leaveOut, putBack } from './lean.ts'
import { defaultLane, Link, type LinkOptions } from './link.ts'

/** An ordered stream of calls. Calls of one lane run one after the other. */
export type Lane = { readonly name: string; create(body: CreateBody, options?: CallOptions): Call }

const recoverable = new Set([1001, 1005, 1006, 1011, 1012, 1013, 1015])
// As the protocol has it (protocol/request.ts), which brings a schema library along that clients can do without.
const lanePattern = /^[A-Za-z0-9_.-]{1,256}$/

/** Opens a connection. The socket is dialled with the first call, or by `ready`. */
export function connect(options: ConnectOptions): Connection {
  return new Connection(options)
}

export class Connection {
  readonly #options: ConnectOptions
  readonly #linkOptions: LinkOptions
  readonly #limits: BufferLimits
  readonly #attempts: number
  #link: Link | undefined
  /** Links that take no new calls but still finish theirs. */
  readonly #retiring = new Set<Link>()
  readonly #queue: Flight[] = []
  readonly #named = new Set<string>()
  readonly #waiters: { resolve(): void; reject(error: Error): void }[] = []
  #failures = 0
  #backoff: NodeJS.Timeout | undefined
  #closed = false

  constructor(options: ConnectOptions) {
    this.#options = options
    this.#attempts = options.reconnect === false ? 0 : (options.reconnect?.attempts ?? 5)
    this.#limits = { maxEvents: options.buffer?.maxEvents ?? 131_072, maxBytes: options.buffer?.maxBytes ?? 67_108_864 }
    this.#linkOptions = linkOptions(options)
  }

  /** Version of the Continuo server at the other end; undefined for other servers and while no socket is open. */
  get server(): string | undefined {
    return this.#link?.server
  }
  get isClosed(): boolean {
    return this.#closed
  }
  /** Calls that run or wait. */
  get busy(): number {
    let count = this.#queue.length
    for (const link of this.#links()) count += link.flights.size
    return count
  }

  /** Dials if need be and waits for an open socket. Rejects with UpgradeRefused or Unreachable. */
  ready(): Promise<void> {
    if (this.#link?.isOpen) return Promise.resolve()
    if (this.#closed) return Promise.reject(new Cancelled('The connection is closed'))
    const opened = new Promise<void>((resolve, reject) => this.#waiters.push({ resolve, reject }))
    this.#dial()
    return opened
  }

  /** Starts a call on any free lane, if possible the one its conversation ran on. */
  create(body: CreateBody, options: CallOptions = {}): Call {
    return this.#submit(body, this.#options.lanes === false ? defaultLane : undefined, options)
  }

  /**
   * Experimental: one long response, in which `answer` says what the model's calls return each time the server waits. A
   * server that has no rollouts rejects the request, or ends the response at the first calls.
   */
  rollout(body: CreateBody, answer: Answer, options: CallOptions = {}): Call {
    return this.create({ ...body, rollout: true }, { ...options, answer })
  }

  /** A lane of this name, or the one without a name. */
  lane(name: string = defaultLane): Lane {
    if (name !== defaultLane) {
      if (!lanePattern.test(name)) throw new ClientError(`'${name}' is no lane name: ${lanePattern.source}`)
      this.#named.add(name)
      if (this.#named.size > this.#maxLanes) throw new ClientError(`More than ${this.#maxLanes} lanes are named`)
    }
    const wanted = this.#options.lanes === false ? defaultLane : name
    return { name, create: (body, options = {}) => this.#submit(body, wanted, options) }
  }

  /** Ends the connection: calls that run or wait are cancelled. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    clearTimeout(this.#backoff)
    const gone = new Cancelled('The connection was closed')
    for (const waiter of this.#waiters.splice(0)) waiter.reject(gone)
    for (const flight of this.#queue.splice(0)) flight.fail(gone)
    for (const link of this.#links()) {
      for (const flight of link.flights.values()) flight.fail(gone)
      link.flights.clear()
      link.close()
    }
  }

  get #maxLanes(): number {
    return this.#options.maxLanes ?? 32
  }
  *#links(): Generator<Link> {
    if (this.#link) yield this.#link
    yield* this.#retiring
  }

  // ── sending ────────────────────────────────────────────────────────────────────────────────────────────────────────

  #submit(body: CreateBody, wanted: string | undefined, options: CallOptions): Flight {
    const flight = new Flight(body, wanted, options, this.#limits, (gone) => this.#cancelled(gone))
    if (flight.isOver) return flight
    if (this.#closed) flight.fail(new Cancelled('The connection is closed'))
    else if (this.#queue.length >= (this.#options.maxQueued ?? 256))
      flight.fail(new ClientError('Too many calls wait on this connection'))
    else {
      this.#queue.push(flight)
      this.#pump()
    }
    return flight
  }

  #pump(): void {
    if (this.#queue.length > 0) {
      const link = this.#link
      if (!link) this.#dial()
      else if (link.isOpen)
        for (let at = 0; at < this.#queue.length;) {
          const flight = this.#queue[at]
          if (flight && this.#start(link, flight)) this.#queue.splice(at, 1)
          else at++
        }
    }
    for (const link of this.#links())
      link.hold(link.flights.size > 0 || (link === this.#link && this.#queue.length > 0))
  }

  /** Sends a call if its lane is free. */
  #start(link: Link, flight: Flight): boolean {
    // Until a server has shown that it echoes lane names, and for good when it does not, one call at a time.
    if (link.lanes !== true && link.flights.size > 0) return false
    if (
      flight.wanted === undefined
        ? link.freeLane(this.#named, this.#maxLanes) === undefined
        : link.flights.has(flight.wanted)
    )
      return false
    const plan =
      flight.plan ??
      (flight.options.chain === 'never' ? undefined : link.history.plan(flight.body, flight.options.frozen))
    const lane = flight.wanted ?? link.freeLane(this.#named, this.#maxLanes, plan?.lane)
    if (lane === undefined) return false
    flight.restart()
    flight.plan = plan
    flight.lane = lane
    flight.echo = undefined
    flight.sends++
    link.names.delete(lane)
    link.names.add(lane)
    link.flights.set(lane, flight)
    const frame: Record<string, unknown> = { ...flight.body, type: 'response.create' }
    delete frame['stream_id']
    if (lane !== defaultLane) frame['stream_id'] = lane
    if (plan?.previous !== undefined) {
      frame['previous_response_id'] = plan.previous
      frame['input'] = itemsOf(flight.body.input)?.slice(plan.from)
      // A delta has the settings of its parent, or it would be none.
      if (this.#mayBeLean(link, flight)) flight.echo = link.history.echo(plan)
      if (flight.echo) leaveOut(frame)
    }
    link.send(JSON.stringify(frame))
    return true
  }

  #mayBeLean(link: Link, { body }: Flight): boolean {
    return link.lean && this.#options.lean !== false && body['continuo'] === undefined
  }

  // ── receiving ──────────────────────────────────────────────────────────────────────────────────────────────────────

  #received(link: Link, sent: ServerEvent, bytes: number): void {
    const flight = link.owner(sent)
    if (!flight) return
    const event = flight.echo ? putBack(sent, flight.echo) : sent
    // Once a rollout runs, an error is about what was appended to it.
    if (event.type === 'error' && flight.options.answer && flight.responseId !== undefined)
      return this.#abandon(link, flight, new RequestRejected(event))
    if (event.type === 'error') return this.#rejected(link, flight, event)
    this.#failures = 0
    if (!flight.follows(event) && (this.#options.strictNumbers ?? link.server !== undefined))
      return link.drop(1006, 'events are missing')
    flight.take(event, bytes)
    if (flight.draining) {
      if (event.type === 'response.created') link.giveUp(flight)
      if (isTerminal(event)) this.#release(link, flight)
      return
    }
    // The next generation has begun.
    if (event.type === 'response.output_item.added') flight.unsure = false
    if (event.type === 'response.output_item.done') {
      const { item } = event
      flight.received.push(link.history.received(event.output_index, item, flight.options.frozen))
      if (item.type === 'function_call' || item.type === 'custom_tool_call') flight.calls.push(item)
    }
    if (event.type === 'response.done') void this.#answer(link, flight)
    if (
      event.type === 'response.completed' ||
      event.type === 'response.incomplete' ||
      event.type === 'response.failed'
    ) {
      const { response } = event
      // An item we never saw finished would be in the server's conversation and not in ours.
      const whole =
        (response.output ?? undefined) === undefined ||
        response.output.length === flight.received.length - flight.appended
      if (flight.plan && event.type === 'response.failed') link.history.forget(flight.plan)
      // What is open at an early end may have been taken or not: the next request sends it all.
      else if (flight.plan && whole && !(flight.unsure && event.type === 'response.incomplete'))
        link.history.record(flight.plan, flight.received, response.id, flight.lane ?? defaultLane)
      if (flight.plan && !flight.echo && this.#mayBeLean(link, flight)) link.history.learn(flight.plan, response)
      flight.finish(response)
      this.#release(link, flight)
    }
  }

  /** Appends to a rollout what its calls return. */
  async #answer(link: Link, flight: Flight): Promise<void> {
    const { answer, frozen } = flight.options
    const calls = flight.calls.splice(0)
    if (!answer) return
    try {
      const input = await answer(calls)
      if (flight.isOver || link.flights.get(flight.lane ?? defaultLane) !== flight) return
      const index = flight.received.at(-1)?.index ?? 0
      for (const item of input) flight.received.push(link.history.received(index, item, frozen))
      flight.appended += input.length
      flight.unsure = true
      const lane = flight.lane === defaultLane ? {} : { stream_id: flight.lane }
      link.send(JSON.stringify({ type: 'response.append', response_id: flight.responseId, input, ...lane }))
    } catch (error) {
      this.#abandon(link, flight, new ClientError('The calls of the rollout could not be answered', error))
    }
  }
  /** The caller hears of the failure at once; the server is told to end the response. */
  #abandon(link: Link, flight: Flight, error: ClientError): void {
    if (flight.isOver) return
    flight.fail(error)
    link.giveUp(flight)
  }

  #rejected(link: Link, flight: Flight, event: ServerEvent): void {
    const rejection = new RequestRejected(event)
    const { code } = rejection.error
    const again = !flight.draining && flight.untold && flight.sends <= this.#attempts
    this.#leave(link, flight)
    if (flight.plan) link.history.forget(flight.plan)
    // A server of another version may know other settings.
    const tooLean = flight.echo !== undefined && rejection.error.param?.startsWith('continuo') === true
    if (tooLean && code !== 'previous_response_not_found') link.lean = false
    if (again && (tooLean || code === 'previous_response_not_found') && flight.plan?.previous !== undefined) {
      // The socket is sound and may carry other calls: the full input goes out on it at once.
      flight.plan = inFull(flight.plan)
      this.#queue.unshift(flight)
    } else if (code === 'websocket_connection_limit_reached') {
      this.#retire(link)
      if (again) this.#requeue([flight])
      else flight.fail(rejection)
    } else flight.fail(rejection)
    link.endIfUnheard()
    this.#pump()
  }

  #release(link: Link, flight: Flight): void {
    this.#leave(link, flight)
    link.endIfUnheard()
    this.#pump()
  }
  #leave(link: Link, flight: Flight): void {
    if (flight.lane !== undefined && link.flights.get(flight.lane) === flight) link.flights.delete(flight.lane)
    if (link.retired && link.flights.size === 0) {
      this.#retiring.delete(link)
      link.close()
    }
  }
  #retire(link: Link): void {
    link.retired = true
    if (this.#link === link) this.#link = undefined
    if (link.flights.size > 0) this.#retiring.add(link)
    else link.close()
  }
  /** Puts calls back to be sent in full on another socket, in their order, before all others. */
  #requeue(flights: readonly Flight[]): void {
    for (const flight of flights) flight.plan = undefined
    this.#queue.unshift(...flights)
  }

  // ── cancelling ─────────────────────────────────────────────────────────────────────────────────────────────────────

  #cancelled(flight: Flight): void {
    const at = this.#queue.indexOf(flight)
    if (at >= 0) this.#queue.splice(at, 1)
    for (const link of this.#links()) {
      if (flight.lane === undefined || link.flights.get(flight.lane) !== flight) continue
      link.giveUp(flight)
    }
    this.#pump()
  }

  // ── sockets come and go ────────────────────────────────────────────────────────────────────────────────────────────

  #dial(): void {
    if (this.#link || this.#closed || this.#backoff !== undefined) return
    this.#link = new Link(this.#linkOptions, {
      opened: () => {
        for (const waiter of this.#waiters.splice(0)) waiter.resolve()
        this.#pump()
      },
      failed: (link, error) => this.#failed(link, error),
      event: (link, event, bytes) => this.#received(link, event, bytes),
      gone: (link, code, reason) => this.#gone(link, code, reason),
    })
  }
  #failed(link: Link, error: ClientError): void {
    if (this.#link === link) this.#link = undefined
    if (this.#closed) return
    const hopeless = error instanceof UpgradeRefused && !error.transient
    if (hopeless || this.#failures >= this.#attempts) {
      this.#failures = 0
      for (const waiter of this.#waiters.splice(0)) waiter.reject(error)
      for (const flight of this.#queue.splice(0)) flight.fail(error)
    } else this.#later(error instanceof UpgradeRefused ? error.retryAfterMs : undefined)
  }
  #gone(link: Link, code: number, reason: string): void {
    const ours = this.#link === link
    if (ours) this.#link = undefined
    this.#retiring.delete(link)
    const lost = [...link.flights.values()]
    link.flights.clear()
    const again = lost.filter((flight) => !flight.isOver && recoverable.has(code) && this.#mayResend(flight))
    this.#requeue(again)
    for (const flight of lost) if (!again.includes(flight)) flight.fail(new ConnectionLost(code, reason))
    if (this.#closed) return
    // Calls that go out again wait first, or a server that accepts and closes would be dialled in a tight loop.
    if (ours && again.length > 0) this.#later(undefined)
    else this.#pump()
  }
  #mayResend(flight: Flight): boolean {
    return (flight.untold || this.#options.resend === 'always') && flight.sends <= this.#attempts
  }
  #later(atLeast: number | undefined): void {
    const { initialMs = 250, maxMs = 8000 } = this.#options.reconnect || {}
    const range = Math.min(maxMs, Math.max(initialMs * 2 ** this.#failures, atLeast ?? 0))
    this.#failures++
    clearTimeout(this.#backoff)
    this.#backoff = setTimeout(
      () => {
        this.#backoff = undefined
        if (this.#queue.length > 0 || this.#waiters.length > 0) this.#dial()
      },
      range * (0.5 + Math.random() / 2),
    )
  }
}
