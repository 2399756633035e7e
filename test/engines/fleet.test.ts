import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { chat } from '../../src/engines/chat.ts'
import { fleet, type Fleet, type FleetInput } from '../../src/engines/fleet.ts'
import { ApiError } from '../../src/protocol/errors.ts'
import { settings } from './simulated-generations.ts'
import { ChatServer, type Step } from './chat-server.ts'
import { callTo, chainOf, read, user } from './simulated-generations.ts'

const open: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close()
})
/** A fleet of chat engines, each on a server that says its own number. */
async function setUp(
  size: number,
  options: Partial<FleetInput> = {},
): Promise<{ servers: ChatServer[]; engine: Fleet }> {
  const servers: ChatServer[] = []
  for (let n = 0; n < size; n++) servers.push(await ChatServer.start(() => ({ text: `${n}` })))
  const replicas = servers.map((s, n) => chat({ url: s.url, name: `r${n}` }))
  const engine = fleet({ id: 'f', replicas, backoffMs: 100, ...options })
  open.push(...servers, engine)
  return { servers, engine }
}
async function until(what: () => boolean, ms = 3000): Promise<void> {
  for (const end = Date.now() + ms; !what();) {
    if (Date.now() > end) throw new Error('did not come to be')
    await sleep(5)
  }
}
const hello = chainOf([user('hello')])
const at = (servers: ChatServer[], n: number): ChatServer => {
  const server = servers[n]
  if (!server) throw new Error(`no server ${n}`)
  return server
}
const all = (servers: ChatServer[], step: Step): void => servers.forEach((s) => (s.script = () => step))
const codeOf = (e: unknown): unknown => (e instanceof ApiError ? e.code : e)
const asked = (servers: ChatServer[]): number[] => servers.map((s) => s.requests.length)

