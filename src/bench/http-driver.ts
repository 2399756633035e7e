// A client that speaks HTTP and server-sent events: on one connection that is kept, or on a new one for every turn.
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { type Driver, type DriverOptions, type Fields, patienceMs, Reading, type Seen } from './driver.ts'

/** `keepAlive: false`: a new connection, and with TLS a new handshake, for every turn. */
export function httpDriver(options: DriverOptions & { readonly keepAlive: boolean }): Driver {
  const secure = options.url.startsWith('https:')
  const kept = { keepAlive: options.keepAlive, maxSockets: 1 }
  // Sessions are not resumed either: a stranger does not know them.
  const agent = secure
    ? new HttpsAgent({ ...kept, ca: options.ca, maxCachedSessions: options.keepAlive ? 100 : 0 })
    : new HttpAgent(kept)
  const send = secure ? httpsRequest : httpRequest
  const target = `${options.url}/responses`
  return {
    turn: (body) =>
      new Promise((resolve, reject) => {
        const reading = new Reading(options)
        const text = JSON.stringify({ ...body, stream: true } satisfies Fields)
        const length = Buffer.byteLength(text)
        reading.bytesUp = length
        const headers = {
          'content-type': 'application/json',
          'content-length': length,
          ...options.headers,
          ...(options.key === undefined ? {} : { authorization: `Bearer ${options.key}` }),
        }
        const post = send(target, { method: 'POST', agent, headers, timeout: patienceMs }, (answer) => {
          read(answer, reading).then(resolve, reject)
        })
        post.on('timeout', () => post.destroy(new Error(`no end within ${patienceMs / 1000} s`)))
        post.on('error', reject)
        post.end(text)
      }),
    close: async () => agent.destroy(),
  }
}

/** Resolves when the whole answer is read, so that the connection can be used again. */
async function read(answer: IncomingMessage, reading: Reading): Promise<Seen> {
  let [rest, seen] = ['', undefined as Seen | undefined]
  answer.setEncoding('utf8')
  const refused = answer.statusCode !== 200
  for await (const part of answer as AsyncIterable<string>) {
    reading.bytesDown += Buffer.byteLength(part)
    const lines = (rest + part).split('\n')
    rest = refused && rest.length < 2000 ? rest + part : (lines.pop() ?? '')
    if (refused) continue
    for (const line of lines) {
      if (!line.startsWith('data:')) continue
      const data = line.slice(5).trim()
      if (data !== '' && data !== '[DONE]' && seen === undefined) seen = reading.take(data)
    }
  }
  if (refused) throw new Error(`HTTP ${answer.statusCode}: ${rest.slice(0, 300)}`)
  if (seen === undefined) throw new Error('the stream ended without a terminal event')
  return seen
}
