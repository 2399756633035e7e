// A llama-server without a model: slots with a longest common prefix, its frames, refusals and gaps as the real one has
// them (recorded from llama.cpp b1-0c1e570, August 2026), an answer by script, and faults.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Tokenizer } from '../../src/turn/ports.ts'
import { plainOf } from './token-prompts.ts'

export type CompletionBody = { prompt: number[]; n_predict?: number; id_slot?: number; [field: string]: unknown }
export type Recorded = { path: string; headers: IncomingMessage['headers']; raw: string; body: CompletionBody }
export type Step = {
  /** What is sampled; the end of the turn with it. */
  ids?: readonly number[]
  /** In place of `ids`: the data of events as they are. */
  frames?: readonly string[]
  /** Does the server know the last id for one that ends a turn? Otherwise it goes on with `ids` from the start. */
  knowsStop?: boolean
  last?: Record<string, unknown>
  /** Milliseconds between frames; bytes a write. */
  pace?: number
  bytes?: number
  fault?:
    | { status: number; body?: string; type?: string }
    /** `down`, `cut` (after half of the frames), `error` (an event in the middle), `garbage`, `silent` (the head only), `unended` (without a last frame). */
    | 'down'
    | 'cut'
    | 'error'
    | 'garbage'
    | 'silent'
    | 'unended'
}
export type Script = (body: CompletionBody, n: number) => Step

export class ScriptedLlamaServer {
  readonly requests: Recorded[] = []
  script: Script
  /** Requests that run, and whose connection went before they were answered. */
  running = 0
  dropped = 0
  readonly context = 1024
  readonly #slots: { ids: readonly number[]; busy: boolean; used: number }[]
  readonly #waiting: (() => void)[] = []
  readonly #tokenizer: Tokenizer
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #clock = 0

