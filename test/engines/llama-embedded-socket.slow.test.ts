// Embedded llama.cpp behind a socket: a warm-up that the next turn cuts short, and a process that is killed in the middle
// of a conversation.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, vi } from 'vitest'
import type { LlamaProbe } from '../../src/engines/llama-embedded.ts'
import type { Call, Engine } from '../../src/turn/ports.ts'
import { writeTinyGguf } from '../../src/bench/tiny-gguf.ts'
import { eventually, pause, startTestServer, type TestServer } from '../wire/server.ts'
import type { WireResponse } from '../wire/socket.ts'
import { llama, modules, turn } from './llama-embedded-turns.ts'

// Each process takes seconds to come up, and far more of them on a busy machine.
vi.setConfig({ testTimeout: 90_000, hookTimeout: 90_000 })
const folder = mkdtempSync(join(tmpdir(), 'continuo-llama-'))
let server: TestServer
let engine: Engine & LlamaProbe
const calls: Call[] = []

beforeAll(async () => {
  if (llama === llama.skip) return
  const model = writeTinyGguf(join(folder, 'tiny.gguf'), { layers: 1, width: 32, heads: 1 })
  const options = { type: 'llama-embedded', model, modules, gpu: 'off', threads: 1, context: 32_768, sequences: 2 }
  const turns = [{ when: { contains: 'at length' }, steps: [{ tokens: 2000 }] }]
  server = await startTestServer({
    engines: { llama: { ...options, flashAttention: 'off', scenario: { turns } } },
    models: { '*': { engine: 'llama', codec: 'qwen3' } },
  })
  engine = server.app.models.engines.get('llama') as Engine & LlamaProbe
  const generate = engine.generate.bind(engine)
  engine.generate = (call) => {
    calls.push(call)
    return generate(call)
  }
})
afterAll(async () => {
  await server?.close()
  rmSync(folder, { recursive: true, force: true })
})
/** Ids of the newest call's prompt, rendered anew. */
async function promptAnew(): Promise<number[]> {
  const call = calls.at(-1)
  const { codec } = server.app.models.resolve('m')
  if (!call || !codec) throw new Error('nothing was generated')
  return Array.from((await codec.layout(call.chain, call.settings)).ids)
}
const holds = async (ids: readonly number[]): Promise<boolean> =>
  (await engine.held()).sequences.some((held) => ids.every((id, n) => held[n] === id))

type Usage = WireResponse['usage'] & { readonly input_tokens_details?: { readonly cached_tokens: number } }
const cachedOf = (response: WireResponse | undefined): number | undefined =>
  (response?.usage as Usage | undefined)?.input_tokens_details?.cached_tokens

describe('a warm-up', () => {
  const instructions = 'These are instructions of some length. '.repeat(600)

  llama('is read ahead of time, as far as the turn behind it lets it, and never computed twice', async () => {
    const socket = await server.socket()
    const began = calls.length
    const warm = await socket.turn({ model: 'm', store: false, instructions, input: [], generate: false })
    // llama.cpp is in the middle of it.
    await eventually(async () => expect((await engine.held()).sequences[0]?.length).toBeGreaterThan(512), 60_000)
    const { response } = await socket.turn(
      { model: 'm', store: false, instructions, input: 'hello', previous_response_id: warm.response?.id },
      60_000,
    )
    expect(calls.slice(began).map((call) => call.generate)).toEqual([false, true])
    expect(response?.status).toBe('completed')
    expect(cachedOf(response)).toBeGreaterThan(512)
    expect(cachedOf(response)).toBeLessThan(response?.usage?.input_tokens ?? 0)
    expect((await engine.held()).sequences.filter((held) => held.length > 0)).toHaveLength(1)
    await socket.close()
  })
  llama('leaves what it has computed to the turn that cuts it short', async () => {
    const ids = Array.from({ length: 12_000 }, (_, n) => 97 + (n % 26))
    const stop = new AbortController()
    const ahead = turn(engine, { ids, generate: false, signal: stop.signal })
    const far = async (): Promise<boolean> =>
      (await engine.held()).sequences.some((s) => s[0] === 97 && s.length > 2000)
    while (!(await far())) await pause(1)
    stop.abort(new Error('cut short'))
    const told = await turn(engine, { ids: [...ids, 10], generate: false })
    expect((await ahead).error).toBe(stop.signal.reason)
    expect(told.usage?.cached).toBeGreaterThan(2000)
    expect(told.usage?.cached).toBeLessThan(ids.length)
  })
  llama('that was cut short before it began is not computed at all', async () => {
    const before = await engine.held()
    const signal = AbortSignal.abort(new Error('cut short'))
    const call = calls.at(-1)
    if (!call) throw new Error('nothing was generated')
    await expect(
      engine
        .generate({ ...call, generate: false, warm: undefined, signal })
        [Symbol.asyncIterator]()
        .next(),
    ).rejects.toBe(signal.reason)
    const after = await engine.held()
    expect(after.batches).toBe(before.batches)
  })
})
describe('a process that is killed in the middle of a turn', () => {
  const say = (text: string): object => ({ model: 'm', instructions: 'Be brief.', input: text })

  llama.each([true, false])(
    'fails it, and the conversation goes on with the right prompt (store: %s)',
    async (store) => {
      const socket = await server.socket()
      const first = await socket.turn({ ...say('hello'), store }, 60_000)
      expect(first.response?.status).toBe('completed')
      const { pid } = engine
      const previous_response_id = first.response?.id

      socket.skip()
      const running = socket.turn({ ...say('speak at length'), store, previous_response_id }, 60_000)
      await socket.next('response.output_text.delta', 60_000)
      if (pid !== undefined) process.kill(pid, 'SIGKILL')
      const { response: failed } = await running
      expect(failed?.status).toBe('failed')
      expect(failed?.['error']).toMatchObject({ code: 'server_error' })
      expect(JSON.stringify(failed?.['error'])).toContain('its llama.cpp process ended (SIGKILL)')

      let input: unknown = 'go on'
      if (!store) {
        // What failed is forgotten, and what it followed with it: the client sends all of it.
        const lost = await socket.turn({ ...say('go on'), store, previous_response_id })
        expect(lost.error?.code).toBe('previous_response_not_found')
        const asked = [{ role: 'user', content: 'hello' }, ...(first.response?.output ?? [])]
        input = [...asked, { role: 'user', content: 'go on' }]
      }
      const again = await socket.turn(
        { ...say('go on'), store, input, ...(store ? { previous_response_id } : {}) },
        60_000,
      )
      expect(again.response?.status).toBe('completed')
      expect(cachedOf(again.response)).toBe(0)
      expect(engine.pid).not.toBe(pid)
      expect(await holds(await promptAnew())).toBe(true)
      expect(
        calls
          .at(-1)
          ?.chain.all()
          .map((item) => item.type),
      ).toEqual(['message', 'message', 'message'])
      await socket.close()
    },
  )
})
