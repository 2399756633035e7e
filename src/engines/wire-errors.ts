// What broke between us and an engine, as one sentence that names the engine and its host and nothing else of the URL.
import { ApiError } from '../protocol/errors.ts'

/** Whose connection it was, and the bounds it had. */
export type Peer = {
  readonly name: string
  readonly host: string
  readonly options: { readonly connectMs: number; readonly headersMs: number; readonly idleMs: number }
}

/** `begun`: the head of the answer had come. Always a transient server_error. */
export function explain(peer: Peer, error: Error, begun: boolean): ApiError {
  const { connectMs, headersMs, idleMs } = peer.options
  const down = (why: string): ApiError =>
    new ApiError('server_error', `The engine '${peer.name}' is down at ${peer.host} (${why}).`)
  const says = (what: string): ApiError =>
    new ApiError('server_error', `The engine '${peer.name}' at ${peer.host} ${what}`)
  const code = codeOf(error)
  switch (code) {
    case 'ECONNREFUSED':
      return down('connection refused')
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return down('unknown host')
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return down('unreachable')
    case 'ETIMEDOUT':
    case 'UND_ERR_CONNECT_TIMEOUT':
      return down(`no connection within ${connectMs} ms`)
    case 'UND_ERR_HEADERS_TIMEOUT':
      return says(`did not begin to answer within ${headersMs} ms.`)
    case 'UND_ERR_BODY_TIMEOUT':
      return says(`was silent for ${idleMs} ms.`)
    case 'UND_ERR_DESTROYED':
    case 'UND_ERR_CLOSED':
      return says('is being shut down.')
  }
  if (/CERT|^ERR_TLS|^ERR_SSL/.test(code)) return down('TLS failed')
  if (code.startsWith('HPE_')) return says('sent what is no HTTP.')
  return begun ? says('cut its answer off.') : says('closed the connection without an answer.')
}

/** The far side closed a connection; when nothing was answered, it may only have been idle for too long. */
export const isReset = (error: Error): boolean => ['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'].includes(codeOf(error))

const codeOf = (error: Error): string => {
  const { code } = error as { code?: unknown }
  return typeof code === 'string' ? code : ''
}