  private constructor(tokenizer: Tokenizer, script: Script, slots: number) {
    this.#tokenizer = tokenizer
    this.script = script
    this.#slots = Array.from({ length: slots }, () => ({ ids: [], busy: false, used: 0 }))
    this.#server = createServer((request, response) => void this.#serve(request, response))
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
    })
  }
  static async start(tokenizer: Tokenizer, script: Script, slots = 2): Promise<ScriptedLlamaServer> {
    const server = new ScriptedLlamaServer(tokenizer, script, slots)
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
  get busy(): number {
    return this.#slots.filter((s) => s.busy).length
  }
  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let raw = ''
    request.setEncoding('utf8')
    for await (const piece of request) raw += String(piece)
    const path = request.url ?? ''
    const json = (status: number, value: unknown): void =>
      void response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify(value))
    const refuse = (message: string, type = 'invalid_request_error', more = {}): void =>
      json(400, { error: { code: 400, message, type, ...more } })
    if (path === '/v1/models') return json(200, { object: 'list', data: [{ id: 'scripted.gguf' }] })
    if (path === '/props')
      return json(200, {
        default_generation_settings: { n_ctx: this.context, params: {} },
        total_slots: this.#slots.length,
        chat_template: '{{ messages }}',
      })
    const body = JSON.parse(raw) as CompletionBody
    if (path === '/tokenize') return json(200, { tokens: plainOf(this.#tokenizer, String(body['content'])) })
    if (path !== '/completion') return json(404, { error: { code: 404, message: 'File Not Found' } })
    this.requests.push({ path, headers: request.headers, raw, body })
    this.running++
    response.on('close', () => {
      this.running--
      if (!response.writableFinished) this.dropped++
    })
    if (body.prompt.some((id) => id >= this.#tokenizer.size)) return refuse('Prompt contains invalid tokens')
    if (String(body['grammar'] ?? '').includes('broken'))
      return refuse('Failed to initialize samplers: failed to parse grammar')
    if (body.prompt.length >= this.context)
      return refuse(
        `request (${body.prompt.length} tokens) exceeds the available context size (${this.context} tokens), try increasing it`,
        'exceed_context_size_error',
        { n_prompt_tokens: body.prompt.length, n_ctx: this.context },
      )
    const step = this.script(body, this.requests.length)
    const index = await this.#slot(body)
    const slot = this.#slots[index]
    if (!slot) return
    try {
      await this.#answer(step, body, index, response)
    } finally {
      slot.busy = false
      slot.used = ++this.#clock
      for (const wake of this.#waiting.splice(0)) wake()
    }
  }
  async #slot(body: CompletionBody): Promise<number> {
    while (true) {
      const free = this.#slots.filter((s) => !s.busy)
      const named = body.id_slot === undefined ? undefined : this.#slots[body.id_slot % this.#slots.length]
      const alike = (ids: readonly number[]): number => common(ids, body.prompt) / body.prompt.length
      const best = free.toSorted((a, b) => alike(b.ids) - alike(a.ids))[0]
      const oldest = free.toSorted((a, b) => a.used - b.used)[0]
      const slot = named ?? (best && alike(best.ids) > 0.1 ? best : oldest)
      if (slot && !slot.busy) {
        slot.busy = true
        return this.#slots.indexOf(slot)
      }
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    }
  }
  async #answer(step: Step, body: CompletionBody, index: number, response: ServerResponse): Promise<void> {
    const { fault } = step
    const slot = this.#slots[index]
    if (!slot || response.destroyed) return
    if (fault === 'down') return void response.destroy()
    if (typeof fault === 'object')
      return void response
        .writeHead(fault.status, { 'content-type': fault.type ?? 'application/json; charset=utf-8' })
        .end(fault.body ?? '{"error":{"code":500,"message":"as scripted","type":"server_error"}}')
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.flushHeaders()
    if (fault === 'silent') return void (await new Promise((resolve) => response.once('close', resolve)))

    // At least one token is evaluated, whatever is cached.
    const cached = Math.min(common(slot.ids, body.prompt), body.prompt.length - 1)
    const bound = Math.max(1, body.n_predict ?? Infinity)
    const ids = (step.ids ?? []).slice(0, bound)
    const frames = step.frames ?? this.#frames(ids, body, cached)
    slot.ids = [...body.prompt, ...ids.slice(0, -1)]
    const ended = ids.length < bound && (step.knowsStop ?? true)
    const timings = { cache_n: cached, prompt_n: body.prompt.length - cached, predicted_n: ids.length }
    const counts = {
      tokens_cached: slot.ids.length,
      tokens_predicted: ids.length,
      tokens_evaluated: body.prompt.length,
    }
    const last = { id_slot: index, tokens: [], content: '', stop: true, truncated: false, timings, ...counts }
    for (let round = 0; round === 0 || (step.knowsStop === false && !response.destroyed); round++)
      for (const [n, frame] of frames.entries()) {
        if (response.destroyed) return
        const middle = n >= frames.length >> 1
        if (fault === 'cut' && middle) return void response.destroy()
        if (fault === 'error' && middle)
          return void response.end('data: {"error":{"code":500,"message":"decode failed","type":"server_error"}}\n\n')
        if (fault === 'garbage' && middle) await write(response, 'data: {"tokens":\n\n', step.bytes)
        await write(response, `data: ${frame}\n\n`, step.bytes)
        if (step.pace !== undefined) await sleep(step.pace)
      }
    if (fault !== 'unended' && step.frames === undefined)
      await write(
        response,
        `data: ${JSON.stringify({ ...last, stop_type: ended ? 'eos' : 'limit', ...step.last })}\n\n`,
        step.bytes,
      )
    response.end()
  }
  /** One a token; none while the text ends inside a character. Progress comes first, with an id that nobody sampled. */
  #frames(ids: readonly number[], body: CompletionBody, cached: number): string[] {
    const total = body.prompt.length
    const frames = [cached, total].map((processed) =>
      JSON.stringify({
        ...{
          index: 0,
          content: '',
          tokens: [0],
          stop: false,
          id_slot: -1,
          tokens_predicted: 0,
          tokens_evaluated: total,
        },
        prompt_progress: { total, cache: cached, processed, time_ms: 1 },
      }),
    )
    const stream = this.#tokenizer.stream()
    for (const [n, id] of ids.entries()) {
      const name = this.#tokenizer.nameOf(id)
      // What ends a turn has no text, but a frame.
      const content = name === undefined ? stream.push(id) : name.startsWith('<|') ? '' : name
      if (content === '' && name === undefined) continue
      frames.push(
        JSON.stringify({
          ...{ index: 0, content, tokens: [id], stop: false, id_slot: -1 },
          ...{ tokens_predicted: n + 1, tokens_evaluated: total },
        }),
      )
    }
    return frames
  }
}

function common(a: readonly number[], b: readonly number[]): number {
  let n = 0
  while (n < a.length && n < b.length && a[n] === b[n]) n++
  return n
}
async function write(response: ServerResponse, text: string, bytes = Infinity): Promise<void> {
  const all = Buffer.from(text)
  for (let at = 0; at < all.length; at += bytes) {
    if (response.destroyed) return
    const drained = response.write(all.subarray(at, at + bytes))
    if (!drained)
      await new Promise<void>((resolve) => {
        const go = (): void => {
          response.off('drain', go).off('close', go)
          resolve()
        }
        response.once('drain', go).once('close', go)
      })
    else await new Promise((resolve) => setImmediate(resolve))
  }
}
