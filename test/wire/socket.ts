// A test client of the socket on top of `ws`. Every frame it receives goes through the schemas and, per response, through
// the grammar; what is wrong fails the running test (violations.ts).
import { once } from 'node:events'
import { WebSocket, type ClientOptions } from 'ws'
import { checkEvent } from './check.ts'
import { Grammar } from './grammar.ts'
import { LeanWishes } from './lean.ts'
import { violation } from './violations.ts'

export type Frame = { readonly type: string; readonly [key: string]: unknown }
export type WireResponse = {
  readonly id: string
  readonly status: string
  readonly output: readonly { readonly type: string; readonly [key: string]: unknown }[]
  readonly error: { readonly code: string; readonly message: string } | null
  readonly incomplete_details: { readonly reason: string } | null
  readonly usage: {
    readonly input_tokens: number
    readonly output_tokens: number
    readonly total_tokens: number
  } | null
  readonly [key: string]: unknown
}
/** How a turn went: its response as the terminal event shows it, or the code of the error frame that refused it. */
export type Turned = {
  readonly events: readonly Frame[]
  readonly response: WireResponse | undefined
  readonly error:
    | { readonly code: string; readonly message: string; readonly param: string | null; readonly status: number }
    | undefined
  /** Text of all output messages. */
  readonly text: string
  readonly calls: readonly { readonly call_id: string; readonly name: string; readonly [key: string]: unknown }[]
}
export type Closed = { readonly code: number; readonly reason: string }
type Waiter = { readonly events: Frame[]; created: boolean; resolve(turned: Turned): void; reject(e: Error): void }
type Reader = { readonly match: (frame: Frame) => boolean; readonly resolve: (frame: Frame) => void }

const terminal = new Set(['response.completed', 'response.failed', 'response.incomplete'])
const laneOf = (frame: { readonly [key: string]: unknown }): string =>
  typeof frame['stream_id'] === 'string' ? frame['stream_id'] : ''
const idOf = (value: unknown, key = 'id'): string => {
  const id = typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[key] : undefined
  return typeof id === 'string' ? id : ''
}

export class Socket {
  readonly ws: WebSocket
  /** Everything received, in order. */
  readonly frames: Frame[] = []
  readonly closed: Promise<Closed>
  readonly #lean = new LeanWishes()
  #inbox: Frame[] = []
  readonly #readers = new Set<Reader>()
  readonly #lanes = new Map<string, Grammar>()
  readonly #responses = new Map<string, Grammar>()
  readonly #waiting = new Map<string, Waiter[]>()
  /** Lanes whose last request asked for a rollout. */
  readonly #rollouts = new Set<string>()

