// What can go wrong on the client's side, one class per reaction a caller may want to have.
import { errorTable, type ErrorBody } from '../protocol/errors.ts'

/** Anything that ends a call without a terminal event. */
export class ClientError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = new.target.name
  }
}

/** The server answered the upgrade with a status; 426 means: use HTTP. `body` is its text, at most 64 kB. */
export class UpgradeRefused extends ClientError {
  readonly status: number
  readonly body: string
  /** `error.code` of a JSON body, where there was one. */
  readonly code: string | undefined
  /** Milliseconds of a `Retry-After` header, where there was one. */
  readonly retryAfterMs: number | undefined
  constructor(status: number, body: string, retryAfter?: string) {
    const error = errorIn(body)
    super(`The server refused the socket with ${status}${error?.message === undefined ? '' : `: ${error.message}`}`)
    this.status = status
    this.body = body
    this.code = error?.code
    const seconds = Number(retryAfter)
    this.retryAfterMs = retryAfter !== undefined && Number.isFinite(seconds) ? Math.max(0, seconds) * 1000 : undefined
  }
  /** True where dialling again may help. */
  get transient(): boolean {
    return (
      this.status === 408 || this.status === 429 || (this.status >= 500 && this.status !== 501 && this.status !== 505)
    )
  }
}

/** No socket came about at all: refused TCP connection, unknown host, time-out. */
export class Unreachable extends ClientError {}

/** The socket went away under a call that could not be sent again. `closeCode` as in RFC 6455, 1006 for no close frame. */
export class ConnectionLost extends ClientError {
  readonly closeCode: number
  constructor(closeCode: number, reason: string) {
    super(`The connection was lost (${closeCode}${reason === '' ? '' : `: ${reason}`})`)
    this.closeCode = closeCode
  }
}

/** The server answered the request with an error frame. */
export class RequestRejected extends ClientError {
  readonly status: number
  readonly error: ErrorBody
  /** Header values that the frame carried, such as `retry-after`. */
  readonly headers: Readonly<Record<string, string>>
  constructor(frame: unknown) {
    const { error, status, headers } = readErrorFrame(frame)
    super(error.message)
    this.status = status
    this.error = error
    this.headers = headers
  }
}

/** Events came faster than they were read and the buffer is full. */
export class SlowConsumer extends ClientError {}

/** The caller ended the call, by `cancel`, by its signal, by leaving the loop, or by closing the connection. */
export class Cancelled extends ClientError {}

type Loose = Readonly<Record<string, unknown>>
const record = (value: unknown): Loose | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Loose) : undefined
const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

function errorIn(body: string): { message: string | undefined; code: string | undefined } | undefined {
  try {
    const error = record(record(JSON.parse(body))?.['error'])
    return error && { message: text(error['message']), code: text(error['code']) }
  } catch {
    return undefined
  }
}

/** Reads nested and flat error frames, `status` and `status_code`; what is missing is taken from the error table. */
function readErrorFrame(frame: unknown): { error: ErrorBody; status: number; headers: Record<string, string> } {
  const top = record(frame) ?? {}
  const inner = record(top['error']) ?? top
  const code = text(inner['code']) ?? 'server_error'
  const row = (errorTable as Readonly<Record<string, { status: number; type: string } | undefined>>)[code]
  const given = top['status'] ?? top['status_code']
  const status = typeof given === 'number' && given >= 400 && given <= 599 ? given : (row?.status ?? 500)
  const type = inner === top ? undefined : text(inner['type'])
  const headers: Record<string, string> = {}
  for (const source of [record(inner['headers']), record(top['headers'])])
    for (const [name, value] of Object.entries(source ?? {}))
      if (typeof value === 'string' || typeof value === 'number') headers[name.toLowerCase()] = String(value)
  return {
    error: {
      type: type ?? row?.type ?? (status < 500 ? 'invalid_request_error' : 'server_error'),
      code,
      message: text(inner['message']) ?? 'The server sent an error without a message.',
      param: text(inner['param']) ?? null,
    },
    status,
    headers,
  }
}
