// A scripted chat-completions server: records what it is asked and answers as the script says, faults included. Runs by
// itself as `node --import tsx test/engines/chat-server.ts PORT`, then with three rounds of tool calls and an answer.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'

export type ChatBody = {
  model: string
  messages: {
    role: string
    content?: unknown
    tool_calls?: unknown[]
    tool_call_id?: string
    [field: string]: unknown
  }[]
  tools?: {
    type: string
    function: { name: string; description?: string; parameters?: Record<string, unknown>; strict?: boolean }
  }[]
  stream?: boolean
  [field: string]: unknown
}
export type Recorded = { path: string; headers: IncomingMessage['headers']; raw: string; body: ChatBody }
/** How the reasoning is spelled; `tags` puts it into the content. */
export type Spelling = 'reasoning_content' | 'reasoning' | 'reasoning_text' | 'thinking' | 'tags'
/** A step of the script: what one request is answered with. */
export type Step = {
  reasoning?: string
  spelling?: Spelling
  text?: string
  refusal?: string
  calls?: { name: string; arguments: string; id?: string }[]
  /** In place of all above: chunks as they are; a string is sent as the data itself. */
  chunks?: (Record<string, unknown> | string)[]
  finish?: string | null
  /** `double`: two different totals; `along`: with every chunk, and none at the end. */
  usage?: 'once' | 'none' | 'double' | 'zero' | 'impossible' | 'along' | Record<string, unknown> | undefined
  done?: boolean
  /** Characters a chunk; bytes a write, so that characters and lines are split. */
  piece?: number
  bytes?: number
  /** Milliseconds before the head, and between chunks. */
  delay?: number
  pace?: number
  fault?:
    | { status: number; body?: unknown; headers?: Record<string, string>; type?: string }
    /** `down`: the connection is destroyed; `cut`: after some chunks; `endless`: text without end; `silent`: the head only. */
    | 'down'
    | 'cut'
    | 'garbage'
    | 'endless'
    | 'silent'
    | 'mute'
    | 'longline'
}
export type Script = (body: ChatBody, n: number) => Step | Promise<Step>

