// Puts every byte that a server in this process sends through the oracles, whoever the client is: for the real clients,
// which check nothing themselves. Loaded into a server's process with `--import`, or imported by a test.
import { ServerResponse } from 'node:http'
import { WebSocket } from 'ws'
import { checkErrorBody, checkEvent } from './check.ts'
import { bodyCheck, parseSse } from './http.ts'
import { LeanWishes } from './lean.ts'
import { mark, violation } from './violations.ts'

function judge(problems: readonly string[], sent: unknown): void {
  if (process.env['VITEST'] !== undefined) violation(problems, sent)
  else if (problems.length > 0) process.stderr.write(`${mark} ${problems.join('; ')}: ${JSON.stringify(sent)}\n`)
}

type Served = WebSocket & { _isServer?: boolean }
// Only sockets of this server: a scripted one in the same process sends what its test wants.
const isOurs = (ws: Served): boolean => ws._isServer === true && ws.constructor.name === 'ReasonedSocket'

const wishes = new WeakMap<WebSocket, LeanWishes>()
function wishesOf(ws: WebSocket): LeanWishes {
  const known = wishes.get(ws) ?? new LeanWishes()
  wishes.set(ws, known)
  return known
}
const emit: unknown = WebSocket.prototype.emit
WebSocket.prototype.emit = function (this: Served, name: string | symbol, ...args: unknown[]): boolean {
  const [data, isBinary] = args
  if (name === 'message' && isBinary === false && isOurs(this)) wishesOf(this).sent(parsed(String(data)))
  return Reflect.apply(emit as (...args: unknown[]) => boolean, this, [name, ...args])
}
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const send = WebSocket.prototype.send
WebSocket.prototype.send = function (this: Served, data: unknown, ...rest: unknown[]): void {
  if (isOurs(this)) {
    const frame: unknown = JSON.parse(String(data))
    judge(checkEvent(frame, { transport: 'socket', lean: wishesOf(this).of(frame) }), frame)
  }
  Reflect.apply(send, this, [data, ...rest])
}

/** Blanks that keep a JSON answer alive come before its body. */
function body(response: ServerResponse, text: string): void {
  const { method = 'GET', url = '' } = response.req
  if (text.trim() === '' || !/^\/(v1|codex)\//.test(url) || url.includes('/chat/completions')) return
  if (text.startsWith('event: ')) {
    for (const event of parseSse(text)) judge(checkEvent(event, { transport: 'sse' }), event)
    return
  }
  const json: unknown = JSON.parse(text)
  const failed = typeof json === 'object' && json !== null && 'error' in json && !('object' in json)
  judge((failed ? checkErrorBody : bodyCheck(method, url))?.(json) ?? [], json)
}
for (const name of ['write', 'end'] as const) {
  const original: unknown = ServerResponse.prototype[name]
  Object.defineProperty(ServerResponse.prototype, name, {
    configurable: true,
    writable: true,
    value(this: ServerResponse, chunk: unknown, ...rest: unknown[]): unknown {
      if (typeof chunk === 'string' || Buffer.isBuffer(chunk)) body(this, chunk.toString())
      return Reflect.apply(original as (...args: unknown[]) => unknown, this, [chunk, ...rest])
    },
  })
}
