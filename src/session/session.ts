// One connection: lanes, what waits, what runs, what may be continued on it. A plain HTTP request is a session that
// lives for one turn. Leaves the turn itself to turn/run.ts.
import { ApiError, type ErrorCode } from '../protocol/errors.ts'
import type { Loose, SteerErrorCode } from '../protocol/events.ts'
import { newId } from '../protocol/ids.ts'
import type { Item } from '../protocol/items.ts'
import type { Create } from '../protocol/request.ts'
import { Log } from '../turn/log.ts'
import { Output } from '../turn/output.ts'
import type { Outlet, Principal } from '../turn/ports.ts'
import { Halt, type Outcome, runTurn, type Turn } from '../turn/run.ts'
import { mark, stamp } from '../turn/trace.ts'
import { Voice } from '../turn/voice.ts'
import { Continuations } from './continuations.ts'
import { Deadline } from './deadline.ts'
import { type Lane, newLane, type Steer, SteerError, successor, withSteers } from './lane.ts'
import { resolve } from './resolve.ts'
import { Rollout } from './rollout.ts'
import type { World } from './world.ts'

type Waiting = {
  readonly request: Create
  /** What a successor that nobody sent goes on with; none for a request of the client. */
  readonly steers: readonly Steer[]
  readonly outlet: Outlet
  readonly lane: Lane
  /** When its first and its last step at the door was done; 0 where nobody asks. */
  readonly received: number
  readonly parsed: number
}
export type SessionOptions = {
  /** For the log: which socket, or 'http'. */
  readonly connection: string
  /** Transient trouble starts a response and fails it, in place of a refusal. */
  readonly failsLate: boolean
  /** Sends a frame that belongs to no log. */
  readonly tell?: (frame: Loose, lane: string | undefined) => void
  /** Nothing runs or waits any more. */
  readonly onIdle?: () => void
}

export class Session {
  readonly principal: Principal
  readonly #world: World
  readonly #options: SessionOptions
  readonly #lanes = new Map<string, Lane>()
  readonly #cache: Continuations
  #waiting: Waiting[] = []
  #running = 0
  #closed = false
  /** The last responses that ended here, so that a late steer can be told so. */
  readonly #past = new Set<string>()
  readonly #prefills = new Map<string, AbortController>()

  constructor(principal: Principal, world: World, options: SessionOptions) {
    this.principal = principal
    this.#world = world
    this.#options = options
    this.#cache = new Continuations(world.limits.websocket.continuable, world.limits.websocket.continuableBytes)
  }
  /** Are rollouts switched on? */
  get rollouts(): boolean {
    return this.#world.rollouts.enabled
  }
  get idle(): boolean {
    return this.#running === 0 && this.#waiting.length === 0
  }

