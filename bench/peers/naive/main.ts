// A Responses proxy over chat completions as one writes it in an afternoon, for comparison: `main.ts PORT ENGINE_URL`.
// Everything is translated at every turn, every event is its own JSON and its own write; `previous_response_id` finds the
// items in a Map. Plain node:http and fetch; no cache, no socket mode.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Answer } from './answer.ts'
import { chatBody, itemsOf, type Json } from './messages.ts'

/** Responses that can be gone on from; the oldest are forgotten. */
const mostKept = 1000
/** Longest request that is read. */
const mostBytes = 64 * 1024 * 1024

const [, , port, engineUrl = ''] = process.argv
const kept = new Map<unknown, readonly Json[]>()

createServer((request, response) => {
  void answer(request, response).catch((e: unknown) => {
    if (!response.headersSent) refuse(response, 500, e instanceof Error ? e.message : String(e))
    else response.end()
  })
}).listen(Number(port), '127.0.0.1')

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.method === 'GET' && request.url === '/health') return void response.end('ok')
  if (request.method !== 'POST' || request.url !== '/v1/responses')
    return refuse(response, 404, 'There is no such path.')
  const text = await read(request)
  if (text === undefined) return refuse(response, 413, `The request is longer than ${mostBytes} bytes.`)
  let asked: Json
  try {
    // A request of the Responses API; each field is looked at where it is used.
    asked = JSON.parse(text) as Json
  } catch {
    return refuse(response, 400, 'The request is no JSON.')
  }
  const before = kept.get(asked['previous_response_id'])
  if (asked['previous_response_id'] != null && !before)
    return refuse(response, 404, 'The previous response is unknown.')
  const items = [...(before ?? []), ...itemsOf(asked['input'])]

  const gone = new AbortController()
  response.on('close', () => gone.abort())
  const completion = await fetch(`${engineUrl}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(chatBody(asked, items)),
    signal: gone.signal,
  })
  if (!completion.ok || !completion.body) return refuse(response, completion.status, await completion.text())

  const stream = asked['stream'] === true
  const told = new Answer(asked, (event) => {
    if (stream) response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
  })
  if (stream) response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
  told.begin()
  try {
    for await (const chunk of chunks(completion.body)) told.take(chunk)
  } catch (e) {
    const why = e instanceof Error ? e.message : String(e)
    if (!stream) return refuse(response, 502, why)
    told.fail(why)
    return void response.end()
  }
  if (asked['store'] !== false) keep(told.id, [...items, ...told.output])
  const whole = told.end()
  if (stream) response.end()
  else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(whole))
}

/** The data of a chat-completions stream, until it says that it is done. */
async function* chunks(body: ReadableStream<Uint8Array>): AsyncGenerator<Json> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const bytes of body) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      if (line.trim() === 'data: [DONE]') return
      if (line.startsWith('data: ')) yield JSON.parse(line.slice(6)) as Json
    }
  }
  throw new Error('The engine ended in the middle of its answer.')
}
async function read(request: IncomingMessage): Promise<string | undefined> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    if ((size += part.length) > mostBytes) return undefined
    parts.push(part)
  }
  return Buffer.concat(parts).toString()
}
function keep(id: string, items: readonly Json[]): void {
  kept.set(id, items)
  if (kept.size > mostKept) for (const oldest of kept.keys()) return void kept.delete(oldest)
}
function refuse(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ error: { message, type: status < 500 ? 'invalid_request_error' : 'server_error' } }))
}
