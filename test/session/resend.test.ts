// Clients that send everything again with each request pay for what is new in it, over HTTP and on other sockets.
import { afterEach, expect, test } from 'vitest'
import type { FamilyCodec } from '../../src/codecs/codec.ts'
import type { SimulatedProbe } from '../../src/engines/simulated.ts'
import { smallBpeFile } from '../codecs/talks.ts'
import { qwen3 } from '../../src/codecs/hermes.ts'
import { startTestServer, type TestServer } from '../wire/server.ts'
import type { WireResponse } from '../wire/socket.ts'

type Sent = Record<string, unknown>
let server: TestServer
afterEach(async () => await server.close())

const tools = [{ type: 'function', name: 'ls', parameters: { type: 'object', properties: {} }, strict: false }]
async function start(more: object = {}): Promise<{ codec: FamilyCodec; probe: SimulatedProbe }> {
  server = await startTestServer({
    engines: { sim: { type: 'simulated', tokens: true, record: true, rounds: 50, reasoning: true } },
    models: { '*': { engine: 'sim', codec: 'qwen3', tokenizer: smallBpeFile(qwen3) } },
    ...more,
  })
  const codec = server.app.models.resolve('m').codec as FamilyCodec
  return { codec, probe: server.app.models.engines.get('sim') as unknown as SimulatedProbe }
}
/**
 * Holds a loop of tool calls in which every request has all of it, and returns how many items were not the model's.
 * `resent` is what becomes of the model's own.
 */
async function loop(
  turns: number,
  ask: (body: Sent) => Promise<WireResponse>,
  resent: (item: Sent) => Sent[] = (item) => [item],
  look: (turn: number) => void = () => {},
): Promise<number> {
  let history: Sent[] = [{ role: 'user', content: 'go' }]
  let sent = 1
  for (let turn = 0; turn < turns; turn++) {
    const response = await ask({ model: 'm', store: false, instructions: 'Be brief.', tools, input: history })
    expect(response.status).toBe('completed')
    look(turn)
    const output = response.output as unknown as Sent[]
    const fresh = output.flatMap((item) =>
      item['type'] === 'function_call'
        ? [{ type: 'function_call_output', call_id: item['call_id'], output: 'ok' }]
        : [],
    )
    if (turn < turns - 1) sent += fresh.length
    history = [...history, ...output.flatMap(resent), ...fresh]
  }
  return sent
}
const byHttp =
  (key?: string) =>
  async (body: Sent): Promise<WireResponse> =>
    (await server.http(key).post('/v1/responses', body)).json as WireResponse

test('a history that is resent whole is rendered once: a turn renders its new items alone', async () => {
  const { codec, probe } = await start()
  const sent = await loop(20, byHttp())
  // The model's own items are there as ids.
  expect(codec.rendered).toEqual({ heads: 1, items: sent })
  for (const [n, { ids, cached }] of probe.got.entries()) {
    const before = probe.got[n - 1]?.ids ?? []
    expect(ids?.slice(0, before.length)).toEqual(before)
    expect(cached).toBeGreaterThanOrEqual(before.length)
  }
})
test('ids, statuses and the open form of reasoning may be left out', async () => {
  const { codec } = await start()
  const sent = await loop(10, byHttp(), ({ id: _, status: __, ...item }) => {
    const { content: ___, ...sealed } = item
    return [item['type'] === 'reasoning' ? sealed : item]
  })
  expect(codec.rendered.items).toBe(sent)
})
test('a client that leaves reasoning out pays for the turns that it changed, not for the history', async () => {
  const { codec } = await start()
  const seen: number[] = []
  await loop(
    20,
    byHttp(),
    (item) => (item['type'] === 'reasoning' ? [] : [item]),
    () => seen.push(codec.rendered.items),
  )
  // Calls and their outputs: the turns in front of them are known as the client tells them.
  for (const [turn, n] of seen.entries()) if (turn > 0) expect(n - (seen[turn - 1] ?? 0)).toBeLessThanOrEqual(4)
})
test('what a socket has begun goes on over HTTP and on another socket', async () => {
  const { codec } = await start()
  let socket = await server.socket()
  let turn = 0
  const sent = await loop(9, async (body) => {
    if (turn++ % 3 === 0) return await byHttp()(body)
    if (turn % 3 === 0) {
      await socket.close()
      socket = await server.socket()
    }
    const { response } = await socket.turn(body)
    if (!response) throw new Error('no response')
    return response
  })
  await socket.close()
  expect(codec.rendered.items).toBe(sent)
})
test('other instructions or tools render a new head, the same ones in every request do not', async () => {
  const { codec } = await start()
  const ask = byHttp()
  const input = [{ role: 'user', content: 'go' }]
  const send = (more: object) => ask({ model: 'm', store: false, instructions: 'A', tools, input, ...more })
  for (let n = 0; n < 5; n++) await send({ tools: structuredClone(tools) })
  expect(codec.rendered.heads).toBe(1)
  await send({ instructions: 'B' })
  await send({ tools: [...tools, { type: 'custom', name: 'raw' }] })
  expect(codec.rendered.heads).toBe(3)
})
test('another key pays for everything itself', async () => {
  const secret = (name: string) => `sk-${name}-0123456789abcdef`
  const keys = ['a', 'b'].map((tenant) => ({ id: 'k', tenant, secret: secret(tenant) }))
  const { codec } = await start({ keys })
  await loop(3, byHttp(secret('a')))
  const { items } = codec.rendered
  await loop(3, byHttp(secret('b')))
  expect(codec.rendered.items).toBe(items * 2)
})
test('a deleted response is not known any more', async () => {
  const { codec } = await start()
  const ask = byHttp()
  const first = await ask({ model: 'm', input: [{ role: 'user', content: 'go' }], tools })
  const before = server.app.counts().prefixBytes
  expect(before).toBeGreaterThan(0)
  await server.http().delete(`/v1/responses/${first.id}`)
  expect(server.app.counts().prefixBytes).toBe(0)
  await ask({ model: 'm', input: [{ role: 'user', content: 'go' }], tools })
  expect(codec.rendered.heads).toBe(2)
})
