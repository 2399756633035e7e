// Signs of life: keepalives while something waits or runs, pings while nothing does, and the end of a peer that is dead.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { begin, compileSchemas, endOf, simulated, startWith } from '../session/started.ts'
import { rawConnect, rawRequest, ping as pingFrame, pong } from '../wire/raw-socket.ts'
import { pause, type TestServer } from '../wire/server.ts'
import type { Frame, Socket } from '../wire/socket.ts'

let server: TestServer
beforeAll(async () => {
  compileSchemas()
  server = await startWith({
    ...simulated(),
    limits: { keepaliveMs: 150, websocket: { inFlight: 1, pingMs: 200, pongMs: 200 } },
  })
})
afterAll(() => server.close())
const keepalives = (socket: Socket): Frame[] => socket.frames.filter((f) => f.type === 'keepalive')

describe('a socket', () => {
  test('repeats the last number while a response is silent, and says nothing while it speaks or is done', async () => {
    const socket = await server.socket()
    const { id } = await begin(socket, { input: 'x [fault:hang]', stream_id: 'a' })
    const last = await socket.next((f) => f.type === 'response.output_text.delta' && f['sequence_number'] === 6)
    const alive = [await socket.next('keepalive'), await socket.next('keepalive')]
    for (const frame of alive)
      expect(frame).toEqual({ type: 'keepalive', sequence_number: last['sequence_number'], stream_id: 'a' })
    socket.send({ type: 'response.interrupt', response_id: id })
    await endOf(socket, id)
    const count = keepalives(socket).length
    await pause(400)
    expect(keepalives(socket)).toHaveLength(count)
    await socket.close()
  })
  test('says number 0 for a request that waits, and one lane has one voice', async () => {
    const socket = await server.socket()
    const { id } = await begin(socket, { input: 'x [fault:hang]' })
    socket.send({ type: 'response.create', model: 'm', store: false, input: 'behind it' })
    for (const stream_id of ['b', 'b'])
      socket.send({ type: 'response.create', model: 'm', store: false, input: 'hi', stream_id })
    expect(await socket.next((f) => f.type === 'keepalive' && f['stream_id'] === 'b')).toEqual({
      type: 'keepalive',
      sequence_number: 0,
      stream_id: 'b',
    })
    await pause(320)
    const here = keepalives(socket).filter((f) => f['stream_id'] === undefined)
    expect(here.length).toBeGreaterThanOrEqual(2)
    expect(here.every((f) => f['sequence_number'] === 6)).toBe(true)
    expect(keepalives(socket).filter((f) => f['stream_id'] === 'b').length).toBeLessThanOrEqual(here.length + 1)
    socket.send({ type: 'response.interrupt', response_id: id })
    for (let n = 0; n < 3; n++) await socket.next('response.completed')
    await socket.close()
  })
  test('has keepalives in no log: a replay does not show them', async () => {
    const socket = await server.socket()
    const { id } = await begin(socket, { input: 'x [fault:hang]' })
    await socket.next('keepalive')
    await socket.next('keepalive')
    socket.send({ type: 'response.interrupt', response_id: id })
    await endOf(socket, id)
    const { events } = await server.http().events('GET', `/v1/responses/${id}?stream=true`)
    expect(events.map((e) => e.type)).not.toContain('keepalive')
    expect(events).toEqual(socket.frames.filter((f) => f.type !== 'keepalive'))
    await socket.close()
  })
  test('that answers no ping is cut off', async () => {
    const socket = await rawConnect(server.wsUrl)
    const begun = performance.now()
    await socket.next((f) => f.opcode === pingFrame)
    expect(await socket.closed).toMatchObject({ code: undefined })
    expect(performance.now() - begun).toBeGreaterThan(350)
  })
  test('that answers pings lives, and any byte is as good as a pong', async () => {
    const socket = await rawConnect(server.wsUrl)
    let gone = false
    void socket.gone.then(() => (gone = true))
    for (let n = 0; n < 3; n++) {
      const { payload } = await socket.next((f) => f.opcode === pingFrame)
      socket.send({ opcode: pong, payload })
    }
    // Half a frame is a sign of life, too: a big message may take a while.
    for (let n = 0; n < 10; n++) {
      socket.write(Buffer.from(n === 0 ? [0x81, 0xfe, 0x04, 0x00] : [0]))
      await pause(60)
    }
    expect(gone).toBe(false)
    socket.destroy()
  })
})

test('one JSON body is kept alive with blanks in front, and is JSON all the same', async () => {
  const running = await startWith({ ...simulated({ ttftMs: 500 }), limits: { keepaliveMs: 100 } })
  const body = JSON.stringify({ model: 'm', input: 'hi' })
  const ask = { method: 'POST', path: '/v1/responses', headers: { 'content-type': 'application/json' }, body }
  const answer = await rawRequest(running.url, ask)
  expect(answer.status).toBe(200)
  expect(answer.body.toString()).toMatch(/^ {2,}\{/)
  expect(JSON.parse(answer.body.toString())).toMatchObject({ status: 'completed' })
  await running.close()
})
test('a fast answer has no blanks and a length of its own', async () => {
  const body = JSON.stringify({ model: 'm', input: 'hi' })
  const answer = await rawRequest(server.url, {
    method: 'POST',
    path: '/v1/responses',
    headers: { 'content-type': 'application/json' },
    body,
  })
  expect(answer.body.toString().startsWith('{')).toBe(true)
  expect(Number(answer.headers['content-length'])).toBe(answer.body.length)
})
