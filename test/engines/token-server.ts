// A scripted server for engines that take ids over HTTP: records what it is asked and answers as the script says, faults
// included; and what calls of such an engine are made of.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Settings } from '../../src/protocol/request.ts'
import { Chain } from '../../src/turn/chain.ts'
import type { Call, Chunk, Constraint, Engine, EngineUsage, Finish, Prompt, Tokenizer } from '../../src/turn/ports.ts'
import { TokenRun } from '../../src/turn/tokens.ts'
import { principal, settings } from './simulated-generations.ts'

export type Asked = {
  method: string
  path: string
  headers: IncomingMessage['headers']
  raw: string
  body: Record<string, unknown>
}
/** What one request is answered with. */
export type Reply = {
  status?: number
  headers?: Record<string, string>
  /** One answer; a string is sent as it is, as text/plain. */
  json?: unknown
  /** Server-sent events; strings are sent as the data itself. */
  events?: (Record<string, unknown> | string)[]
  done?: boolean
  /** Bytes a write, so that characters and lines are split. */
  bytes?: number
  /** `down`: no answer; `cut`: broken off behind the events; `silent`: nothing behind the events, and no end. */
  fault?: 'down' | 'cut' | 'silent'
}
export type Script = (asked: Asked) => Reply

export class TokenServer {
  readonly asked: Asked[] = []
  /** Requests whose connection went before they were answered. */
  dropped = 0
  script: Script
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
  static async start(script: Script): Promise<TokenServer> {
    const server = new TokenServer(script)
    await new Promise<void>((resolve) => server.#server.listen(0, '127.0.0.1', resolve))
    return server
  }
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }
  /** What `path` was asked, oldest first. */
  to(path: string): Asked[] {
    return this.asked.filter((a) => a.path === path)
  }
  last(path: string): Asked {
    const last = this.to(path).at(-1)
    if (!last) throw new Error(`nothing was asked of ${path}`)
    return last
  }
  /** Closes every connection, as a restart does. */
  hangUp(): void {
    for (const socket of this.#sockets) socket.destroy()
  }
  async close(): Promise<void> {
    this.hangUp()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let raw = ''
    request.setEncoding('utf8')
    for await (const piece of request) raw += String(piece)
    const asked: Asked = {
      method: request.method ?? '',
      path: request.url ?? '',
      headers: request.headers,
      raw,
      body: raw === '' ? {} : (JSON.parse(raw) as Record<string, unknown>),
    }
    this.asked.push(asked)
    response.on('close', () => {
      if (!response.writableFinished) this.dropped++
    })
    const reply = this.script(asked)
    if (reply.fault === 'down') return void response.destroy()
    if (!reply.events) {
      const text = typeof reply.json === 'string'
      response.writeHead(reply.status ?? 200, {
        'content-type': text ? 'text/plain' : 'application/json',
        ...reply.headers,
      })
      return void response.end(text ? reply.json : JSON.stringify(reply.json ?? null))
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.flushHeaders()
    const events = reply.events.map((e) => `data: ${typeof e === 'string' ? e : JSON.stringify(e)}\n\n`)
    if (reply.done !== false && reply.fault === undefined) events.push('data: [DONE]\n\n')
    for (const event of events) {
      const all = Buffer.from(event)
      for (let at = 0; at < all.length; at += reply.bytes ?? all.length) {
        if (response.destroyed) return
        response.write(all.subarray(at, at + (reply.bytes ?? all.length)))
        await new Promise((resolve) => setImmediate(resolve))
      }
    }
    if (reply.fault === 'cut') response.destroy()
    else if (reply.fault === undefined) response.end()
  }
}

// ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────────
export const endId = 9
const names = new Map([
  [endId, '<|end|>'],
  [8, '<tool_call>'],
  [7, '</tool_call>'],
  [6, '</think>'],
])
/** Ten control tokens, and a token for each UTF-16 unit. */
export const tokenizer: Tokenizer = {
  id: 'test',
  size: 70_000,
  encode: (text) => Array.from(text, (c) => 10 + (c.codePointAt(0) ?? 0)),
  control: (name) => [...names].find(([, n]) => n === name)?.[0],
  nameOf: (id) => names.get(id),
  stream: () => ({ push: (id) => (names.has(id) ? '' : String.fromCharCode(id - 10)), end: () => '' }),
  decode: (ids) => Array.from(ids, (id) => names.get(id) ?? String.fromCharCode(id - 10)).join(''),
}
export type Asking = {
  common?: number
  constraint?: Constraint | undefined
  settings?: Partial<Settings>
  pictures?: readonly string[]
  warm?: unknown
  generate?: boolean
  signal?: AbortSignal
  id?: string
}
export const runOf = (ids: readonly number[]): TokenRun => TokenRun.empty.append(ids)
export function promptOf(run: TokenRun, { common = 0, constraint, pictures = [] }: Asking = {}): Prompt {
  return { run, common, tokenizer, stops: [endId], constraint, pictures, written: () => [] }
}
export function callOf(run: TokenRun, asking: Asking = {}): Call {
  const chain = Chain.root(principal.owner)
  return {
    id: asking.id ?? 'resp_1',
    principal,
    chain,
    settings: settings(asking.settings),
    warm: asking.warm === undefined ? undefined : { value: asking.warm, at: chain },
    prompt: promptOf(run, asking),
    mayStore: true,
    generate: asking.generate ?? true,
    signal: asking.signal ?? new AbortController().signal,
  }
}
export type Heard = {
  tokens: number[]
  finish: Finish | undefined
  usage: EngineUsage | undefined
  warm: unknown
  chunks: Chunk[]
}
/** A generation read to its end. */
export async function heard(engine: Engine, call: Call): Promise<Heard> {
  const out: Heard = { tokens: [], finish: undefined, usage: undefined, warm: undefined, chunks: [] }
  for await (const chunk of engine.generate(call)) {
    out.chunks.push(chunk)
    out.tokens.push(...(chunk.tokens ?? []))
    out.finish = chunk.finish ?? out.finish
    out.usage = chunk.usage ?? out.usage
    out.warm = chunk.warm ?? out.warm
  }
  return out
}
