// What bad input gets: one clear error each, the socket alive, other lanes untouched, memory back to where it was.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { deep, refusedBodies, refusedTexts } from './bad-inputs.ts'
import { eventually, type TestServer } from './server.ts'
import { alive, hello, limit, startTrouble, type Trouble } from './trouble.ts'

let trouble: Trouble
let server: TestServer
beforeAll(async () => {
  trouble = await startTrouble()
  server = trouble.server
})
afterAll(() => trouble.close())
afterEach(() => trouble.over())

describe('a frame', () => {
  test.each(refusedTexts)('of %s is an invalid_json error, and the socket lives', async (_, text) => {
    const socket = await server.socket()
    socket.send(text)
    expect(await socket.next()).toMatchObject({
      type: 'error',
      status: 400,
      sequence_number: 0,
      error: { code: 'invalid_json', param: null },
    })
    await alive(socket)
    expect(Object.hasOwn(Object.prototype, 'x')).toBe(false)
  })
  test('nested to 128 levels is read', async () => {
    const socket = await server.socket()
    socket.send(`{"type":"response.create","model":"m","input":"hi","later":${deep(126)}}`)
    expect(await socket.next('response.completed')).toMatchObject({ response: { status: 'completed' } })
    await socket.close()
  })
  test.each([
    ['without a type', {}],
    ['with a type that is no text', { type: 5 }],
    ['with null for a type', { type: null }],
  ])('%s is a 400 that names it', async (_, frame) => {
    const socket = await server.socket()
    socket.send(frame)
    expect(await socket.next()).toMatchObject({
      type: 'error',
      status: 400,
      error: { code: 'invalid_request', param: 'type' },
    })
    await alive(socket)
  })
  test.each(['response.processed', 'response.cancel', 'session.update', 'toString', '__proto__', ''])(
    'of the unknown type "%s" is ignored and counted',
    async (type) => {
      const socket = await server.socket()
      const before = server.app.counts().unknownFrames
      socket.send({ type, response_id: 'resp_1' })
      await alive(socket)
      expect(server.app.counts().unknownFrames).toBe(before + 1)
    },
  )
  test.each(['', 'a b', 'ä', 'a/b', 'x'.repeat(257), 5, {}, ['a']])(
    'with the lane %j is an invalid_stream_id error without a lane',
    async (stream_id) => {
      const socket = await server.socket()
      socket.send({ type: 'response.create', ...hello, stream_id })
      const error = await socket.next()
      expect(error).toMatchObject({
        type: 'error',
        status: 400,
        error: { code: 'invalid_stream_id', param: 'stream_id' },
      })
      expect(error).not.toHaveProperty('stream_id')
      await alive(socket)
    },
  )
  test.each(['a', 'A-z_0.9', 'x'.repeat(256)])('with the lane %s is answered on it', async (stream_id) => {
    const socket = await server.socket()
    const turn = await socket.turn({ ...hello, stream_id })
    expect(turn.response?.status).toBe('completed')
    for (const event of turn.events) expect(event['stream_id']).toBe(stream_id)
    await alive(socket)
  })
  test('that appends outside a rollout is a 400, one that injects is told that it failed', async () => {
    const socket = await server.socket()
    socket.send({ type: 'response.append', input: [] })
    expect(await socket.next()).toMatchObject({ type: 'error', status: 400 })
    const input = [{ type: 'function_call_output', call_id: 'c', output: 'o' }]
    socket.send({ type: 'response.inject', response_id: 'resp_none', input })
    expect(await socket.next()).toMatchObject({
      type: 'response.inject.failed',
      response_id: 'resp_none',
      input,
      error: { code: 'response_not_found' },
    })
    await alive(socket)
  })
  test('that steers or interrupts with nonsense is told so', async () => {
    const socket = await server.socket()
    socket.send({ type: 'response.steer', input: 'x' })
    expect(await socket.next()).toMatchObject({
      type: 'error',
      error: { code: 'invalid_request', param: 'previous_response_id' },
    })
    for (const input of [
      5,
      '',
      [],
      [{ role: 'assistant', content: 'x' }],
      [{ type: 'function_call_output', call_id: 'c', output: '' }],
    ]) {
      socket.send({ type: 'response.steer', previous_response_id: 'resp_none', input })
      expect(await socket.next()).toMatchObject({
        type: 'response.steer.failed',
        steer: { input },
        error: { code: 'invalid_input' },
      })
    }
    socket.send({ type: 'response.steer', previous_response_id: 'resp_none', input: 'x' })
    expect(await socket.next()).toMatchObject({ type: 'response.steer.failed', error: { code: 'response_not_found' } })
    socket.send({ type: 'response.interrupt' })
    expect(await socket.next()).toMatchObject({
      type: 'error',
      error: { code: 'invalid_request', param: 'response_id' },
    })
    await alive(socket)
  })
  test('over the size limit closes the socket with 1009 and says why', async () => {
    const socket = await server.socket()
    socket.send({ type: 'response.create', model: 'm', input: 'x'.repeat(limit) })
    expect(await socket.closed).toMatchObject({ code: 1009, reason: expect.stringMatching(/size limit/) })
  })
  test('in binary closes the socket with 1003 and says why', async () => {
    const socket = await server.socket()
    socket.ws.send(Buffer.from(JSON.stringify({ type: 'response.create', ...hello })))
    expect(await socket.closed).toMatchObject({ code: 1003, reason: 'text frames only' })
  })
})

