// The same against a real llama-server, where LLAMA_SERVER names the binary: a tiny random model that a grammar makes say
// something certain, with gaps in its frames.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { llamaServer } from '../../src/engines/llama-server.ts'
import { byteTokenizer } from '../../src/tokenizers/bytes.ts'
import type { Constraint, Engine } from '../../src/turn/ports.ts'
import { tinyControls, tinyTokenizer, writeTinyGguf } from '../../src/bench/tiny-gguf.ts'
import { suite } from './llama-server-suite.ts'
import { callTo, codeOf, read } from './simulated-generations.ts'
import { chain, idsOf, promptOf, stop, tokensOf, turn, until } from './token-prompts.ts'

const binary = process.env['LLAMA_SERVER']
const context = 512
const tokenizer = byteTokenizer(tinyControls)
const end = tokenizer.control(stop) ?? 0
const thought = tokenizer.control('</think>') ?? 0
const says = idsOf(tokenizer, '<think>', 'Let me see.', '</think>', 'Sunny 🎉 日é', stop)

describe.skipIf(!binary)('the llama-server engine over a real one (LLAMA_SERVER names the binary)', () => {
  const folder = mkdtempSync(join(tmpdir(), 'llama-server-'))
  let server: ChildProcess | undefined
  let url = ''
  const engines = new Map<string, Engine>()
  const engine = (name: 'certain' | 'endless' | 'free' | 'thinker'): Engine => {
    const one = engines.get(name)
    if (!one) throw new Error('not started')
    return one
  }
  beforeAll(async () => {
    const model = join(folder, 'tiny.gguf')
    const template = '{{ messages }}'
    writeTinyGguf(model, { tokenizer: tinyTokenizer(tinyControls, false), template, eos: stop })
    const port = await freePort()
    url = `http://127.0.0.1:${port}`
    const flags = ['-t', '1', '--parallel', '2', '-c', String(context * 2), '--port', String(port), '--context-shift']
    server = spawn(binary ?? '', ['-m', model, '--host', '127.0.0.1', ...flags], { stdio: 'ignore' })
    // One way to end a turn: a model of random weights knows no difference.
    const one = [[tokenizer.control('<|endoftext|>'), false]]
    const grammar = `root ::= <[${tokenizer.control('<think>')}]> "Let me see." <[${thought}]> "Sunny 🎉 日é"`
    engines.set('certain', llamaServer({ url, body: { logit_bias: one, grammar } }, 'certain'))
    engines.set('free', llamaServer({ url, body: { logit_bias: one } }, 'free'))
    engines.set('endless', llamaServer({ url, body: { ignore_eos: true } }, 'endless'))
    // Likes nothing better than to end its thought.
    engines.set('thinker', llamaServer({ url, body: { logit_bias: [...one, [thought, 20]] } }, 'thinker'))
    // Asked from the first moment on: connection refused, then a model that is loading, then its name.
    const told: string[] = []
    await until(async () => {
      try {
        return (await engine('certain').probe(AbortSignal.timeout(1000))).length === 1
      } catch (e) {
        told.push(String(e))
        return false
      }
    }, 60_000)
    expect(told.filter((sentence) => !/down at|still loading/.test(sentence))).toEqual([])
  }, 70_000)
  afterAll(async () => {
    for (const one of engines.values()) await one.close()
    server?.kill()
    rmSync(folder, { recursive: true })
  })

  suite(() => ({
    ...{ engine: engine('certain'), endless: engine('endless'), tokenizer, says, context },
    busy: async () => {
      const slots = (await (await fetch(`${url}/slots`)).json()) as { is_processing: boolean }[]
      return slots.filter((slot) => slot.is_processing).length
    },
  }))
  it('fails where the server shifts its context', async () => {
    const prompt = promptOf(tokenizer, idsOf(tokenizer, 'x'.repeat(context - 20)), { stops: [] })
    const got = await read(engine('endless'), callTo(chain, { max_output_tokens: 100 }, { prompt }))
    expect(tokensOf(got).length).toBeGreaterThan(20)
    expect(codeOf(got.error)).toBe('context_length_exceeded')
  })

  const schema = {
    ...{ type: 'object', required: ['city', 'days'], additionalProperties: false },
    properties: { city: { enum: ['Bonn', '京都'] }, days: { type: 'integer', minimum: 1, maximum: 9 } },
  }
  const whole: Constraint['rule'] = { type: 'whole', content: { type: 'json', schema } }
  const holds = (text: string): void => {
    const { city, days } = JSON.parse(text) as { city: string; days: number }
    expect(['Bonn', '京都']).toContain(city)
    expect(days).toBeGreaterThan(0)
    expect(days).toBeLessThan(10)
  }
  const ask = async (name: 'free' | 'thinker', constraint: Constraint): Promise<number[]> => {
    const begun = constraint.after === undefined ? [] : idsOf(tokenizer, '<think>')
    const prompt = promptOf(tokenizer, [...turn(tokenizer, 'where?'), ...begun], { constraint })
    const got = await read(engine(name), callTo(chain, { max_output_tokens: 200 }, { prompt }))
    expect(got.error).toBeUndefined()
    expect(got.finish).toBe('stop')
    expect(tokensOf(got).at(-1)).toBe(end)
    return tokensOf(got).slice(0, -1)
  }
  it('holds the whole output to a JSON schema', async () => {
    holds(tokenizer.decode(await ask('free', { after: undefined, rule: whole })))
  })
  it('holds it from the end of the reasoning on', async () => {
    const ids = await ask('thinker', { after: '</think>', rule: whole })
    expect(ids).toContain(thought)
    holds(tokenizer.decode(ids.slice(ids.indexOf(thought) + 1)))
  })
  it('holds the arguments of a call that must be made', async () => {
    const tag = { begin: '<tool_call>\n{"name": "trip", "arguments": ', content: whole.content, end: '}\n</tool_call>' }
    const ids = await ask('free', { after: undefined, rule: { type: 'tags', tags: [tag], must: true, one: true } })
    expect(ids).toContain(tokenizer.control('<tool_call>'))
    const text = tokenizer.decode(ids).trim()
    expect(text.startsWith(tag.begin) && text.endsWith(tag.end)).toBe(true)
    holds(text.slice(tag.begin.length, -tag.end.length))
  })
  it('survives a grammar of a client that is meant for another', async () => {
    const rule: Constraint['rule'] = {
      type: 'whole',
      content: { type: 'lark', definition: '%llguidance {}', quoted: false },
    }
    const prompt = promptOf(tokenizer, turn(tokenizer, 'hi'), { constraint: { after: undefined, rule } })
    expect(() => engine('free').generate(callTo(chain, {}, { prompt }))).toThrow(
      expect.objectContaining({ name: 'ApiError', status: 400 }),
    )
    expect(await engine('free').probe(AbortSignal.timeout(1000))).toHaveLength(1)
  })
})

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
