// What a client does for one turn of a loop, over HTTP or a socket: thin, so that it costs little beside the server, and
// strict: whatever is not as the protocol says is an error of that turn.

export type Fields = Readonly<Record<string, unknown>>
export type Asked = {
  readonly type: 'function_call'
  readonly call_id: string
  readonly name: string
  readonly arguments: string
}
/** One turn as its client saw it. Times in milliseconds since it began to write the request; bytes of bodies and messages, without heads, frames and TLS. */
export type Seen = {
  readonly id: string
  /** Output items as they were done. */
  readonly items: readonly Fields[]
  readonly calls: readonly Asked[]
  readonly text: string
  readonly usage: { readonly input: number; readonly cached: number; readonly output: number }
  readonly events: number
  readonly createdMs: number
  /** The first sign of the model: an item, or a piece of one. */
  readonly firstMs: number
  readonly ms: number
  readonly bytesUp: number
  readonly bytesDown: number
}
export type Driver = {
  /** Sends the body of a `response.create`; resolves at the terminal event. Rejects unless the response completed. */
  turn(body: Fields): Promise<Seen>
  /** A rollout: `answer` is asked for the outputs of each round of calls. Resolves to each leg. Sockets of ours only. */
  rollout?(body: Fields, answer: (calls: readonly Asked[]) => Promise<readonly Fields[]>): Promise<readonly Seen[]>
  close(): Promise<void>
}
export type DriverOptions = {
  /** Base URL, `…/v1`. */
  readonly url: string
  readonly key?: string | undefined
  /** Further headers of every request, or of the upgrade. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** PEM, of a server whose certificate nobody else knows. */
  readonly ca?: string | undefined
  /** Every event as it arrives, for those who count pieces. `at` is `performance.now()`. */
  readonly onEvent?: ((type: string, at: number) => void) | undefined
  /** Of turns on a socket of ours: no number is left out, and the response ends with the items that were done. */
  readonly strict?: boolean
}
/** Longest that a turn may take before it counts as failed. */
export const patienceMs = 120_000

type Event = {
  readonly type?: unknown
  readonly sequence_number?: unknown
  readonly item?: unknown
  readonly usage?: unknown
  readonly response?: {
    readonly id?: unknown
    readonly status?: unknown
    readonly output?: unknown
    readonly usage?: unknown
  }
}

/** Reads the events of one turn, or of one leg of a rollout, and says when it is over. */
export class Reading {
  readonly #begun = performance.now()
  readonly #onEvent: DriverOptions['onEvent']
  readonly #strict: boolean
  #id = ''
  #created = 0
  #first = 0
  #events = 0
  #last: number
  readonly #items: Fields[] = []
  bytesUp = 0
  bytesDown = 0

  /** `after`: the number of the last event before, of a rollout that goes on. */
  constructor(
    { onEvent, strict = false }: Pick<DriverOptions, 'onEvent' | 'strict'> = {},
    after?: { readonly id: string; readonly last: number },
  ) {
    this.#onEvent = onEvent
    this.#strict = strict
    this.#last = after?.last ?? -1
    this.#id = after?.id ?? ''
  }
  get last(): number {
    return this.#last
  }
  /** The turn, with its last event; undefined before it. Throws for what an agent would stumble over. */
  take(text: string): Seen | undefined {
    // What a server sends; every field is looked at before it is used.
    const event = JSON.parse(text) as Event
    const { type } = event
    const now = performance.now()
    if (type === 'keepalive') return undefined
    if (type === 'error') throw new Error(`the server answers with an error: ${text.slice(0, 300)}`)
    if (typeof type !== 'string') throw new Error(`an event without a type: ${text.slice(0, 200)}`)
    if (typeof event.sequence_number === 'number') {
      if (event.sequence_number <= this.#last)
        throw new Error(`event ${event.sequence_number} came behind ${this.#last}`)
      if (this.#strict && event.sequence_number !== this.#last + 1)
        throw new Error(`event ${this.#last + 1} expected, got ${event.sequence_number} (${type})`)
      this.#last = event.sequence_number
    } else if (this.#strict) throw new Error(`${type} came without a number`)
    this.#events++
    this.#onEvent?.(type, now)
    switch (type) {
      case 'response.created':
        this.#created = now - this.#begun
        this.#id = typeof event.response?.id === 'string' ? event.response.id : ''
        return undefined
      case 'response.output_item.done':
        if (typeof event.item === 'object' && event.item !== null) this.#items.push(event.item as Fields)
        return undefined
      case 'response.done':
        return this.#seen(now, event.usage)
      case 'response.completed': {
        const { id, status, output, usage } = event.response ?? {}
        if (typeof id !== 'string' || status !== 'completed' || !Array.isArray(output))
          throw new Error('response.completed without a completed response')
        if (this.#strict && output.length !== this.#items.length)
          throw new Error(`the response ends with ${output.length} items, ${this.#items.length} were done`)
        this.#id = id
        return this.#seen(now, usage)
      }
      case 'response.failed':
      case 'response.incomplete':
        throw new Error(`the response ended with ${type}: ${text.slice(0, 300)}`)
      default:
        if (this.#first === 0 && type !== 'response.in_progress') this.#first = now - this.#begun
        return undefined
    }
  }
  #seen(now: number, usage: unknown): Seen {
    const calls = this.#items.filter((item) => item['type'] === 'function_call') as unknown as Asked[]
    return {
      id: this.#id,
      items: this.#items,
      calls,
      text: this.#items.map(textOf).join(''),
      usage: usageOf(usage),
      events: this.#events,
      createdMs: this.#created,
      firstMs: this.#first,
      ms: now - this.#begun,
      bytesUp: this.bytesUp,
      bytesDown: this.bytesDown,
    }
  }
}

function textOf(item: Fields): string {
  if (item['type'] !== 'message' || !Array.isArray(item['content'])) return ''
  return item['content'].map((part: Fields) => (typeof part['text'] === 'string' ? part['text'] : '')).join('')
}
function usageOf(usage: unknown): Seen['usage'] {
  const of = (usage ?? {}) as Fields
  const details = (of['input_tokens_details'] ?? {}) as Fields
  const whole = (n: unknown): number => (typeof n === 'number' ? n : 0)
  return {
    input: whole(of['input_tokens']),
    cached: whole(details['cached_tokens']),
    output: whole(of['output_tokens']),
  }
}
