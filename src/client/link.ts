// One socket, from dialling to its end: frames in and out, who is in flight on which lane, and signs of life.
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { WebSocket } from 'ws'
import { RequestRejected, UpgradeRefused, Unreachable, type ClientError } from './failures.ts'
import type { Flight } from './flight.ts'
import { parseFrame, type ServerEvent } from './frame.ts'
import { History } from './history.ts'
import { extensionsHeader, leanExtension } from '../protocol/lean.ts'

export type LinkOptions = {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly compression: boolean
  /** Milliseconds for TCP, TLS and the upgrade together. */
  readonly handshakeMs: number
  /** Largest frame taken in, in bytes; a larger one ends the socket with 1009. */
  readonly maxFrameBytes: number
  /** Milliseconds without any frame, while a call runs, after which a ping asks for a sign of life. */
  readonly quietMs: number
  /** Milliseconds the ping has. */
  readonly pongMs: number
  /** Conversations kept for deltas. */
  readonly conversations: number
}

export type LinkListener = {
  opened(link: Link): void
  /** No socket came about. */
  failed(link: Link, error: ClientError): void
  event(link: Link, event: ServerEvent, bytes: number): void
  /** An open socket ended. `code` 1006: without a close frame. */
  gone(link: Link, code: number, reason: string): void
}

const maxBody = 65_536
/** How long an interrupted response may take to end. */
const drainMs = 10_000
export const defaultLane = ''

export class Link {
  readonly history: History
  /** The call in flight on each lane; the lane without a name is ''. */
  readonly flights = new Map<string, Flight>()
  /** Version of a Continuo server at the other end, from `x-continuo`; undefined for any other. */
  server: string | undefined
  /** The server offers lean turns. */
  lean = false
  /** Whether the server tells lanes apart: true once it echoed a `stream_id`, false once it left one out. */
  lanes: boolean | undefined
  /** True when no further call goes out here, since the server takes none. */
  retired = false
  /** Lane names used here, the longest unused first. */
  readonly names = new Set<string>()
  #state: 'opening' | 'open' | 'over' = 'opening'
  readonly #ws: WebSocket
  readonly #options: LinkOptions
  readonly #listener: LinkListener
  #socket: Socket | undefined
  #cause: Error | undefined
  #overdue: [code: number, reason: string] | undefined
  #heard = 0
  #asked = 0
  #watch: NodeJS.Timeout | undefined

