// Which envelopes of a socket must leave out settings: those of requests that said so, and of what follows by steering.
type Loose = { readonly [key: string]: unknown }
const record = (value: unknown): Loose => (typeof value === 'object' && value !== null ? (value as Loose) : {})
const laneOf = (frame: Loose): string => (typeof frame['stream_id'] === 'string' ? frame['stream_id'] : '')

export class LeanWishes {
  /** Per lane, of the requests that have no response yet, in order. */
  readonly #asked = new Map<string, boolean[]>()
  readonly #lean = new Map<unknown, boolean>()
  /** Responses that another one follows by itself. */
  readonly #steered = new Set<unknown>()

  /** What the client sent. */
  sent(value: unknown): void {
    const frame = record(value)
    if (frame['type'] !== 'response.create') return
    const lane = laneOf(frame)
    this.#asked.set(lane, [...(this.#asked.get(lane) ?? []), record(frame['continuo'])['echo'] === false])
  }
  /** Must this frame of the server be lean? Asked once for each, in order. */
  of(value: unknown): boolean {
    const frame = record(value)
    const { id, previous_response_id: previous } = record(frame['response'])
    const steered = record(frame['steer'])['previous_response_id']
    switch (frame['type']) {
      case 'response.steer.accepted':
        this.#steered.add(steered)
        return false
      case 'response.steer.pending':
        this.#steered.delete(steered)
        return false
      case 'error':
        this.#asked.get(laneOf(frame))?.shift()
        return false
      case 'response.created': {
        const wish = this.#steered.delete(previous) ? this.#lean.get(previous) : this.#asked.get(laneOf(frame))?.shift()
        this.#lean.set(id, wish ?? false)
      }
    }
    return this.#lean.get(id) ?? false
  }
}