export class ChatServer {
  readonly requests: Recorded[] = []
  /** Requests whose connection went before they were answered, and those answered now. */
  dropped = 0
  running = 0
  /** Bytes written; stands still while the reader is slow. */
  written = 0
  script: Script
  models: string[] = ['scripted']
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  private constructor(script: Script) {
    this.script = script
    this.#server = createServer((request, response) => void this.#serve(request, response))
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
    })
  }
  static async start(script: Script = defaultScript, port = 0): Promise<ChatServer> {
    const server = new ChatServer(script)
    await new Promise<void>((resolve, reject) =>
      server.#server.once('error', reject).listen(port, '127.0.0.1', resolve),
    )
    return server
  }
  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }
  /** As a client is told it. */
  get url(): string {
    return `http://127.0.0.1:${this.port}/v1`
  }
  get connections(): number {
    return this.#sockets.size
  }
  get last(): Recorded {
    const last = this.requests.at(-1)
    if (!last) throw new Error('nothing was asked')
    return last
  }
  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let raw = ''
    request.setEncoding('utf8')
    try {
      for await (const piece of request) raw += String(piece)
    } catch {
      return
    }
    const path = request.url ?? ''
    if (request.method === 'GET' && path === '/v1/models') {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ object: 'list', data: this.models.map((id) => ({ id, object: 'model' })) }))
      return
    }
    if (request.method !== 'POST' || path !== '/v1/chat/completions') {
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"error":{"message":"Not Found"}}')
      return
    }
    const body = JSON.parse(raw) as ChatBody
    this.requests.push({ path, headers: request.headers, raw, body })
    this.running++
    response.on('close', () => {
      this.running--
      if (!response.writableFinished) this.dropped++
    })
    const step = await this.script(body, this.requests.length)
    if (step.delay !== undefined) await sleep(step.delay)
    await this.#answer(step, body, response)
  }
  async #answer(step: Step, body: ChatBody, response: ServerResponse): Promise<void> {
    const { fault } = step
    if (fault === 'down') return void response.destroy()
    if (fault === 'mute') return
    if (typeof fault === 'object') {
      response.writeHead(fault.status, { 'content-type': fault.type ?? 'application/json', ...fault.headers })
      response.end(
        typeof fault.body === 'string'
          ? fault.body
          : JSON.stringify(fault.body ?? { error: { message: 'as scripted' } }),
      )
      return
    }
    const chunks = step.chunks ?? chunksOf(step)
    if (body.stream !== true) {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(wholeOf(step, body.model)))
      return
    }
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
    response.flushHeaders()
    if (fault === 'silent') return
    const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: body.model }
    if (fault === 'endless') {
      const more = frame({ ...head, choices: [{ index: 0, delta: { content: 'and on '.repeat(64) } }] })
      while (!response.destroyed) await this.#write(response, more, undefined)
      return
    }
    if (fault === 'longline') {
      const line = 'x'.repeat(256 * 1024)
      await this.#write(response, 'data: {"x":"', undefined)
      while (!response.destroyed) await this.#write(response, line, undefined)
      return
    }
    for (const [n, chunk] of chunks.entries()) {
      if (response.destroyed) return
      if (fault === 'cut' && n >= Math.max(1, chunks.length >> 1)) return void response.destroy()
      if (fault === 'garbage' && n === chunks.length >> 1)
        await this.#write(response, 'data: {"choices":[{"delta":\n\n', step.bytes)
      const text = typeof chunk === 'string' ? `data: ${chunk}\n\n` : frame({ ...head, ...chunk })
      await this.#write(response, text, step.bytes)
      if (step.pace !== undefined) await sleep(step.pace)
    }
    if (step.done !== false) await this.#write(response, 'data: [DONE]\n\n', step.bytes)
    response.end()
  }
  async #write(response: ServerResponse, text: string, bytes: number | undefined): Promise<void> {
    const all = Buffer.from(text)
    for (let at = 0; at < all.length; at += bytes ?? all.length) {
      const piece = all.subarray(at, at + (bytes ?? all.length))
      if (response.destroyed) return
      this.written += piece.length
      if (!response.write(piece))
        await new Promise<void>((resolve) => {
          const go = (): void => {
            response.off('drain', go).off('close', go)
            resolve()
          }
          response.once('drain', go).once('close', go)
        })
      // Separate writes only reach the reader separately when a turn of the loop lies between them.
      else if (bytes !== undefined) await new Promise((resolve) => setImmediate(resolve))
    }
  }
}

const frame = (chunk: unknown): string => `data: ${JSON.stringify(chunk)}\n\n`
const choice = (delta: Record<string, unknown>, finish: string | null = null) => ({
  choices: [{ index: 0, delta, finish_reason: finish }],
})

function pieces(text: string, length: number): string[] {
  const all = text.match(/./gsu) ?? []
  const out: string[] = []
  for (let at = 0; at < all.length; at += length) out.push(all.slice(at, at + length).join(''))
  return out
}
function usageOf(step: Step): Record<string, unknown>[] {
  const once = {
    prompt_tokens: 100,
    completion_tokens: 20,
    total_tokens: 120,
    prompt_tokens_details: { cached_tokens: 64 },
    completion_tokens_details: { reasoning_tokens: 5 },
  }
  if (typeof step.usage === 'object') return [step.usage]
  switch (step.usage) {
    case 'none':
    case 'along':
      return []
    case 'double':
      return [once, { ...once, prompt_tokens: 200, completion_tokens: 40, total_tokens: 240 }]
    case 'zero':
      return [{ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }]
    case 'impossible':
      return [
        { prompt_tokens: 10, completion_tokens: 20, total_tokens: 30, prompt_tokens_details: { cached_tokens: 4096 } },
      ]
    default:
      return [once]
  }
}
function chunksOf(step: Step): Record<string, unknown>[] {
  const length = step.piece ?? 8
  const out: Record<string, unknown>[] = [choice({ role: 'assistant', content: '' })]
  const { reasoning = '', spelling = 'reasoning_content', text = '', refusal = '', calls = [] } = step
  const tagged = spelling === 'tags' && reasoning !== '' ? `<think>\n${reasoning}\n</think>\n\n` : ''
  if (tagged === '') for (const piece of pieces(reasoning, length)) out.push(choice({ [spelling]: piece }))
  for (const piece of pieces(tagged + text, length)) out.push(choice({ content: piece }))
  for (const piece of pieces(refusal, length)) out.push(choice({ refusal: piece }))
  for (const [index, call] of calls.entries()) {
    const id = call.id ?? `call_${index}_${Math.random().toString(36).slice(2, 10)}`
    out.push(choice({ tool_calls: [{ index, id, type: 'function', function: { name: call.name, arguments: '' } }] }))
    for (const piece of pieces(call.arguments, length))
      out.push(choice({ tool_calls: [{ index, function: { arguments: piece } }] }))
  }
  if (step.finish !== null) out.push(choice({}, step.finish ?? (calls.length > 0 ? 'tool_calls' : 'stop')))
  if (step.usage === 'along')
    for (const [n, chunk] of out.entries())
      chunk['usage'] = { prompt_tokens: 100, completion_tokens: n, total_tokens: 100 + n }
  for (const usage of usageOf(step)) out.push({ choices: [], usage })
  return out
}
function wholeOf(step: Step, model: string): Record<string, unknown> {
  const calls = (step.calls ?? []).map((c, n) => ({
    id: c.id ?? `call_${n}`,
    type: 'function',
    function: { name: c.name, arguments: c.arguments },
  }))
  const message = { role: 'assistant', content: step.text ?? null, ...(calls.length > 0 ? { tool_calls: calls } : {}) }
  return {
    object: 'chat.completion',
    model,
    choices: [{ index: 0, message, finish_reason: calls.length > 0 ? 'tool_calls' : 'stop' }],
    usage: usageOf(step)[0],
  }
}

