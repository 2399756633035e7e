// The real clients over real llama.cpp: a tiny model with a part of a real vocabulary computes and samples every token,
// held to what the simulated engine would do. Its own counts say what a turn cost: only what is new in it.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect } from 'vitest'
import { llama, modules } from '../engines/llama-embedded-turns.ts'
import { type TokenizerJson, writeTinyGguf } from '../../src/bench/tiny-gguf.ts'
import { type Family, installed as vocabularies, tokenizerJson } from '../tokenizers/fixtures.ts'
import {
  ci,
  type LoggedTurn,
  minutes,
  passes,
  passesWith,
  run,
  serve,
  type Server,
  turnsOf,
  violations,
} from './programs.ts'

const ready = ci || (run !== run.skip && llama !== llama.skip && vocabularies)
const real = ready ? run : run.skip

type Row = { readonly codec: Family; readonly pre: string; readonly eos: string; readonly codex: readonly string[] }
const rows: readonly Row[] = [
  { codec: 'qwen3', pre: 'qwen2', eos: '<|im_end|>', codex: ['gpt-5.5', 'gpt-6.1-sol'] },
  { codec: 'gpt-oss', pre: 'gpt-4o', eos: '<|return|>', codex: ['gpt-5.5'] },
  { codec: 'llama3', pre: 'llama-bpe', eos: '<|eot_id|>', codex: ['gpt-5.5'] },
]

/** Everything but this is answered as the simulated engine does. */
const story = { turns: [{ when: { contains: 'a long story' }, steps: [{ tokens: 4000 }] }] }

/**
 * Of every turn that goes on from the one in front of it on its connection, by delta or with everything again, llama.cpp
 * had all ids in its cache: prompt and answer, but for the last id, which is sampled and not yet computed. Returns how
 * many turns that were.
 */
function onlyNew(log: string): number {
  const before = new Map<string, LoggedTurn>()
  let went = 0
  for (const turn of turnsOf(log)) {
    const last = before.get(turn.connection)
    before.set(turn.connection, turn)
    if (!last || last.warmup || last.ending !== 'stop' || !(turn.delta || turn.items === last.items + 2)) continue
    // What is broken off at once has no counts.
    if (turn.ending !== 'stop') continue
    expect(turn.cached).toBe(last.input + last.output - 1)
    expect(turn.input).toBeGreaterThan(turn.cached)
    went++
  }
  return went
}

describe.each(rows)('over llama.cpp, in the format of $codec', ({ codec, pre, eos, codex }) => {
  const dir = mkdtempSync(join(tmpdir(), 'continuo-clients-'))
  let server: Server
  beforeAll(async () => {
    if (!ready) return
    // Read as the file has it: merges are texts or pairs.
    const tokenizer = tokenizerJson(codec) as TokenizerJson | undefined
    if (!tokenizer) throw new Error(`the tokenizer of ${codec} is not installed: npm ci --prefix test/tokenizers`)
    // 4,000 ids are enough for prompts of Codex to stay below 20,000, and few enough for a model that is quick.
    const shape = { layers: 1, width: 32, heads: 1, context: 32_768, vocab: 4000 }
    const model = writeTinyGguf(join(dir, 'tiny.gguf'), { ...shape, tokenizer, pre, eos })
    const engine = { type: 'llama-embedded', model, modules, gpu: 'off', threads: 1, context: 32_768 }
    server = await serve(dir, {
      engines: { llama: { ...engine, flashAttention: 'off', scenario: story } },
      models: { '*': { engine: 'llama', codec }, llama: { engine: 'llama', codec } },
      tokens: { shadow: 1 },
    })
  }, 2 * minutes)
  afterEach(() => {
    if (!ready) return
    expect(violations(server.log())).toEqual([])
    expect(server.log()).not.toMatch(/rendered wrongly/)
  })
  afterAll(async () => {
    await server?.stop()
    rmSync(dir, { recursive: true, force: true })
  })
  /** Runs it and returns the turns that the server logged meanwhile. */
  const logged = async (script: () => Promise<void>): Promise<string> => {
    const before = server.log().length
    await script()
    return server.log().slice(before)
  }

  real.each(codex)(
    'Codex works through a tool loop with %s over one socket, and each turn computes only what is new',
    async (model) => {
      const log = await logged(() => passesWith({ model }, 'codex.mjs', server.url))
      const file = join(dir, 'server.log')
      writeFileSync(file, log)
      await passes('server-log.mjs', file)
      expect(onlyNew(log)).toBeGreaterThanOrEqual(3)
      expect(log).not.toMatch(/prefix broken/)
    },
    3 * minutes,
  )
  if (codec === 'qwen3')
    real(
      "a thread of Codex's app server is continued, steered, interrupted and goes on",
      async () => {
        const log = await logged(() => passesWith({ model: 'gpt-6.1-sol' }, 'codex-app.mjs', server.url))
        expect(onlyNew(log)).toBeGreaterThanOrEqual(10)
        const cut = turnsOf(log).filter(({ ending }) => ending !== 'stop')
        expect(cut.map(({ ending }) => ending)).toEqual(['interrupted', 'cancelled'])
        for (const { output } of cut) expect(output).toBeLessThan(1000)
      },
      2 * minutes,
    )
  real(
    'the OpenAI SDK for Node passes over HTTP, SSE and the socket',
    () => passes('openai-node.mjs', server.url),
    2 * minutes,
  )
  real(
    'the OpenAI Agents SDK passes over its socket, and each turn computes only what is new',
    async () => {
      const log = await logged(() => passes('agents.mjs', server.url))
      // Three runs of three tool rounds, the second of them going on from the first.
      expect(onlyNew(log)).toBe(10)
    },
    2 * minutes,
  )
  real(
    'the AI SDK passes, and although it sends everything again each turn computes only what is new',
    async () => {
      const log = await logged(() => passes('ai-sdk.mjs', server.url))
      expect(onlyNew(log)).toBe(9)
    },
    2 * minutes,
  )
})
