// Who gets a socket and who is told why not: refusals are plain HTTP with a JSON error, before any 101.
import { connect as connectTcp } from 'node:net'
import { once } from 'node:events'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { checkErrorBody } from './check.ts'
import { rawConnect, rawRequest, type RawAnswer, upgradeHeaders } from './raw-socket.ts'
import { eventually, pause, startTestServer, type TestServer } from './server.ts'

const keys = [
  { id: 'one', tenant: 'a', secret: 'secret-one' },
  { id: 'http-only', tenant: 'a', secret: 'secret-two', websocket: false },
]
const bearer = (secret: string): Record<string, string> => ({ authorization: `Bearer ${secret}` })
const started: TestServer[] = []
async function start(settings: Record<string, unknown> = {}): Promise<TestServer> {
  const server = await startTestServer(settings)
  started.push(server)
  return server
}
afterEach(async () => {
  for (const server of started.splice(0)) await server.close()
})

const upgrade = (url: string, path: string, headers: Record<string, string> = {}): Promise<RawAnswer> =>
  rawRequest(url, { path, headers: { ...upgradeHeaders(), ...headers } })
function refused(answer: RawAnswer, status: number, code: string): Record<string, unknown> {
  const json = JSON.parse(answer.body.toString()) as Record<string, unknown>
  expect(checkErrorBody(json)).toEqual([])
  expect({ status: answer.status, code: (json['error'] as { code: string }).code }).toEqual({ status, code })
  expect(answer.headers['content-type']).toMatch(/^application\/json/)
  expect(answer.headers['x-request-id']).toMatch(/^req_/)
  expect(answer.headers['connection']).toBe('close')
  return json
}

describe('an upgrade', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startTestServer({ keys, limits: { http: { origins: ['https://good.example'] } } })
  })
  afterAll(() => server.close())

  test.each([
    ['no key', {}],
    ['an unknown key', bearer('secret-three')],
    ['a key that is none', { authorization: 'Basic c2VjcmV0' }],
    ['an empty key', { authorization: 'Bearer ' }],
  ])('with %s is refused with 401', async (_, headers) => {
    refused(await upgrade(server.url, '/v1/responses', headers as Record<string, string>), 401, 'invalid_api_key')
  })
  test.each([
    'null',
    'https://evil.example',
    'https://good.example.evil.example',
    'https://good.example:444',
    'http://good.example',
    'https://good.example/',
    'https://sub.good.example',
    '',
  ])('from the browser origin "%s" is refused with 403', async (origin) => {
    refused(await upgrade(server.url, '/v1/responses', { ...bearer('secret-one'), origin }), 403, 'origin_not_allowed')
  })
  test('from a listed origin, or from none, is let in', async () => {
    for (const headers of [bearer('secret-one'), { ...bearer('secret-one'), origin: 'https://good.example' }])
      (await rawConnect(server.wsUrl, headers)).destroy()
  })
  test.each([
    '/v1/realtime',
    '/v1/responses/',
    '/responses',
    '/v1/responses/resp_1',
    '/',
    '//v1/responses',
    '/v1/models',
    '/v1/responses%2f',
  ])('at %s is refused with 404', async (path) => {
    refused(await upgrade(server.url, path, bearer('secret-one')), 404, 'not_found')
  })
  test('with a key that may not is refused with 426', async () => {
    refused(await upgrade(server.url, '/v1/responses', bearer('secret-two')), 426, 'upgrade_required')
    expect((await server.http('secret-two').post('/v1/responses', { model: 'm', input: 'hi' })).status).toBe(200)
  })
  test.each([
    '/v1/responses',
    '/codex/responses',
    '/v1/codex/responses',
    '/v1/responses?a=1&b=/x',
    '/codex/responses?beta=true',
  ])('at %s is let in', async (path) => {
    const socket = await server
      .socket({ key: 'secret-one' })
      .then((s) => s.close().then(() => rawConnect(server.wsUrl.replace('/v1/responses', path), bearer('secret-one'))))
    socket.json({ type: 'response.create', model: 'm', input: 'hi' })
    expect(await socket.event('response.completed')).toMatchObject({ response: { status: 'completed' } })
    socket.destroy()
  })
  test.each([
    {},
    { 'openai-beta': 'responses_websockets=2026-02-06' },
    { 'user-agent': 'x', originator: 'codex', version: '0.169.0' },
    { 'sec-websocket-extensions': 'permessage-deflate; client_max_window_bits' },
  ])('with the headers %j is let in, without an extension', async (headers) => {
    const answer = await upgrade(server.url, '/v1/responses', {
      ...bearer('secret-one'),
      ...(headers as Record<string, string>),
    })
    expect(answer.status).toBe(101)
    expect(answer.headers['x-request-id']).toMatch(/^req_/)
    expect(answer.headers['sec-websocket-extensions']).toBeUndefined()
    expect(answer.headers['sec-websocket-protocol']).toBeUndefined()
  })
  test.each([
    ['without a key of its own', { 'sec-websocket-key': '' }],
    ['with a key that is too short', { 'sec-websocket-key': 'abc' }],
    ['of version 7', { 'sec-websocket-version': '7' }],
    ['to something else', { upgrade: 'h2c' }],
  ])('%s is refused as JSON', async (_, headers) => {
    const answer = await upgrade(server.url, '/v1/responses', {
      ...bearer('secret-one'),
      ...(headers as Record<string, string>),
    })
    expect(answer.status).toBeGreaterThanOrEqual(400)
    expect(answer.status).toBeLessThan(500)
    expect(checkErrorBody(JSON.parse(answer.body.toString()))).toEqual([])
  })
  test('asked for with POST is refused as JSON', async () => {
    const answer = await rawRequest(server.url, {
      method: 'POST',
      path: '/v1/responses',
      headers: { ...upgradeHeaders(), ...bearer('secret-one') },
    })
    expect(answer.status).toBeGreaterThanOrEqual(400)
    expect(checkErrorBody(JSON.parse(answer.body.toString()))).toEqual([])
  })
  test('that was none, a plain GET, is told to upgrade', async () => {
    const { status, json } = await server.http('secret-one').get('/v1/responses')
    expect(status).toBe(426)
    expect(json).toMatchObject({ error: { code: 'upgrade_required' } })
  })
  test('does not tell a stranger anything but that the key is wrong', async () => {
    const bodies = await Promise.all(
      [{}, bearer('secret-three')].map(async (headers) =>
        (await upgrade(server.url, '/v1/responses', headers)).body.toString(),
      ),
    )
    expect(bodies[0]).toBe(bodies[1])
  })
  test('reset by the client at any moment leaves the server as it was', async () => {
    const { port } = new URL(server.url)
    const bytes = (headers: Record<string, string>): string =>
      `GET /v1/responses HTTP/1.1\r\nhost: x\r\n${Object.entries({ ...upgradeHeaders(), ...headers })
        .map(([name, value]) => `${name}: ${value}\r\n`)
        .join('')}\r\n`
    for (const headers of [{}, bearer('secret-one'), bearer('secret-two')])
      for (const wait of [0, 0, 1, 2, 5]) {
        const tcp = connectTcp(Number(port), '127.0.0.1')
        tcp.on('error', () => {})
        await once(tcp, 'connect')
        tcp.write(bytes(headers))
        if (wait > 0) await pause(wait)
        tcp.resetAndDestroy()
      }
    await eventually(() => expect(server.app.counts().sockets).toBe(0))
    const socket = await server.socket({ key: 'secret-one' })
    expect((await socket.turn({ model: 'm', input: 'hi' })).response?.status).toBe('completed')
    await socket.close()
    expect(server.log.filter((line) => /uncaught|nobody caught/.test(line))).toEqual([])
  })
})

