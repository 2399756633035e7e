// The events of one response, in order, for whoever reads them: now, slowly, or later from another socket.
// The turn appends, readers follow with a cursor. Bounded: old deltas of one part are joined before anything is dropped.
import { ApiError } from '../protocol/errors.ts'
import { encodeEvent, isDelta, isTerminal, type Body, type DeltaEvent, type Event } from '../protocol/events.ts'
import type { Entry, Outlet } from './ports.ts'

/** A line holds one event, or the joined deltas of one part under the number of the last of them. */
class Line implements Entry {
  readonly event: Event
  /** Number of the first event in it. */
  readonly first: number
  /** Where each joined delta ends in `event.delta`, the first one's end first. */
  readonly ends: readonly number[] | undefined
  #json: string | undefined = undefined
  constructor(event: Event, first: number, ends?: readonly number[]) {
    this.event = event
    this.first = first
    this.ends = ends
  }
  json(): string {
    return (this.#json ??= encodeEvent(this.event))
  }
  /** Everybody who was waiting for it has it: the object can make the JSON again. */
  forget(): void {
    this.#json = undefined
  }
  get bytes(): number {
    return isDelta(this.event) ? 160 + this.event.delta.length + (this.ends?.length ?? 0) * 8 : 700
  }
  /** What follows number `after` inside this line. */
  rest(after: number): Line {
    if (!this.ends || after < this.first || !isDelta(this.event)) return this
    const from = this.ends[after - this.first] ?? 0
    return new Line({ ...this.event, delta: this.event.delta.slice(from) }, after + 1)
  }
}
type Reader = { readonly outlet: Outlet; next: number; waiting: boolean }
/** Entries a reader takes per flush, so that a replay of thousands is paced like a live stream. */
const perFlush = 256

export class Log {
  readonly id: string
  readonly owner: string
  #lines: Line[] = []
  #next = 0
  #bytes = 0
  #terminal: Event | undefined = undefined
  #closed = false
  readonly #limit: number
  readonly #readers = new Set<Reader>()
  #room: Promise<void> | undefined = undefined
  #free: (() => void) | undefined = undefined

  /** `limit`: bytes the events may hold, roughly. */
  constructor(id: string, owner: string, limit: number) {
    this.id = id
    this.owner = owner
    this.#limit = limit
  }
  /** The number the next event will get. */
  get next(): number {
    return this.#next
  }
  get ended(): boolean {
    return this.#terminal !== undefined
  }
  get watched(): boolean {
    return this.#readers.size > 0
  }
  get bytes(): number {
    return this.#bytes
  }
  /** Undefined while the response runs. Word of waiting steers may follow it. */
  get terminal(): Event | undefined {
    return this.#terminal
  }

