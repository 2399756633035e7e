// Where the events of one request go on a socket: framing, `stream_id`, one write per flush, and the keepalive.
import type { WebSocket } from 'ws'
import type { Socket } from 'node:net'
import type { ApiError } from '../protocol/errors.ts'
import { type Event, isDelta, isTerminal } from '../protocol/events.ts'
import type { Entry, Outlet } from '../turn/ports.ts'

export type Wire = {
  /** Bytes waiting in the socket from which on its reader counts as slow. */
  readonly high: number
  readonly ws: WebSocket
  readonly socket: Socket
  /** A response has started; after steering it may be the second of its request. */
  began(outlet: WsOutlet): void
  /** A request of this connection has ended, and how. */
  ended(outlet: WsOutlet, how: 'completed' | 'broken' | 'refused'): void
  /** The client cannot keep up: nothing more can be said on this socket. */
  tooSlow(): void
}

/** The `,"stream_id":…}` that closes a frame of a named lane. */
export const tailOf = (lane: string | undefined): string =>
  lane === undefined ? '}' : `,"stream_id":${JSON.stringify(lane)}}`

/** Failed or incomplete, other than by steering, where the next response follows by itself. */
const brokenOff = (event: Event): boolean =>
  'response' in event && event.type !== 'response.completed' && event.response.incomplete_details?.reason !== 'steered'

export class WsOutlet implements Outlet {
  readonly lane: string | undefined
  /** A response has been created and has not ended. */
  running = false
  readonly #wire: Wire
  readonly #tail: string
  #held: { json: string; small: boolean }[] = []
  /** The newest number on the wire; 0 before `response.created`. */
  #last = 0
  #sentAt = Date.now()

  constructor(wire: Wire, lane: string | undefined) {
    this.#wire = wire
    this.lane = lane
    this.#tail = tailOf(lane)
  }
  send(entry: Entry): void {
    const text = entry.json()
    this.#held.push({ json: this.#tail === '}' ? text : text.slice(0, -1) + this.#tail, small: isDelta(entry.event) })
    this.#last = entry.event.sequence_number
    if (entry.event.type === 'response.created') {
      this.running = true
      this.#wire.began(this)
    } else if (isTerminal(entry.event)) {
      this.running = false
      this.#wire.ended(this, brokenOff(entry.event) ? 'broken' : 'completed')
    }
  }
  flush(): Promise<void> | undefined {
    const held = this.#held
    const { ws, socket, high } = this.#wire
    if (held.length === 0) return undefined
    this.#held = []
    if (ws.readyState !== ws.OPEN) return undefined
    this.#sentAt = Date.now()
    const last = held.pop()
    socket.cork()
    // Compression, where it was negotiated, is for big frames: on deltas it costs more than the engine.
    for (const frame of held) ws.send(frame.json, { compress: !frame.small })
    let slow: Promise<void> | undefined
    if (last && ws.bufferedAmount > high)
      slow = new Promise((resolve) => ws.send(last.json, { compress: !last.small }, () => resolve()))
    else if (last) ws.send(last.json, { compress: !last.small })
    socket.uncork()
    return slow
  }
  refuse(error: ApiError): void {
    this.#frame(
      `{"type":"error","status":${error.status},"sequence_number":${this.#last},"error":${JSON.stringify(error.body)}`,
    )
    this.#wire.ended(this, 'refused')
  }
  end(): void {
    this.#wire.tooSlow()
  }
  /** Sends a sign of life if nothing was sent for `silence` milliseconds. It takes no number and is in no log. */
  keepalive(now: number, silence: number): void {
    if (now - this.#sentAt < silence) return
    this.#frame(`{"type":"keepalive","sequence_number":${this.#last}`)
  }
  #frame(open: string): void {
    const { ws } = this.#wire
    if (ws.readyState === ws.OPEN) ws.send(open + this.#tail)
    this.#sentAt = Date.now()
  }
}
