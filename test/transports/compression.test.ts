// Compression `tight`: what is negotiated, and which frames are compressed, by their RSV1 bit.
import { connect as connectTcp } from 'node:net'
import { once } from 'node:events'
import { constants, deflateRawSync, inflateRawSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { simulated, startWith } from '../session/started.ts'
import { rawConnect, text, upgradeHeaders, type RawSocket } from '../wire/raw-socket.ts'
import type { TestServer } from '../wire/server.ts'

let server: TestServer
const offer = { 'sec-websocket-extensions': 'permessage-deflate; client_max_window_bits' }
beforeAll(async () => {
  server = await startWith({ ...simulated(), limits: { websocket: { compression: 'tight' } } })
})
afterAll(() => server.close())

/** The head of the answer to an upgrade. */
async function handshake(url: string, headers: Record<string, string>): Promise<string> {
  const { hostname, port, pathname } = new URL(url)
  const tcp = connectTcp(Number(port), hostname)
  const lines = Object.entries({ host: 'localhost', ...upgradeHeaders(), ...headers }).map(([k, v]) => `${k}: ${v}\r\n`)
  tcp.write(`GET ${pathname} HTTP/1.1\r\n${lines.join('')}\r\n`)
  const [head] = (await once(tcp, 'data')) as [Buffer]
  tcp.destroy()
  return head.toString('latin1').split('\r\n\r\n')[0]?.toLowerCase() ?? ''
}
/** Text that compresses better with more effort. */
const words = (count: number): string => Array.from({ length: count }, (_, n) => `${(n * n) % 97} apples`).join(' ')
type Read = {
  readonly type: string
  readonly compressed: boolean
  readonly bytes: number
  readonly json: string
  readonly payload: Buffer
}
/** One turn; every frame is unpacked on its own, as a peer that keeps no context does. */
async function turn(socket: RawSocket, body: object): Promise<Read[]> {
  const read: Read[] = []
  socket.json({ type: 'response.create', model: 'm', store: false, ...body })
  for (;;) {
    const { rsv, payload } = await socket.next((f) => f.opcode === text)
    const compressed = rsv === 4
    const plain = compressed
      ? inflateRawSync(Buffer.concat([payload, Buffer.from([0, 0, 0xff, 0xff])]), {
          finishFlush: constants.Z_SYNC_FLUSH,
        })
      : payload
    const json = plain.toString()
    const { type } = JSON.parse(json) as { type: string }
    read.push({ type, compressed, bytes: plain.length, json, payload })
    if (type === 'response.completed') return read
  }
}

test('is negotiated without context takeover on either side, and only where it is offered', async () => {
  const head = await handshake(server.wsUrl, offer)
  expect(head).toContain('sec-websocket-extensions: permessage-deflate')
  expect(head).toContain('server_no_context_takeover')
  expect(head).toContain('client_no_context_takeover')
  expect(await handshake(server.wsUrl, {})).not.toContain('permessage-deflate')
})
test('packs frames over 1 kB, and neither small ones nor deltas', async () => {
  const socket = await rawConnect(server.wsUrl, offer)
  const parameters = { type: 'object', properties: { path: { type: 'string', minLength: 3000 } }, required: ['path'] }
  const input = 'hello'
  const frames = [
    ...(await turn(socket, { input, instructions: 'Be brief. '.repeat(300) })),
    // Its arguments come in one delta of 3 kB.
    ...(await turn(socket, { input, tools: [{ type: 'function', name: 'read_x', parameters, strict: false }] })),
  ]
  for (const { type, compressed, bytes } of frames)
    expect({ type, bytes, compressed }).toEqual({ type, bytes, compressed: bytes >= 1024 && !type.endsWith('.delta') })
  expect(frames.some((f) => f.compressed)).toBe(true)
  expect(frames.some((f) => !f.compressed && !f.type.endsWith('.delta'))).toBe(true)
  socket.destroy()
})
test('packs with the least effort that deflate knows', async () => {
  const socket = await rawConnect(server.wsUrl, offer)
  const packed = (await turn(socket, { input: 'hello', instructions: words(3000) })).filter((f) => f.compressed)
  const at = (json: string, level: number): Buffer =>
    deflateRawSync(json, { level, windowBits: 10, finishFlush: constants.Z_SYNC_FLUSH }).subarray(0, -4)
  expect(packed.length).toBeGreaterThan(2)
  for (const { json, payload } of packed) {
    expect(payload).toEqual(at(json, 1))
    expect(payload).not.toEqual(at(json, constants.Z_DEFAULT_LEVEL))
  }
  socket.destroy()
})
test('finds nothing to pack in the opening envelopes of a lean turn', async () => {
  const socket = await rawConnect(server.wsUrl, offer)
  const lean = await turn(socket, { input: 'hello', instructions: words(3000), continuo: { echo: false } })
  const opening = lean.filter(({ type }) => type === 'response.created' || type === 'response.in_progress')
  expect(opening.map(({ compressed, bytes }) => [compressed, bytes < 1024])).toEqual([
    [false, true],
    [false, true],
  ])
  socket.destroy()
})
test('is off by default, whatever is offered', async () => {
  const plain = await startWith(simulated())
  expect(await handshake(plain.wsUrl, offer)).not.toContain('permessage-deflate')
  const socket = await rawConnect(plain.wsUrl, offer)
  expect((await turn(socket, { input: 'hello', instructions: 'x'.repeat(5000) })).every((f) => !f.compressed)).toBe(
    true,
  )
  socket.destroy()
  await plain.close()
})
test('does not let a small packed message become a big one', async () => {
  const limited = await startWith({
    ...simulated(),
    limits: { websocket: { compression: 'tight', maxMessageBytes: 20_000 } },
  })
  const client = await limited.socket({ perMessageDeflate: true })
  client.send({ type: 'response.create', model: 'm', input: 'x'.repeat(1_000_000) })
  expect(await client.closed).toMatchObject({ code: 1009 })
  await limited.close()
})