describe('a fleet', () => {
  it('goes back to the replica that the conversation was on', async () => {
    const { engine, servers } = await setUp(3)
    const first = await read(engine, callTo(hello))
    const warm = { value: first.chunks.findLast((c) => c.warm !== undefined)?.warm, at: hello }
    for (let n = 0; n < 6; n++) expect((await read(engine, callTo(hello, {}, { warm }))).text).toBe(first.text)
    // Not while it is down; then anywhere, and the hint is of the new place.
    await at(servers, Number(first.text)).close()
    const moved = await read(engine, callTo(hello, {}, { warm }))
    expect(moved.error).toBeUndefined()
    expect(moved.text).not.toBe(first.text)
    expect(moved.chunks[0]?.warm).toMatchObject({ replica: `r${moved.text}` })
  })
  it('keeps turns with one prompt_cache_key together, and spreads keys', async () => {
    const { engine } = await setUp(3)
    const places = new Set<string>()
    for (let key = 0; key < 12; key++) {
      const one = (await read(engine, callTo(hello, { prompt_cache_key: `k${key}` }))).text
      expect((await read(engine, callTo(hello, { prompt_cache_key: `k${key}` }))).text).toBe(one)
      places.add(one)
    }
    expect(places.size).toBe(3)
  })
  it('else takes the one with the least to do', async () => {
    const { engine, servers } = await setUp(3)
    all(servers, { text: 'x', delay: 80 })
    await Promise.all(Array.from({ length: 6 }, () => read(engine, callTo(hello))))
    expect(asked(servers)).toEqual([2, 2, 2])
  })
  it.each<[string, Step['fault']]>([
    ['500', { status: 500 }],
    ['429', { status: 429 }],
    ['a dropped connection', 'down'],
    ['401', { status: 401 }],
  ])('tries another replica after %s before the first chunk', async (_, fault) => {
    const { engine, servers } = await setUp(2)
    at(servers, 0).script = () => ({ fault: fault ?? 'down' })
    for (let n = 0; n < 3; n++) expect((await read(engine, callTo(hello))).text).toBe('1')
  })
  it('does not move a turn that has begun, nor one that is refused for good', async () => {
    const { engine, servers } = await setUp(2)
    all(servers, { text: 'begun and then lost', fault: 'cut', pace: 30 })
    const cut = await read(engine, callTo(hello))
    expect([cut.text.length > 0, codeOf(cut.error)]).toEqual([true, 'server_error'])
    all(servers, { fault: { status: 400, body: { error: { message: 'maximum context length' } } } })
    expect(codeOf((await read(engine, callTo(hello))).error)).toBe('context_length_exceeded')
    expect(asked(servers).reduce((a, b) => a + b)).toBe(2)
  })
  it('leaves a replica that fails alone for a while, then tries it with one real turn', async () => {
    const { engine, servers } = await setUp(2, { failures: 1, backoffMs: 150 })
    const broken = at(servers, 0)
    broken.script = () => ({ fault: { status: 500 } })
    for (let n = 0; n < 5; n++) expect((await read(engine, callTo(hello))).text).toBe('1')
    expect(broken.requests).toHaveLength(1)
    await sleep(200)
    broken.script = () => ({ text: '0', delay: 60 })
    const texts = await Promise.all(Array.from({ length: 4 }, async () => (await read(engine, callTo(hello))).text))
    expect(texts.filter((t) => t === '0')).toHaveLength(1)
    expect(texts.filter((t) => t === '1')).toHaveLength(3)
    broken.script = () => ({ text: '0' })
    const after = await Promise.all(Array.from({ length: 4 }, async () => (await read(engine, callTo(hello))).text))
    expect(after.filter((t) => t === '0')).toHaveLength(2)
  })
  it('is a passing error when all are down, and comes back with them', async () => {
    const { engine, servers } = await setUp(2, { failures: 1, backoffMs: 60_000 })
    all(servers, { fault: 'down' })
    const got = await read(engine, callTo(hello))
    expect(got.error).toBeInstanceOf(ApiError)
    expect([codeOf(got.error), (got.error as ApiError).transient]).toEqual(['server_error', true])
    all(servers, { text: 'back' })
    expect((await read(engine, callTo(hello))).text).toBe('back')
  })
  it('lets turns wait for a slot, owners in rotation, and refuses past the bound', async () => {
    const { engine, servers } = await setUp(1, { concurrency: 1, queue: 4 })
    at(servers, 0).script = () => ({ text: 'x', delay: 40 })
    const order: string[] = []
    const turn = async (owner: string, n: number): Promise<unknown> => {
      const principal = { tenant: owner, key: 'k', owner: `${owner}/k` }
      const got = await read(engine, callTo(hello, {}, { principal }))
      if (got.error === undefined) order.push(`${owner}${n}`)
      return got.error
    }
    const running = [turn('a', 0), turn('a', 1), turn('a', 2), turn('a', 3), turn('b', 0)]
    await until(() => at(servers, 0).running === 1)
    expect(codeOf(await turn('c', 0))).toBe('server_is_overloaded')
    await Promise.all(running)
    expect(order).toEqual(['a0', 'a1', 'b0', 'a2', 'a3'])
  })
  it('gives the slot back when a turn is cancelled, whether it waits, runs or is left by its reader', async () => {
    const { engine, servers } = await setUp(1, { concurrency: 1 })
    at(servers, 0).script = () => ({ fault: 'endless' })
    const stop = new AbortController()
    const running = read(engine, callTo(hello, {}, { signal: stop.signal }))
    await until(() => at(servers, 0).running === 1)
    const never = new AbortController()
    const waiting = read(engine, callTo(hello, {}, { signal: never.signal }))
    await sleep(10)
    const why = new ApiError('server_error', 'stopped')
    never.abort(why)
    expect((await waiting).error).toBe(why)
    stop.abort(why)
    expect((await running).error).toBe(why)
    await until(() => at(servers, 0).dropped === 1)
    for await (const chunk of engine.generate(callTo(hello))) if (chunk.deltas) break
    await until(() => at(servers, 0).dropped === 2)
    // A reader that leaves while it waits for the next chunk is not held up either.
    at(servers, 0).script = () => ({ fault: 'silent' })
    const it = engine.generate(callTo(hello))[Symbol.asyncIterator]()
    const next = it.next().catch((e: unknown) => e)
    await until(() => at(servers, 0).running === 1)
    expect(await it.return?.()).toMatchObject({ done: true })
    await next
    await until(() => at(servers, 0).dropped === 3)
    at(servers, 0).script = () => ({ text: 'free' })
    expect((await read(engine, callTo(hello))).text).toBe('free')
  })
  it('admits what any replica can do, and sends it there', async () => {
    const able = await ChatServer.start(() => ({ text: 'able' }))
    const unable = await ChatServer.start(() => ({ text: 'unable' }))
    const engine = fleet({
      replicas: [chat({ url: unable.url, name: 'a', can: { json_schema: false } }), chat({ url: able.url, name: 'b' })],
    })
    open.push(able, unable, engine)
    const text = { format: { type: 'json_schema', name: 'x', schema: {} } } as const
    engine.admit(settings({ text }), hello)
    for (let n = 0; n < 4; n++) expect((await read(engine, callTo(hello, { text }))).text).toBe('able')
    expect(() => engine.admit(settings({ top_logprobs: 1 }), hello)).toThrow(/top_logprobs/)
  })
  it('lists the models of all, as long as one can be reached', async () => {
    const { engine, servers } = await setUp(2)
    at(servers, 0).models = ['a', 'b']
    at(servers, 1).models = ['b', 'c']
    const { signal } = new AbortController()
    expect(await engine.probe(signal)).toEqual(['a', 'b', 'c'])
    await at(servers, 0).close()
    expect(await engine.probe(signal)).toEqual(['b', 'c'])
    await at(servers, 1).close()
    await expect(engine.probe(signal)).rejects.toThrow(/is down/)
  })
  it('is not made of nothing, nor of two with one id', () => {
    expect(() => fleet({ replicas: [] })).toThrow()
    const url = 'http://127.0.0.1:1/v1'
    expect(() => fleet({ replicas: [chat({ url }), chat({ url })] })).toThrow(/different ids/)
  })
})