describe('sockets', () => {
  test('that are switched off are 426, and HTTP serves on', async () => {
    const server = await start({ limits: { websocket: { enabled: false } } })
    const answer = await upgrade(server.url, '/v1/responses')
    refused(answer, 426, 'upgrade_required')
    expect(answer.headers['upgrade']).toBe('websocket')
    expect((await server.http().post('/v1/responses', { model: 'm', input: 'hi' })).status).toBe(200)
  })
  test('outside the ramp are 426, the same client always on the same side', async () => {
    const server = await start({ limits: { websocket: { ramp: 0.5 } } })
    const side = async (id: string): Promise<number> =>
      (await upgrade(server.url, '/v1/responses', { 'session-id': id })).status
    const ids = Array.from({ length: 60 }, (_, n) => `session-${n}`)
    const first = await Promise.all(ids.map(side))
    expect(new Set(first)).toEqual(new Set([101, 426]))
    const letIn = first.filter((status) => status === 101).length
    expect(letIn).toBeGreaterThan(12)
    expect(letIn).toBeLessThan(48)
    expect(await Promise.all(ids.map(side))).toEqual(first)
    const none = await start({ limits: { websocket: { ramp: 0 } } })
    refused(await upgrade(none.url, '/v1/responses'), 426, 'upgrade_required')
  })
  test('over the most that may be open are 503 with a time to wait, until one closes', async () => {
    const server = await start({ limits: { websocket: { maxSockets: 2 } } })
    const [one, two] = [await server.socket(), await server.socket()]
    const answer = await upgrade(server.url, '/v1/responses')
    refused(answer, 503, 'server_is_overloaded')
    expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1)
    await one.close()
    await eventually(async () => (await server.socket()).close())
    await two.close()
  })
  test('of a draining server are 503 with a time to wait, while what runs is finished', async () => {
    const server = await start()
    const [busy, idle] = [await server.socket(), await server.socket()]
    busy.send({ type: 'response.create', model: 'm', input: 'tell me [fault:hang]' })
    const created = await busy.next('response.created')
    await busy.next('response.output_text.delta')
    const drained = server.app.drain()
    expect(await idle.closed).toMatchObject({ code: 1012 })
    const answer = await upgrade(server.url, '/v1/responses')
    refused(answer, 503, 'server_is_overloaded')
    expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1)
    expect((await busy.turn({ stream_id: 'late', model: 'm', input: 'hi' })).error).toMatchObject({
      code: 'websocket_connection_limit_reached',
      status: 400,
    })
    busy.send({ type: 'response.interrupt', response_id: (created['response'] as { id: string }).id })
    expect(await busy.next('response.incomplete')).toMatchObject({
      response: { incomplete_details: { reason: 'interrupted' } },
    })
    expect(await busy.closed).toMatchObject({ code: 1012 })
    await drained
  })
})
