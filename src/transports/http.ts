// The HTTP doors: the same turns as on a socket, one session each, and everything that is asked about responses.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { complain } from '../protocol/complaint.ts'
import { ApiError } from '../protocol/errors.ts'
import { type Create, parseCompact, parseCreate } from '../protocol/request.ts'
import type { Response } from '../protocol/response.ts'
import { Continuations } from '../session/continuations.ts'
import { resolve } from '../session/resolve.ts'
import { Session } from '../session/session.ts'
import type { Principal } from '../turn/ports.ts'
import { Halt } from '../turn/run.ts'
import { stamp } from '../turn/trace.ts'
import { weigh, weighText } from '../turn/weigh.ts'
import { readBody } from './body.ts'
import { answerHeaders, type Doors, errorHeaders, responsePaths } from './doors.ts'
import { type HttpOutlet, JsonOutlet, SseOutlet } from './sse.ts'

type Asked = {
  readonly principal: Principal
  readonly body: () => Promise<Record<string, unknown>>
  readonly id: string
  readonly query: unknown
}
type Answer = unknown
type Route = {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** Behind a base such as /v1/responses. */
  readonly path: string
  /** A value is sent as JSON; undefined means that the handler has taken the reply over. */
  readonly run: (asked: Asked, doors: Doors, reply: FastifyReply, alive: Set<HttpOutlet>) => Promise<Answer>
}

/** Every path under a responses base: the ownership tests are made from this table. */
export const routes: readonly Route[] = [
  { method: 'POST', path: '', run: create },
  { method: 'POST', path: '/compact', run: compact },
  { method: 'POST', path: '/input_tokens', run: inputTokens },
  { method: 'GET', path: '/:id', run: retrieve },
  { method: 'DELETE', path: '/:id', run: remove },
  { method: 'POST', path: '/:id/cancel', run: cancel },
  { method: 'GET', path: '/:id/input_items', run: inputItems },
]

export function serveHttp(app: FastifyInstance, doors: Doors): void {
  const alive = new Set<HttpOutlet>()
  const beat = setInterval(
    () => {
      const now = Date.now()
      for (const outlet of alive)
        if (outlet.done) alive.delete(outlet)
        else outlet.tick(now, doors.limits)
    },
    Math.min(1000, Math.max(20, Math.min(doors.limits.keepaliveMs, doors.limits.slowReaderMs) / 4)),
  )
  beat.unref()
  app.addHook('onClose', () => clearInterval(beat))

  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  app.addHook('onRequest', async (request, reply) => {
    reply.headers(answerHeaders(request.raw, doors.version))
    // Here and not in a handler of its own, in front of which a body would be taken in.
    if (request.is404) throw noRoute(request)
  })
  app.addHook('onSend', async (_request, reply) => {
    reply.header('openai-processing-ms', String(Math.round(reply.elapsedTime)))
  })
  app.setErrorHandler((e, _request, reply) => sendApiError(reply, asApiError(e, doors)))

  app.get('/healthz', async () => ({ status: 'ok' }))
  app.get('/readyz', async (_request, reply) => {
    try {
      await doors.ready()
      return { status: 'ready' }
    } catch (e) {
      return reply.code(503).send({ status: 'not ready', reason: e instanceof Error ? e.message : String(e) })
    }
  })
  app.get('/v1/models', async (request) => {
    doors.authenticate(request.headers)
    return { object: 'list', data: doors.models.list().map(modelObject) }
  })
  app.get<{ Params: { '*': string } }>('/v1/models/*', async (request) => {
    doors.authenticate(request.headers)
    doors.models.resolve(request.params['*'])
    return modelObject(request.params['*'])
  })
  for (const base of responsePaths) {
    app.get(base, async (request) => {
      doors.authenticate(request.headers)
      throw new ApiError('upgrade_required', 'A GET here opens a WebSocket; send an upgrade request, or POST.')
    })
    for (const { method, path, run } of routes)
      app.route({
        method,
        url: base + path,
        // Before the body: nobody without a key can make the server take one in.
        onRequest: async (request) => void doors.authenticate(request.headers),
        handler: async (request, reply) => {
          const { principal } = doors.authenticate(request.headers)
          const { id = '' } = request.params as { id?: string }
          const body = (): Promise<Record<string, unknown>> =>
            readBody(request.body, request.headers['content-encoding'], doors.limits.http.maxBodyBytes)
          return await run({ principal, body, id, query: request.query }, doors, reply, alive)
        },
      })
  }
}

