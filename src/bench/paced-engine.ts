// A chat-completions server without a model: follows one script, keeps an exact pace, and costs as little as it can, so
// that what stands in front of it is what is measured. A process of its own; see `pacedEngine`.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { forked, listens, serveArgs } from './forked.ts'
import { micros, stampOf } from './stamp.ts'

export type PacedOptions = {
  /** Tokens a second for each request; 0: at once. */
  readonly tokensPerSecond: number
  readonly ttftMs: number
  /** Tokens of an answer, its call included. */
  readonly outputTokens: number
  /** Tool rounds before the final text; 0: no calls. */
  readonly calls: number
  /** Every token is a stamp (`stamp.ts`) of when it was written, and the last message may ask for `RATE/TOKENS` of its own. */
  readonly stamped?: boolean
}
export type PacedEngine = {
  /** Base URL, `…/v1`. */
  readonly url: string
  /** Since the last time: requests answered, bytes of their bodies, processor time in µs. */
  take(): Promise<{ readonly requests: number; readonly bytes: number; readonly cpuUs: number }>
  stop(): Promise<void>
}

/** Starts it in a process of its own, on a free port of the loopback. */
export async function pacedEngine(options: PacedOptions): Promise<PacedEngine> {
  const engine = await forked<{ requests: number; bytes: number; cpuUs: number }>(
    import.meta.url,
    [JSON.stringify(options)],
    'The paced engine',
  )
  return { url: `${engine.origin}/v1`, take: engine.take, stop: engine.stop }
}

// ── the process ──────────────────────────────────────────────────────────────────────────────────────────────────────

type Message = { readonly role?: unknown; readonly content?: unknown }
type Body = {
  readonly messages?: readonly Message[]
  readonly tools?: readonly { readonly function?: { readonly name?: unknown } }[]
  readonly stream?: unknown
  readonly model?: unknown
}
/** Longest body that is read. */
const mostBytes = 64 * 1024 * 1024
/** How often due tokens are written, in milliseconds. */
const beatMs = 1

type Stream = {
  readonly answer: ServerResponse
  /** What a chunk says; empty where it says when it was written. */
  readonly chunks: readonly string[]
  /** Around a stamp. */
  readonly around: readonly [string, string] | undefined
  readonly count: number
  readonly tokensPerSecond: number
  readonly end: string
  at: number
  readonly from: number
}
const streams = new Set<Stream>()
let beat: NodeJS.Timeout | undefined
let requests = 0
let bytes = 0

function serve(options: PacedOptions): void {
  const server = createServer((request, answer) => {
    answer.on('error', () => answer.destroy())
    if (request.method === 'GET') return json(answer, { object: 'list', data: [{ id: 'paced', object: 'model' }] })
    void body(request).then(
      (sent) => speak(sent, options, answer),
      () => json(answer, { error: { message: 'The body is no JSON, or too long.' } }, 400),
    )
  })
  server.keepAliveTimeout = 75_000
  listens(server, () => {
    const taken = { requests, bytes }
    requests = bytes = 0
    return taken
  })
}
async function body(request: IncomingMessage): Promise<Body> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length
    if (size > mostBytes) throw new Error('too long')
    parts.push(part)
  }
  requests++
  bytes += size
  // Any JSON a gateway may send; what is used of it is looked at.
  return JSON.parse(String(Buffer.concat(parts))) as Body
}
function json(answer: ServerResponse, value: object, status = 200): void {
  answer.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}

