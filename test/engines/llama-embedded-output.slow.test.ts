import { mkdtempSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, vi } from 'vitest'
import type { Item } from '../../src/protocol/items.ts'
import { textOf } from '../../src/protocol/items.ts'
import { bpeTokenizer } from '../../src/tokenizers/bpe.ts'
import type { Constraint, Prompt } from '../../src/turn/ports.ts'
import { TokenRun } from '../../src/turn/tokens.ts'
import { tinyTokenizer, writeTinyGguf } from '../../src/bench/tiny-gguf.ts'
import { codeOf, chainOf, customTool, tool, user as said } from './simulated-generations.ts'
import {
  control,
  embedded,
  idsOf,
  imEnd,
  llama,
  tinyModel,
  tokenizer,
  turn,
  type Told,
  user,
} from './llama-embedded-turns.ts'

// Each process takes seconds to come up, and far more of them on a busy machine.
vi.setConfig({ testTimeout: 90_000 })
const soon = (): AbortSignal => AbortSignal.timeout(60_000)

describe('the vocabulary of a GGUF file', () => {
  llama('is a tokenizer.json by which our encoder gives the ids of llama.cpp', async () => {
    const model = writeTinyGguf(tinyModel().replace('.gguf', '-words.gguf'), { template: '{{ messages }}' })
    const engine = embedded({ model })
    const { tokenizer: json, template, context } = (await engine.describe?.(soon())) ?? {}
    const ours = bpeTokenizer(json)
    const texts = ['the user and you', '{"name": "tool", "arguments": {}}', 'Zürich 12345 🙂\n\n  x', '<|im_end|>']
    const ids = await engine.tokenize?.(texts, soon())
    await engine.close()
    expect(texts.map((text) => Array.from(ours.encode(text) as ArrayLike<number>))).toEqual(ids)
    expect(ours.control('<think>')).toBe(Object.keys(tinyTokenizer().model.vocab).length + 7)
    expect(control('<think>')).not.toBe(ours.control('<think>'))
    expect({ template, context }).toEqual({ template: '{{ messages }}', context: 2048 })
  })
})

describe('a model whose cache cannot be cut anywhere', () => {
  const sliding = tinyModel({ arch: 'gemma3' })
  const engine = embedded({ model: sliding, sequences: 2 })
  const fresh = embedded({ model: sliding, sequences: 1 })
  afterAll(() => Promise.all([engine.close(), fresh.close()]))

  llama('goes on and goes back, and says what it says when all is computed anew', async () => {
    const anew = async (ids: number[]): Promise<number[]> => {
      await turn(fresh, { ids: [0, 0], generate: false })
      return (await turn(fresh, { ids })).tokens
    }
    const long = user('far more than the window holds '.repeat(12))
    const one = await turn(engine, { ids: long })
    expect(one.tokens).toEqual(await anew(long))
    const on = [...long, ...one.tokens, ...user('go on')]
    const two = await turn(engine, { ids: on, warm: one.warm })
    expect(two.tokens).toEqual(await anew(on))
    expect(two.usage?.cached).toBe(long.length + one.tokens.length - 1)
    // Back to where the second prompt ended: its output is dropped, as old reasoning is. A checkpoint stands there.
    const back = [...on, ...user('instead')]
    const three = await turn(engine, { ids: back, warm: two.warm })
    expect(three.tokens).toEqual(await anew(back))
    expect(three.usage?.cached).toBeGreaterThan(on.length - 10)
    // Far back, in front of every checkpoint: all of it again.
    const edited = [...long.slice(0, 100), ...user('edited')]
    const four = await turn(engine, { ids: edited, warm: three.warm })
    expect(four.tokens).toEqual(await anew(edited))
  })
})

