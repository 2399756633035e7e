// The frames that we head ourselves, through a real client of the library: whatever is mixed, all of it arrives, in order.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { type Frame, FrameWriter, packFrom } from '../../src/transports/frame-writer.ts'

type Far = { readonly ws: WebSocket; readonly tcp: Socket; readonly writer: FrameWriter }
let http: Server
let sockets: WebSocketServer
beforeAll(async () => {
  http = createServer()
  const perMessageDeflate = { serverNoContextTakeover: true, threshold: packFrom, zlibDeflateOptions: { level: 1 } }
  sockets = new WebSocketServer({ server: http, perMessageDeflate })
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
})
afterAll(() => {
  sockets.close()
  http.close()
})

async function pair(deflate: boolean, high = 1 << 20): Promise<{ near: WebSocket; far: Far; got: string[] }> {
  const { port } = http.address() as AddressInfo
  const met = once(sockets, 'connection') as Promise<[WebSocket, IncomingMessage]>
  const near = new WebSocket(`ws://127.0.0.1:${port}`, { perMessageDeflate: deflate })
  const got: string[] = []
  near.on('message', (data: Buffer) => got.push(String(data)))
  const [ws, { socket: tcp }] = await met
  if (near.readyState !== WebSocket.OPEN) await once(near, 'open')
  return { near, far: { ws, tcp, writer: new FrameWriter(ws, tcp, high) }, got }
}
/** Counts calls into the system. */
function writesOf(tcp: Socket): () => number {
  let n = 0
  const { _write: one, _writev: many } = tcp
  tcp._write = (...all) => (n++, one.apply(tcp, all))
  if (many) tcp._writev = (...all) => (n++, many.apply(tcp, all))
  return () => n
}

const text = fc.oneof(
  fc.string({ maxLength: 40 }),
  fc.string({ unit: 'grapheme', maxLength: 40 }),
  // About the lengths where the head changes, and where compression begins.
  fc.constantFrom(124, 125, 126, 127, 1022, 1023, 1024, 65_534, 65_535, 65_536, 70_000).map((n) => 'x'.repeat(n)),
  fc.constantFrom(62, 63, 32_767, 32_768).map((n) => 'é'.repeat(n)),
)
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('send' as const),
      frames: fc.array(fc.record({ json: text, pack: fc.boolean() }), { maxLength: 4 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('ping' as const, 'wait' as const, 'flush' as const) }) },
)

describe.each([false, true])('with compression negotiated: %s', (deflate) => {
  test('frames, pings and a close, in any mix, arrive whole and in order', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
        const { near, far, got } = await pair(deflate)
        let pings = 0
        near.on('ping', () => pings++)
        const sent: string[] = []
        for (const one of steps) {
          if (one.do === 'ping') far.ws.ping()
          else if (one.do === 'flush') far.writer.flush()
          else if (one.do === 'wait') await new Promise((resolve) => setImmediate(resolve))
          else if (one.do === 'send') {
            void far.writer.send(one.frames)
            sent.push(...one.frames.map((f) => f.json))
          }
        }
        far.writer.flush()
        far.ws.close(1001, 'over')
        const [code] = (await once(near, 'close')) as [number]
        expect(code).toBe(1001)
        expect(got).toEqual(sent)
        expect(pings).toBe(steps.filter((s) => s.do === 'ping').length)
      }),
      { numRuns: Number(process.env['RUNS'] ?? 30) },
    )
  })
  test('a reader that has stopped is told by a promise, which ends when it reads again', async () => {
    const { near, far, got } = await pair(deflate, 4096)
    near.pause()
    const frames: Frame[] = [{ json: 'x'.repeat(100_000), pack: false }]
    let slow: Promise<void> | undefined
    let sent = 0
    for (; slow === undefined && sent < 1000; sent++) {
      slow = far.writer.send(frames)
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(slow).toBeInstanceOf(Promise)
    expect(far.writer.waiting).toBeGreaterThan(4096)
    near.resume()
    await slow
    while (got.length < sent) await once(near, 'message')
    near.terminate()
  })
  test('the promise ends when the client goes, too', async () => {
    const { near, far } = await pair(deflate, 0)
    near.pause()
    let slow: Promise<void> | undefined
    for (let n = 0; n < 1000 && slow === undefined; n++) {
      slow = far.writer.send([{ json: 'x'.repeat(100_000), pack: true }])
      await new Promise((resolve) => setImmediate(resolve))
    }
    near.terminate()
    await slow
    expect(far.writer.send([{ json: 'late', pack: false }])).toBeUndefined()
  })
})
test('what is sent in one turn of the loop is one write, over all who send', async () => {
  const { near, far, got } = await pair(false)
  const writes = writesOf(far.tcp)
  for (let lane = 0; lane < 5; lane++)
    void far.writer.send([
      { json: `{"lane":${lane}}`, pack: true },
      { json: '"é"', pack: false },
    ])
  while (got.length < 10) await once(near, 'message')
  expect(writes()).toBe(1)
  near.terminate()
})
test('what is compressed is, and small frames behind it keep their place', async () => {
  const { near, far, got } = await pair(true)
  const big = JSON.stringify({ tools: 'read '.repeat(5000) })
  void far.writer.send([
    { json: '1', pack: true },
    { json: big, pack: true },
    { json: '2', pack: false },
  ])
  while (got.length < 3) await once(near, 'message')
  expect(got).toEqual(['1', big, '2'])
  expect(far.tcp.bytesWritten).toBeLessThan(big.length)
  near.terminate()
})
