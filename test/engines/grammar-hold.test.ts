// Refusals of what an engine cannot hold its output to: before the response begins, with the field that asks for it.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { familyCodec } from '../../src/codecs/codec.ts'
import { gptOss } from '../../src/codecs/harmony.ts'
import { qwen3 } from '../../src/codecs/hermes.ts'
import { gbnfOf } from '../../src/engines/gbnf.ts'
import { type Grammars, Holder, type How } from '../../src/engines/grammar-hold.ts'
import { ApiError } from '../../src/protocol/errors.ts'
import type { Constraint, Tokenizer } from '../../src/turn/ports.ts'
import { bytesFor, fromScratch, settingsOf, smallBpeJson } from '../codecs/talks.ts'
import { startWith } from '../session/started.ts'
import type { TestServer } from '../wire/server.ts'
import { chain, promptOf } from './token-prompts.ts'

const fine = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'], additionalProperties: false }
/** One of each that no grammar follows, or no engine must see. */
const bad = {
  keyword: { type: 'object', not: {}, additionalProperties: false },
  nul: { type: 'object', properties: { a: { enum: ['\0'] } } },
}
const tool = (parameters: object, strict = true): object => ({ type: 'function', name: 'f', parameters, strict })
const custom = (syntax: string, definition: string): object => ({
  ...{ type: 'custom', name: 'c' },
  format: { type: 'grammar', syntax, definition },
})
const text = (schema: object): object => ({ format: { type: 'json_schema', name: 's', schema, strict: true } })

type Refusal = readonly [what: string, asked: object, param: string, code: string]
const refusals: readonly Refusal[] = [
  ['a keyword in the format', { text: text(bad.keyword) }, 'text.format', 'unsupported_by_engine'],
  ['a NUL in the format', { text: text(bad.nul) }, 'text.format', 'invalid_request'],
  [
    'a keyword in the format, beside tools',
    { text: text(bad.keyword), tools: [tool(fine)] },
    'text.format',
    'unsupported_by_engine',
  ],
  ['a keyword in a strict tool', { tools: [tool(bad.keyword)] }, 'tools', 'unsupported_by_engine'],
  ['a NUL in a strict tool', { tools: [tool(bad.nul)] }, 'tools', 'invalid_request'],
  ['a NUL in a grammar', { tools: [custom('regex', 'a\\x00')] }, 'tools', 'invalid_request'],
  ['look-around', { tools: [custom('regex', '(?=a)b')] }, 'tools', 'unsupported_parameter'],
  ['%llguidance', { tools: [custom('lark', '%llguidance {}\nstart: "a"')] }, 'tools', 'unsupported_parameter'],
  ['a grammar that is wrong', { tools: [custom('lark', 'start: "a')] }, 'tools', 'invalid_request'],
]
const refused = (work: () => void): ApiError => {
  try {
    work()
  } catch (e) {
    if (e instanceof ApiError) return e
    throw e
  }
  throw new Error('it was taken')
}