/** For what the framework refuses before it looks for a route: a path that cannot be decoded. */
export function refusePath(version: string) {
  return (e: { readonly message: string }, request: FastifyRequest, reply: FastifyReply): void => {
    reply.headers(answerHeaders(request.raw, version))
    sendApiError(reply, new ApiError('invalid_request', `The path cannot be read: ${e.message.slice(0, 300)}.`))
  }
}
function sendApiError(reply: FastifyReply, error: ApiError): FastifyReply {
  return reply.code(error.status).headers(errorHeaders(error)).send({ error: error.body })
}
const paths = [
  ...['/healthz', '/readyz', '/v1/models', '/v1/models/:id'],
  ...responsePaths.flatMap((base) => ['', ...routes.map(({ path }) => path)].map((path) => base + path)),
].map((path) => new RegExp(`^${path.replace(':id', '[^/]+')}$`))
/** The framework's own look-up takes the path for a pattern and throws at some of them. */
function noRoute(request: FastifyRequest): ApiError {
  const path = request.url.split('?', 1)[0] ?? ''
  if (paths.some((known) => known.test(path))) return new ApiError('method_not_allowed')
  return new ApiError('not_found', `There is no path ${path.slice(0, 200)}.`)
}

// ── turns ──
async function create(asked: Asked, doors: Doors, reply: FastifyReply, alive: Set<HttpOutlet>): Promise<void> {
  const received = stamp()
  const request = parseWhole(await asked.body(), doors)
  turn(
    request,
    asked.principal,
    doors,
    reply,
    alive,
    request.stream ? new SseOutlet(reply.raw) : new JsonOutlet(reply.raw),
    received,
  )
}
/** A request of one connection has nothing to inherit from, and its one answer is whole. */
function parseWhole(body: unknown, { parseTools }: Doors): Create {
  const request = parseCreate(body, undefined, parseTools)
  if (request.rollout)
    throw new ApiError('unsupported_parameter', 'A rollout needs a socket; over HTTP send a request a step.', 'rollout')
  if (request.lean === undefined) return request
  throw new ApiError('unsupported_parameter', 'Lean turns are for sockets; over HTTP send every setting.', 'continuo')
}
async function compact(asked: Asked, doors: Doors, reply: FastifyReply, alive: Set<HttpOutlet>): Promise<void> {
  const received = stamp()
  const request = parseCompact(await asked.body())
  const shape = ({ id, created_at, output, usage }: Response): unknown => ({
    id,
    object: 'response.compaction',
    created_at,
    output,
    usage,
  })
  turn(request, asked.principal, doors, reply, alive, new JsonOutlet(reply.raw, shape), received)
}
function turn(
  request: Create,
  principal: Principal,
  doors: Doors,
  reply: FastifyReply,
  alive: Set<HttpOutlet>,
  outlet: HttpOutlet,
  received: number,
): void {
  if (doors.draining()) throw new ApiError('server_is_overloaded', 'The server is about to stop; try again.', null, 2)
  const session = new Session(principal, doors, { connection: 'http', failsLate: false })
  for (const [name, value] of Object.entries(reply.getHeaders()))
    if (value !== undefined) reply.raw.setHeader(name, value)
  session.create(request, outlet, received)
  reply.hijack()
  alive.add(outlet)
  whenClosed(reply, () => {
    alive.delete(outlet)
    session.close()
  })
}

/**
 * Once the client has the whole answer or has gone, which may have been before this. A pipelined answer that waits
 * behind another has no socket yet and hears of nothing, so the socket is asked itself.
 */
function whenClosed({ raw }: FastifyReply, then: () => void): void {
  const { socket } = raw.req
  if (socket.destroyed) return then()
  const once = (): void => {
    raw.off('close', once)
    socket.off('close', once)
    then()
  }
  raw.on('close', once)
  socket.setMaxListeners(0).on('close', once)
}

// ── responses ──
const unknown = (id: string): ApiError => new ApiError('response_not_found', `Response with id '${id}' not found.`)
const flag = z.enum(['true', 'false']).optional()
const replay = z.object({ stream: flag, starting_after: z.coerce.number().int().min(0).optional() })