describe('conversations that make room', () => {
  const stateDir = mkdtempSync(join(tmpdir(), 'continuo-states-'))
  const engine = embedded({ sequences: 1, saveState: true, stateDir })
  afterAll(() => engine.close())

  llama('are saved and read back, where that is asked for', async () => {
    const [a, b] = ['alpha', 'beta'].map((name) => idsOf(`${name} `.repeat(20))) as [number[], number[]]
    const one = await turn(engine, { ids: a })
    await turn(engine, { ids: b })
    expect(readdirSync(stateDir)).toHaveLength(1)
    const on = await turn(engine, { ids: [...a, ...one.tokens, ...user('on')], warm: one.warm })
    expect(on.usage?.cached).toBe(a.length + one.tokens.length - 1)
    expect(await engine.held()).toMatchObject({ saved: 2, restored: 1 })
    expect(readdirSync(stateDir)).toHaveLength(1)
  })
  llama('are not saved where something in them must not be stored', async () => {
    const [a, b, c] = ['one', 'two', 'three'].map((name) => idsOf(`${name} `.repeat(20))) as [
      number[],
      number[],
      number[],
    ]
    const files = (): string[] => readdirSync(stateDir).toSorted()
    const counts = async (): Promise<number> => (await engine.held()).saved
    await turn(engine, { ids: a })
    const [saved, there] = [await counts(), files()]
    // Its place is taken from a conversation that may be stored by one that may not.
    const secret = await turn(engine, { ids: b, mayStore: false })
    expect(await counts()).toBe(saved + 1)
    expect(files()).not.toEqual(there)
    const kept = files()
    // That one makes room: of it nothing is written. Nor is it later, however the conversation goes on.
    const on = await turn(engine, { ids: c })
    expect([await counts(), files()]).toEqual([saved + 1, kept])
    await turn(engine, { ids: [...b, ...secret.tokens, ...user('on')], mayStore: false, generate: false })
    expect(await counts()).toBe(saved + 2)
    // Only what both begin with is left of it where one that may be stored takes its place.
    await turn(engine, { ids: [...b.slice(0, 8), ...user('other')] })
    expect(await counts()).toBe(saved + 2)
    await turn(engine, { ids: [...c, ...on.tokens, ...user('on')], warm: on.warm })
    expect(await counts()).toBe(saved + 3)
  })
})

describe('a scenario', () => {
  const texts = ['Ein Satz: äöü 🙂\n日本\u0000 end', '<|im_start|> is text here']
  const engine = embedded({
    scenario: {
      turns: [
        { steps: [{ reasoning: 'First I think.' }, { text: texts[0] ?? '' }] },
        { steps: [{ text: texts[1] ?? '' }, { call: { name: 'run', input: 'echo "🙂"' } }] },
        { steps: [{ text: 'cut off' }, { finish: 'length' }] },
        { steps: [{ fault: 'hang' }] },
      ],
    },
  })
  const plain = embedded({ scenario: 'behaviour' })
  afterAll(() => Promise.all([engine.close(), plain.close()]))

  const bytes = (text: string): number[] => [...Buffer.from(text)]
  /** Items as a small format of our own writes them. */
  const written = (items: readonly Item[]): number[] => [
    ...items.flatMap((item) => {
      if (item.type === 'reasoning') return [control('<think>'), ...bytes(textOf(item.content)), control('</think>')]
      if (item.type === 'message') return bytes(textOf(item.content))
      const { name, ...rest } = item as { name: string; input?: string; arguments?: string }
      return [control('<tool_call>'), ...bytes(`${name} ${rest.input ?? rest.arguments}`), control('</tool_call>')]
    }),
    imEnd,
  ]
  llama('is what llama.cpp samples, id for id, control tokens and halves of characters among them', async () => {
    let chain = chainOf([said('go')])
    let ids = user('go')
    let before: Told | undefined
    const settings = { tools: [customTool('run')], max_output_tokens: null, temperature: null }
    const next = async (): Promise<Told> => {
      const told = await turn(engine, { ids, chain, settings, warm: before?.warm, prompt: { written } })
      expect(told.error).toBeUndefined()
      const { sequences } = await engine.held()
      expect([...(sequences[0] ?? [])]).toEqual([...ids, ...told.tokens].slice(0, -1))
      ids = [...ids, ...told.tokens, ...user('next')]
      const item: Item = { type: 'message', role: 'assistant', content: [] }
      chain = chain
        .add({ response: 'r', from: 'model', items: [item] })
        .add({ response: 's', from: 'input', items: [said('next')] })
      before = told
      return told
    }
    const one = await next()
    expect(one.text).toBe(`<think>First I think.</think>${texts[0]}<|im_end|>`)
    expect(one).toMatchObject({ finish: 'stop', usage: { output: one.tokens.length, cached: 0 } })
    const two = await next()
    expect(two.tokens).toEqual([
      ...bytes(texts[1] ?? ''),
      control('<tool_call>'),
      ...bytes('run echo "🙂"'),
      control('</tool_call>'),
      imEnd,
    ])
    expect(two.tokens.filter((id) => id > 255)).toHaveLength(3)
    const three = await next()
    expect(three).toMatchObject({ text: 'cut off', finish: 'length' })
    const four = await turn(engine, { ids, chain, settings, prompt: { written } })
    expect(codeOf(four.error)).toBe('unsupported_by_engine')
  })
  llama('may be what the simulated engine does: tools first, then an answer', async () => {
    const settings = { tools: [tool('list_files', { path: { type: 'string' } })], max_output_tokens: null }
    const told = await turn(plain, { ids: user('look'), chain: chainOf([said('look')]), settings, prompt: { written } })
    expect(told.text).toBe('<tool_call>list_files {"path":"README.md"}</tool_call><|im_end|>')
    const answer = await turn(plain, {
      ids: user('look'),
      chain: chainOf([said('look')]),
      settings: { max_output_tokens: null },
      prompt: { written },
    })
    expect(answer.text).toContain('You said: "look".')
    const short = await turn(plain, {
      ids: user('look'),
      chain: chainOf([said('look')]),
      settings: { max_output_tokens: 5 },
      prompt: { written },
    })
    expect(short).toMatchObject({ finish: 'length', tokens: answer.tokens.slice(0, 5) })
  })
})

