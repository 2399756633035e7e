// A WebSocket server whose answers a test writes down. It speaks the wire as documented: numbered events, lanes that echo
// their `stream_id`, conversations kept per socket. What it has received stays readable.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { WebSocketServer, type WebSocket } from 'ws'

export type Frame = Readonly<Record<string, unknown>> & {
  type: string
  input?: unknown
  stream_id?: string
  previous_response_id?: string
}
export type Script = (turn: Turn) => void | Promise<void>
export type ServerOptions = {
  /** Value of `x-continuo`; undefined: another server. */
  continuo?: string
  /** Value of `continuo-extensions`. */
  extensions?: string
  /** False: `stream_id` is ignored and requests run one after the other. */
  lanes?: boolean
  /** Answers an upgrade with this status instead. */
  refuse?: (upgrade: number) => number | undefined
  http?: (request: IncomingMessage, body: string, response: ServerResponse) => void
}

/** One `response.create` on its way to a terminal event. */
export class Turn {
  readonly id: string
  readonly frame: Frame
  readonly socket: Conn
  /** The conversation as this server sees it: that of the parent, then the input. */
  readonly conversation: readonly unknown[]
  readonly output: unknown[] = []
  readonly interrupted: Promise<void>
  interrupt: () => void = () => {}
  number = 0
  over = false
  constructor(id: string, frame: Frame, socket: Conn, conversation: readonly unknown[]) {
    this.id = id
    this.frame = frame
    this.socket = socket
    this.conversation = conversation
    this.interrupted = new Promise((resolve) => (this.interrupt = resolve))
  }
  response(status: string, more: object = {}): object {
    const usage =
      status === 'in_progress'
        ? null
        : {
            input_tokens: 10,
            input_tokens_details: { cached_tokens: 4 },
            output_tokens: 5,
            output_tokens_details: { reasoning_tokens: 0 },
            total_tokens: 15,
          }
    const output = status === 'in_progress' ? [] : this.output
    return {
      id: this.id,
      object: 'response',
      created_at: 1,
      model: this.frame['model'],
      status,
      output,
      usage,
      error: null,
      incomplete_details: null,
      previous_response_id: this.frame.previous_response_id ?? null,
      tools: [],
      ...more,
    }
  }
  send(event: Record<string, unknown>): void {
    const { type, ...rest } = event
    this.socket.send({ type, sequence_number: this.number++, ...rest }, this.frame.stream_id)
  }
  created(): this {
    this.send({ type: 'response.created', response: this.response('in_progress') })
    this.send({ type: 'response.in_progress', response: this.response('in_progress') })
    return this
  }
  async text(text: string, { pieces = 2, gapMs = 0 } = {}): Promise<this> {
    const at = { item_id: `msg_${this.id}_${this.output.length}`, output_index: this.output.length, content_index: 0 }
    const message = (status: string, content: unknown[]): object => ({
      id: at.item_id,
      type: 'message',
      role: 'assistant',
      status,
      content,
    })
    const part = (value: string): object => ({ type: 'output_text', text: value, annotations: [], logprobs: [] })
    this.send({ type: 'response.output_item.added', output_index: at.output_index, item: message('in_progress', []) })
    this.send({ type: 'response.content_part.added', ...at, part: part('') })
    const size = Math.ceil(text.length / pieces)
    for (let n = 0; n < text.length; n += size) {
      this.send({ type: 'response.output_text.delta', ...at, delta: text.slice(n, n + size), logprobs: [] })
      if (gapMs > 0) await sleep(gapMs)
    }
    this.send({ type: 'response.output_text.done', ...at, text, logprobs: [] })
    this.send({ type: 'response.content_part.done', ...at, part: part(text) })
    this.#done(message('completed', [part(text)]))
    return this
  }
  call(name: string, args: object, callId = `call_${this.id}_${this.output.length}`): this {
    const json = JSON.stringify(args)
    const at = { item_id: `fc_${this.id}_${this.output.length}`, output_index: this.output.length }
    const item = (status: string, text: string): object => ({
      id: at.item_id,
      type: 'function_call',
      call_id: callId,
      name,
      arguments: text,
      status,
    })
    this.send({ type: 'response.output_item.added', output_index: at.output_index, item: item('in_progress', '') })
    this.send({ type: 'response.function_call_arguments.delta', ...at, delta: json })
    this.send({ type: 'response.function_call_arguments.done', ...at, arguments: json })
    this.#done(item('completed', json))
    return this
  }
  #done(item: object): void {
    this.send({ type: 'response.output_item.done', output_index: this.output.length, item })
    this.output.push(item)
  }
  complete(): void {
    this.#end('completed')
  }
  incomplete(reason: string): void {
    this.#end('incomplete', { incomplete_details: { reason } })
  }
  fail(code: string, message = 'It failed.'): void {
    this.#end('failed', { error: { code, message } })
  }
  #end(status: string, more: object = {}): void {
    this.over = true
    if (status !== 'failed') this.socket.conversations.set(this.id, [...this.conversation, ...this.output])
    this.send({ type: `response.${status}`, response: this.response(status, more) })
  }
  /** An error frame instead of a response. */
  error(status: number, code: string, message = 'No.', more: object = {}): void {
    this.over = true
    this.send({ type: 'error', status, error: { type: 'invalid_request_error', code, message, param: null }, ...more })
  }
}

