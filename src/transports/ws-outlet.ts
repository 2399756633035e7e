// Where the events of one request go on a socket: `stream_id`, what may be compressed, and the keepalive.
import type { ApiError } from '../protocol/errors.ts'
import { type Event, isDelta, isTerminal } from '../protocol/events.ts'
import type { Entry, Outlet } from '../turn/ports.ts'
import type { Frame, FrameWriter } from './frame-writer.ts'

export type Wire = {
  readonly writer: FrameWriter
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
  #held: Frame[] = []
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
    // Compression, where it was negotiated, is for big frames: on deltas it costs more than the engine.
    this.#held.push({ json: this.#tail === '}' ? text : text.slice(0, -1) + this.#tail, pack: !isDelta(entry.event) })
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
    if (held.length === 0) return undefined
    this.#held = []
    this.#sentAt = Date.now()
    return this.#wire.writer.send(held)
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
    void this.#wire.writer.send([{ json: open + this.#tail, pack: true }])
    this.#sentAt = Date.now()
  }
}