describe('a request', () => {
  test.each(refusedBodies)('with %s is refused on its lane, and the socket lives', async (_, code, param, body) => {
    const socket = await server.socket()
    const other = socket.turn({ ...hello, stream_id: 'other' })
    const refused = await socket.turn({ ...(body as Record<string, unknown>), stream_id: 'bad' })
    expect(refused.events).toHaveLength(1)
    expect(refused.error).toMatchObject({ code, status: 400, ...(param === null ? {} : { param }) })
    expect((await other).response?.status).toBe('completed')
    await alive(socket)
  })
  test.each(refusedBodies)('over HTTP with %s is the same error as a status', async (_, code, param, body) => {
    for (const stream of [false, true]) {
      const { status, json } = await server
        .http()
        .post('/v1/responses', { ...(body as Record<string, unknown>), stream })
      expect(status).toBe(400)
      expect(json).toMatchObject({ error: { code, ...(param === null ? {} : { param }) } })
    }
  })
  test.each([false, null])('with background: %j passes', async (background) => {
    const socket = await server.socket()
    expect((await socket.turn({ ...hello, background })).response?.status).toBe('completed')
    await alive(socket)
  })
  test('with fields, items and tools that nobody knows yet passes', async () => {
    const socket = await server.socket()
    const items = [
      { type: 'dream', vivid: true },
      { type: 'message', role: 'user', content: 'hi' },
    ]
    const turn = await socket.turn({
      ...hello,
      input: items,
      tools: [{ type: 'telepathy' }],
      client_metadata: { a: 1 },
      moonphase: 'full',
    })
    expect(turn.response).toMatchObject({ status: 'completed', tools: [{ type: 'telepathy' }] })
    await alive(socket)
  })
  test('on one lane too many is refused on that lane, and names once used go on', async () => {
    const socket = await server.socket()
    for (const stream_id of ['a', 'b', 'c', 'd'])
      expect((await socket.turn({ ...hello, stream_id })).response?.status).toBe('completed')
    const refused = await socket.turn({ ...hello, stream_id: 'e' })
    expect(refused.error).toMatchObject({ code: 'websocket_stream_limit_reached', status: 400, param: 'stream_id' })
    expect(refused.events[0]).toMatchObject({ stream_id: 'e' })
    expect((await socket.turn({ ...hello, stream_id: 'a' })).response?.status).toBe('completed')
    await alive(socket)
  })
  test('more than may wait is refused, and those that wait are answered in order', async () => {
    const socket = await server.socket()
    socket.send({ type: 'response.create', model: 'm', input: 'tell me [fault:hang]' })
    const { response } = (await socket.next('response.created')) as unknown as { response: { id: string } }
    for (const n of [1, 2, 3]) socket.send({ type: 'response.create', ...hello, metadata: { n: String(n) } })
    socket.send({ type: 'response.create', ...hello, metadata: { n: '4' } })
    expect(await socket.next('error')).toMatchObject({ status: 429, error: { code: 'rate_limit_exceeded' } })
    socket.send({ type: 'response.interrupt', response_id: response.id })
    for (const n of ['1', '2', '3'])
      expect(await socket.next('response.completed')).toMatchObject({ response: { metadata: { n } } })
    await alive(socket)
  })
})

