// Law 6 over real llama.cpp: whether a conversation is sent as deltas or in full, what stands in llama.cpp's KV cache is
// the same, id for id, and it is what rendering the same items anew gives. llama.cpp is asked what it holds.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, vi } from 'vitest'
import type { LlamaProbe } from '../../src/engines/llama-embedded.ts'
import type { Call, Engine } from '../../src/turn/ports.ts'
import { llama, modules } from '../engines/llama-embedded-turns.ts'
import { writeTinyGguf } from '../../src/bench/tiny-gguf.ts'
import { startTestServer, type TestServer } from '../wire/server.ts'
import { conversations, hold, type Said, type Step } from './conversations.ts'

vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 })
const numRuns = Math.ceil(Number(process.env['RUNS'] ?? 40) / 4)

/** What the model may say. The processes live for all runs, so they get their script before the conversations are made. */
const pool: readonly Said[] = fc
  .sample(conversations, { numRuns: 40, seed: 6 })
  .flatMap((steps) => steps.map(({ said }) => said))
const tagOf = (n: number): string => `#${n}#`
const stepsOf = ({ reasoning, text, calls }: Said): object[] => [
  ...(reasoning === undefined ? [] : [{ reasoning }]),
  ...(text === undefined ? [] : [{ text }]),
  ...calls.map((c) => ({
    call: c.name === 'raw' ? { name: c.name, input: c.arguments } : { name: c.name, arguments: c.arguments },
  })),
]
const turnsBy = (where: 'output' | 'contains'): object[] =>
  pool.map((said, n) => ({ when: { [where]: tagOf(n) }, steps: stepsOf(said) }))
// While tools answer, what the user said last stays what it was: outputs are looked at first.
const scenario = { turns: [...turnsBy('output'), ...turnsBy('contains')] }

const talks: fc.Arbitrary<Step[]> = fc
  .tuple(conversations, fc.array(fc.nat(pool.length - 1), { minLength: 6, maxLength: 6 }))
  .map(([steps, picks]) =>
    steps.map((step, n) => {
      const pick = picks[n] ?? 0
      const tag = tagOf(pick)
      return { ...step, user: `${step.user} ${tag}`, output: `${step.output} ${tag}`, said: pool[pick] ?? step.said }
    }),
  )

const folder = mkdtempSync(join(tmpdir(), 'continuo-kv-'))
/** A server whose llama.cpp has one sequence, and the calls that it got. */
class Way {
  readonly server: TestServer
  readonly engine: Engine & LlamaProbe
  readonly calls: Call[] = []

  private constructor(server: TestServer) {
    this.server = server
    this.engine = server.app.models.engines.get('llama') as Engine & LlamaProbe
    const generate = this.engine.generate.bind(this.engine)
    this.engine.generate = (call) => {
      this.calls.push(call)
      return generate(call)
    }
  }
  static async open(model: string, keepBytes?: number): Promise<Way> {
    const engine = { type: 'llama-embedded', model, modules, gpu: 'off', threads: 1, context: 8192, sequences: 1 }
    return new Way(
      await startTestServer({
        engines: { llama: { ...engine, flashAttention: 'off', scenario } },
        models: { '*': { engine: 'llama', codec: 'qwen3' } },
        ...(keepBytes === undefined ? {} : { limits: { prefixes: { keepBytes } } }),
      }),
    )
  }
  /** What the KV cache holds behind every turn: the prompt as rendering it anew gives it, and what was generated. */
  async hold(steps: readonly Step[], how: 'delta' | 'full'): Promise<number[][]> {
    const kv: number[][] = []
    this.calls.length = 0
    const socket = await this.server.socket()
    await hold(socket, steps, how, {}, async () => {
      const call = this.calls.at(-1)
      const { codec } = this.server.app.models.resolve('m')
      if (!call || !codec) throw new Error('nothing was generated')
      const { ids } = await codec.layout(call.chain, call.settings)
      const [held = new Uint32Array()] = (await this.engine.held()).sequences
      expect(Array.from(held.subarray(0, ids.length))).toEqual(Array.from(ids))
      kv.push(Array.from(held))
    })
    await socket.close()
    expect(this.calls).toHaveLength(steps.length)
    return kv
  }
}

describe('law 6: what llama.cpp holds', () => {
  let delta: Way
  let full: Way
  let unknown: Way
  beforeAll(async () => {
    const model = writeTinyGguf(join(folder, 'tiny.gguf'), { layers: 1, width: 32, heads: 1 })
    delta = await Way.open(model)
    full = await Way.open(model)
    unknown = await Way.open(model, 0)
  })
  afterAll(async () => {
    for (const way of [delta, full, unknown]) await way?.server.close()
    rmSync(folder, { recursive: true, force: true })
  })

  llama('is the same for deltas and for full histories, and what a fresh render of the items gives', async () => {
    await fc.assert(
      fc.asyncProperty(talks, async (steps) => {
        const held = await delta.hold(steps, 'delta')
        expect(held).toHaveLength(steps.length)
        expect(await full.hold(steps, 'full')).toEqual(held)
        // Without an index nobody knows what the model wrote: its turns stand there in canonical form.
        await unknown.hold(steps, 'full')
      }),
      { numRuns },
    )
  })
})
