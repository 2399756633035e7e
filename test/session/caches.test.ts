// `caches: false`: the same prompts, and nothing that is kept from one request for the next.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { afterEach, describe, expect, it } from 'vitest'
import { qwen3 } from '../../src/codecs/hermes.ts'
import type { SimulatedProbe } from '../../src/engines/simulated.ts'
import { knownTools } from '../../src/protocol/known-tools.ts'
import { encodedChannel } from '../../src/turn/trace.ts'
import { smallBpeFile } from '../codecs/talks.ts'
import { startTestServer, type TestServer } from '../wire/server.ts'
import type { WireResponse } from '../wire/socket.ts'

type Sent = Record<string, unknown>
let server: TestServer
let encoded = 0
const count = (ids: unknown): void => void (encoded += ids as number)
afterEach(async () => {
  unsubscribe(encodedChannel, count)
  await server.close()
})
const parameters = { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] }
const tool = { type: 'function', name: 'shell', parameters, strict: false }
async function start(more: object): Promise<SimulatedProbe> {
  const model = { engine: 'sim', tokenizer: smallBpeFile(qwen3) }
  server = await startTestServer({
    engines: { sim: { type: 'simulated', tokens: true, record: true, rounds: 50 } },
    models: { '*': { ...model, codec: 'qwen3' }, library: { ...model, codec: 'qwen3', encoder: 'huggingface' } },
    // It renders conversations in full, too.
    tokens: { shadow: 0 },
    ...more,
  })
  encoded = 0
  subscribe(encodedChannel, count)
  return server.app.models.engines.get('sim') as unknown as SimulatedProbe
}
/** Ids made of text in each turn of a loop of calls, and the prompts that the engine got. */
async function loop(ask: (body: Sent) => Promise<WireResponse | undefined>, whole: boolean, model = 'm') {
  const made: number[] = []
  let history: Sent[] = [{ role: 'user', content: 'go' }]
  let input = history
  let previous: string | undefined
  for (let turn = 0; turn < 5; turn++) {
    const before = encoded
    const response = await ask({
      model,
      instructions: 'Be brief.',
      tools: [tool],
      input: whole ? history : input,
      previous_response_id: whole ? undefined : previous,
    })
    expect(response?.status).toBe('completed')
    made.push(encoded - before)
    const output = (response?.output ?? []) as unknown as Sent[]
    input = output.flatMap(({ type, call_id }) =>
      type === 'function_call' ? [{ type: 'function_call_output', call_id, output: 'ok '.repeat(66) }] : [],
    )
    history = [...history, ...output, ...input]
    previous = response?.id
  }
  return made
}
const byHttp = async (body: Sent): Promise<WireResponse> =>
  (await server.http().post('/v1/responses', { store: body['previous_response_id'] !== undefined, ...body }))
    .json as WireResponse
/** Of a socket, each turn on its own where `apart`. */
const bySocket =
  (socket = server.socket()) =>
  async (body: Sent): Promise<WireResponse | undefined> =>
    (await (await socket).turn({ ...body, store: false })).response

describe('caches: false', () => {
  const kinds = [
    { kind: 'HTTP that sends everything', ask: (): typeof byHttp => byHttp, whole: true },
    { kind: 'a socket that sends everything', ask: () => bySocket(), whole: true },
    { kind: 'a socket that names the response before', ask: () => bySocket(), whole: false },
  ]
  it.each(kinds)('renders and encodes the whole conversation in every turn of $kind', async ({ ask, whole }) => {
    const kept = await start({})
    const few = await loop(ask(), whole)
    await server.close()
    unsubscribe(encodedChannel, count)
    const anew = await start({ caches: false })
    const all = await loop(ask(), whole)
    // The same prompts, to the id.
    expect(anew.got.map((got) => got.ids)).toEqual(kept.got.map((got) => got.ids))
    // What is new, each turn alike; and everything, more from turn to turn.
    expect(Math.max(...few.slice(1))).toBeLessThan((few[1] ?? 0) * 1.2)
    for (const [turn, ids] of all.entries()) {
      if (turn > 0) expect(ids).toBeGreaterThan(few[turn] ?? Infinity)
      expect(ids).toBeGreaterThan((all[turn - 1] ?? 0) + 100)
    }
    expect(server.app.counts().prefixBytes).toBe(0)
  })
  it('reads a stored conversation back, and goes on in it', async () => {
    const probe = await start({ caches: false })
    await loop(async (body) => byHttp({ ...body, store: true }), false)
    expect(probe.got).toHaveLength(5)
    expect(probe.got.at(-1)?.cached).toBeGreaterThan(probe.got.at(-2)?.ids?.length ?? Infinity)
  })
  it('checks tools anew, and makes the codec anew around the same tokenizer', async () => {
    for (const caches of [true, false]) {
      await start({ caches })
      const list = [{ ...tool, name: 'first' }]
      const first = knownTools(list)
      // More lists than are remembered: those of a server that remembers none push none out.
      for (let n = 0; n < 40; n++)
        await byHttp({ model: 'm', store: false, input: 'Hi', tools: [{ ...tool, name: `t${n}` }] })
      expect(knownTools([...list]) === first).toBe(!caches)
      const { models } = server.app
      const [one, other] = [models.resolve('m').codec, models.resolve('m').codec]
      expect(one?.tokenizer).toBe(other?.tokenizer)
      expect(one === other).toBe(caches)
      expect(one?.id === other?.id).toBe(caches)
      if (caches) await server.close()
    }
  })
  it('tells an engine nothing of what it gave back', async () => {
    await start({ caches: false, engines: { sim: { type: 'simulated', tokens: true } } })
    const { engine } = server.app.models.resolve('m')
    expect(engine.id).toBe('sim')
    expect(engine).not.toBe(server.app.models.engines.get('sim'))
  })
})

it('encoder: huggingface gives the same prompts, made by the library', async () => {
  const probe = await start({})
  await loop(byHttp, true)
  const ours = probe.got.map((got) => got.ids)
  await loop(byHttp, true, 'library')
  expect(probe.got.slice(ours.length).map((got) => got.ids)).toEqual(ours)
  const { models } = server.app
  expect(models.resolve('m').codec?.tokenizer.id).toMatch(/^bpe-/)
  expect(models.resolve('library').codec?.tokenizer.id).toMatch(/^hf-/)
})