describe('a body over HTTP', () => {
  test.each(refusedTexts)('of %s is an invalid_json error', async (_, text) => {
    const { status, json } = await server.http().post('/v1/responses', text)
    expect(status).toBe(400)
    expect(json).toMatchObject({ error: { code: 'invalid_json' } })
  })
  test('over the size limit is 413, packed or not', async () => {
    const big = JSON.stringify({ model: 'm', input: 'x'.repeat(limit) })
    for (const [body, headers] of [
      [big, {}],
      [gzipSync(big), { 'content-encoding': 'gzip' }],
    ] as const) {
      const { status, json } = await server.http().post('/v1/responses', body, { headers })
      expect(status).toBe(413)
      expect(json).toMatchObject({ error: { code: 'payload_too_large' } })
    }
  })
  test('in an unknown encoding is 415, in a broken one 400, in gzip it is read', async () => {
    const body = gzipSync(JSON.stringify(hello))
    const send = (encoding: string, bytes: Buffer): ReturnType<ReturnType<TestServer['http']>['post']> =>
      server.http().post('/v1/responses', bytes, { headers: { 'content-encoding': encoding } })
    expect(await send('rot13', body)).toMatchObject({
      status: 415,
      json: { error: { code: 'unsupported_media_type' } },
    })
    expect(await send('gzip', body.subarray(0, 20))).toMatchObject({
      status: 400,
      json: { error: { code: 'invalid_json' } },
    })
    expect(await send('gzip', body)).toMatchObject({ status: 200, json: { status: 'completed' } })
  })
  test('on a wrong path or with a wrong method is told so', async () => {
    expect(await server.http().get('/v1/nothing')).toMatchObject({
      status: 404,
      json: { error: { code: 'not_found' } },
    })
    expect(await server.http().ask('PUT', '/v1/responses', { body: hello })).toMatchObject({
      status: 405,
      json: { error: { code: 'method_not_allowed' } },
    })
    expect(await server.http().get('/v1/responses/resp_none?stream=true&starting_after=x')).toMatchObject({
      status: 400,
    })
    expect(await server.http().get('/v1/responses/resp_none/input_items?limit=0')).toMatchObject({ status: 400 })
    expect(await server.http().get('/v1/models/nobody')).toMatchObject({ json: { id: 'nobody' } })
  })
})

describe('memory', () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const used = (): number => {
    collect()
    return process.memoryUsage().heapUsed
  }
  test('is back where it was after all kinds of trouble', async () => {
    const send = async (rounds: number): Promise<void> => {
      for (let n = 0; n < rounds; n++) {
        const socket = await server.socket()
        socket.send(`{"type":"response.create","input":"${'x'.repeat(limit - 100)}`)
        socket.send('['.repeat(limit - 100))
        await socket.next('error')
        await socket.next('error')
        await Promise.all([
          // Nothing is stored: the memory store keeps what it is given.
          socket.turn({ ...hello, store: false, input: 'tell me [fault:cut]' }),
          socket.turn({ ...hello, store: false, input: 'x'.repeat(limit - 200), stream_id: 'a' }),
          socket.turn({ ...hello, store: false, previous_response_id: 'resp_none', stream_id: 'b' }),
        ])
        socket.ws.terminate()
        await socket.closed
      }
      await server.quiet(true)
      await eventually(() => expect(server.app.counts().logBytes).toBe(0))
    }
    await send(10)
    const before = used()
    await send(40)
    // 40 rounds put 30 MB through the server.
    expect(used() - before).toBeLessThan(6 * 1024 * 1024)
    expect(server.app.counts()).toMatchObject({ sockets: 0, running: 0, heldBytes: 0, logBytes: 0, unsettled: 0 })
  })
})
