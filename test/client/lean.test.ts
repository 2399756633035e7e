// Lean turns of the client library: what leaves it and what its callers see, against the real server; and what it does
// where a server does not offer them, no longer knows, or knows other settings.
import fc from 'fast-check'
import OpenAI from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { WebSocket } from 'ws'
import type { ConnectOptions } from '../../src/client/connect-options.ts'
import { connect } from '../../src/client/connection.ts'
import { createFetch } from '../../src/client/fetch.ts'
import { startTestServer, type TestServer } from '../wire/server.ts'
import '../wire/tap.ts'
import { closeAfterEach, dial, read, serve } from './dialled.ts'
import { answerHello, user, type Frame } from './ws-server.ts'

closeAfterEach()
const numRuns = Number(process.env['RUNS'] ?? 8)
/** Frames that clients in this process sent since the test began. */
let sent: string[] = []
let server: TestServer
beforeAll(async () => {
  const { send } = WebSocket.prototype
  vi.spyOn(WebSocket.prototype, 'send').mockImplementation(function (this: WebSocket, ...args: unknown[]): void {
    if ((this as { _isServer?: boolean })._isServer === false) sent.push(String(args[0]))
    Reflect.apply(send, this, args)
  })
  server = await startTestServer({
    engines: { sim: { type: 'simulated', rounds: 1 } },
    models: { '*': { engine: 'sim' } },
    limits: { websocket: { continuable: 2 } },
  })
})
afterAll(async () => {
  vi.restoreAllMocks()
  await server.close()
})
beforeEach(() => void (sent = []))
const frames = (): Frame[] => sent.map((text) => JSON.parse(text) as Frame)

type Item = Record<string, unknown>
const ls = { type: 'function', name: 'ls', parameters: { type: 'object', properties: {} }, strict: false }
const settings = { instructions: 'Be brief. '.repeat(50), tools: [ls], temperature: 0.5, metadata: { who: 'me' } }
const url = (): string => `${server.url}/v1`
/** Without ids, times, seals, and counts of a cache that others share. */
const plain = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value)
      .replace(/"(resp|msg|rs|fc|call)_[0-9a-f]+"/g, '"$1"')
      .replace(/_at":\d+/g, '_at":0')
      .replace(/"encrypted_content":"[^"]*"/g, '"encrypted_content":""')
      .replace(/"cached_tokens":\d+/g, '"cached_tokens":0'),
  )
const answers = (output: readonly Item[], words: string): Item[] => {
  const calls = output.filter((item) => item['type'] === 'function_call')
  if (calls.length === 0) return [user(words)]
  return calls.map(({ call_id }) => ({ type: 'function_call_output', call_id, output: words }))
}
/** Holds a conversation under these settings, one for each turn, and returns every event that the caller saw. */
async function hold(options: Partial<ConnectOptions>, turns: readonly object[]): Promise<unknown[]> {
  const connection = connect({ url: url(), ...options })
  const events: unknown[] = []
  let input: Item[] = [user('hello')]
  for (const [n, settings] of turns.entries()) {
    const call = connection.create({ model: 'm', store: false, ...settings, input })
    events.push(...(await read(call)))
    const output = (await call.finished).output as unknown as Item[]
    input = [...input, ...output, ...answers(output, `turn ${n}`)]
  }
  connection.close()
  return events.map(plain)
}