async function retrieve(
  { principal, id, query }: Asked,
  doors: Doors,
  reply: FastifyReply,
  alive: Set<HttpOutlet>,
): Promise<Answer> {
  const parsed = replay.safeParse(query)
  if (!parsed.success) throw complain(parsed.error)
  const response = await find(id, principal, doors)
  if (parsed.data.stream !== 'true') return response
  const log = doors.live.log(id, principal.owner)
  if (!log) throw new ApiError('events_gone')
  const outlet = new SseOutlet(reply.raw)
  for (const [name, value] of Object.entries(reply.getHeaders()))
    if (value !== undefined) reply.raw.setHeader(name, value)
  log.attach(outlet, parsed.data.starting_after)
  reply.hijack()
  const { terminal } = log
  if (terminal && (parsed.data.starting_after ?? -1) >= terminal.sequence_number) outlet.end()
  alive.add(outlet)
  whenClosed(reply, () => {
    alive.delete(outlet)
    log.detach(outlet)
  })
  return undefined
}
async function find(id: string, { owner }: Principal, doors: Doors): Promise<Response> {
  const response = doors.live.response(id, owner) ?? (await doors.settle.load(id, owner))?.response
  if (!response || doors.settle.isGone(id)) throw unknown(id)
  return response
}
async function remove({ principal, id }: Asked, doors: Doors): Promise<Answer> {
  await find(id, principal, doors)
  const turn = doors.live.turn(id, principal.owner)
  // Nothing of one that runs is written yet, and from here on nothing will be, even if it ends meanwhile.
  if (turn) doors.settle.forget(id)
  await doors.settle.remove(id, principal.owner)
  doors.settle.forget(id)
  doors.index.forget(id)
  turn?.stop.abort(new Halt('cancelled'))
  doors.live.drop(id)
  return { id, object: 'response.deleted', deleted: true }
}
async function cancel({ principal, id }: Asked, doors: Doors): Promise<Answer> {
  doors.live.turn(id, principal.owner)?.stop.abort(new Halt('cancelled'))
  await doors.live.over(id, principal.owner)
  return await find(id, principal, doors)
}

const paging = z.object({
  limit: z.coerce.number().int().min(1).max(100).default(20),
  order: z.enum(['asc', 'desc']).default('desc'),
  after: z.string().min(1).max(256).optional(),
})
async function inputItems({ principal, id, query }: Asked, doors: Doors): Promise<Answer> {
  const parsed = paging.safeParse(query)
  if (!parsed.success) throw complain(parsed.error)
  const { limit, order, after } = parsed.data
  const page = await doors.settle.input(id, principal.owner, { limit, order, after })
  if (!page) throw unknown(id)
  return {
    object: 'list',
    data: page.items,
    first_id: page.items[0]?.id ?? null,
    last_id: page.items.at(-1)?.id ?? null,
    has_more: page.more,
  }
}
async function inputTokens({ principal, body }: Asked, doors: Doors): Promise<Answer> {
  const value = await body()
  const request = parseWhole(
    { ...value, model: value['model'] ?? 'any', input: value['input'] ?? [], store: false },
    doors,
  )
  const { named, seen } = await resolve(request, principal, new Continuations(0), doors)
  const { instructions, tools } = request.settings
  const settings = weighText(instructions ?? '') + (tools.length > 0 ? weighText(JSON.stringify(tools)) : 0)
  return { object: 'response.input_tokens', input_tokens: named.weight + weigh(seen) + settings }
}

const modelObject = (id: string): unknown => ({ id, object: 'model', created: 0, owned_by: 'continuo' })

/** The framework's own errors come with a status and code of theirs; ours stay what they are. */
function asApiError(e: unknown, doors: Doors): ApiError {
  if (e instanceof ApiError) return e
  const status = (e as { statusCode?: unknown }).statusCode
  if (status === 413) return new ApiError('payload_too_large')
  if (status === 415) return new ApiError('unsupported_media_type')
  if (typeof status === 'number' && status < 500)
    return new ApiError('invalid_request', e instanceof Error ? e.message : undefined)
  doors.report(e, 'a request failed')
  return ApiError.of(e)
}