  constructor(options: LinkOptions, listener: LinkListener) {
    this.#options = options
    this.#listener = listener
    this.history = new History(options.conversations)
    this.#ws = new WebSocket(options.url, {
      headers: { ...options.headers },
      perMessageDeflate: options.compression,
      handshakeTimeout: options.handshakeMs,
      maxPayload: options.maxFrameBytes,
    })
    const ws = this.#ws
    ws.on('upgrade', (response) => {
      const version = response.headers['x-continuo']
      if (typeof version === 'string') {
        this.server = version
        this.lanes = true
      }
      const offered = String(response.headers[extensionsHeader] ?? '')
      this.lean = offered.split(',').some((name) => name.trim() === leanExtension)
      this.#socket = response.socket
    })
    ws.on('open', () => {
      this.#state = 'open'
      this.#alive()
      this.hold(false)
      listener.opened(this)
    })
    ws.on('unexpected-response', (_request, response) => this.#refused(response))
    ws.on('message', (data, binary) => {
      this.#alive()
      // Events are text; ws hands text over as one Buffer unless told otherwise.
      if (!binary && data instanceof Buffer) this.#frame(data)
    })
    ws.on('ping', () => this.#alive())
    ws.on('pong', () => this.#alive())
    ws.on('error', (error) => (this.#cause = error))
    ws.on('close', (code, reason) => this.#closed(code, reason.toString()))
  }

  get isOpen(): boolean {
    return this.#state === 'open'
  }
  send(frame: string): void {
    if (this.#state === 'open') this.#ws.send(frame, { binary: false }, ignore)
  }
  /** Whose an event is; undefined for nobody's, such as what still comes of a response that was given up. */
  owner(event: ServerEvent): Flight | undefined {
    if (typeof event.stream_id === 'string') {
      const flight = this.flights.get(event.stream_id)
      if (flight) this.lanes = true
      return flight
    }
    const flight = this.flights.get(defaultLane)
    if (flight) return flight
    // The answer to an interrupt that came too late is about no call here.
    if (event.type === 'error' && new RequestRejected(event).error.code === 'response_not_found') return undefined
    const all = [...this.flights.values()]
    if (event.type !== 'error' && all.length > 0) this.lanes ??= false
    if (all.length === 1) return all[0]
    // A refusal of a request comes before anything else of it. Anything else cannot be told apart and is nobody's.
    return event.type === 'error' ? all.find((flight) => !flight.heard) : undefined
  }
  /**
   * A lane for a call that named none: the one it likes if that is free, else a new one while there are names left, else
   * the one unused for longest. `named` are the caller's own lanes, which count towards `max`.
   */
  freeLane(named: ReadonlySet<string>, max: number, liked?: string): string | undefined {
    if (liked !== undefined && !named.has(liked) && !this.flights.has(liked)) return liked
    const pool = Array.from({ length: Math.max(0, max - named.size) }, (_, n) => `call-${n}`).filter(
      (name) => !named.has(name),
    )
    const unused = pool.find((name) => !this.names.has(name))
    if (unused !== undefined) return unused
    for (const name of this.names) if (pool.includes(name) && !this.flights.has(name)) return name
    return undefined
  }
  /**
   * Nobody wants the rest of this response. Continuo stops one when told to, by the id that `response.created` brings, so
   * this is called again then. Other servers take the end of the socket for a cancel.
   */
  giveUp(flight: Flight): void {
    flight.draining = true
    if (this.server === undefined) return this.endIfUnheard()
    if (flight.responseId === undefined) return
    this.send(JSON.stringify({ type: 'response.interrupt', response_id: flight.responseId }))
    setTimeout(() => {
      if (this.flights.get(flight.lane ?? defaultLane) === flight) this.endIfUnheard(true)
    }, drainMs).unref()
  }
  /** Drops the socket if all that still comes is for nobody. Continuo is first given time to end it properly. */
  endIfUnheard(overdue = false): void {
    if ((this.server !== undefined && !overdue) || this.flights.size === 0) return
    for (const flight of this.flights.values()) if (!flight.draining) return
    this.drop(1000, 'nobody listens')
  }
  /** Ends the socket in good order. */
  close(code = 1000): void {
    this.hold(false)
    if (this.#state === 'opening') this.#ws.terminate()
    else this.#ws.close(code)
  }
  /** Ends the socket at once, reported as `code`. */
  drop(code: number, reason: string): void {
    this.#overdue ??= [code, reason]
    this.#ws.terminate()
  }
  /** While a call runs or waits the socket is watched and keeps the process alive; an idle one does neither. */
  hold(busy: boolean): void {
    if (busy) {
      this.#socket?.ref()
      if (this.#watch !== undefined || this.#state !== 'open') return
      this.#alive()
      this.#watch = setInterval(
        () => this.#check(),
        Math.max(20, Math.min(this.#options.quietMs, this.#options.pongMs) / 4),
      ).unref()
    } else {
      this.#socket?.unref()
      clearInterval(this.#watch)
      this.#watch = undefined
    }
  }

  #alive(): void {
    this.#heard = performance.now()
    this.#asked = 0
  }
  #check(): void {
    const now = performance.now()
    if (this.#asked > 0) {
      if (now - this.#asked > this.#options.pongMs) this.drop(1006, 'no sign of life')
    } else if (now - this.#heard > this.#options.quietMs) {
      this.#asked = now
      this.#ws.ping(undefined, undefined, ignore)
    }
  }
  #frame(data: Buffer): void {
    const frame = parseFrame(data.toString())
    // A call whose end cannot be read would wait for ever; 1007 is not tried again.
    if (typeof frame === 'string') this.drop(1007, frame)
    else if (frame) this.#listener.event(this, frame, data.length)
  }
  #refused(response: IncomingMessage): void {
    const chunks: Buffer[] = []
    let size = 0
    const end = (): void => {
      if (this.#state !== 'opening') return
      this.#state = 'over'
      clearTimeout(limit)
      const body = Buffer.concat(chunks).subarray(0, maxBody).toString()
      this.#ws.terminate()
      this.#listener.failed(this, new UpgradeRefused(response.statusCode ?? 500, body, response.headers['retry-after']))
    }
    const limit = setTimeout(end, 2000)
    response.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      size += chunk.length
      if (size >= maxBody) end()
    })
    response.on('end', end)
    response.on('error', end)
    response.on('close', end)
  }
  #closed(code: number, reason: string): void {
    const was = this.#state
    this.#state = 'over'
    this.hold(false)
    if (was === 'over') return
    if (was === 'opening')
      return this.#listener.failed(
        this,
        new Unreachable(`No connection to ${this.#options.url}: ${this.#cause?.message ?? 'closed'}`, this.#cause),
      )
    const [realCode, realReason] = this.#overdue ?? [code, reason]
    this.#listener.gone(this, realCode, realReason || (this.#cause?.message ?? ''))
  }
}

function ignore(): void {
  // A failed write shows as the end of the socket.
}
