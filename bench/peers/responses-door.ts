// A second door of the paced engine: `/v1/responses`, for peers that ask their engine for Responses. It tells the engine
// only how many outputs of tools it was sent, and says the engine's chunks as events: same script, same pace, and hardly
// anything to do. A process of its own; see `responsesDoor`.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { fileURLToPath } from 'node:url'
import { Answer } from './naive/answer.ts'
import { itemsOf, type Json, list } from './naive/messages.ts'
import { typescript } from './program.ts'

export type ResponsesDoor = {
  /** Base URL, `…/v1`. */
  readonly url: string
  /** Requests answered, and bytes of their bodies, since the last time. */
  take(): Promise<{ readonly requests: number; readonly bytes: number }>
  stop(): Promise<void>
}
type Said = { readonly port: number; readonly requests: number; readonly bytes: number }
/** Longest request that is read. */
const mostBytes = 64 * 1024 * 1024

/** `engineUrl`: base URL of the paced engine. */
export async function responsesDoor(engineUrl: string): Promise<ResponsesDoor> {
  const child = fork(fileURLToPath(import.meta.url), ['--door', engineUrl], {
    execArgv: [...typescript],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const ended = once(child, 'exit')
  const { port } = await next(child, ended)
  return {
    url: `http://127.0.0.1:${port}/v1`,
    take: async () => {
      child.send('take')
      return next(child, ended)
    },
    stop: async () => {
      child.kill('SIGTERM')
      await ended
    },
  }
}
async function next(child: ChildProcess, ended: Promise<unknown>): Promise<Said> {
  const gone = ended.then(() => {
    throw new Error("The engine's second door has ended.")
  })
  // Said by the process below, and by nobody else.
  const [said] = (await Promise.race([once(child, 'message'), gone])) as [Said]
  return said
}

// ── the process ──────────────────────────────────────────────────────────────────────────────────────────────────────

let requests = 0
let bytes = 0

function serve(engineUrl: string): void {
  const server = createServer((request, response) => {
    if (request.method === 'GET')
      return void response
        .writeHead(200, { 'content-type': 'application/json' })
        .end('{"object":"list","data":[{"id":"paced","object":"model"}]}')
    answer(request, response, engineUrl).catch((e: unknown) => {
      if (!response.headersSent) response.writeHead(500, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ error: { message: String(e), type: 'server_error' } }))
    })
  })
  server.keepAliveTimeout = 75_000
  server.listen(0, '127.0.0.1', () => {
    const address = server.address()
    tell(typeof address === 'object' && address ? address.port : 0)
  })
  process.on('message', () => {
    tell(0)
    requests = bytes = 0
  })
  process.on('disconnect', () => process.exit(0))
}
function tell(port: number): void {
  process.send?.({ port, requests, bytes } satisfies Said)
}

async function answer(request: IncomingMessage, response: ServerResponse, engineUrl: string): Promise<void> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    if ((size += part.length) > mostBytes) throw new Error('The request is too long.')
    parts.push(part)
  }
  requests++
  bytes += size
  // A request of the Responses API; each field is looked at where it is used.
  const asked = JSON.parse(String(Buffer.concat(parts))) as Json
  const outputs = itemsOf(asked['input']).filter((item) => item['type'] === 'function_call_output')
  const [tool] = list(asked['tools'])
  const completion = await fetch(`${engineUrl}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: asked['model'],
      messages: outputs.map(() => ({ role: 'tool', content: '' })),
      ...(tool ? { tools: [{ type: 'function', function: { name: tool['name'] } }] } : {}),
      stream: true,
    }),
  })
  if (!completion.ok || !completion.body) throw new Error(`The engine answers ${completion.status}.`)
  const stream = asked['stream'] === true
  // As the engine writes: all that is due at once is one write.
  let due = ''
  const told = new Answer(asked, (event) => {
    if (stream) due += `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
  })
  if (stream) response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
  const write = (): void => {
    if (stream && due !== '') response.write(due)
    due = ''
  }
  told.begin()
  write()
  const decoder = new TextDecoder()
  let rest = ''
  for await (const piece of completion.body as AsyncIterable<Uint8Array>) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) if (line.startsWith('data: {')) told.take(JSON.parse(line.slice(6)) as Json)
    write()
  }
  const whole = told.end()
  write()
  if (stream) response.end()
  else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(whole))
}

const [, script, flag, given] = process.argv
if (script === fileURLToPath(import.meta.url) && flag === '--door' && given !== undefined) serve(given)