  constructor(ws: WebSocket) {
    this.ws = ws
    ws.on('message', (data: Buffer, binary: boolean) => this.#received(data, binary))
    this.closed = new Promise((resolve) => {
      ws.on('close', (code, reason) => {
        for (const waiters of this.#waiting.values())
          for (const w of waiters) w.reject(new Error(`socket closed with ${code} ${reason.toString()}`))
        this.#waiting.clear()
        resolve({ code, reason: reason.toString() })
      })
    })
  }
  send(frame: unknown): void {
    this.#lean.sent(frame)
    if (typeof frame === 'object' && frame !== null && 'type' in frame && frame.type === 'response.create') {
      const body = frame as { readonly [key: string]: unknown }
      if (body['rollout'] === true) this.#rollouts.add(laneOf(body))
      else this.#rollouts.delete(laneOf(body))
    }
    this.ws.send(typeof frame === 'string' ? frame : JSON.stringify(frame))
  }
  /** The oldest frame that matches and was not taken yet. Frames of `turn` can be taken as well. */
  next(match: string | ((frame: Frame) => boolean) = () => true, timeoutMs = 8000): Promise<Frame> {
    const fits = typeof match === 'string' ? (frame: Frame) => frame.type === match : match
    const at = this.#inbox.findIndex(fits)
    const [found] = at < 0 ? [] : this.#inbox.splice(at, 1)
    if (found) return Promise.resolve(found)
    return new Promise((resolve, reject) => {
      const what = typeof match === 'string' ? match : match.toString()
      const timer = setTimeout(() => {
        this.#readers.delete(reader)
        reject(
          new Error(
            `no frame ${what} within ${timeoutMs} ms; last was ${JSON.stringify(this.frames.at(-1))?.slice(0, 300)}`,
          ),
        )
      }, timeoutMs)
      const reader: Reader = {
        match: fits,
        resolve: (frame) => {
          clearTimeout(timer)
          resolve(frame)
        },
      }
      this.#readers.add(reader)
    })
  }
  /** What was received so far can no longer be taken. */
  skip(): void {
    this.#inbox = []
  }
  /** Sends `response.create` and reads on until that response, or the error instead of it, is there. */
  async turn(body: Record<string, unknown>, timeoutMs = 15_000): Promise<Turned> {
    const lane = laneOf(body)
    const turned = new Promise<Turned>((resolve, reject) => {
      const waiting = this.#waiting.get(lane) ?? []
      this.#waiting.set(lane, [...waiting, { events: [], created: false, resolve, reject }])
    })
    this.send({ type: 'response.create', ...body })
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () =>
          reject(
            new Error(
              `turn not over within ${timeoutMs} ms; got ${this.frames
                .map((f) => f.type)
                .slice(-12)
                .join(', ')}`,
            ),
          ),
        timeoutMs,
      )
    })
    try {
      return await Promise.race([turned, late])
    } finally {
      clearTimeout(timer)
    }
  }
  async close(code = 1000): Promise<Closed> {
    this.ws.close(code)
    return this.closed
  }

  #received(data: Buffer, binary: boolean): void {
    const text = data.toString('utf8')
    if (binary) return violation(['a binary frame'], text)
    let frame: Frame
    try {
      frame = JSON.parse(text) as Frame
    } catch {
      return violation(['no JSON'], text)
    }
    violation(checkEvent(frame, { transport: 'socket', lean: this.#lean.of(frame) }), frame)
    violation(this.#judge(frame), frame)
    this.frames.push(frame)
    const reader = [...this.#readers].find((r) => r.match(frame))
    if (reader) {
      this.#readers.delete(reader)
      reader.resolve(frame)
    } else this.#inbox.push(frame)
    this.#collect(frame)
  }
  #judge(frame: Frame): string[] {
    const lane = laneOf(frame)
    const current = this.#lanes.get(lane)
    switch (frame.type) {
      case 'error':
      case 'response.steer.failed':
      case 'response.inject.failed':
      case 'response.inject.created':
        return []
      case 'keepalive':
        // While a request waits its turn nothing of it has a number yet.
        return (current && !current.ended ? current : new Grammar()).feed(frame)
      case 'response.steer.accepted':
      case 'response.steer.pending': {
        const id = idOf(frame['steer'], 'previous_response_id')
        return (
          this.#responses.get(id)?.feed(frame) ?? [`${frame.type} is about ${id}, which this connection has not seen`]
        )
      }
      case 'response.created': {
        const unfinished =
          current && !current.ended
            ? [`lane '${lane}' begins ${idOf(frame['response'])} before ${current.id} has ended`]
            : []
        const grammar = new Grammar({ rollout: this.#rollouts.has(lane) })
        this.#lanes.set(lane, grammar)
        const problems = grammar.feed(frame)
        if (this.#responses.has(grammar.id)) problems.push(`response id ${grammar.id} came twice`)
        this.#responses.set(grammar.id, grammar)
        return [...unfinished, ...problems]
      }
      default:
        return current ? current.feed(frame) : [`${frame.type} on lane '${lane}', which has no response`]
    }
  }
  #collect(frame: Frame): void {
    const waiting = this.#waiting.get(laneOf(frame)) ?? []
    if (frame.type === 'error') {
      // A request that has a response fails by its terminal event, so this is about one that has none yet.
      const at = waiting.findIndex((w) => !w.created)
      const [refused] = at < 0 ? [] : waiting.splice(at, 1)
      refused?.events.push(frame)
      return refused?.resolve(turned(refused.events))
    }
    const first = waiting[0]
    if (!first || frame.type.startsWith('response.steer.')) return
    if (frame.type === 'response.created') first.created = true
    if (!first.created) return
    first.events.push(frame)
    if (!terminal.has(frame.type)) return
    waiting.shift()
    first.resolve(turned(first.events))
  }
}

/** What the events of one turn amount to. */
export function turned(events: readonly Frame[]): Turned {
  const last = events.at(-1)
  const response = last?.['response'] as WireResponse | undefined
  const error =
    last?.type === 'error'
      ? { ...(last['error'] as NonNullable<Turned['error']>), status: Number(last['status']) }
      : undefined
  const output = response?.output ?? []
  const text = output
    .filter((item) => item.type === 'message')
    .flatMap((item) => item['content'] as { text?: string }[])
    .map((part) => part.text ?? '')
    .join('')
  const calls = output.filter(
    (item) => item.type === 'function_call' || item.type === 'custom_tool_call',
  ) as unknown as Turned['calls']
  return { events, response, error, text, calls }
}

export type ConnectOptions = ClientOptions & { readonly key?: string }

/** Opens a socket; rejects with the HTTP status where the upgrade is refused. */
export async function connect(url: string, { key, headers, ...options }: ConnectOptions = {}): Promise<Socket> {
  const ws = new WebSocket(url, {
    perMessageDeflate: false,
    ...options,
    headers: { ...(key === undefined ? {} : { authorization: `Bearer ${key}` }), ...headers },
  })
  const socket = new Socket(ws)
  await once(ws, 'open')
  // From here on a broken connection shows as `closed`.
  ws.on('error', () => {})
  return socket
}
