// The smallest real turn over a real socket, for `continuo doctor`: a warm-up, which generates nothing and costs nothing.
import { Agent, fetch } from 'undici'
import { WebSocket } from 'ws'

const patience = 5000
const longestFrame = 4 * 1024 * 1024
/** Both dial an address of this machine, and a certificate is for the name that clients dial. */
const anyCertificate = { rejectUnauthorized: false }

/** Is it a Continuo, or anything else that answers `/healthz` well, at this `http://host:port` or `https://host:port`? */
export async function serves(address: string): Promise<boolean> {
  const dispatcher = new Agent({ connect: anyCertificate })
  try {
    const answer = await fetch(`${address}/healthz`, {
      signal: AbortSignal.timeout(2000),
      redirect: 'manual',
      dispatcher,
    })
    await answer.body?.cancel()
    return answer.ok
  } catch {
    return false
  } finally {
    await dispatcher.destroy()
  }
}

/** Does one warm-up turn. Resolves to how it went; throws an Error with a sentence. */
export function warmUp(address: string, model: string, key: string | undefined): Promise<string> {
  const url = `${address.replace(/^http/, 'ws')}/v1/responses`
  const began = performance.now()
  const socket = new WebSocket(url, {
    headers: { 'user-agent': 'continuo-doctor', ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) },
    maxPayload: longestFrame,
    handshakeTimeout: patience,
    ...anyCertificate,
  })
  return new Promise<string>((resolve, reject) => {
    const seen: string[] = []
    const end = (error: string | undefined) => {
      clearTimeout(timer)
      socket.close()
      if (error === undefined) resolve(`a warm-up turn over ${url} took ${Math.round(performance.now() - began)} ms`)
      else reject(new Error(error))
    }
    const timer = setTimeout(() => {
      end(`no answer over ${url} within ${patience / 1000} s (events so far: ${seen.join(', ') || 'none'})`)
      socket.terminate()
    }, patience)
    socket.on('open', () =>
      socket.send(JSON.stringify({ type: 'response.create', model, input: [], store: false, generate: false })),
    )
    socket.on('message', (data) => {
      const { type, status, error } = frame(String(data))
      if (seen.length < 20) seen.push(type)
      if (type === 'error') end(`the socket answered with an error: ${status} ${error}`)
      else if (type === 'response.completed')
        end(
          seen[0] === 'response.created'
            ? undefined
            : `the turn ended without response.created (events: ${seen.join(', ')})`,
        )
      else if (type === 'response.failed' || type === 'response.incomplete')
        end(`the warm-up turn ended with ${type}: ${error}`)
    })
    socket.on('unexpected-response', (_request, answer) => {
      answer.resume()
      const why =
        answer.statusCode === 401
          ? '; the key is wrong'
          : answer.statusCode === 426
            ? '; WebSocket mode is off there'
            : ''
      end(`${url} refused the socket with HTTP ${answer.statusCode}${why}`)
    })
    socket.on('error', (e) => end(`${url} cannot be reached: ${e.message}`))
    socket.on('close', (code, reason) =>
      end(`the socket was closed with ${code} ${String(reason)} before the turn ended`),
    )
  })
}

function frame(text: string): { type: string; status: string; error: string } {
  const value = part(tryJson(text))
  const error = part(value['error'] ?? part(value['response'])['error'])
  return {
    type: String(value['type'] ?? 'no JSON'),
    status: String(value['status'] ?? ''),
    error: `${String(error['code'] ?? '')} ${String(error['message'] ?? '')}`.trim(),
  }
}
function part(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}
function tryJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
