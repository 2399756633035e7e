// Lean turns on a socket: what is inherited and from where, what is refused, what envelopes leave out, and for whom.
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { inheritable, isInheritable } from '../../src/protocol/lean.ts'
import { parseCreate } from '../../src/protocol/request.ts'
import { Continuations } from '../../src/session/continuations.ts'
import { Chain } from '../../src/turn/chain.ts'
import type { TestServer } from '../wire/server.ts'
import type { Socket, Turned, WireResponse } from '../wire/socket.ts'
import {
  begin,
  compileSchemas,
  endOf,
  lastPrompt,
  readTool,
  responseIn,
  simulated,
  startWith,
  type Settings,
} from './started.ts'

let server: TestServer
beforeAll(async () => {
  compileSchemas()
  const turns = [
    { when: { contains: 'two items' }, steps: [{ text: 'First part.' }, { pause: 200 }, { text: 'Second part.' }] },
    { steps: [{ text: 'Well.' }] },
  ]
  server = await startWith({
    ...simulated({ scenario: { turns } }),
    keys: [
      { id: 'all', tenant: 't', secret: 'sk-all-000000000000' },
      { id: 'some', tenant: 't', secret: 'sk-some-00000000000', models: ['small-*'] },
    ],
  })
})
afterAll(() => server.close())

const key = 'sk-all-000000000000'
const settings = {
  instructions: 'Be brief.',
  tools: [readTool],
  tool_choice: 'auto',
  temperature: 0.5,
  metadata: { who: 'me' },
  reasoning: { effort: 'low' },
  user: 'u',
}
const names = Object.keys(settings)
const turn = (socket: Socket, body: Settings): Promise<Turned> => socket.turn({ model: 'm', store: false, ...body })
const idOf = ({ response }: Turned): string => response?.id ?? 'none'
const known = async (id: string): Promise<WireResponse> =>
  (await server.http(key).get(`/v1/responses/${id}`)).json as WireResponse
/** A first turn with settings, and the answer to `next` on it. */
async function after(next: Settings): Promise<{ first: Turned; then: Turned; socket: Socket }> {
  const socket = await server.socket({ key })
  const first = await turn(socket, { ...settings, input: 'hello' })
  const then = await turn(socket, { previous_response_id: idOf(first), input: 'more', ...next })
  return { first, then, socket }
}

test('every setting but the model can be inherited', () => {
  const { settings } = parseCreate({ model: 'm', input: 'x' })
  expect(['model', ...inheritable].sort()).toEqual(Object.keys(settings).sort())
})

