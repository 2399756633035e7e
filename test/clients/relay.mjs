// A TCP relay between a client and the server that passes every byte on as it is, and keeps what was said: requests,
// frames, and who ended a connection how. It can be read only because the server offers no compression by default.
import { once } from 'node:events'
import { connect, createServer } from 'node:net'

/**
 * Starts a relay to the server at `baseUrl`. `connections`: each with `at` (milliseconds), `request` (its first line), `status` of the answer,
 * `sent` and `got` (text frames as objects, in order), `close` (`{ by, code }`; code 1006 where no close frame was sent).
 */
export async function relay(baseUrl) {
  const target = new URL(baseUrl)
  const connections = []
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname)
    const seen = { at: performance.now(), request: '', status: 0, sent: [], got: [], close: undefined }
    connections.push(seen)
    const ended = (by, code = 1006) => (seen.close ??= { by, code })
    pass(client, upstream, 'client', seen, ended)
    pass(upstream, client, 'server', seen, ended)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${server.address().port}${target.pathname}`
  return { url, connections, sockets: () => connections.filter(({ status }) => status === 101) }
}

function pass(from, to, by, seen, ended) {
  const read = reader(by, seen, ended)
  from.on('data', (bytes) => {
    read(bytes)
    to.write(bytes)
  })
  from.on('end', () => {
    ended(by)
    to.end()
  })
  from.on('error', () => {
    ended(by)
    to.destroy()
  })
  from.on('close', () => to.destroy())
}

/** Takes one direction of a connection apart: the head of HTTP, and frames once the server has switched protocols. */
function reader(by, seen, ended) {
  const frames = by === 'client' ? seen.sent : seen.got
  let rest = Buffer.alloc(0)
  let headed = false
  let text = []
  return (bytes) => {
    rest = Buffer.concat([rest, bytes])
    if (!headed) {
      const at = rest.indexOf('\r\n\r\n')
      if (at < 0) return
      headed = true
      const [first] = rest.subarray(0, at).toString('latin1').split('\r\n', 1)
      if (by === 'client') seen.request = first
      else seen.status = Number(first.split(' ')[1])
      rest = rest.subarray(at + 4)
    }
    if (seen.status !== 101) return
    for (let frame = frameOf(rest); frame; frame = frameOf(rest)) {
      rest = rest.subarray(frame.bytes)
      if (frame.opcode === 8) ended(by, frame.payload.length < 2 ? 1005 : frame.payload.readUInt16BE(0))
      if (frame.opcode > 2) continue
      text.push(frame.payload)
      if (!frame.last) continue
      frames.push(JSON.parse(Buffer.concat(text).toString()))
      text = []
    }
  }
}

/** The first frame of these bytes; undefined while it is not whole. */
function frameOf(bytes) {
  if (bytes.length < 2) return undefined
  const short = bytes[1] & 127
  const start = short === 127 ? 10 : short === 126 ? 4 : 2
  const masked = bytes[1] > 127 ? 4 : 0
  if (bytes.length < start + masked) return undefined
  const size = short === 127 ? Number(bytes.readBigUInt64BE(2)) : short === 126 ? bytes.readUInt16BE(2) : short
  const whole = start + masked + size
  if (bytes.length < whole) return undefined
  const payload = Buffer.from(bytes.subarray(start + masked, whole))
  if (masked) for (let n = 0; n < size; n++) payload[n] ^= bytes[start + (n & 3)]
  return { last: bytes[0] > 127, opcode: bytes[0] & 15, payload, bytes: whole }
}
