// A test client of the HTTP doors. Every body goes through its schema, every SSE event through schema and grammar; what is
// wrong fails the running test (violations.ts).
import * as check from './check.ts'
import { Grammar } from './grammar.ts'
import { type Frame, type Turned, turned } from './socket.ts'
import { violation } from './violations.ts'

export type Answer = { readonly status: number; readonly headers: Headers; readonly json: Record<string, unknown> }
export type Streamed = Turned & {
  readonly status: number
  readonly headers: Headers
  readonly json: Record<string, unknown> | undefined
}
type Call = { readonly body?: unknown; readonly headers?: Record<string, string>; readonly signal?: AbortSignal }

/** Which schema the 2xx body of a route must fit. */
export function bodyCheck(method: string, path: string): ((value: unknown) => string[]) | undefined {
  const route = path.replace(/\?.*$/, '').replace(/^\/v1|^\/codex/, '')
  if (route === '/responses/compact') return check.checkCompaction
  if (route === '/responses/input_tokens') return check.checkInputTokens
  if (/^\/responses\/[^/]+\/input_items$/.test(route)) return check.checkItemList
  if (method === 'DELETE') return check.checkDeleted
  if (route === '/models') return check.checkModels
  if (route.startsWith('/models/')) return check.checkModel
  return route.startsWith('/responses') ? check.checkResponse : undefined
}

export class Http {
  readonly #url: string
  readonly #key: string | undefined
  constructor(url: string, key?: string) {
    this.#url = url
    this.#key = key
  }
  get(path: string, call: Call = {}): Promise<Answer> {
    return this.ask('GET', path, call)
  }
  post(path: string, body?: unknown, call: Call = {}): Promise<Answer> {
    return this.ask('POST', path, { ...call, body })
  }
  delete(path: string, call: Call = {}): Promise<Answer> {
    return this.ask('DELETE', path, call)
  }
  /** Any request; `body` is sent as JSON unless it is a string or bytes already. */
  async ask(method: string, path: string, call: Call = {}): Promise<Answer> {
    const reply = await this.#fetch(method, path, call)
    const said = await reply.text()
    let json: Record<string, unknown> = {}
    try {
      json = JSON.parse(said) as Record<string, unknown>
    } catch {
      violation([`${method} ${path}: ${reply.status} is no JSON`], said)
    }
    const fits = reply.ok ? bodyCheck(method, path) : check.checkErrorBody
    if (fits)
      violation(
        fits(json).map((problem) => `${method} ${path}: ${problem}`),
        json,
      )
    return { status: reply.status, headers: reply.headers, json }
  }
  /** POST /v1/responses with `stream: true`, read to its end. */
  stream(body: Record<string, unknown>, call: Call = {}): Promise<Streamed> {
    return this.events('POST', '/v1/responses', { ...call, body: { ...body, stream: true } })
  }
  /** Reads a stream of events; `grammar` goes on where an earlier stream of the same response stopped. */
  async events(method: string, path: string, call: Call = {}, grammar = new Grammar()): Promise<Streamed> {
    const reply = await this.#fetch(method, path, call)
    const type = reply.headers.get('content-type') ?? ''
    if (!type.startsWith('text/event-stream')) {
      const json = JSON.parse(await reply.text()) as Record<string, unknown>
      violation(reply.ok ? ['no event stream'] : check.checkErrorBody(json), json)
      return { ...turned([]), status: reply.status, headers: reply.headers, json }
    }
    const events = parseSse(await reply.text())
    for (const event of events) {
      violation(check.checkEvent(event, { transport: 'sse' }), event)
      if (event.type !== 'error') violation(grammar.feed(event), event)
    }
    const last = events.at(-1)
    if (last?.type !== 'error') violation(grammar.end(), last)
    return { ...turned(events), status: reply.status, headers: reply.headers, json: undefined }
  }
  #fetch(method: string, path: string, { body, headers, signal }: Call): Promise<Response> {
    const bytes =
      body === undefined || typeof body === 'string' || body instanceof Uint8Array
        ? (body as string | Uint8Array<ArrayBuffer> | undefined)
        : JSON.stringify(body)
    return fetch(this.#url + path, {
      method,
      headers: {
        ...(bytes === undefined ? {} : { 'content-type': 'application/json' }),
        ...(this.#key === undefined ? {} : { authorization: `Bearer ${this.#key}` }),
        ...headers,
      },
      ...(bytes === undefined ? {} : { body: bytes }),
      ...(signal === undefined ? {} : { signal }),
    })
  }
}

/** Events of a whole SSE body: exactly `event:`, `data:` and a blank line each, the name equal to the data's type. */
export function parseSse(body: string): Frame[] {
  const events: Frame[] = []
  if (body !== '' && !body.endsWith('\n\n')) violation(['the stream ends inside an event'], body.slice(-300))
  for (const block of body.split('\n\n').slice(0, -1)) {
    if (block === 'data: [DONE]') continue
    const [, name, data] = /^event: ([^\n]+)\ndata: ([^\n]+)$/.exec(block) ?? []
    if (name === undefined || data === undefined) {
      violation(['an event is not `event:`, `data:`, blank line'], block)
      continue
    }
    const event = JSON.parse(data) as Frame
    if (event.type !== name) violation([`event is named ${name}`], event)
    events.push(event)
  }
  return events
}