/** One accepted socket. */
export class Conn {
  readonly conversations = new Map<string, readonly unknown[]>()
  readonly frames: Frame[] = []
  readonly turns: Turn[] = []
  readonly headers: IncomingMessage['headers']
  readonly ws: WebSocket
  readonly #lanes: boolean
  tail: Promise<void> = Promise.resolve()
  readonly tails = new Map<string, Promise<void>>()
  constructor(ws: WebSocket, headers: IncomingMessage['headers'], lanes: boolean) {
    this.ws = ws
    this.headers = headers
    this.#lanes = lanes
  }
  send(event: object, lane: string | undefined): void {
    if (this.ws.readyState === 1)
      this.ws.send(JSON.stringify(this.#lanes && lane !== undefined ? { ...event, stream_id: lane } : event))
  }
  get isOpen(): boolean {
    return this.ws.readyState === 1
  }
}

export class ScriptedServer {
  readonly conns: Conn[] = []
  readonly posts: { body: unknown; headers: IncomingMessage['headers'] }[] = []
  upgrades = 0
  script: Script
  readonly #options: ServerOptions
  readonly #http: Server
  readonly #wss = new WebSocketServer({ noServer: true, maxPayload: 1 << 26 })
  #ids = 0
  constructor(script: Script, options: ServerOptions) {
    this.script = script
    this.#options = options
    this.#http = createServer((request, response) => {
      let body = ''
      request.on('data', (chunk: Buffer) => (body += chunk.toString()))
      request.on('end', () => {
        this.posts.push({ body: body === '' ? undefined : JSON.parse(body), headers: request.headers })
        if (options.http) options.http(request, body, response)
        else response.writeHead(404).end('{}')
      })
    })
    this.#wss.on('headers', (headers) => {
      if (options.continuo !== undefined) headers.push(`x-continuo: ${options.continuo}`)
      if (options.extensions !== undefined) headers.push(`continuo-extensions: ${options.extensions}`)
    })
    this.#http.on('upgrade', (request, socket, head) => {
      socket.on('error', () => {})
      const status = options.refuse?.(this.upgrades++)
      if (status !== undefined) {
        const body = JSON.stringify({
          error: { type: 'invalid_request_error', code: 'refused_here', message: 'Not here.', param: null },
        })
        return socket.end(
          `HTTP/1.1 ${status} X\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`,
        )
      }
      this.#wss.handleUpgrade(request, socket, head, (ws) => this.#accept(ws, request))
    })
  }
  static async start(script: Script = answerHello, options: ServerOptions = {}): Promise<ScriptedServer> {
    const server = new ScriptedServer(script, options)
    await new Promise<void>((resolve) => server.#http.listen(0, '127.0.0.1', resolve))
    return server
  }
  get url(): string {
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}/v1`
  }
  get frames(): Frame[] {
    return this.conns.flatMap((conn) => conn.frames)
  }
  get creates(): Frame[] {
    return this.frames.filter((frame) => frame.type === 'response.create')
  }
  get turns(): Turn[] {
    return this.conns.flatMap((conn) => conn.turns)
  }
  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#wss.clients) client.terminate()
    this.#http.closeAllConnections()
    await new Promise((resolve) => this.#http.close(resolve))
  }

  #accept(ws: WebSocket, request: IncomingMessage): void {
    const conn = new Conn(ws, request.headers, this.#options.lanes !== false)
    this.conns.push(conn)
    ws.on('error', () => {})
    ws.on('message', (data) => {
      const frame = JSON.parse((data as Buffer).toString()) as Frame
      conn.frames.push(frame)
      if (frame.type === 'response.interrupt') conn.turns.find((turn) => turn.id === frame['response_id'])?.interrupt()
      if (frame.type !== 'response.create') return
      const lane = this.#options.lanes === false ? '' : (frame.stream_id ?? '')
      const before = conn.tails.get(lane) ?? Promise.resolve()
      conn.tails.set(
        lane,
        before.then(() => this.#run(conn, frame)),
      )
    })
  }
  async #run(conn: Conn, frame: Frame): Promise<void> {
    const input =
      typeof frame.input === 'string'
        ? [{ type: 'message', role: 'user', content: frame.input }]
        : ((frame.input ?? []) as unknown[])
    const parent = frame.previous_response_id === undefined ? [] : conn.conversations.get(frame.previous_response_id)
    const turn = new Turn(`resp_${++this.#ids}`, frame, conn, [...(parent ?? []), ...input])
    if (parent === undefined) return turn.error(400, 'previous_response_not_found', 'Unknown.')
    conn.turns.push(turn)
    if (frame['generate'] === false) return turn.created().complete()
    await this.script(turn)
  }
}

export const answerHello: Script = async (turn) => {
  turn.created()
  await turn.text(`hello ${turn.conversation.length}`)
  turn.complete()
}
export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
/** Waits until `check` holds; fails after two seconds. */
export async function until(check: () => boolean): Promise<void> {
  for (let n = 0; n < 400; n++) {
    if (check()) return
    await sleep(5)
  }
  throw new Error('it did not come to pass')
}
export const user = (content: string): { type: string; role: string; content: string } => ({
  type: 'message',
  role: 'user',
  content,
})
