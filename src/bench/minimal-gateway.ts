// Two gateways to measure ours against, each in a process of its own: `minimal` does the least that any gateway must do, as
// cheaply as we know, and keeps nothing; `naive` does the same with what first comes to hand. Sockets only, no errors told.
import { createServer, type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { type Dispatcher, Pool } from 'undici'
import { type WebSocket, WebSocketServer } from 'ws'
import { forked, listens, serveArgs } from './forked.ts'

export type Kind = 'minimal' | 'naive'
export type Gateway = {
  /** `http://127.0.0.1:PORT/v1`; a socket is at `/responses`. */
  readonly url: string
  /** Processor time since the last time, µs. */
  take(): Promise<{ readonly cpuUs: number }>
  stop(): Promise<void>
}

/** `engine`: base URL of a chat-completions server. */
export async function gateway(kind: Kind, engine: string): Promise<Gateway> {
  const { origin, take, stop } = await forked<{ cpuUs: number }>(import.meta.url, [kind, engine], `The ${kind} gateway`)
  return { url: `${origin}/v1`, take, stop }
}

// ── the process ──────────────────────────────────────────────────────────────────────────────────────────────────────

type Asked = { readonly model?: unknown; readonly input?: unknown }
type Piece = { readonly choices?: readonly { readonly delta?: { readonly content?: unknown } }[] }
type Speak = (body: string, socket: WebSocket, tcp: Socket) => void

function serve(kind: Kind, engine: string): void {
  const speak = kind === 'minimal' ? minimal(engine) : naive(engine)
  const server = createServer((_, answer) => answer.writeHead(404).end())
  const sockets = new WebSocketServer({ server, perMessageDeflate: false })
  sockets.on('connection', (socket: WebSocket, { socket: tcp }: IncomingMessage) => {
    tcp.setNoDelay(true)
    socket.on('message', (data: Buffer) => {
      // The benchmark's own client is the only one.
      const { model, input } = JSON.parse(String(data)) as Asked
      speak(JSON.stringify({ model, messages: [{ role: 'user', content: input }], stream: true }), socket, tcp)
    })
  })
  listens(server)
}
const envelope = (type: string, n: number): string =>
  JSON.stringify({ type, response: { id: 'resp_1', object: 'response', output: [] }, sequence_number: n })

/** Dispatch, lines cut by hand, one JSON.parse an event, an event from a template, one write for each read. */
function minimal(engine: string): Speak {
  const { origin, pathname } = new URL(engine)
  const pool = new Pool(origin, { connections: 512, pipelining: 1 })
  return (body, _, tcp) => {
    let n = 0
    let rest = ''
    const eventsOf = (chunk: Buffer): string => {
      const text = rest + chunk.toString('utf8')
      let frames = ''
      let from = 0
      for (let to = text.indexOf('\n\n'); to >= 0; to = text.indexOf('\n\n', from)) {
        const data = text.slice(from + 6, to)
        from = to + 2
        if (data === '[DONE]') continue
        const content = (JSON.parse(data) as Piece).choices?.[0]?.delta?.content
        if (typeof content === 'string')
          frames += frame(
            `{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"sequence_number":${n++},"content_index":0,"delta":${JSON.stringify(content)},"logprobs":[]}`,
          )
      }
      rest = text.slice(from)
      return frames
    }
    tcp.write(frame(envelope('response.created', n++)), 'latin1')
    const reader: Dispatcher.DispatchHandler = {
      onRequestStart: () => {},
      onResponseStart: () => {},
      onResponseData: (_controller, chunk) => {
        const frames = eventsOf(chunk)
        if (frames !== '') tcp.write(frames, 'latin1')
      },
      onResponseEnd: () => tcp.write(frame(envelope('response.completed', n++)), 'latin1'),
      onResponseError: () => tcp.destroy(),
    }
    const headers = { 'content-type': 'application/json' }
    pool.dispatch({ method: 'POST', path: `${pathname}/chat/completions`, headers, body }, reader)
  }
}
/** A frame of ASCII text, as the characters of its bytes. */
function frame(text: string): string {
  const { length } = text
  if (length < 126) return `\x81${String.fromCharCode(length)}${text}`
  if (length > 65_535) throw new RangeError('That is too long for a frame of this gateway.')
  return `\x81\x7e${String.fromCharCode(length >> 8, length & 255)}${text}`
}

/** fetch, a decoder, an object for each event, and one send for each. */
function naive(engine: string): Speak {
  const run = async (body: string, socket: WebSocket): Promise<void> => {
    let n = 0
    socket.send(envelope('response.created', n++))
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(`${engine}/chat/completions`, { method: 'POST', headers, body })
    const decoder = new TextDecoder()
    let rest = ''
    for await (const chunk of answer.body ?? []) {
      const blocks = (rest + decoder.decode(chunk as Uint8Array, { stream: true })).split('\n\n')
      rest = blocks.pop() ?? ''
      for (const block of blocks) {
        const data = block.slice('data: '.length)
        if (data === '[DONE]') continue
        const content = (JSON.parse(data) as Piece).choices?.[0]?.delta?.content
        if (typeof content !== 'string') continue
        const type = 'response.output_text.delta'
        const at = { item_id: 'msg_1', output_index: 0, content_index: 0 }
        socket.send(JSON.stringify({ type, ...at, sequence_number: n++, delta: content, logprobs: [] }))
      }
    }
    socket.send(envelope('response.completed', n++))
  }
  return (body, socket) => void run(body, socket).catch(() => socket.terminate())
}

const [kind, engine] = serveArgs(import.meta.url) ?? []
if (engine !== undefined) serve(kind === 'naive' ? 'naive' : 'minimal', engine)
