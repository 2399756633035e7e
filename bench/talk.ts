// The client side of the benchmarks: one socket on which an agent works through its tool loop. Thin, so that it costs
// little beside the server, and strict: whatever is not exactly as the protocol says is an error of that turn.
import { WebSocket } from 'ws'

type Fields = Readonly<Record<string, unknown>>
export type Asked = {
  readonly type: 'function_call'
  readonly call_id: string
  readonly name: string
}
/** Times in milliseconds since the request was sent. */
export type Turn = {
  readonly id: string
  readonly items: readonly Fields[]
  readonly calls: readonly Asked[]
  readonly events: number
  readonly createdMs: number
  readonly ms: number
}
type Event = {
  type?: unknown
  sequence_number?: unknown
  response?: { id?: unknown; status?: unknown; output?: unknown }
}

/** Longest that a turn may take before it counts as an error. */
const patienceMs = 60_000

/** What an agent sends with every turn: 5 kB of instructions and tools. */
export const settings = {
  model: 'bench',
  stream: true,
  instructions: 'You are a careful agent in a terminal. Look before you act, and say in the end what you did. '.repeat(
    30,
  ),
  tools: ['exec_command', 'apply_change', 'open_page', 'ask_person'].map((name) => ({
    type: 'function',
    name,
    description: `The tool ${name} of a coding agent. `.repeat(8),
    parameters: {
      type: 'object',
      properties: {
        cmd: { type: 'string' },
        cwd: { type: 'string' },
        timeout_ms: { type: 'number' },
        tail: { type: 'integer' },
      },
      required: ['cmd'],
      additionalProperties: false,
    },
    strict: false,
  })),
} as const

export const userMessage = (text: string): Fields => ({
  type: 'message',
  role: 'user',
  content: [{ type: 'input_text', text }],
})
export const outputOf = (call: Asked, output: string): Fields => ({
  type: 'function_call_output',
  call_id: call.call_id,
  output,
})

/** Reads the events of one turn and says when it is over. Throws for whatever an agent would stumble over. */
export class Reading {
  readonly #begun = performance.now()
  #created = 0
  #next = 0
  /** The turn, with its terminal event; undefined before it. */
  take(text: string): Turn | undefined {
    // What a server sends; every field is looked at before it is used.
    const event = JSON.parse(text) as Event
    const { type } = event
    if (type === 'keepalive') return undefined
    if (type === 'error') throw new Error(`error frame: ${text.slice(0, 300)}`)
    if (event.sequence_number !== this.#next)
      throw new Error(`event ${this.#next} expected, got ${String(event.sequence_number)} (${String(type)})`)
    this.#next++
    if (type === 'response.created') this.#created = performance.now() - this.#begun
    if (type === 'response.failed' || type === 'response.incomplete')
      throw new Error(`the response ended with ${type}: ${text.slice(0, 300)}`)
    if (type !== 'response.completed') return undefined
    const { id, status, output } = event.response ?? {}
    if (typeof id !== 'string' || status !== 'completed' || !Array.isArray(output))
      throw new Error('response.completed without a completed response')
    const items = output as readonly Fields[]
    const calls = items.filter((item) => item['type'] === 'function_call') as unknown as Asked[]
    return { id, items, calls, events: this.#next, createdMs: this.#created, ms: performance.now() - this.#begun }
  }
}

/** One socket, one turn at a time. */
export class Talk {
  readonly #ws: WebSocket
  #reading: Reading | undefined
  #done: ((turn: Turn) => void) | undefined
  #failed: ((error: Error) => void) | undefined
  /** Set once the socket has closed or the server has broken the protocol. */
  #broken: Error | undefined

  private constructor(ws: WebSocket) {
    this.#ws = ws
    ws.on('message', (data: Buffer) => this.#take(data))
    ws.on('error', (e) => this.#break(e))
    ws.on('close', (code, reason) => this.#break(new Error(`the socket closed with ${code} ${String(reason)}`)))
  }
  /** `deflate`: offer compression, as browsers and some clients do. */
  static open(wsUrl: string, deflate = false): Promise<Talk> {
    return new Promise((resolve, reject) => {
      const ws = new WebSocket(wsUrl, {
        perMessageDeflate: deflate,
        handshakeTimeout: 30_000,
        skipUTF8Validation: true,
      })
      ws.once('error', reject)
      ws.once('open', () => {
        ws.off('error', reject)
        resolve(new Talk(ws))
      })
    })
  }
  /** Sends `response.create` with these fields beside the usual settings. Rejects unless it ends completed. */
  turn(fields: Fields): Promise<Turn> {
    return new Promise<Turn>((resolve, reject) => {
      if (this.#broken) return reject(this.#broken)
      const text = JSON.stringify({ type: 'response.create', ...settings, ...fields })
      const late = setTimeout(() => this.#break(new Error(`no end within ${patienceMs / 1000} s`)), patienceMs)
      const over = (): void => {
        clearTimeout(late)
        this.#reading = this.#done = this.#failed = undefined
      }
      this.#done = (turn) => (over(), resolve(turn))
      this.#failed = (error) => (over(), reject(error))
      this.#reading = new Reading()
      this.#ws.send(text)
    })
  }
  async close(): Promise<void> {
    if (this.#ws.readyState === WebSocket.CLOSED) return
    await new Promise<void>((resolve) => {
      this.#ws.once('close', () => resolve())
      this.#ws.close(1000)
      setTimeout(() => this.#ws.terminate(), 10_000).unref()
    })
  }
  #take(data: Buffer): void {
    try {
      if (!this.#reading) throw new Error(`a frame behind the end of the turn: ${String(data).slice(0, 200)}`)
      const turn = this.#reading.take(String(data))
      if (turn) this.#done?.(turn)
    } catch (e) {
      this.#break(e instanceof Error ? e : new Error(String(e)))
    }
  }
  #break(error: Error): void {
    this.#broken ??= error
    this.#failed?.(error)
  }
}
