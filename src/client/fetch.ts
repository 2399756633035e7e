// A drop-in `fetch`: POSTs to …/responses go over a socket, as deltas where the conversation allows it, and come back
// as the Response that HTTP would have given. Everything else, and whatever the socket refuses, goes to the real fetch.
import { errorTable } from '../protocol/errors.ts'
import { isTerminal } from '../protocol/events.ts'
import type { Item } from '../protocol/items.ts'
import type { Response as ModelResponse } from '../protocol/response.ts'
import { socketUrl, type ConnectOptions } from './connect-options.ts'
import { connect, type Connection } from './connection.ts'
import { Cancelled, ConnectionLost, RequestRejected, Unreachable, UpgradeRefused } from './failures.ts'
import { inOrder, type Flight } from './flight.ts'
import type { CreateBody } from './history.ts'
import type { ServerEvent } from './frame.ts'

export type FetchOptions = Partial<Omit<ConnectOptions, 'apiKey' | 'lanes'>> & {
  /** Used where a request brings no `Authorization`. */
  readonly apiKey?: string
  /** What carries all else. Default: the global `fetch`, looked up per request. */
  readonly http?: typeof fetch
  /** Told whenever a request that could have gone over the socket goes over HTTP. */
  readonly onFallback?: (reason: Error) => void
  /** Milliseconds for which HTTP is used without asking after a 426, and after another failed upgrade. */
  readonly coolDownMs?: { readonly refused?: number; readonly failed?: number }
}
export type SocketFetch = typeof fetch & {
  /** Closes all sockets. Later requests go over HTTP. */
  close(): void
  /** Calls that run or wait on sockets now. */
  readonly busy: number
}

/** Connections kept, one per URL and identity; the one unused for longest is closed when it is idle. */
const maxConnections = 8
const identity = ['authorization', 'api-key', 'openai-organization', 'openai-project']
/** Reader's limits are wide: over HTTP a slow reader would only slow the sender. */
const buffer = { maxEvents: 262_144, maxBytes: 134_217_728 }

type Asked = { url: URL; headers: Headers; body: CreateBody; stream: boolean; signal: AbortSignal | undefined }

export function createFetch(options: FetchOptions = {}): SocketFetch {
  const connections = new Map<string, Connection>()
  const cold = new Map<string, { until: number; reason: Error }>()
  let closed = false
  const http = (...args: Parameters<typeof fetch>): Promise<Response> => (options.http ?? globalThis.fetch)(...args)

  function connectionFor(key: string, url: string, headers: Record<string, string>): Connection {
    const { http: _, onFallback: __, coolDownMs: ___, apiKey: ____, ...rest } = options
    const connection =
      connections.get(key) ??
      connect({
        buffer,
        reconnect: { attempts: 3, initialMs: 100, maxMs: 2000 },
        ...rest,
        url,
        headers: { ...rest.headers, ...headers },
      })
    connections.delete(key)
    connections.set(key, connection)
    for (const [old, idle] of connections) {
      if (connections.size <= maxConnections) break
      if (idle.busy > 0) continue
      idle.close()
      connections.delete(old)
    }
    return connection
  }

  async function socketFetch(...args: Parameters<typeof fetch>): Promise<Response> {
    const asked = closed ? undefined : await readRequest(...args)
    if (!asked) return http(...args)
    asked.signal?.throwIfAborted()
    const url = socketUrl(options.url ?? asked.url.href)
    const headers: Record<string, string> = {}
    if (options.apiKey !== undefined) headers['authorization'] = `Bearer ${options.apiKey}`
    for (const name of identity) {
      const value = asked.headers.get(name)
      if (value !== null) headers[name] = value
    }
    const key = JSON.stringify([url, headers])
    const frost = cold.get(key)
    if (frost && frost.until > Date.now()) {
      options.onFallback?.(frost.reason)
      return http(...args)
    }
    const call = connectionFor(key, url, headers).create(asked.body, {
      signal: asked.signal,
      quietStart: true,
    }) as Flight
    try {
      return asked.stream ? await streamed(call, asked.signal) : await collected(call)
    } catch (error) {
      if (error instanceof RequestRejected) return refusal(error.status, error.error, error.headers)
      if (error instanceof Cancelled) asked.signal?.throwIfAborted()
      // Nothing of an answer reached the caller yet, so HTTP can do it from the start.
      if (!(error instanceof UpgradeRefused || error instanceof Unreachable || error instanceof ConnectionLost))
        throw error
      if (error instanceof ConnectionLost && !call.untold) throw new TypeError('terminated', { cause: error })
      const wait = coolDown(error, options)
      if (wait > 0) remember(cold, key, { until: Date.now() + wait, reason: error })
      options.onFallback?.(error)
      return http(...args)
    }
  }
  return Object.defineProperties(socketFetch as SocketFetch, {
    close: {
      value: () => {
        closed = true
        for (const connection of connections.values()) connection.close()
        connections.clear()
      },
    },
    busy: { get: () => [...connections.values()].reduce((sum, connection) => sum + connection.busy, 0) },
  })
}

/** 426 says it outright. A bad key is no reason to stay away: with the next key it is another connection anyway. */
function coolDown(error: Error, { coolDownMs = {} }: FetchOptions): number {
  if (error instanceof UpgradeRefused && error.status === 426) return coolDownMs.refused ?? 300_000
  if (error instanceof UpgradeRefused && (error.status === 401 || error.status === 403)) return 0
  return error instanceof ConnectionLost ? 0 : (coolDownMs.failed ?? 10_000)
}
function remember<T>(map: Map<string, T>, key: string, value: T): void {
  map.delete(key)
  map.set(key, value)
  for (const old of map.keys()) {
    if (map.size <= 64) return
    map.delete(old)
  }
}

