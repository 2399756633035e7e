// Whose is it? Every route and frame that names a response or an item, asked by keys of the same and of another tenant:
// what belongs to somebody else, what was deleted and what never was must look alike to the byte.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { responsePaths } from '../../src/transports/doors.ts'
import { frames } from '../../src/transports/frames.ts'
import { routes } from '../../src/transports/http.ts'
import { type Ask, asks, hello, type Named, nameless, type Tell, tells } from './ownership-table.ts'
import { pause, startTestServer, type TestServer } from './server.ts'
import type { Socket, WireResponse } from './socket.ts'

const keys = ['a/1', 'a/2', 'b/1', 'b/2'].map((name) => {
  const [tenant = '', id = ''] = name.split('/')
  return { tenant, id, secret: `secret-${tenant}-${id}` }
})
const secretOf = (name: string): string => `secret-${name.replace('/', '-')}`
type Said = { readonly status: number; readonly body: unknown; readonly headers: readonly string[] }

let server: TestServer
const made = (response: WireResponse): Named => ({ response: response.id, item: String(response.output[0]?.['id']) })
async function create(key: string, body: Record<string, unknown> = {}): Promise<Named> {
  const { status, json } = await server.http(secretOf(key)).post('/v1/responses', { ...hello, ...body })
  expect(status).toBe(200)
  return made(json as unknown as WireResponse)
}
async function deleted(key: string): Promise<Named> {
  const named = await create(key)
  expect((await server.http(secretOf(key)).delete(`/v1/responses/${named.response}`)).status).toBe(200)
  return named
}
const unknown: Named = { response: `resp_${'0'.repeat(40)}`, item: `msg_${'0'.repeat(40)}` }

/** The answer with the names taken out, so that answers about different names can be compared. */
function without({ response, item }: Named, said: Said): Said {
  const text = JSON.stringify(said.body).replaceAll(response, 'RESPONSE').replaceAll(item, 'ITEM')
  return { ...said, body: JSON.parse(text) }
}

