// What every door asks and tells: who is there, what they may do, and how a refusal looks as an HTTP answer.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { ApiError } from '../protocol/errors.ts'
import { newId } from '../protocol/ids.ts'
import type { ParseTools } from '../protocol/request.ts'
import type { World } from '../session/world.ts'
import type { Principal } from '../turn/ports.ts'

export type Visitor = { readonly principal: Principal; /** May this key open sockets? */ readonly websocket: boolean }
/** The world, and what only doors need of it. */
export type Doors = World & {
  /** Throws invalid_api_key. */
  readonly authenticate: (headers: IncomingHttpHeaders) => Visitor
  readonly models: { list(): readonly string[]; resolve(name: string): unknown }
  /** Throws while the server cannot serve, with the reason. */
  readonly ready: () => Promise<void>
  readonly version: string
  readonly parseTools: ParseTools
}

/** Paths under which the Responses API answers; the second kind is what some clients make of a base URL. */
export const responsePaths: readonly string[] = ['/v1/responses', '/codex/responses', '/v1/codex/responses']

/** Headers of every answer. The client's own id is echoed beside ours. */
export function answerHeaders(request: IncomingMessage, version: string): Record<string, string> {
  const own = request.headers['x-client-request-id']
  return {
    'x-request-id': newId('req'),
    'openai-version': '2020-10-01',
    'x-continuo': version,
    ...(typeof own === 'string' && /^[\x21-\x7e]{1,512}$/.test(own) ? { 'x-client-request-id': own } : {}),
  }
}
export const errorJson = (error: ApiError): string => JSON.stringify({ error: error.body })
export function errorHeaders(error: ApiError): Record<string, string> {
  if (error.retryAfter !== undefined) return { 'retry-after': String(Math.max(1, Math.ceil(error.retryAfter))) }
  return error.transient ? { 'retry-after': '1' } : {}
}
