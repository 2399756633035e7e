// RFC 6455 over TCP by hand: what breaks the protocol is closed with exactly the code it deserves, the rest is answered.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  binary,
  close,
  closePayload,
  encodeFrame,
  type FrameToSend,
  ping,
  pong,
  rawConnect,
  type RawSocket,
  text,
} from './raw-socket.ts'
import { eventually, pause, startTestServer, type TestServer } from './server.ts'

const limit = 64 * 1024
let server: TestServer
const open: RawSocket[] = []

beforeAll(async () => {
  server = await startTestServer({ limits: { websocket: { maxMessageBytes: limit, maxHeldBytes: 8 * limit } } })
})
afterAll(() => server.close())
// Whatever a peer does, the server forgets it and serves the next one.
afterEach(async () => {
  for (const socket of open.splice(0)) socket.destroy()
  await server.quiet(true)
  const next = await raw()
  await answers(next)
  next.destroy()
})

async function raw(): Promise<RawSocket> {
  const socket = await rawConnect(server.wsUrl)
  open.push(socket)
  return socket
}
const question = (id = 'resp_none'): string => JSON.stringify({ type: 'response.interrupt', response_id: id })
async function answers(socket: RawSocket): Promise<void> {
  socket.send({ opcode: text, payload: question() })
  expect(await socket.event('error')).toMatchObject({ error: { code: 'response_not_found' } })
}
async function closesWith(code: number, ...frames: FrameToSend[]): Promise<string> {
  const socket = await raw()
  for (const frame of frames) socket.send(frame)
  const closed = await socket.closed
  expect(closed.code).toBe(code)
  socket.send({
    opcode: close,
    payload: closed.code === undefined || closed.code === 1005 ? '' : closePayload(closed.code),
  })
  expect(await Promise.race([socket.gone.then(() => 'gone'), pause(3000)])).toBe('gone')
  return closed.reason
}

describe('frames that break the protocol are closed with 1002', () => {
  test.each([1, 2, 3, 4, 5, 6, 7])('reserved bits %i', async (rsv) => {
    await closesWith(1002, { opcode: text, payload: question(), rsv })
  })
  test.each([4, 2, 1])('reserved bit %i on a ping', async (rsv) => {
    await closesWith(1002, { opcode: ping, rsv })
  })
  test.each([3, 4, 5, 6, 7, 11, 12, 13, 14, 15])('reserved opcode %i', async (opcode) => {
    await closesWith(1002, { opcode, payload: 'x' })
    await closesWith(1002, { opcode, fin: false })
  })
  test.each([
    ['text', text],
    ['binary', binary],
    ['ping', ping],
    ['close', close],
  ])('a %s frame that is not masked', async (_, opcode) => {
    await closesWith(1002, { opcode, payload: opcode === close ? closePayload(1000) : '{}', masked: false })
  })
  test.each([
    ['ping', ping],
    ['pong', pong],
    ['close', close],
  ])('a %s of more than 125 bytes', async (_, opcode) => {
    const payload = opcode === close ? closePayload(1000, 'r'.repeat(124)) : Buffer.alloc(126)
    await closesWith(1002, { opcode, payload, lengthForm: 16 })
  })
  test.each([
    ['ping', ping],
    ['pong', pong],
    ['close', close],
  ])('a fragmented %s', async (_, opcode) => {
    await closesWith(1002, { opcode, fin: false, payload: opcode === close ? closePayload(1000) : 'x' })
  })
  test('a continuation of nothing', async () => {
    await closesWith(1002, { opcode: 0, payload: 'x' })
    await closesWith(1002, { opcode: 0, payload: 'x', fin: false })
    await closesWith(1002, { opcode: text, payload: question() }, { opcode: 0, payload: 'x' })
  })
  test('a new message inside a fragmented one', async () => {
    await closesWith(1002, { opcode: text, payload: '{"type"', fin: false }, { opcode: text, payload: ':1}' })
    await closesWith(1002, { opcode: text, payload: '{"type"', fin: false }, { opcode: binary, payload: 'x' })
  })
})

