// Who gets a socket. Everything is decided before the 101: a client must never be let in and then thrown out.
import { STATUS_CODES, type IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { createHash, randomInt } from 'node:crypto'
import { ApiError } from '../protocol/errors.ts'
import { answerHeaders, type Doors, errorHeaders, errorJson, responsePaths, type Visitor } from './doors.ts'

/** Throws the ApiError that refuses the upgrade. `open`: sockets there are already. */
export function admitUpgrade(request: IncomingMessage, doors: Doors, open: number): Visitor {
  const { websocket, http } = doors.limits
  const path = (request.url ?? '').split('?', 1)[0] ?? ''
  if (!responsePaths.includes(path))
    throw new ApiError('not_found', `There is no socket at ${path.slice(0, 200)}; use /v1/responses.`)
  const visitor = doors.authenticate(request.headers)
  const { origin } = request.headers
  if (origin !== undefined && !http.origins.includes(origin)) throw new ApiError('origin_not_allowed')
  if (doors.draining())
    throw new ApiError(
      'server_is_overloaded',
      'The server is about to stop; try another or come back.',
      null,
      1 + randomInt(5),
    )
  if (open >= websocket.maxSockets)
    throw new ApiError(
      'server_is_overloaded',
      `All ${websocket.maxSockets} sockets are in use.`,
      null,
      1 + randomInt(5),
    )
  if (!websocket.enabled || !visitor.websocket || !inRamp(request, visitor, websocket.ramp))
    throw new ApiError('upgrade_required')
  return visitor
}

/** The same client always falls on the same side, so that it does not change transport in the middle of its work. */
function inRamp(request: IncomingMessage, { principal }: Visitor, share: number): boolean {
  if (share >= 1) return true
  const session = request.headers['session-id'] ?? request.headers['x-session-id'] ?? request.socket.remoteAddress ?? ''
  const digest = createHash('sha256')
    .update(`${principal.owner}\0${String(session)}`)
    .digest()
  return digest.readUInt32BE(0) / 0x1_0000_0000 < share
}

/** Answers an upgrade with a JSON error. The socket has an error handler by now: some clients reset it at once. */
export function refuseUpgrade(request: IncomingMessage, socket: Duplex, error: ApiError, version: string): void {
  const body = errorJson(error)
  const headers = {
    ...answerHeaders(request, version),
    ...errorHeaders(error),
    ...(error.status === 426 ? { upgrade: 'websocket' } : {}),
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status] ?? ''}\r\n${lines.join('')}\r\n${body}`)
  // A peer that never reads the answer must not keep the socket.
  setTimeout(() => socket.destroy(), 5_000).unref()
}