async function askHttp(ask: Ask, base: string, key: string, named: Named): Promise<Said> {
  const body = ask.body?.(named)
  const reply = await fetch(server.url + base + ask.path(named), {
    method: ask.method,
    headers: { authorization: `Bearer ${secretOf(key)}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await reply.text()
  return without(named, {
    status: reply.status,
    body: text.startsWith('{') ? JSON.parse(text) : text,
    headers: [...reply.headers.keys()].sort(),
  })
}

async function tellSocket(tell: Tell, socket: Socket, named: Named): Promise<Said> {
  socket.send({ type: tell.covers, ...tell.frame(named) })
  const body = await socket.next((frame) =>
    ['error', 'response.created', 'response.steer.failed', 'response.inject.failed'].includes(frame.type),
  )
  return without(named, { status: Number(body['status'] ?? 0), body, headers: [] })
}

describe('the matrix', () => {
  test('has a row for every route', () => {
    const missing = routes
      .map((route) => `${route.method} ${route.path}`)
      .filter((route) => !asks.some((ask) => ask.covers === route))
    expect(missing).toEqual([])
  })
  test('has a row for every frame', () => {
    expect(
      [...frames.keys()].filter((type) => !nameless.has(type) && !tells.some((tell) => tell.covers === type)),
    ).toEqual([])
  })
})

describe.each(['memory', 'sqlite'])('with the %s store', (kind) => {
  let stored: Named
  let running: Named
  let maker: Socket
  const gone = new Map<string, Named>()
  beforeAll(async () => {
    server = await startTestServer({ keys, store: { kind }, rollouts: { enabled: true } })
    stored = await create('a/1')
    maker = await server.socket({ key: secretOf('a/1') })
    maker.send({ type: 'response.create', ...hello, input: 'tell me [fault:hang]' })
    const created = await maker.next('response.created')
    const added = await maker.next('response.output_item.added')
    running = { response: (created['response'] as WireResponse).id, item: (added['item'] as { id: string }).id }
    for (const { tenant, id } of keys) gone.set(`${tenant}/${id}`, await deleted(`${tenant}/${id}`))
    await pause(50)
  })
  afterAll(() => server.close())
  const goneOf = (key: string): Named => gone.get(key) ?? unknown

  describe.each(['a/2', 'b/1', 'b/2'])('the key %s', (key) => {
    test.each(asks.map((ask) => [ask.name, ask] as const))(
      'cannot %s over HTTP what is not its own',
      async (_, ask) => {
        for (const base of responsePaths) {
          const nothing = await askHttp(ask, base, key, unknown)
          expect(nothing.status).toBeGreaterThanOrEqual(400)
          expect(nothing.status).toBeLessThan(500)
          for (const named of [stored, running, goneOf(key), goneOf('a/1')])
            expect(await askHttp(ask, base, key, named)).toEqual(nothing)
        }
      },
    )
    test.each(tells.map((tell) => [tell.name, tell] as const))(
      'cannot %s on a socket what is not its own',
      async (_, tell) => {
        const socket = await server.socket({ key: secretOf(key) })
        const nothing = await tellSocket(tell, socket, unknown)
        expect(nothing.body).not.toHaveProperty('response')
        for (const named of [stored, running, goneOf(key), goneOf('a/1')])
          expect(await tellSocket(tell, socket, named)).toEqual(nothing)
        expect((await socket.turn(hello)).response?.status).toBe('completed')
        await socket.close()
      },
    )
    test('cannot continue what another connection keeps in memory only', async () => {
      const secret = await maker.turn({ ...hello, store: false, stream_id: 'secret' })
      const named = made(secret.response as WireResponse)
      for (const ask of asks) {
        const other = await askHttp(ask, '/v1/responses', key, named)
        expect(other, ask.name).toEqual(await askHttp(ask, '/v1/responses', key, unknown))
      }
    })
  })

  describe('the key that made it', () => {
    test('loses what it deletes: it looks as if it had never been', async () => {
      for (const ask of asks)
        expect(await askHttp(ask, '/v1/responses', 'a/1', goneOf('a/1')), ask.name).toEqual(
          await askHttp(ask, '/v1/responses', 'a/1', unknown),
        )
      const socket = await server.socket({ key: secretOf('a/1') })
      for (const tell of tells)
        expect(await tellSocket(tell, socket, goneOf('a/1')), tell.name).toEqual(
          await tellSocket(tell, socket, unknown),
        )
      await socket.close()
    })
    test('loses on its own connection, too, what it deletes', async () => {
      const socket = await server.socket({ key: secretOf('a/1') })
      const { response } = await socket.turn(hello)
      socket.skip()
      const named = made(response as WireResponse)
      expect((await server.http(secretOf('a/1')).delete(`/v1/responses/${named.response}`)).status).toBe(200)
      for (const tell of tells.filter((t) => t.covers === 'response.create'))
        expect(await tellSocket(tell, socket, named), tell.name).toEqual(await tellSocket(tell, socket, unknown))
      await socket.close()
    })
    test('still has everything after all that was tried', async () => {
      const http = server.http(secretOf('a/1'))
      expect(await http.get(`/v1/responses/${stored.response}`)).toMatchObject({
        status: 200,
        json: { id: stored.response, status: 'completed' },
      })
      expect(await http.get(`/v1/responses/${running.response}`)).toMatchObject({
        status: 200,
        json: { status: 'in_progress' },
      })
    })
    // Without this the matrix above could pass because nothing works at all.
    test.each(asks.map((ask) => [ask.name, ask] as const))('can %s over HTTP', async (_, ask) => {
      const own = await create('a/1')
      const listed = await server.http(secretOf('a/1')).get(`/v1/responses/${own.response}/input_items`)
      const inputItem = (listed.json['data'] as { id: string }[])[0]?.id ?? ''
      const said = await askHttp(
        ask,
        '/v1/responses',
        'a/1',
        ask.name.includes('behind') ? { ...own, item: inputItem } : own,
      )
      expect(said.status).toBe(200)
    })
    test.each(tells.filter((tell) => tell.alike === undefined).map((tell) => [tell.name, tell] as const))(
      'can %s on another socket',
      async (_, tell) => {
        const own = await create('a/1')
        const socket = await server.socket({ key: secretOf('a/1') })
        const said = await tellSocket(tell, socket, own)
        expect(said.body).toMatchObject({ type: 'response.created' })
        await socket.next((frame) =>
          ['response.completed', 'response.failed', 'response.incomplete'].includes(frame.type),
        )
        await socket.close()
      },
    )
    test('can steer and interrupt on the connection of the response', async () => {
      maker.send({ type: 'response.steer', previous_response_id: running.response, input: 'more' })
      expect(await maker.next('response.steer.accepted')).toMatchObject({
        steer: { previous_response_id: running.response },
      })
      maker.send({ type: 'response.interrupt', response_id: running.response })
      expect(await maker.next('response.incomplete')).toMatchObject({ response: { id: running.response } })
      await maker.close()
    })
  })
})
