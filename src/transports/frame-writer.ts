// Writes the text frames of one socket, in order. Frames are headed here and all of one turn of the event loop leave in one
// write, since a write costs more than everything else that is done for an event. What is compressed goes through the
// library, and whatever comes behind it as well until it has left; control frames are the library's own.
import type { Socket } from 'node:net'
import type { WebSocket } from 'ws'

/** Frames of fewer bytes are never compressed: it makes them longer. */
export const packFrom = 1024

export type Frame = {
  readonly json: string
  /** Compress it, where that was negotiated. */
  readonly pack: boolean
}
/** Bytes that are written without waiting for more. */
const batch = 16 * 1024

export class FrameWriter {
  readonly #ws: WebSocket
  readonly #tcp: Socket
  readonly #high: number
  readonly #packs: boolean
  /** Frames that leave at the end of this turn of the loop: a character for each byte. */
  #held = ''
  #next: NodeJS.Immediate | undefined
  /** Frames that the library has and has not written yet. */
  #packed = 0

  /** `high`: bytes waiting in the socket from which on its reader counts as slow. */
  constructor(ws: WebSocket, tcp: Socket, high: number) {
    this.#ws = ws
    this.#tcp = tcp
    this.#high = high
    this.#packs = ws.extensions.includes('permessage-deflate')
  }
  /** Bytes that have not left. */
  get waiting(): number {
    return this.#ws.bufferedAmount + this.#held.length
  }
  /** A promise only where more than `high` bytes wait in front of the last one; it resolves when that has left, or cannot. */
  send(frames: readonly Frame[]): Promise<void> | undefined {
    let slow: Promise<void> | undefined
    for (const [n, frame] of frames.entries()) {
      if (this.#ws.readyState !== this.#ws.OPEN) return slow
      if (n < frames.length - 1 || this.waiting <= this.#high) this.#put(frame)
      else slow = new Promise((resolve) => this.#put(frame, resolve))
    }
    return slow
  }
  #put({ json, pack }: Frame, left?: () => void): void {
    const bytes = Buffer.byteLength(json)
    if (this.#packed > 0 || (pack && this.#packs && bytes >= packFrom)) {
      this.flush()
      this.#packed++
      this.#ws.send(json, { compress: pack }, () => {
        this.#packed--
        left?.()
      })
      return
    }
    this.#held += headOf(bytes) + (bytes === json.length ? json : Buffer.from(json).toString('latin1'))
    if (left || this.#held.length >= batch) this.flush(left)
    else this.#next ??= setImmediate(() => this.flush())
  }
  /** Writes what is held, now: nothing may follow a close frame. */
  flush(left?: () => void): void {
    clearImmediate(this.#next)
    this.#next = undefined
    const held = this.#held
    this.#held = ''
    if (held !== '' && this.#ws.readyState === this.#ws.OPEN) this.#tcp.write(held, 'latin1', left)
    else left?.()
  }
}

/** Of a whole text frame, unmasked: RFC 6455, 5.2. */
function headOf(bytes: number): string {
  if (bytes < 126) return `\x81${String.fromCharCode(bytes)}`
  if (bytes < 65_536) return `\x81\x7e${String.fromCharCode(bytes >> 8, bytes & 255)}`
  const high = Math.floor(bytes / 2 ** 32)
  const eight = [high, bytes].flatMap((n) => [(n >>> 24) & 255, (n >>> 16) & 255, (n >>> 8) & 255, n & 255])
  return `\x81\x7f${String.fromCharCode(...eight)}`
}