  /** Gives the event its number: its place here. */
  append(body: Body): void {
    const line = new Line({ ...body, sequence_number: this.#next } as Event, this.#next)
    this.#next++
    this.#lines.push(line)
    this.#bytes += line.bytes
    if (this.#bytes > this.#limit) this.#shrink()
    if (isTerminal(body)) this.#terminal = line.event
  }
  /**
   * Reads from the event behind number `after`. Throws `events_gone` where that one is no longer kept, `invalid_request`
   * for a number that was not given yet: such a reader would wait for ever.
   */
  attach(outlet: Outlet, after = -1): void {
    if (after >= this.#next && after >= 0)
      throw new ApiError('invalid_request', `There is no event ${after} yet.`, 'starting_after')
    if (after + 1 < (this.#lines[0]?.first ?? 0)) throw new ApiError('events_gone', undefined, 'starting_after')
    this.#readers.add({ outlet, next: after + 1, waiting: false })
    void this.flush()
  }
  detach(outlet: Outlet): void {
    for (const reader of this.#readers) if (reader.outlet === outlet) this.#readers.delete(reader)
    this.#free?.()
  }

  /** Nothing follows any more: readers that have it all are let go, and with them the connections behind them. */
  close(): void {
    this.#closed = true
    void this.flush()
  }
  /** Lets every reader catch up. A promise only when every reader is slow: then the engine should be, too. */
  flush(): Promise<void> | undefined {
    let free = this.#readers.size === 0
    for (const reader of this.#readers) {
      this.#pump(reader)
      if (!reader.waiting) free = true
    }
    if (free) return undefined
    return (this.#room ??= new Promise((resolve) => {
      this.#free = (): void => {
        this.#room = this.#free = undefined
        resolve()
      }
    }))
  }
  #pump(reader: Reader): void {
    while (!reader.waiting && reader.next < this.#next) {
      let at = this.#find(reader.next)
      if (at < 0) {
        this.#readers.delete(reader)
        this.#free?.()
        return reader.outlet.end(
          new ApiError('events_gone', 'This reader was too slow; events it had not read are gone.'),
        )
      }
      for (let n = 0; n < perFlush && at < this.#lines.length; n++, at++) {
        const line = this.#lines[at]
        if (!line) break
        reader.outlet.send(line.rest(reader.next - 1))
        reader.next = line.event.sequence_number + 1
        if (this.#readers.size === 1) line.forget()
      }
      const slow = reader.outlet.flush()
      if (slow) {
        reader.waiting = true
        void slow.then(() => {
          reader.waiting = false
          if (this.#readers.has(reader)) this.#pump(reader)
          if (!reader.waiting) this.#free?.()
        })
      }
    }
    if (this.#closed && !reader.waiting) this.#readers.delete(reader)
  }
  /** Index of the line that holds number `n`; -1 where it was dropped. */
  #find(n: number): number {
    const first = this.#lines[0]?.first ?? this.#next
    if (n < first) return -1
    if (this.#lines.length === this.#next - first) return n - first
    let low = 0
    let high = this.#lines.length - 1
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if ((this.#lines[middle]?.first ?? 0) <= n) low = middle
      else high = middle - 1
    }
    return low
  }
  /**
   * Joins neighbouring deltas of one part; where that is not enough, the oldest events go. What a reader that keeps up
   * has yet to read is left alone: only slow and later readers meet joined deltas, and numbers that jump over them.
   */
  #shrink(): void {
    let unread = this.#next
    for (const reader of this.#readers) if (!reader.waiting) unread = Math.min(unread, reader.next)
    const lines: Line[] = []
    let run: Line[] = []
    for (const line of this.#lines) {
      const [head] = run
      if (head && (line.event.sequence_number >= unread || !samePart(head.event, line.event))) {
        lines.push(joined(head, run))
        run = []
      }
      run.push(line)
    }
    const [head] = run
    if (head) lines.push(joined(head, run))
    this.#bytes = lines.reduce((sum, line) => sum + line.bytes, 0)
    // Down to half, so that this does not run again for every event that follows.
    let drop = 0
    const old = lines.findIndex((line) => line.event.sequence_number >= unread)
    const most = old < 0 ? lines.length - 1 : old
    if (this.#bytes > this.#limit * 0.75)
      while (this.#bytes > this.#limit / 2 && drop < most) this.#bytes -= lines[drop++]?.bytes ?? 0
    this.#lines = drop > 0 ? lines.slice(drop) : lines
  }
}

function samePart(a: Event, b: Event): boolean {
  if (!isDelta(a) || !isDelta(b) || a.type !== b.type || a.item_id !== b.item_id) return false
  return !('content_index' in a) || !('content_index' in b) || a.content_index === b.content_index
}
function joined(head: Line, run: readonly Line[]): Line {
  const last = run.at(-1)
  if (!last || run.length === 1) return head
  let delta = ''
  const ends: number[] = []
  for (const line of run) {
    if (!isDelta(line.event)) continue
    const { delta: text } = line.event
    for (const end of line.ends ?? [text.length]) ends.push(delta.length + end)
    delta += text
  }
  return new Line({ ...last.event, delta } as DeltaEvent, head.first, ends)
}