// ── the script it has by itself ──────────────────────────────────────────────────────────────────────────────────────
const rounds = 3
const shells = ['exec_command', 'shell_command', 'shell', 'local_shell', 'run_command', 'bash']

/** The JSON schema of a structured answer, where one is asked for. */
function answerSchema(format: unknown): Record<string, unknown> | undefined {
  return (format as { json_schema?: { schema?: Record<string, unknown> } } | undefined)?.json_schema?.schema
}
/** Three rounds of one tool call each since the user last spoke, then an answer. Without a tool it knows: text. */
export const defaultScript: Script = (body) => {
  const since = body.messages.findLastIndex((m) => m.role === 'user')
  const outputs = body.messages.slice(since + 1).filter((m) => m.role === 'tool').length
  const offered = body.tool_choice === 'none' ? [] : (body.tools ?? []).map((t) => t.function)
  const tool =
    shells.flatMap((name) => offered.filter((t) => t.name === name || t.name.endsWith(`__${name}`)))[0] ??
    offered.find((t) => /(^|__)(get|list|read|search)_/.test(t.name))
  if (tool === undefined || outputs >= rounds) {
    const schema = answerSchema(body['response_format'])
    const text = schema ? JSON.stringify(example(schema, '')) : `Done after ${outputs} tool calls.`
    return { reasoning: 'That is enough.', text }
  }
  return {
    reasoning: `Round ${outputs + 1}.`,
    calls: [{ name: tool.name, arguments: JSON.stringify(example(tool.parameters ?? {}, '')) }],
  }
}
/** A value that fits a plain JSON schema; a command is `ls`. */
function example(schema: Record<string, unknown>, name: string): unknown {
  if ('const' in schema) return schema['const']
  if (Array.isArray(schema['enum'])) return schema['enum'][0]
  const any = schema['anyOf'] ?? schema['oneOf']
  if (Array.isArray(any)) return example(any[0] as Record<string, unknown>, name)
  const type = Array.isArray(schema['type'])
    ? schema['type'][0]
    : (schema['type'] ?? ('properties' in schema ? 'object' : 'string'))
  switch (type) {
    case 'object': {
      const properties = (schema['properties'] ?? {}) as Record<string, Record<string, unknown>>
      const required = Array.isArray(schema['required']) ? (schema['required'] as string[]) : Object.keys(properties)
      return Object.fromEntries(required.map((key) => [key, example(properties[key] ?? {}, key)]))
    }
    case 'array':
      return [example((schema['items'] ?? {}) as Record<string, unknown>, name)]
    case 'integer':
    case 'number':
      return typeof schema['minimum'] === 'number' ? schema['minimum'] : 1
    case 'boolean':
      return false
    case 'null':
      return null
    default:
      return /^(cmd|command|input|script)$/.test(name) ? 'ls' : 'x'
  }
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const server = await ChatServer.start(defaultScript, Number(process.argv[2] ?? 0))
  process.stdout.write(`chat completions at ${server.url}\n`)
}
