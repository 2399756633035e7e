// Puts every byte that a server in this process sends through the oracles, whoever the client is: for the real clients,
// which check nothing themselves. Loaded into a server's process with `--import`, or imported by a test.
import { ServerResponse } from 'node:http'
import { WebSocket } from 'ws'
import { checkErrorBody, checkEvent } from './check.ts'
import { bodyCheck, parseSse } from './http.ts'
import { mark, violation } from './violations.ts'

function judge(problems: readonly string[], sent: unknown): void {
  if (process.env['VITEST'] !== undefined) violation(problems, sent)
  else if (problems.length > 0) process.stderr.write(`${mark} ${problems.join('; ')}: ${JSON.stringify(sent)}\n`)
}

const send = WebSocket.prototype.send
WebSocket.prototype.send = function (
  this: WebSocket & { _isServer?: boolean },
  data: unknown,
  ...rest: unknown[]
): void {
  // Only sockets of this server: a scripted one in the same process sends what its test wants.
  if (this._isServer === true && this.constructor.name === 'ReasonedSocket') {
    const frame: unknown = JSON.parse(String(data))
    judge(checkEvent(frame, { transport: 'socket' }), frame)
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