describe('inherit', () => {
  test('takes the named settings of the previous response, and only those', async () => {
    const { then, socket } = await after({ continuo: { inherit: ['instructions', 'tools', 'temperature'] } })
    expect(then.response).toMatchObject({ instructions: 'Be brief.', temperature: 0.5, metadata: {}, reasoning: null })
    expect(then.response?.['tools']).toMatchObject([{ name: 'read_file' }])
    expect(lastPrompt(server)).toContain('Be brief.')
    await socket.close()
  })
  test('goes on over many turns, forks and warm-ups', async () => {
    const socket = await server.socket({ key })
    let last = await turn(socket, { ...settings, generate: false, input: [] })
    const ids = [idOf(last)]
    for (let n = 0; n < 4; n++) {
      const body = { previous_response_id: idOf(last), input: `more ${n}`, continuo: { inherit: names } }
      last = await turn(socket, body)
      expect(last.response).toMatchObject({ ...settings, status: 'completed', tools: [{ name: 'read_file' }] })
      ids.push(idOf(last))
    }
    const fork = { previous_response_id: ids[1], input: 'fork', stream_id: 'b', continuo: { inherit: names } }
    expect((await turn(socket, fork)).response).toMatchObject({ ...settings, tools: [{ name: 'read_file' }] })
    await socket.close()
  })
  test('gives way to what the request says, null included', async () => {
    const { then, socket } = await after({ temperature: 1.5, instructions: null, continuo: { inherit: names } })
    expect(then.response).toMatchObject({ temperature: 1.5, instructions: null, metadata: { who: 'me' } })
    await socket.close()
  })
  test('needs a previous response', async () => {
    const socket = await server.socket({ key })
    const { error } = await turn(socket, { input: 'x', continuo: { inherit: ['tools'] } })
    expect(error).toMatchObject({ status: 400, code: 'invalid_request', param: 'continuo.inherit' })
    expect(error?.message).toContain('previous_response_id')
    await socket.close()
  })
  test.each([
    [{ inherit: ['tools', 'model'] }, 'continuo.inherit.1', inheritable.join(', ')],
    [{ inherit: ['tools'], ecko: false }, 'continuo', '`inherit`'],
    [{ inherit: 'tools' }, 'continuo.inherit', 'array'],
    ['lean', 'continuo', 'object'],
  ])('says what it knows when it is sent %j', async (continuo, param, says) => {
    const { then, socket } = await after({ continuo })
    expect(then.error).toMatchObject({ status: 400, code: 'invalid_request', param })
    expect(then.error?.message).toContain(says)
    await socket.close()
  })
  test('is refused where the connection does not know the settings, although the response is stored', async () => {
    const socket = await server.socket({ key })
    const first = await turn(socket, { ...settings, store: true, input: 'hello' })
    const other = await server.socket({ key })
    const lean = { previous_response_id: idOf(first), input: 'more', continuo: { inherit: ['tools'] } }
    const { error } = await turn(other, lean)
    expect(error).toMatchObject({ status: 400, code: 'previous_response_not_found', param: 'continuo.inherit' })
    expect(error?.message).toContain('send the request with all of its settings')
    const { continuo: _, ...full } = lean
    expect((await turn(other, { ...settings, ...full })).response?.status).toBe('completed')
    await Promise.all([socket.close(), other.close()])
  })
  test('does not outlive the continuation: a response that was evicted has no settings either', async () => {
    const { first, socket } = await after({ previous_response_id: undefined, input: 'x' })
    await turn(socket, {
      previous_response_id: idOf(first),
      input: [{ type: 'function_call_output', call_id: 'no', output: '' }],
    })
    const { error } = await turn(socket, {
      previous_response_id: idOf(first),
      input: 'x',
      continuo: { inherit: names },
    })
    expect(error?.code).toBe('previous_response_not_found')
    await socket.close()
  })
  test('leaves the model to the request, and what the key may use is asked of that', async () => {
    const socket = await server.socket({ key: 'sk-some-00000000000' })
    const first = await turn(socket, { ...settings, model: 'small-1', input: 'hello' })
    const lean = { previous_response_id: idOf(first), input: 'more', continuo: { inherit: names } }
    expect((await turn(socket, { ...lean, model: 'm' })).error?.code).toBe('permission_denied')
    expect((await socket.turn({ type: 'response.create', ...lean })).error?.param).toBe('model')
    expect((await turn(socket, { ...lean, model: 'small-2' })).response).toMatchObject({ model: 'small-2', user: 'u' })
    await socket.close()
  })
  test('is checked as what it amounts to: a forced call needs the tools that come along', async () => {
    const choice = { tool_choice: { type: 'function', name: 'read_file' } }
    const without = await after({ ...choice, continuo: { inherit: ['instructions'] } })
    expect(without.then.error).toMatchObject({ status: 400 })
    const along = await after({ ...choice, continuo: { inherit: ['instructions', 'tools'] } })
    expect(along.then.error).toBeUndefined()
    await Promise.all([without.socket.close(), along.socket.close()])
  })
  test('neither parses nor copies the tools', () => {
    // Longer than the lists that are remembered from request to request.
    const tools = [{ ...readTool, description: 'x'.repeat(2_000_000) }]
    const first = parseCreate({ model: 'm', input: 'x', ...settings, tools })
    const cache = new Continuations(4)
    cache.keep('resp_1', Chain.root('o'), '', first.settings)
    const lean = { model: 'm', input: 'x', previous_response_id: 'resp_1', continuo: { inherit: inheritable } }
    const { settings: filled } = cache.filled(parseCreate(lean))
    expect(filled).toEqual(first.settings)
    expect(filled.tools).toBe(first.settings.tools)
  })
})

describe('what a connection remembers of settings', () => {
  const kept = (cache: Continuations, count: number): number =>
    Array.from({ length: count }, (_, n) => cache.get(`resp_${n}`)).filter(Boolean).length
  const asked = (instructions: string) => parseCreate({ model: 'm', input: 'x', instructions }).settings
  test('counts towards its limit in bytes', () => {
    const cache = new Continuations(64, 200_000)
    for (let n = 0; n < 10; n++) cache.keep(`resp_${n}`, Chain.root('o'), '', asked(`${n}`.repeat(50_000)))
    expect(kept(cache, 10)).toBe(3)
  })
  test('counts once what is said again each time', () => {
    const cache = new Continuations(64, 200_000)
    const root = Chain.root('o')
    for (let n = 0; n < 10; n++) cache.keep(`resp_${n}`, root, '', asked('x'.repeat(50_000)))
    expect(kept(cache, 10)).toBe(10)
  })
})