describe('close frames', () => {
  test.each([0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535])(
    'with the code %i are a protocol error',
    async (code) => {
      await closesWith(1002, { opcode: close, payload: closePayload(code) })
    },
  )
  test('with half a code are a protocol error', async () => {
    await closesWith(1002, { opcode: close, payload: Buffer.from([3]) })
  })
  test('with a reason that is no UTF-8 are closed with 1007', async () => {
    await closesWith(1007, {
      opcode: close,
      payload: closePayload(1000, Buffer.from([0xce, 0xba, 0xe1, 0xbd, 0xb9, 0xed, 0xa0, 0x80])),
    })
  })
  test.each([1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 3000, 3999, 4000, 4999])(
    'with the code %i are echoed',
    async (code) => {
      await closesWith(code, { opcode: close, payload: closePayload(code, 'bye') })
    },
  )
  test('without a code are answered without one', async () => {
    await closesWith(1005, { opcode: close })
  })
  test('end the connection: nothing sent behind them is answered', async () => {
    const socket = await raw()
    socket.write(
      Buffer.concat([
        encodeFrame({ opcode: close, payload: closePayload(1000) }),
        encodeFrame({ opcode: text, payload: question() }),
        encodeFrame({ opcode: ping }),
      ]),
    )
    await socket.gone
    expect(socket.frames.map((frame) => frame.opcode)).toEqual([close])
  })
  test('of the server end what is taken: nothing sent behind them is run', async () => {
    const socket = await raw()
    const create = { type: 'response.create', model: 'm', input: 'tell me [fault:hang]' }
    socket.send({ opcode: binary, payload: 'x' })
    expect((await socket.closed).code).toBe(1003)
    socket.json(create)
    for (let n = 0; n < 10; n++) {
      await pause(20)
      expect(server.app.counts().running).toBe(0)
    }
  })
  test('may come while a response runs', async () => {
    const socket = await raw()
    socket.json({ type: 'response.create', model: 'm', input: 'tell me [fault:endless]' })
    await socket.event('response.output_text.delta')
    socket.send({ opcode: close, payload: closePayload(1000) })
    expect((await socket.closed).code).toBe(1000)
    await server.quiet()
  })
})

describe('UTF-8', () => {
  const good = question('κόσμε-€-😀-\u{10FFFF}')
  test('split at each byte into fragments is put together again', async () => {
    const bytes = Buffer.from(good)
    for (let at = 1; at < bytes.length; at++) {
      const socket = await raw()
      socket.send({ opcode: text, payload: bytes.subarray(0, at), fin: false })
      socket.send({ opcode: 0, payload: bytes.subarray(at) })
      expect(await socket.event('error')).toMatchObject({
        error: { message: expect.stringContaining('κόσμε-€-😀-\u{10FFFF}') },
      })
      socket.destroy()
    }
  })
  test('one byte a fragment is put together again', async () => {
    const socket = await raw()
    const bytes = Buffer.from(good)
    for (const [n, byte] of bytes.entries())
      socket.send({ opcode: n === 0 ? text : 0, payload: Buffer.from([byte]), fin: n === bytes.length - 1 })
    expect(await socket.event('error')).toMatchObject({ error: { code: 'response_not_found' } })
  })
  const bad: [string, number[]][] = [
    ['a lone continuation byte', [0x80]],
    ['an overlong slash', [0xc0, 0xaf]],
    ['an overlong 3-byte form', [0xe0, 0x80, 0xaf]],
    ['a surrogate', [0xed, 0xa0, 0x80]],
    ['beyond U+10FFFF', [0xf4, 0x90, 0x80, 0x80]],
    ['a byte that never occurs', [0xff]],
    ['a character that breaks off', [0xe2, 0x82]],
    ['a character that another one interrupts', [0xf0, 0x9f, 0x98, 0x41]],
  ]
  test.each(bad)('that is none (%s) is closed with 1007, split at each byte', async (_, bytes) => {
    const message = Buffer.concat([Buffer.from('{"a":"'), Buffer.from(bytes), Buffer.from('"}')])
    expect(await closesWith(1007, { opcode: text, payload: message })).not.toBe('')
    for (let at = 1; at < message.length; at++)
      await closesWith(
        1007,
        { opcode: text, payload: message.subarray(0, at), fin: false },
        { opcode: 0, payload: message.subarray(at) },
      )
  })
})