/** The request if it is one for the socket. The arguments stay usable for HTTP. */
async function readRequest(...[input, init]: Parameters<typeof fetch>): Promise<Asked | undefined> {
  const request = input instanceof Request ? input : undefined
  const method = init?.method ?? request?.method ?? 'GET'
  if (method.toUpperCase() !== 'POST') return undefined
  const href = request?.url ?? String(input)
  if (!URL.canParse(href)) return undefined
  const url = new URL(href)
  if (!/\/responses\/?$/.test(url.pathname) || !/^https?:$/.test(url.protocol)) return undefined
  const headers = new Headers(init?.headers ?? request?.headers)
  if (headers.has('content-encoding')) return undefined
  const text = await bodyText(init?.body, request)
  if (text === undefined) return undefined
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return undefined
  }
  if (typeof value !== 'object' || value === null || !('model' in value) || typeof value.model !== 'string')
    return undefined
  const { stream, ...body } = value as CreateBody
  // The socket does not do these.
  if (body['background'] === true) return undefined
  url.pathname = url.pathname.replace(/\/$/, '')
  return { url, headers, body, stream: stream === true, signal: init?.signal ?? request?.signal ?? undefined }
}
async function bodyText(
  body: NonNullable<Parameters<typeof fetch>[1]>['body'],
  request: Request | undefined,
): Promise<string | undefined> {
  if (typeof body === 'string') return body
  if (body instanceof Uint8Array || body instanceof ArrayBuffer) return new TextDecoder().decode(body)
  if (body == null && request?.body) return request.clone().text()
  return undefined
}

const passedOn = ['retry-after', 'retry-after-ms', 'x-should-retry', 'x-request-id']

function refusal(status: number, error: object, given: Readonly<Record<string, string>> = {}): Response {
  const headers = new Headers({ 'content-type': 'application/json' })
  for (const name of passedOn) if (given[name] !== undefined) headers.set(name, given[name])
  return new Response(JSON.stringify({ error }), { status, headers })
}

/** Who asked for one body gets a failed response as the error that it is, with its usual status. */
function failure({ error }: ModelResponse): Response {
  const { code, message, param } = error ?? { code: 'server_error', message: 'The response failed.' }
  const rows: Readonly<Record<string, { status: number; type: string; transient?: true } | undefined>> = errorTable
  const row = rows[code] ?? errorTable.server_error
  return refusal(
    row.status,
    { type: row.type, code, message, param: param ?? null },
    row.transient === true ? { 'retry-after': '1' } : {},
  )
}

async function collected(call: Flight): Promise<Response> {
  const items = new Map<number, Item>()
  let response: ModelResponse | undefined
  for await (const event of call) {
    if (event.type === 'response.output_item.done') items.set(event.output_index, event.item)
    else if ('response' in event && isTerminal(event)) response = asOverHttp(event, call, items).response
  }
  if (response === undefined) throw new TypeError('terminated')
  if (response.status === 'failed') return failure(response)
  return new Response(JSON.stringify(response), { headers: { 'content-type': 'application/json' } })
}

/** Resolves with the first event that tells something, so that a refusal is a status and not a broken stream. */
async function streamed(call: Flight, signal: AbortSignal | undefined): Promise<Response> {
  const events = call[Symbol.asyncIterator]()
  const items = new Map<number, Item>()
  const encoder = new TextEncoder()
  const first = await events.next()
  if (first.done === true) throw new TypeError('terminated')
  let waiting: ServerEvent | undefined = first.value
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          let event = waiting
          waiting = undefined
          event ??= (await events.next()).value
          if (event === undefined) return controller.close()
          let text = ''
          // What came together leaves together.
          for (; event !== undefined; event = text.length < 65_536 ? call.poll() : undefined)
            text += sse(event, call, items)
          controller.enqueue(encoder.encode(text))
        } catch (error) {
          if (error instanceof RequestRejected) {
            controller.enqueue(
              encoder.encode(
                `event: error\ndata: ${JSON.stringify({ type: 'error', status: error.status, error: error.error })}\n\n`,
              ),
            )
            controller.close()
          } else if (error instanceof Cancelled && signal?.aborted === true) controller.error(signal.reason)
          else controller.error(new TypeError('terminated', { cause: error }))
        }
      },
      cancel: () => call.cancel(),
    },
    { highWaterMark: 0 },
  )
  return new Response(body, {
    headers: { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' },
  })
}

function sse(event: ServerEvent, call: Flight, items: Map<number, Item>): string {
  if (event.type === 'response.output_item.done') items.set(event.output_index, event.item)
  const { stream_id: _, ...rest } = 'response' in event ? asOverHttp(event, call, items) : event
  return `event: ${event.type}\ndata: ${JSON.stringify(rest)}\n\n`
}

type WithResponse = Extract<ServerEvent, { response: ModelResponse }>

/**
 * The caller sent no `previous_response_id`, so it is not told of ours; and the output that a server may leave out of a
 * terminal event on the socket is put back.
 */
function asOverHttp(event: WithResponse, call: Flight, items: ReadonlyMap<number, Item>): WithResponse {
  const { response } = event
  const output = response.output ?? inOrder(items)
  return { ...event, response: { ...response, output, ...(call.delta ? { previous_response_id: null } : {}) } }
}