describe.each([qwen3, gptOss])('a constraint of $name', (family) => {
  const codec = familyCodec(family, bytesFor(family))
  let made = 0
  const holder = (grammars: Grammars = 'hold'): Holder<string> =>
    new Holder('e', grammars, (rule, { control, stops, opened }: How) => {
      made++
      return gbnfOf(rule, { control, stops, opened })
    })
  const asked = (some: object) => {
    const settings = settingsOf({ reasoning: { effort: 'low' }, ...some })
    const constraint = codec.constraint(settings, chain)
    const prompt = promptOf(codec.tokenizer, fromScratch(codec, chain, settings), { stops: codec.stops, constraint })
    return { settings, chain, constraint, prompt }
  }

  it.each(refusals)('is refused for %s', (_, some, param, code) => {
    const { settings, constraint } = asked(some)
    const error = refused(() => holder().admit(settings, chain, constraint))
    expect(error).toMatchObject({ code, param, status: 400 })
    const says = param === 'tools' && code !== 'invalid_request'
    expect(error.message.includes('`grammars: advise`')).toBe(says)
    // Refused again, and by whoever is called without having been asked.
    expect(refused(() => holder().of(asked(some), asked(some).prompt)).param).toBe(param)
  })
  it('is made when it is admitted, and not again for the turns that ask for the same', () => {
    const one = holder()
    const some = { tools: [tool(fine)], text: text(fine) }
    const first = asked(some)
    one.admit(first.settings, chain, first.constraint)
    const grammar = one.of(first, first.prompt)
    const before = made
    for (let n = 0; n < 3; n++) {
      const next = asked(some)
      one.admit(next.settings, chain, next.constraint)
      expect(one.of(next, next.prompt)).toBe(grammar)
    }
    // The tools are another list each time here, as they are not on the wire.
    expect(made - before).toBeLessThanOrEqual(3)
    const again = made
    one.admit(first.settings, chain, first.constraint)
    expect(one.of(first, first.prompt)).toBe(grammar)
    expect(made).toBe(again)
  })
  it('that is advice is dropped, but for a format of the answer and a choice of tools', () => {
    const advice = holder('advise')
    const loose = (some: object) => {
      const call = asked(some)
      advice.admit(call.settings, chain, call.constraint)
      return advice.of(call, call.prompt)
    }
    for (const tools of [[tool(bad.keyword)], [custom('lark', 'start: "a')], [custom('regex', '(?=a)b')]]) {
      expect(loose({ tools })).toBeUndefined()
      const forced = loose({ tools, tool_choice: 'required' })
      expect(forced).toMatch(/^root ::= /)
    }
    const same = { text: text(fine) }
    const { constraint, prompt } = asked({ ...same, tools: [tool(bad.nul)] })
    expect(constraint).toBeDefined()
    expect(loose({ ...same, tools: [tool(bad.nul)] })).toContain('\\"a\\"')
    expect(refused(() => loose({ text: text(bad.keyword) })).param).toBe('text.format')
    expect(prompt.stops).toEqual(codec.stops)
  })
})

describe('a prompt that has begun the reasoning', () => {
  it('is told from one that has not', () => {
    const tokenizer: Tokenizer = bytesFor(qwen3)
    const seen: boolean[] = []
    const holder = new Holder('e', 'hold', (_, { opened }) => void seen.push(opened))
    const rule = { type: 'whole', content: { type: 'json', schema: fine } } as const
    const opens = (...parts: (string | number)[]): boolean | undefined => {
      const ids = parts.flatMap((p) => (typeof p === 'number' ? p : [...Buffer.from(p)]))
      const constraint: Constraint = { after: '</think>', rule }
      const prompt = promptOf(tokenizer, ids, { constraint })
      holder.of({ settings: settingsOf({}), chain }, prompt)
      return seen.at(-1)
    }
    const [open = 0, close = 0] = ['<think>', '</think>'].map((name) => tokenizer.control(name))
    expect(opens('assistant\n', open, '\n')).toBe(true)
    expect(opens('assistant\n', open)).toBe(true)
    expect(opens('assistant\n')).toBe(false)
    expect(opens('assistant\n', open, '\n\n', close, '\n\n')).toBe(false)
  })
})

describe.each(['llama-server', 'vllm', 'sglang'])('over the wire, with an engine of type %s', (type) => {
  const folder = mkdtempSync(join(tmpdir(), 'continuo-hold-'))
  let server: TestServer
  beforeAll(async () => {
    const tokenizer = join(folder, 'tokenizer.json')
    writeFileSync(tokenizer, JSON.stringify(smallBpeJson(qwen3)))
    // Nothing listens there: a refusal asks nobody.
    server = await startWith({
      engines: { e: { type, url: 'http://127.0.0.1:9' } },
      models: { '*': { engine: 'e', codec: 'qwen3', tokenizer } },
    })
  })
  afterAll(async () => {
    await server.close()
    rmSync(folder, { recursive: true })
  })
  // What these servers make of a keyword is theirs to say.
  const own = refusals.filter(([, some]) => type === 'llama-server' || !JSON.stringify(some).includes('"not"'))
  it.each(own)('%s is an HTTP status and a frame, and no response', async (_, some, param, code) => {
    const body = { model: 'm', input: 'hi', store: false, ...some }
    for (const stream of [true, false]) {
      const answer = await fetch(`${server.url}/v1/responses`, {
        ...{ method: 'POST', headers: { 'content-type': 'application/json' } },
        body: JSON.stringify({ ...body, stream }),
      })
      expect(answer.status).toBe(400)
      expect(await answer.json()).toMatchObject({ error: { code, param } })
    }
    const socket = await server.socket()
    const turn = await socket.turn(body)
    expect(turn.events.map((e) => e.type)).not.toContain('response.created')
    expect(turn.error).toMatchObject({ code, param, status: 400 })
  })
})
