// An Ollama without a model: lines of /api/generate as the real one writes them (server/routes.go), by script, and faults.
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export type GenerateBody = { model: string; prompt: string; options: Record<string, unknown>; [field: string]: unknown }
export type Recorded = { path: string; headers: IncomingMessage['headers']; body: GenerateBody }
export type Step = {
  text?: string
  thinking?: string
  last?: Record<string, unknown>
  /** Milliseconds between lines; bytes a write. */
  pace?: number
  bytes?: number
  fault?:
    | { status: number; body?: string; type?: string }
    /** `cut`: the connection breaks half-way; `unended`: it ends well without a last line; `endless`: it never ends. */
    | 'down'
    | 'cut'
    | 'error'
    | 'garbage'
    | 'silent'
    | 'unended'
    | 'endless'
}

export class ScriptedOllama {
  readonly requests: Recorded[] = []
  running = 0
  step: Step
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  private constructor(step: Step) {
    this.step = step
    this.#server = createServer((request, response) => {
      void (async () => {
        let raw = ''
        request.setEncoding('utf8')
        for await (const piece of request) raw += String(piece)
        const path = request.url ?? ''
        const json = (value: unknown): void =>
          void response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify(value))
        if (path === '/api/tags') return json({ models: [{ name: 'qwen3:8b' }, { name: 'llama3.2:latest' }] })
        const body = JSON.parse(raw) as GenerateBody
        if (path === '/api/show')
          return json({
            template: '{{ .Prompt }}',
            parameters: body.model === 'small' ? 'stop  "<|im_end|>"\nnum_ctx   8192' : '',
            model_info: { 'general.architecture': 'qwen3', 'qwen3.context_length': 40_960 },
          })
        this.requests.push({ path, headers: request.headers, body })
        this.running++
        response.on('close', () => this.running--)
        const { text = '', thinking = '', last, pace, bytes = Infinity, fault } = this.step
        if (fault === 'down') return void response.destroy()
        if (typeof fault === 'object')
          return void response
            .writeHead(fault.status, { 'content-type': fault.type ?? 'application/json' })
            .end(fault.body ?? '{"error":"as scripted"}')
        response.writeHead(200, { 'content-type': 'application/x-ndjson' })
        response.flushHeaders()
        if (fault === 'silent') return
        const pieces = (field: string, all: string): Record<string, unknown>[] =>
          (all.match(/.{1,3}/gsu) ?? []).map((piece) => ({ response: '', [field]: piece, done: false }))
        const counts = { prompt_eval_count: 20, eval_count: 7 }
        const lines = [...pieces('thinking', thinking), ...pieces('response', text)]
        if (fault !== 'unended') lines.push({ response: '', done: true, done_reason: 'stop', ...counts, ...last })
        const write = async (line: string): Promise<void> => {
          const whole = Buffer.from(`${line}\n`)
          for (let at = 0; at < whole.length && !response.destroyed; at += bytes) {
            response.write(whole.subarray(at, at + bytes))
            await new Promise((resolve) => setImmediate(resolve))
          }
        }
        for (const [n, line] of lines.entries()) {
          if (response.destroyed) return
          const middle = n >= lines.length >> 1
          if (fault === 'cut' && middle) return void response.destroy()
          if (fault === 'error' && middle)
            return void response.end('{"error":"an error was encountered while running the model"}\n')
          if (fault === 'garbage' && middle) await write('{"response":')
          await write(JSON.stringify({ model: body.model, created_at: '2026-08-01T00:00:00Z', ...line }))
          if (pace !== undefined) await sleep(pace)
          while (fault === 'endless' && middle && !response.destroyed) {
            await write(JSON.stringify({ response: 'on ', done: false }))
            await sleep(2)
          }
        }
        response.end()
      })()
    })
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
    })
  }
  static async start(step: Step): Promise<ScriptedOllama> {
    const server = new ScriptedOllama(step)
    await new Promise<void>((resolve) => server.#server.listen(0, '127.0.0.1', resolve))
    return server
  }
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
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
}