describe('a rule that the output keeps to', () => {
  const engine = embedded({ sequences: 2 })
  afterAll(() => engine.close())
  const settings = { max_output_tokens: 1500, temperature: 1 }
  const schema = {
    type: 'object',
    properties: { size: { type: 'integer', minimum: 1, maximum: 99 }, kind: { enum: ['one "1"', 'two'] } },
    required: ['size', 'kind'],
    additionalProperties: false,
  }
  const kept = (text: string): void => {
    const value = JSON.parse(text) as Record<string, unknown>
    expect(Object.keys(value).sort()).toEqual(['kind', 'size'])
    expect(schema.properties.kind.enum).toContain(value['kind'])
    expect(value['size']).toSatisfy((n) => Number.isInteger(n) && Number(n) >= 1 && Number(n) <= 99)
  }
  const ruled = (rule: Constraint['rule'], more: Partial<Prompt> = {}, after?: string, some = {}): Promise<Told> =>
    turn(engine, {
      ids: user('go'),
      settings: { ...settings, ...some },
      prompt: { constraint: { after, rule }, ...more },
    })
  const whole = { type: 'whole', content: { type: 'json', schema } } as const

  llama('may be a JSON schema', async () => {
    for (const stops of [[imEnd], [control('</tool_call>')]]) {
      const told = await ruled(whole, { stops })
      expect(told.error).toBeUndefined()
      expect(told.finish).toBe('stop')
      kept(tokenizer.decode(told.tokens.slice(0, -1)))
    }
  })
  llama('holds behind reasoning, and where there is none', async () => {
    const begun = TokenRun.empty.append([...user('go'), control('<think>')])
    const long = { max_output_tokens: 1900 }
    const told = await ruled(whole, { run: begun }, '</think>', long)
    expect(told.error).toBeUndefined()
    // A model of random weights ends its thought when it happens to.
    if (told.finish === 'stop') {
      const at = told.tokens.indexOf(control('</think>'))
      expect(at).toBeGreaterThanOrEqual(0)
      kept(tokenizer.decode(told.tokens.slice(at + 1, -1)))
    }
    // By greedy sampling it never begins to think.
    const plain = await ruled(whole, {}, '</think>', { temperature: 0 })
    expect(plain.finish).toBe('stop')
    kept(
      plain.text
        .replace(/^\s*<think>.*<\/think>/s, '')
        .replace('<|im_end|>', '')
        .replace('<|endoftext|>', ''),
    )
  })
  llama('may be a call, in its control tokens', async () => {
    const tag = {
      begin: '<tool_call>{"name":"f","arguments":',
      content: { type: 'json', schema },
      end: '}</tool_call>',
    } as const
    const told = await ruled({ type: 'tags', tags: [tag], must: true, one: true })
    expect(told.finish).toBe('stop')
    expect(told.tokens.filter((id) => id > 255)).toEqual([
      control('<tool_call>'),
      control('</tool_call>'),
      told.tokens.at(-1),
    ])
    const [, input = ''] = /^\s*<tool_call>\{"name":"f","arguments":(.*)\}<\/tool_call>/s.exec(told.text) ?? []
    kept(input)
  })
  llama('may be a client’s regular expression', async () => {
    const told = await ruled({
      type: 'whole',
      content: { type: 'regex', definition: '[ab]{3}-[0-9]{2}', quoted: false },
    })
    expect(tokenizer.decode(told.tokens.slice(0, -1))).toMatch(/^[ab]{3}-[0-9]{2}$/)
  })
})