describe('echo: false', () => {
  const quiet = { continuo: { echo: false } }
  test('leaves every setting out of the envelopes and nothing else, and other readers see the whole', async () => {
    const socket = await server.socket({ key })
    const { events, response } = await turn(socket, { ...settings, ...quiet, store: true, input: 'hello' })
    const whole = await known(idOf({ response } as Turned))
    expect(whole).toMatchObject({ ...settings, tools: [{ name: 'read_file' }] })
    const said = Object.entries(whole).filter(([name]) => !isInheritable(name))
    expect(response).toEqual(Object.fromEntries(said))
    const envelopes = events.filter((event) => 'response' in event)
    expect(envelopes.map((event) => event.type)).toEqual(
      ['created', 'in_progress', 'completed'].map((t) => `response.${t}`),
    )
    for (const event of envelopes) expect(Object.keys(responseIn(event))).toEqual(said.map(([name]) => name))
    const replay = await server.http(key).events('GET', `/v1/responses/${whole.id}?stream=true`)
    expect(replay.response).toEqual(whole)
    await socket.close()
  })
  test('holds for failed responses and for what follows a steered one', async () => {
    const socket = await server.socket({ key })
    const failed = await turn(socket, { ...settings, ...quiet, input: 'x [fault:error]' })
    expect(failed.response).toMatchObject({ status: 'failed', error: { code: 'server_error' } })
    expect(failed.response).not.toHaveProperty('tools')
    const first = await begin(socket, { ...settings, ...quiet, input: 'two items' })
    await socket.next('response.output_text.delta')
    socket.send({ type: 'response.steer', previous_response_id: first.id, input: 'in French, please' })
    expect(await endOf(socket, first.id)).not.toHaveProperty('tools')
    const next = responseIn(
      await socket.next((f) => f.type === 'response.created' && responseIn(f)['previous_response_id'] === first.id),
    )
    expect(next).not.toHaveProperty('tools')
    expect(await endOf(socket, next.id)).not.toHaveProperty('tools')
    await socket.close()
  })
  test('is asked for by each request: the next one has its echo again', async () => {
    const { then, socket } = await after({ ...settings, ...quiet })
    expect(then.response).not.toHaveProperty('instructions')
    const last = await turn(socket, { previous_response_id: idOf(then), input: 'x', continuo: { inherit: names } })
    expect(last.response).toMatchObject({ instructions: 'Be brief.' })
    await socket.close()
  })
})

test('bytes up and down of a lean turn do not depend on the size of tools and instructions', async () => {
  const measured = async (size: number): Promise<{ up: number; down: number }> => {
    const socket = await server.socket({ key })
    const tools = [{ ...readTool, description: 'd'.repeat(size) }]
    const first = await turn(socket, { instructions: 'i'.repeat(size), tools, input: 'hello' })
    const lean = {
      type: 'response.create',
      model: 'm',
      store: false,
      previous_response_id: idOf(first),
      input: 'more',
      continuo: { inherit: ['instructions', 'tools'], echo: false },
    }
    let down = 0
    socket.ws.on('message', (data: Buffer) => (down += data.length))
    const { response } = await socket.turn(lean)
    expect(lastPrompt(server)).toContain('i'.repeat(size))
    await socket.close()
    // Of these the count of tokens alone may be a digit longer.
    return { up: JSON.stringify(lean).length, down: down - JSON.stringify(response?.usage).length }
  }
  const [small, large] = [await measured(10), await measured(100_000)]
  expect(large).toEqual(small)
  expect(small.up).toBeLessThan(250)
  expect(small.down).toBeLessThan(3000)
})

describe('who does not ask for it', () => {
  test('is offered it in the answer to the upgrade, and nowhere else', async () => {
    const ws = new WebSocket(server.wsUrl, { headers: { authorization: `Bearer ${key}` } })
    const [answer] = (await once(ws, 'upgrade')) as [IncomingMessage]
    expect(answer.headers['continuo-extensions']).toBe('lean')
    ws.terminate()
    const { headers } = await server.http(key).get('/v1/models')
    expect(headers.has('continuo-extensions')).toBe(false)
  })
  test('inherits nothing', async () => {
    const { then, socket } = await after({})
    expect(then.response).toMatchObject({ instructions: null, tools: [], temperature: 1, metadata: {} })
    await socket.close()
  })
  test.each(['/v1/responses', '/v1/responses/input_tokens'])(
    'is told over HTTP that it is for sockets: %s',
    async (path) => {
      const { status, json } = await server.http(key).post(path, { model: 'm', input: 'x', continuo: { echo: false } })
      expect(status).toBe(400)
      expect(json['error']).toMatchObject({ code: 'unsupported_parameter', param: 'continuo' })
    },
  )
})
