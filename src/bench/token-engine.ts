// An engine without a model that is sent ids over HTTP, as vLLM is, and gives the same ones back each time: what it costs to
// hand a whole prompt on. Reads without looking, in a process of its own.
import { createServer, type ServerResponse } from 'node:http'
import { forked, listens, serveArgs } from './forked.ts'

export type TokenEngineOptions = {
  /** What it says, the id that ends the turn last. */
  readonly ids: readonly number[]
}
export type TokenEngine = { readonly url: string; stop(): Promise<void> }

/** Starts it on a free port of the loopback, for engines of type `vllm`. */
export async function tokenEngine(options: TokenEngineOptions): Promise<TokenEngine> {
  const { origin, stop } = await forked(import.meta.url, [JSON.stringify(options)], 'The engine of ids')
  return { url: origin, stop }
}

// ── the process ──────────────────────────────────────────────────────────────────────────────────────────────────────
/** An empty request only asks whether there is such an endpoint. */
const empty = 2
const paths = new Set(['/inference/v1/generate'])

function serve({ ids }: TokenEngineOptions): void {
  const event = (value: object): string => `data: ${JSON.stringify(value)}\n\n`
  const choices = ids.map((id, n) => ({
    index: 0,
    token_ids: [id],
    finish_reason: n === ids.length - 1 ? 'stop' : null,
  }))
  const usage = { prompt_tokens: 1, completion_tokens: ids.length, total_tokens: ids.length + 1 }
  const answer = `${choices.map((choice) => event({ choices: [choice] })).join('')}${event({ choices: [], usage })}data: [DONE]\n\n`
  const server = createServer((request, response) => {
    response.on('error', () => response.destroy())
    if (request.url === '/v1/models')
      return json(response, 200, { object: 'list', data: [{ id: 'ids', parent: null }] })
    if (!paths.has(request.url ?? '')) return json(response, 404, { error: { message: 'There is no such endpoint.' } })
    let bytes = 0
    request.on('data', (part: Buffer) => (bytes += part.length))
    request.on('end', () => {
      if (bytes <= empty) return json(response, 400, { error: { message: 'There are no ids.' } })
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(answer)
    })
  })
  server.keepAliveTimeout = 75_000
  listens(server)
}
function json(response: ServerResponse, status: number, value: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}

const [given] = serveArgs(import.meta.url) ?? []
if (given !== undefined) serve(JSON.parse(given) as TokenEngineOptions)