function speak(sent: Body, options: PacedOptions, answer: ServerResponse): void {
  const { ttftMs, calls, stamped = false } = options
  const { tokensPerSecond, outputTokens } = (stamped && wanted(sent)) || options
  const done = (sent.messages ?? []).filter((m) => m.role === 'tool').length
  const tool = String(sent.tools?.[0]?.function?.name ?? '')
  const call = done < calls && tool !== ''
  const around = stamped && !call && tokensPerSecond > 0
  const pieces = around ? [] : call ? callPieces(done, outputTokens) : textPieces(outputTokens)
  const count = around ? outputTokens : pieces.length
  const usage = { prompt_tokens: 1, completion_tokens: count, total_tokens: count + 1 }
  const head = {
    id: `chatcmpl-${requests}`,
    object: 'chat.completion.chunk',
    created: 1,
    model: String(sent.model ?? 'paced'),
  }
  const finish = call ? 'tool_calls' : 'stop'
  if (sent.stream !== true) {
    const text = pieces.join('')
    const message = call
      ? {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: `call_${done}`, type: 'function', function: { name: tool, arguments: text } }],
        }
      : { role: 'assistant', content: text }
    const whole = { ...head, object: 'chat.completion', choices: [{ index: 0, message, finish_reason: finish }], usage }
    const after = ttftMs + (tokensPerSecond === 0 ? 0 : (count * 1000) / tokensPerSecond)
    setTimeout(() => json(answer, whole), after)
    return
  }
  const event = (delta: object, finish_reason: string | null = null): string =>
    `data: ${JSON.stringify({ ...head, choices: [{ index: 0, delta, finish_reason }] })}\n\n`
  const chunks = pieces.map((piece, n) => {
    if (!call) return event(n === 0 ? { role: 'assistant', content: piece } : { content: piece })
    const opens =
      n === 0
        ? { id: `call_${done}`, type: 'function', function: { name: tool, arguments: piece } }
        : { function: { arguments: piece } }
    return event({ ...(n === 0 ? { role: 'assistant' } : {}), tool_calls: [{ index: 0, ...opens }] })
  })
  const end = `${event({}, finish)}data: ${JSON.stringify({ ...head, choices: [], usage })}\n\ndata: [DONE]\n\n`
  answer.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
  answer.socket?.setNoDelay(true)
  setTimeout(() => {
    if (tokensPerSecond === 0) return answer.end(chunks.join('') + end)
    const [before = '', after = ''] = event({ content: '\n' }).split('\\n')
    const parts = around ? ([before, after] as const) : undefined
    const stream = { answer, chunks, around: parts, count, tokensPerSecond, end, at: 0, from: performance.now() }
    streams.add(stream)
    answer.once('close', () => streams.delete(stream))
    beat ??= setInterval(tick, beatMs)
    // Chunks are written past the answer, see `write`.
    answer.flushHeaders()
  }, ttftMs)
}
/** Whatever is due of every stream, in one write each. The first token is due at once; nothing drifts. */
function tick(): void {
  const now = performance.now()
  const stamp = stampOf(micros())
  for (const stream of streams) {
    const { answer, around, chunks, count, from, tokensPerSecond } = stream
    const due = Math.min(count, 1 + Math.floor(((now - from) * tokensPerSecond) / 1000))
    if (due <= stream.at) continue
    const text = around
      ? (around[0] + stamp + around[1]).repeat(due - stream.at)
      : chunks.slice(stream.at, due).join('')
    stream.at = due
    if (due === count) {
      streams.delete(stream)
      answer.end(text + stream.end)
    } else write(answer, text)
  }
  if (streams.size > 0) return
  clearInterval(beat)
  beat = undefined
}
/** A chunk as one string, where Node would write three. */
function write(answer: ServerResponse, text: string): void {
  answer.socket?.write(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`)
}
/** `RATE/TOKENS` in the last message. */
function wanted({ messages = [] }: Body): { tokensPerSecond: number; outputTokens: number } | undefined {
  const asked = /(\d{1,7})\/(\d{1,8})"?\W*$/.exec(JSON.stringify(messages.at(-1)?.content ?? ''))
  return asked ? { tokensPerSecond: Number(asked[1]), outputTokens: Number(asked[2]) } : undefined
}

/** The arguments of call `n`, about four characters a piece, `count` pieces. */
function callPieces(n: number, count: number): string[] {
  const open = `{"cmd":"sed -n '${n}p' file.txt","why":"`
  const pieces: string[] = open.match(/.{1,4}/g) ?? []
  while (pieces.length < count - 1) pieces.push(` so${pieces.length % 10}`)
  return [...pieces, '"}']
}
const textPieces = (count: number): string[] =>
  Array.from({ length: Math.max(1, count) }, (_, n) => (n === 0 ? 'Done' : ` w${n % 100}`))

const [given] = serveArgs(import.meta.url) ?? []
if (given !== undefined) serve(JSON.parse(given) as PacedOptions)