  /** Queues a request; the outlet hears what comes of it. Throws what refuses it at once. `received`: a `stamp()`. */
  create(request: Create, outlet: Outlet, received = 0): void {
    const { websocket } = this.#world.limits
    if (this.#world.draining())
      throw new ApiError('websocket_connection_limit_reached', 'The server is about to stop; open a new connection.')
    if (request.rollout && !this.rollouts)
      throw new ApiError(
        'unsupported_parameter',
        'Rollouts are an experiment and switched off here: set `rollouts.enabled`, or send a response.create for each step.',
        'rollout',
      )
    this.#world.authorise(this.principal, request.settings.model)
    const starts = this.#running < websocket.inFlight && !this.#lanes.get(request.lane ?? '')?.running
    if (!starts && this.#waiting.length >= websocket.queued)
      throw new ApiError('rate_limit_exceeded', `${websocket.queued} requests already wait on this connection.`)
    this.#waiting.push({ request, steers: [], outlet, lane: this.#lane(request.lane), received, parsed: stamp() })
    this.#move()
  }

  /** Adds user input to a running response. Throws SteerError. `sent`: the input as it came, to hand back. */
  steer(target: string, input: readonly Item[], sent: unknown): void {
    const lane = [...this.#lanes.values()].find((l) => l.running?.turn.id === target)
    const turn = lane?.running?.turn
    if (!lane || !turn || turn.events.ended) {
      if (this.#past.has(target) || turn) throw new SteerError('response_already_completed', 'The response has ended.')
      if (this.#world.live.turn(target, this.principal.owner))
        throw new SteerError('response_not_active', 'The response does not run on this connection.')
      throw new SteerError('response_not_found', `Response with id '${target}' not found.`)
    }
    if (turn.output.compacting || !turn.request.generate)
      throw new SteerError('steering_not_supported', 'A warm-up or a compaction cannot be steered.')
    if (turn.rollout)
      throw new SteerError('steering_not_supported', 'A rollout cannot be steered; append the message to an output.')
    if (lane.steers.length >= this.#world.limits.websocket.pendingSteers)
      throw new SteerError('too_many_pending_steers', `${lane.steers.length} steers already wait for this response.`)
    const id = newId('steer')
    lane.steers.push({ id, input, sent })
    turn.output.steerAccepted(id)
    void turn.output.flush()
  }

  /** Hands what its client says to a rollout of this connection. Throws ApiError; the rollout goes on all the same. */
  append(target: string, items: readonly Item[]): void {
    const lane = [...this.#lanes.values()].find((l) => l.running?.turn.id === target)
    const refuse = (code: ErrorCode, message?: string): ApiError => new ApiError(code, message, 'response_id')
    if (lane?.running && !lane.running.turn.events.ended) {
      if (!lane.running.rollout) throw refuse('not_a_rollout')
      this.#world.authorise(this.principal, lane.running.turn.request.settings.model)
      return lane.running.rollout.append(items)
    }
    if (lane || this.#past.has(target))
      throw refuse('response_not_active', 'The response has ended; go on with `previous_response_id`.')
    if (this.#world.live.turn(target, this.principal.owner)) throw refuse('response_not_active')
    throw refuse('response_not_found', `Response with id '${target}' not found.`)
  }
  /** The server is about to stop: rollouts that wait for their client end now, others at their next calls. */
  drain(): void {
    for (const lane of this.#lanes.values()) lane.running?.rollout?.drain()
  }

  /** Ends a response of this connection where it is. False for one that has ended; throws `response_not_found` for an unknown one. */
  interrupt(target: string, discard: boolean): boolean {
    for (const lane of this.#lanes.values())
      if (lane.running?.turn.id === target) {
        lane.running.turn.stop.abort(new Halt('interrupted', discard))
        return true
      }
    if (!this.#past.has(target))
      throw new ApiError('response_not_found', `Response with id '${target}' not found.`, 'response_id')
    return false
  }

  /** The connection is gone: what waits is dropped, what runs is cancelled, now or when nobody has come back for it. */
  close(): void {
    this.#closed = true
    this.#waiting = []
    for (const prefill of this.#prefills.values()) prefill.abort()
    for (const lane of this.#lanes.values()) {
      if (!lane.running) continue
      const { turn, outlet } = lane.running
      turn.events.detach(outlet)
      const { detachGraceMs } = this.#world.limits
      const look = (): void => {
        if (turn.events.ended) return
        // Somebody reads it; but that reader may leave as well.
        if (turn.events.watched) setTimeout(look, Math.max(detachGraceMs, 500)).unref()
        else turn.stop.abort(new Halt('cancelled'))
      }
      if (detachGraceMs > 0) setTimeout(look, detachGraceMs).unref()
      else look()
    }
  }

  #lane(name = ''): Lane {
    let lane = this.#lanes.get(name)
    if (lane) return lane
    const named = this.#lanes.size - (this.#lanes.has('') ? 1 : 0)
    if (name !== '' && named >= this.#world.limits.websocket.namedLanes)
      throw new ApiError(
        'websocket_stream_limit_reached',
        `This connection has named ${named} lanes; reuse one of them.`,
        'stream_id',
      )
    lane = newLane(name)
    this.#lanes.set(name, lane)
    return lane
  }

  /** The one place where a waiting request becomes a running turn: in order of arrival, one per lane. */
  #move(): void {
    for (let at = 0; at < this.#waiting.length && !this.#closed;) {
      const next = this.#waiting[at]
      if (!next || this.#running >= this.#world.limits.websocket.inFlight) return
      if (next.lane.running) {
        at++
        continue
      }
      this.#waiting.splice(at, 1)
      this.#running++
      void this.#run(next).finally(() => {
        this.#running--
        this.#move()
        if (this.idle) this.#options.onIdle?.()
      })
    }
  }

  async #run(next: Waiting): Promise<void> {
    const { request: asked, outlet, lane } = next
    const { limits, live, seal } = this.#world
    if (lane.awaits !== undefined && asked.previous !== lane.awaits)
      this.#failSteers(lane, lane.awaits, 'The conversation went on without it.')
    const unasked = next.steers.length > 0
    const steered = unasked ? next : withSteers(lane, asked)
    const request = this.#cache.filled(steered.request)
    const { steers } = steered
    const id = newId('resp')
    const events = new Log(id, this.principal.owner, limits.events.perResponse)
    const stop = new AbortController()
    const output = new Output(id, request, events, this.principal, seal)
    const turnTime = new Deadline(limits.turnMs, () =>
      stop.abort(new ApiError('server_error', `The response took longer than ${limits.turnMs} ms.`)),
    )
    const { rollouts, draining } = this.#world
    const bounds = { ...rollouts, conversationBytes: limits.conversationBytes }
    const rollout = request.rollout ? new Rollout(output, stop.signal, turnTime, bounds, draining) : undefined
    const turn: Turn = {
      id,
      principal: this.principal,
      request,
      events,
      stop,
      output,
      rollout,
      failsLate: this.#options.failsLate,
      resolve: () => {
        if (unasked) this.#world.authorise(this.principal, request.settings.model)
        if (request.previous !== undefined) this.#prefills.get(request.previous)?.abort()
        return resolve(request, this.principal, this.#cache, this.#world)
      },
      steered: () => lane.steers.length > 0 && lane.awaits === undefined,
      keep: (chain) => {
        this.#cache.keep(id, chain, lane.name, request.settings)
        if (!this.#world.settle.isGone(id)) this.#world.index.add(chain, request.store)
      },
    }
    const begun = performance.now()
    lane.running = { turn, outlet, rollout }
    if (next.received > 0) mark(id, 'received', next.received)
    if (next.parsed > 0) mark(id, 'parsed', next.parsed)
    mark(id, 'dequeued')
    live.add(turn)
    events.attach(outlet)
    try {
      const outcome = await runTurn(turn, this.#world)
      this.#note(turn, outcome, begun)
      this.#past.add(id)
      if (this.#past.size > 1024) for (const old of this.#past) if (this.#past.size > 512) this.#past.delete(old)
      if (outcome === 'failed' && request.previous !== undefined) this.#cache.failed(request.previous, lane.name)
      if (outcome === 'stop' && !request.generate) this.#prefill(turn)
      this.#afterSteers(lane, turn, outcome, outlet)
      live.ended(id)
    } catch (e) {
      // Refused: there is no response, so nothing of it may be found.
      mark(id, 'refused')
      this.#world.note('turn refused', {
        connection: this.#options.connection,
        owner: this.principal.owner,
        code: ApiError.of(e).code,
      })
      live.drop(id)
      const error = ApiError.of(e)
      if (request.previous !== undefined) {
        this.#handBack(steers, request.previous, lane, 'successor_creation_failed', error.message)
        // The client has not asked for a successor, so it does not lose the parent over it, nor hear of it twice.
        if (!unasked) this.#cache.failed(request.previous, lane.name)
      }
      if (!unasked) outlet.refuse(error)
    } finally {
      turnTime.end()
      lane.running = undefined
    }
  }

  /** The line that tells a delta from a full resend, and what the turn cost. */
  #note({ id, request, events }: Turn, ending: Outcome, begun: number): void {
    const { terminal } = events
    const usage = terminal && 'response' in terminal ? terminal.response.usage : null
    this.#world.note('turn', {
      response: id,
      connection: this.#options.connection,
      owner: this.principal.owner,
      lane: request.lane ?? '',
      model: request.settings.model,
      delta: request.previous !== undefined,
      warmup: !request.generate,
      items: request.input.length,
      ending,
      input: usage?.input_tokens ?? 0,
      cached: usage?.input_tokens_details.cached_tokens ?? 0,
      output: usage?.output_tokens ?? 0,
      events: events.next,
      ms: Math.round(performance.now() - begun),
    })
  }

  /** What becomes of user input that was accepted while the response ran. */
  #afterSteers(lane: Lane, turn: Turn, outcome: Outcome, outlet: Outlet): void {
    if (lane.steers.length === 0 || lane.awaits !== undefined || this.#closed) return
    if (outcome === 'failed' || outcome === 'cancelled' || outcome === 'interrupted') {
      return this.#failSteers(lane, turn.id, 'The response did not end by itself.')
    }
    if (turn.output.asks) {
      lane.awaits = turn.id
      if (this.#waiting.some((w) => w.lane === lane && w.request.previous === turn.id)) return
      for (const steer of lane.steers) turn.output.steerPending(steer.id)
      void turn.output.flush()
      return
    }
    this.#waiting.unshift({ ...successor(lane, turn), outlet, lane, received: 0, parsed: 0 })
  }
  /** Hands accepted input back that can no longer be applied. */
  #failSteers(lane: Lane, target: string, message: string): void {
    this.#handBack(lane.steers, target, lane, 'response_not_active', message)
    lane.steers = []
    lane.awaits = undefined
  }
  #handBack(steers: readonly Steer[], target: string, lane: Lane, code: SteerErrorCode, message: string): void {
    const sequence_number = this.#world.live.log(target, this.principal.owner)?.next ?? 0
    for (const { id, sent } of steers) {
      const steer = { id, previous_response_id: target, input: sent }
      const error = { type: 'invalid_request_error', code, message } as const
      this.#options.tell?.(
        { type: 'response.steer.failed', sequence_number, steer, error },
        lane.name === '' ? undefined : lane.name,
      )
    }
  }

  /** After a warm-up the engine may take the prompt in; the next turn of that chain, or the end, cuts it short. */
  #prefill(turn: Turn): void {
    const chain = this.#cache.get(turn.id)
    if (!chain || this.#closed || this.#prefills.size >= this.#world.limits.websocket.inFlight) return
    const { id, principal, request } = turn
    const stop = new AbortController()
    this.#prefills.set(id, stop)
    const { settings } = request
    const read = async (): Promise<void> => {
      const model = this.#world.model(settings.model)
      const voice = new Voice(model, chain, settings, undefined)
      await voice.encode()
      stop.signal.throwIfAborted()
      const { prompt } = voice
      const call = {
        id,
        principal,
        chain,
        settings,
        prompt,
        warm: chain.warm(model.engine.id),
        mayStore: request.store && chain.mayStore,
        generate: false,
        signal: stop.signal,
      }
      for await (const _ of model.engine.generate(call));
    }
    // Nobody waits for it, and a turn that needs the engine will meet the same trouble and say so.
    void read()
      .catch(() => {})
      .finally(() => this.#prefills.delete(id))
  }
}
