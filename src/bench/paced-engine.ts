// A chat-completions server without a model: follows one script, keeps an exact pace, and costs as little as it can, so
// that what stands in front of it is what is measured. A process of its own; see `pacedEngine`.
import { fork } from 'node:child_process'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

export type PacedOptions = {
  /** Tokens a second for each request; 0: at once. */
  readonly tokensPerSecond: number
  readonly ttftMs: number
  /** Tokens of an answer, its call included. */
  readonly outputTokens: number
  /** Tool rounds before the final text; 0: no calls. */
  readonly calls: number
}
export type PacedEngine = {
  /** Base URL, `…/v1`. */
  readonly url: string
  /** Requests answered, and bytes of their bodies, since the last time. */
  take(): Promise<{ readonly requests: number; readonly bytes: number }>
  stop(): Promise<void>
}

/** Starts it in a process of its own, on a free port of the loopback. */
export async function pacedEngine(options: PacedOptions): Promise<PacedEngine> {
  const here = fileURLToPath(import.meta.url)
  const child = fork(here, ['--serve', JSON.stringify(options)], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  // Said by the process below, and by nobody else.
  const [started] = (await Promise.race([
    once(child, 'message'),
    ended.then(() => {
      throw new Error('The paced engine did not start.')
    }),
  ])) as [{ port: number }]
  return {
    url: `http://127.0.0.1:${started.port}/v1`,
    take: async () => {
      child.send('take')
      const [taken] = (await once(child, 'message')) as [{ requests: number; bytes: number }]
      return taken
    },
    stop: async () => {
      child.kill('SIGTERM')
      await ended
    },
  }
}

// ── the process ──────────────────────────────────────────────────────────────────────────────────────────────────────

type Message = { readonly role?: unknown }
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
  readonly chunks: readonly string[]
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
  server.listen(0, '127.0.0.1', () => {
    const address = server.address()
    process.send?.({ port: typeof address === 'object' && address ? address.port : 0 })
  })
  process.on('message', () => {
    process.send?.({ requests, bytes })
    requests = bytes = 0
  })
  process.on('disconnect', () => process.exit(0))
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
  const { tokensPerSecond, ttftMs, outputTokens, calls } = options
  const done = (sent.messages ?? []).filter((m) => m.role === 'tool').length
  const tool = String(sent.tools?.[0]?.function?.name ?? '')
  const call = done < calls && tool !== ''
  const pieces = call ? callPieces(done, outputTokens) : textPieces(outputTokens)
  const usage = { prompt_tokens: 1, completion_tokens: pieces.length, total_tokens: pieces.length + 1 }
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
    const after = ttftMs + (tokensPerSecond === 0 ? 0 : (pieces.length * 1000) / tokensPerSecond)
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
    const stream = { answer, chunks, end, at: 0, from: performance.now() }
    streams.add(stream)
    answer.once('close', () => streams.delete(stream))
    beat ??= setInterval(() => tick(tokensPerSecond), beatMs)
  }, ttftMs)
}
/** Whatever is due of every stream, in one write each. The first token is due at once; nothing drifts. */
function tick(tokensPerSecond: number): void {
  const now = performance.now()
  for (const stream of streams) {
    const due = Math.min(stream.chunks.length, 1 + Math.floor(((now - stream.from) * tokensPerSecond) / 1000))
    if (due > stream.at) {
      const text = stream.chunks.slice(stream.at, due).join('')
      stream.at = due
      if (due === stream.chunks.length) {
        streams.delete(stream)
        stream.answer.end(text + stream.end)
      } else stream.answer.write(text)
    }
  }
  if (streams.size > 0) return
  clearInterval(beat)
  beat = undefined
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

const [, script, flag, given] = process.argv
if (script === fileURLToPath(import.meta.url) && flag === '--serve' && given !== undefined)
  serve(JSON.parse(given) as PacedOptions)