describe('pings', () => {
  test.each([0, 1, 125])('of %i bytes are answered with the same bytes', async (size) => {
    const socket = await raw()
    const payload = Buffer.alloc(size, 7)
    socket.send({ opcode: ping, payload })
    const frame = await socket.next((f) => f.opcode === pong)
    expect(frame).toMatchObject({ fin: true, rsv: 0, masked: false })
    expect(frame.payload.equals(payload)).toBe(true)
  })
  test('are answered between the fragments of a message, and the message too', async () => {
    const socket = await raw()
    const bytes = Buffer.from(question())
    socket.send({ opcode: text, payload: bytes.subarray(0, 9), fin: false })
    socket.send({ opcode: ping, payload: 'a' })
    expect((await socket.next((f) => f.opcode === pong)).payload.toString()).toBe('a')
    socket.send({ opcode: 0, payload: bytes.subarray(9, 20), fin: false })
    socket.send({ opcode: ping, payload: 'b' })
    socket.send({ opcode: pong, payload: 'not asked for' })
    expect((await socket.next((f) => f.opcode === pong)).payload.toString()).toBe('b')
    socket.send({ opcode: 0, payload: bytes.subarray(20) })
    expect(await socket.event('error')).toMatchObject({ error: { code: 'response_not_found' } })
  })
  test('and pongs are not counted as messages that wait', async () => {
    const socket = await raw()
    await answers(socket)
    for (let n = 0; n < 100; n++) socket.send({ opcode: n % 2 === 0 ? ping : pong, payload: Buffer.alloc(100) })
    await eventually(() => expect(socket.frames.filter((f) => f.opcode === pong)).toHaveLength(50))
    expect(server.app.counts()).toMatchObject({ sockets: 1, heldBytes: 0 })
  })
  test('are answered while a response runs', async () => {
    const socket = await raw()
    socket.json({ type: 'response.create', model: 'm', input: 'tell me [fault:hang]' })
    await socket.event('response.in_progress')
    socket.send({ opcode: ping, payload: 'p' })
    expect((await socket.next((f) => f.opcode === pong, 1000)).payload.toString()).toBe('p')
  })
})

describe('messages', () => {
  test('that are binary are closed with 1003 and a reason', async () => {
    expect(await closesWith(1003, { opcode: binary, payload: question() })).toBe('text frames only')
    expect(await closesWith(1003, { opcode: binary })).not.toBe('')
    await closesWith(1003, { opcode: binary, payload: '{', fin: false }, { opcode: 0, payload: '}' })
  })
  test('over the limit are closed with 1009 and a reason, before they were read', async () => {
    expect(await closesWith(1009, { opcode: text, length: limit + 1, lengthForm: 64 })).toContain('limit')
    expect(await closesWith(1009, { opcode: text, payload: Buffer.alloc(limit + 1, 0x20) })).toContain('limit')
    const half = Buffer.alloc(limit / 2 + 1, 0x20)
    expect(await closesWith(1009, { opcode: text, payload: half, fin: false }, { opcode: 0, payload: half })).toContain(
      'limit',
    )
  })
  test('with a length that no number holds are closed with 1009', async () => {
    const socket = await raw()
    socket.write(Buffer.from([0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]))
    expect((await socket.closed).code).toBe(1009)
  })
  test('of exactly the limit are read', async () => {
    const socket = await raw()
    const payload = question().padEnd(limit, ' ')
    socket.send({ opcode: text, payload })
    expect(await socket.event('error')).toMatchObject({ error: { code: 'response_not_found' } })
  })
  test('in more fragments than anybody needs are closed with 1008', async () => {
    const socket = await raw()
    const piece = encodeFrame({ opcode: 0, fin: false })
    socket.write(
      Buffer.concat([encodeFrame({ opcode: text, fin: false }), ...Array.from({ length: 16_400 }, () => piece)]),
    )
    expect(await socket.closed).toMatchObject({ code: 1008, reason: expect.stringMatching(/fragment/) })
  })
  test('that arrive byte by byte are read', async () => {
    const socket = await raw()
    for (const byte of encodeFrame({ opcode: text, payload: question() })) {
      socket.write(Buffer.from([byte]))
      await pause(1)
    }
    await answers(socket)
  })
  test('that never end leave nothing behind when the peer goes', async () => {
    const frame = encodeFrame({ opcode: text, payload: question() })
    for (const at of [1, 2, 5, 6, 10, frame.length - 1]) {
      const socket = await raw()
      socket.write(frame.subarray(0, at))
      await pause(5)
      if (at % 2 === 0) socket.tcp.end()
      else socket.tcp.resetAndDestroy()
    }
    await eventually(() => expect(server.app.counts()).toMatchObject({ sockets: 0, heldBytes: 0 }))
  })
  test('leave in frames that are whole, unmasked text without reserved bits', async () => {
    const socket = await raw()
    socket.json({ type: 'response.create', model: 'm', input: 'hello' })
    await socket.event('response.completed')
    for (const frame of socket.frames) expect(frame).toMatchObject({ fin: true, rsv: 0, opcode: text, masked: false })
  })
})
