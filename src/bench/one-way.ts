// One direction of a TCP connection over a distance, as a model without a clock: told what is written when, it says what
// arrives when. Delay is half a round trip; a sender has at most a window of bytes on the way, and learns after a whole
// round trip that they arrived. No loss, no limit of bandwidth, and every segment is acknowledged at once.
//   - the initial window is 10 segments of 1,460 bytes: RFC 6928
//   - slow start: each acknowledged byte makes the window one byte larger, so that it doubles every round trip; RFC 5681 §3.1.
//     As Linux does (tcp_is_cwnd_limited), only while at least half of the window is in use
//   - restart after idle: RFC 5681 §4.1 starts again with the initial window; Linux (tcp_slow_start_after_idle = 1, its
//     default, in tcp_cwnd_restart) halves the window for each retransmission timeout that nothing was sent, not below it
//   - that timeout is the round trip and Linux's least deviation of 200 ms (RFC 6298, TCP_RTO_MIN)

export const initialWindow = 10 * 1460
/** What a socket's buffers allow by default, about. */
const largestWindow = 4 * 1024 * 1024
const leastTimeoutMs = 200

export type Piece = { readonly bytes: number; readonly at: number }
type Flight = { readonly bytes: number; readonly knownAt: number; readonly inUse: number }

export class OneWay {
  readonly #rttMs: number
  #window = initialWindow
  /** On the way, or arrived and not yet known to be. */
  readonly #flights: Flight[] = []
  #bytes = 0
  /** When what was written so far has been sent: nothing overtakes. */
  #sentAt: number
  #lastAt: number | undefined

  /** `opensAt`: from when on this side may send. Times in milliseconds. */
  constructor(rttMs: number, opensAt: number) {
    this.#rttMs = rttMs
    this.#sentAt = opensAt
  }
  get window(): number {
    return this.#window
  }
  /** When each part of it arrives at the other side, in order. */
  send(bytes: number, now: number): readonly Piece[] {
    let at = Math.max(now, this.#sentAt)
    this.#learn(at)
    this.#restart(at)
    const pieces: Piece[] = []
    for (let left = bytes; left > 0;) {
      const room = this.#window - this.#bytes
      if (room <= 0) {
        at = Math.max(at, this.#flights[0]?.knownAt ?? at)
        this.#learn(at)
        continue
      }
      const part = Math.min(room, left)
      left -= part
      this.#bytes += part
      this.#flights.push({ bytes: part, knownAt: at + this.#rttMs, inUse: this.#bytes })
      pieces.push({ bytes: part, at: at + this.#rttMs / 2 })
      this.#lastAt = at
    }
    this.#sentAt = at
    return pieces
  }
  /** When a sign without bytes, such as the end, arrives behind everything else. */
  arrival(now: number): number {
    return Math.max(now, this.#sentAt) + this.#rttMs / 2
  }

  /** Takes up what the sender knows by now to have arrived. */
  #learn(now: number): void {
    for (let first = this.#flights[0]; first && first.knownAt <= now; first = this.#flights[0]) {
      this.#flights.shift()
      this.#bytes -= first.bytes
      if (this.#window < 2 * first.inUse) this.#window = Math.min(largestWindow, this.#window + first.bytes)
    }
  }
  #restart(now: number): void {
    if (this.#lastAt === undefined || this.#bytes > 0) return
    const timeout = this.#rttMs + leastTimeoutMs
    for (let idle = now - this.#lastAt - timeout; idle > 0 && this.#window > initialWindow; idle -= timeout)
      this.#window = Math.max(initialWindow, Math.floor(this.#window / 2))
  }
}