describe('towards a server that offers lean turns', () => {
  it('sends settings once, and deltas of the same size whatever their size', async () => {
    await hold({}, [settings, settings, settings])
    const [first, ...others] = frames()
    expect(first).toMatchObject(settings)
    expect(first).not.toHaveProperty('continuo')
    for (const frame of others) {
      expect(Object.keys(frame).sort()).toEqual(
        ['continuo', 'input', 'model', 'previous_response_id', 'store', 'stream_id', 'type'].sort(),
      )
      const { inherit, echo } = frame['continuo'] as { inherit: string[]; echo: boolean }
      expect([inherit.sort(), echo]).toEqual([Object.keys(settings).sort(), false])
    }
    const small = sent.slice(1).map((text) => text.length)
    sent = []
    const large = { ...settings, instructions: 'x'.repeat(20_000), tools: [{ ...ls, description: 'y'.repeat(20_000) }] }
    await hold({}, [large, large, large])
    expect(sent.slice(1).map((text) => text.length)).toEqual(small)
  })
  it('hands out the same events as without them, whatever settings change on the way', async () => {
    const some = fc.record({
      instructions: fc.constantFrom(undefined, 'Be brief.', 'Be brief.', 'Be long.'),
      tools: fc.constantFrom<unknown[]>(undefined, [ls], [{ type: 'custom', name: 'raw' }]),
      temperature: fc.constantFrom(undefined, 0.5),
      user: fc.constantFrom(undefined, null, 'u'),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(some, fc.nat(3)), { minLength: 1, maxLength: 3 }), async (runs) => {
        const turns = runs.flatMap(([settings, times]) => Array.from({ length: times + 1 }, () => settings))
        expect(await hold({}, turns)).toEqual(await hold({ lean: false }, turns))
      }),
      { numRuns },
    )
  }, 60_000)
  it('an SDK behind fetch sees whole responses', async () => {
    const talk = async (lean: boolean): Promise<unknown[]> => {
      const socketFetch = createFetch({ lean })
      const client = new OpenAI({ apiKey: 'k', baseURL: url(), fetch: socketFetch, maxRetries: 0 })
      const seen: unknown[] = []
      const input: OpenAI.Responses.ResponseInputItem[] = [{ role: 'user', content: 'hello' }]
      for (const stream of [true, false, true]) {
        const body = { model: 'm', ...settings, tools: [{ ...ls, type: 'function' as const }], input }
        if (stream) for await (const event of await client.responses.create({ ...body, stream })) seen.push(event)
        const response = await client.responses.create(body)
        seen.push(response)
        const output = response.output as unknown as Item[]
        input.push(...([...output, ...answers(output, 'more')] as unknown as typeof input))
      }
      socketFetch.close()
      return seen.map(plain)
    }
    const lean = await talk(true)
    expect(frames().filter((frame) => 'continuo' in frame).length).toBeGreaterThanOrEqual(3)
    expect(lean).toEqual(await talk(false))
  })
  it('is not used where it is switched off, or where the caller says `continuo` itself', async () => {
    await hold({ lean: false }, [settings, settings])
    expect(frames().some((frame) => 'continuo' in frame)).toBe(false)
    sent = []
    const own = { ...settings, continuo: { echo: true } }
    await hold({}, [own, own])
    for (const frame of frames()) expect(frame).toMatchObject(own)
  })
  it('sends everything again where the server has forgotten', async () => {
    const connection = connect({ url: url() })
    const ask = (...words: string[]) =>
      connection.lane().create({ model: 'm', store: false, ...settings, input: words.map(user) })
    const input = [user('hello')]
    const first = await connection.lane().create({ model: 'm', store: false, ...settings, input }).finished
    // The server keeps two responses of this connection.
    for (const words of ['a', 'b', 'c']) await ask(words).finished
    sent = []
    const output = first.output as unknown as Item[]
    const more = [...input, ...output, ...answers(output, 'more')]
    const call = connection.lane().create({ model: 'm', store: false, ...settings, input: more })
    expect(await call.finished).toMatchObject({ status: 'completed', instructions: settings.instructions })
    expect(frames().map((frame) => 'continuo' in frame)).toEqual([true, false])
    expect(frames()[1]).toMatchObject({ ...settings, input: more })
    connection.close()
  })
})

describe('towards other servers', () => {
  const twice = async (extensions: string | undefined, script = answerHello) => {
    const scripted = await serve(script, { continuo: '1', ...(extensions === undefined ? {} : { extensions }) })
    const connection = dial(scripted)
    const one = await connection.create({ model: 'm', ...settings, input: 'one' }).finished
    for (const words of ['two', 'three']) {
      const input = [user('one'), ...one.output, user(words)]
      await expect(connection.create({ model: 'm', ...settings, input }).finished).resolves.toMatchObject({
        status: 'completed',
      })
    }
    return scripted.creates
  }
  it.each([undefined, 'leaner, other'])('sends settings each turn where the answer offers %s', async (extensions) => {
    for (const frame of await twice(extensions)) expect(frame).toMatchObject(settings)
  })
  it('finds it in a list of extensions', async () => {
    expect((await twice('other, lean'))[1]).toMatchObject({ continuo: { echo: false } })
  })
  it('sends everything, and is lean no more, where the server does not know one of its settings', async () => {
    const creates = await twice('lean', async (turn) => {
      if (!('continuo' in turn.frame)) return answerHello(turn)
      const error = {
        type: 'invalid_request_error',
        code: 'invalid_request',
        message: 'No.',
        param: 'continuo.inherit.0',
      }
      turn.over = true
      turn.send({ type: 'error', status: 400, error })
    })
    expect(creates.map((frame) => 'continuo' in frame)).toEqual([false, true, false, false])
    expect(creates[2]).toMatchObject({ ...settings, input: [{}, {}, {}] })
  })
})
