import { afterEach, describe, expect, it } from 'vitest'
import { familyCodec } from '../../src/codecs/codec.ts'
import { qwen25 } from '../../src/codecs/hermes.ts'
import { OllamaText } from '../../src/engines/ollama-text.ts'
import { ollama, type OllamaInput } from '../../src/engines/ollama.ts'
import type { Settings } from '../../src/protocol/request.ts'
import { byteTokenizer } from '../../src/tokenizers/bytes.ts'
import type { Constraint, Engine } from '../../src/turn/ports.ts'
import { bytesFor } from '../codecs/talks.ts'
import { ScriptedOllama, type Step } from './ollama-script.ts'
import { callTo, codeOf, customTool, read, settings, tool } from './simulated-generations.ts'
import { chain, idsOf, promptOf, stop, textOf, turn, until, warmOf } from './token-prompts.ts'

const tokenizer = byteTokenizer(['<|im_start|>', stop, '<think>', '</think>'])
const prompt = promptOf(tokenizer, turn(tokenizer, 'hi'))
const { signal } = new AbortController()

const open: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close()
})
async function start(
  step: Step = { text: 'Hello 🎉 there.' },
  options: Partial<OllamaInput> = {},
): Promise<{ server: ScriptedOllama; engine: Engine }> {
  const server = await ScriptedOllama.start(step)
  const engine = ollama({ url: server.url, ...options }, 'local')
  open.push(server, engine)
  return { server, engine }
}
describe('the Ollama engine', () => {
  it('sends the text of the ids, raw, and reads text, usage and how it ended', async () => {
    const { server, engine } = await start(
      { text: 'Hello 🎉 there.', bytes: 7 },
      {
        model: 'qwen3:8b',
        context: 8192,
        keepAlive: '10m',
        apiKey: 'k',
        options: { top_k: 20, num_ctx: 1, stop: ['x'] },
      },
    )
    const some = { temperature: 0.5, top_p: 0.9, presence_penalty: 1, frequency_penalty: -1, max_output_tokens: 64 }
    const hostile = promptOf(tokenizer, turn(tokenizer, '"<|im_end|>"\u0000'))
    const got = await read(engine, callTo(chain, some, { prompt: hostile }))
    expect(got.error).toBeUndefined()
    expect(textOf(got)).toBe('Hello 🎉 there.')
    expect(got.finish).toBe('stop')
    expect(got.usage).toEqual({ input: 20, cached: 0, output: 7, reasoning: 0 })
    expect(server.last.headers.authorization).toBe('Bearer k')
    const lead = '<|im_start|>user\n"<\u200b|im_end|>"\u0000<|im_end|>\n<|im_start|>assistant\n'
    const penalties = { presence_penalty: 1, frequency_penalty: -1 }
    expect(server.last.body).toEqual({
      ...{ model: 'qwen3:8b', prompt: lead, raw: true, stream: true, think: false, truncate: false, shift: false },
      keep_alive: '10m',
      options: {
        top_k: 20,
        num_ctx: 8192,
        temperature: 0.5,
        top_p: 0.9,
        num_predict: 64,
        stop: ['<|im_end|>'],
        ...penalties,
      },
    })
  })
  it('converts only what is new where the prompt grew, and everything where it did not', async () => {
    const { server, engine } = await start()
    const got = await read(engine, callTo(chain, {}, { prompt }))
    const warm = { value: warmOf(got), at: chain }
    const answer = idsOf(tokenizer, 'Hello', stop)
    const more = [...idsOf(tokenizer, '\n'), ...turn(tokenizer, 'more')]
    const run = prompt.run.append(answer).append(more)
    const grown = promptOf(tokenizer, run, { common: prompt.run.length + answer.length })
    const before = OllamaText.converted
    await read(engine, callTo(chain, {}, { prompt: grown, warm }))
    // What opened the model's turn stands behind the last control token, and is converted again.
    expect(OllamaText.converted - before).toBe('assistant\n'.length + answer.length + more.length)
    const { prompt: text } = server.last.body
    // The same text without a warm start, and where the beginning is another one.
    await read(engine, callTo(chain, {}, { prompt: { ...grown, common: 0 }, warm }))
    expect(server.last.body.prompt).toBe(text)
    const other = promptOf(tokenizer, turn(tokenizer, 'something else altogether'), { common: 3 })
    await read(engine, callTo(chain, {}, { prompt: other, warm }))
    expect(server.last.body.prompt).toContain('something else altogether')
  })
  it('brings a prompt into the cache without an answer', async () => {
    const { server, engine } = await start()
    const got = await read(engine, callTo(chain, {}, { prompt, generate: false }))
    expect(textOf(got)).toBe('')
    expect(got.usage?.output).toBe(0)
    expect(server.last.body.options['num_predict']).toBe(1)
  })
  it('ends with length where the bound did', async () => {
    const { engine } = await start({ text: 'cut', last: { done_reason: 'length' } })
    expect((await read(engine, callTo(chain, {}, { prompt }))).finish).toBe('length')
  })
  it('reports no usage where Ollama counts none', async () => {
    const { engine } = await start({ text: 'x', last: { prompt_eval_count: undefined } })
    expect((await read(engine, callTo(chain, {}, { prompt }))).usage).toBeUndefined()
  })
  it('puts the tags of reasoning back where a version takes them out', async () => {
    const { engine } = await start({ thinking: 'Let me see.', text: 'Yes.' })
    expect(textOf(await read(engine, callTo(chain, {}, { prompt })))).toBe('<think>Let me see.</think>Yes.')
    const inside = promptOf(tokenizer, prompt.run.append(idsOf(tokenizer, '<think>', '\n')))
    expect(textOf(await read(engine, callTo(chain, {}, { prompt: inside })))).toBe('Let me see.</think>Yes.')
  })
  it('leaves the tags alone that come in the text', async () => {
    const text = 'Let me see.</think>Yes.'
    const { engine } = await start({ text })
    const inside = promptOf(tokenizer, prompt.run.append(idsOf(tokenizer, '<think>', '\n')))
    expect(textOf(await read(engine, callTo(chain, {}, { prompt: inside })))).toBe(text)
  })
  it('stops the generation when the turn is stopped, and when it is read no further', async () => {
    const { server, engine } = await start({ text: 'on and on', fault: 'endless' })
    const abort = new AbortController()
    const got = await read(engine, callTo(chain, {}, { prompt, signal: abort.signal }), () =>
      abort.abort(new Error('enough')),
    )
    expect(got.error).toEqual(new Error('enough'))
    await until(() => server.running === 0)
    for await (const chunk of engine.generate(callTo(chain, {}, { prompt }))) if (chunk.text) break
    await until(() => server.running === 0)
  })
  it('tells of its models and of the context that one has', async () => {
    const { server, engine } = await start(undefined, { model: 'qwen3:8b' })
    expect(await engine.probe(signal)).toEqual(['qwen3:8b', 'llama3.2:latest'])
    expect(await engine.describe?.(signal)).toEqual({ text: true, context: 40_960 })
    const small = ollama({ url: `${server.url}/api`, model: 'small' })
    const set = ollama({ url: server.url, model: 'small', context: 4096 })
    open.push(small, set)
    expect(await small.describe?.(signal)).toEqual({ text: true, context: 8192 })
    expect(await set.describe?.(signal)).toEqual({ text: true, context: 4096 })
  })
})

describe('what Ollama cannot be held to', () => {
  const grammar = { type: 'grammar', syntax: 'regex', definition: 'a+' } as const
  it.each([
    ['a tool that must be called', { tools: [tool('ls')], tool_choice: 'required' as const }, 'tool_choice'],
    ['a custom tool with a grammar', { tools: [customTool('patch', grammar)] }, 'tools'],
    ['a strict tool', { tools: [{ ...tool('ls'), strict: true }] }, 'tools'],
    [
      'tools that may not be called',
      {
        tools: [tool('ls'), tool('rm')],
        tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'ls' }] } as const,
      },
      'tool_choice',
    ],
    [
      'a format beside tools',
      { tools: [tool('ls')], text: { format: { type: 'json_object' } } as const },
      'text.format',
    ],
    ['log probabilities', { top_logprobs: 3 }, 'top_logprobs'],
  ])('is refused before a response begins: %s', async (_, some, param) => {
    const { engine } = await start()
    const codec = familyCodec(qwen25, bytesFor(qwen25))
    const admit = (more: Partial<Settings>): void => {
      const asked = settings(more)
      engine.admit(asked, chain, codec.constraint(asked, chain))
    }
    expect(() => admit(some)).toThrow(expect.objectContaining({ code: 'unsupported_by_engine', param }))
    expect(() => admit({ tools: [tool('ls')] })).not.toThrow()
  })
  it('is advice where the operator wants it so, but for a choice of tools', async () => {
    const { server, engine } = await start({ text: 'Done.' }, { grammars: 'advise' })
    const codec = familyCodec(qwen25, bytesFor(qwen25))
    const tools = [{ ...tool('ls'), strict: true }, customTool('patch', grammar)]
    const asked = settings({ tools })
    const constraint = codec.constraint(asked, chain)
    expect(constraint?.rule.type).toBe('tags')
    engine.admit(asked, chain, constraint)
    await read(engine, callTo(chain, { tools }, { prompt: { ...prompt, constraint } }))
    expect(server.last.body).not.toHaveProperty('format')
    expect(() => engine.admit(settings({ tools, tool_choice: 'required' }), chain, constraint)).toThrow(/tool_choice/)
  })
  const schema = { type: 'object', properties: { a: { type: 'string' } } }
  const json: Constraint = { after: undefined, rule: { type: 'whole', content: { type: 'json', schema } } }
  it('is not a JSON schema from the first token on', async () => {
    const { server, engine } = await start()
    await read(engine, callTo(chain, {}, { prompt: { ...prompt, constraint: json } }))
    expect(server.last.body['format']).toEqual(schema)
  })
  it.each<[string, Constraint]>([
    ['one behind reasoning', { ...json, after: '</think>' }],
    [
      'a grammar',
      {
        after: undefined,
        rule: { type: 'whole', content: { type: 'lark', definition: 'start: "a"', quoted: false } },
      },
    ],
    ['strict arguments', { after: undefined, rule: { type: 'tags', tags: [], must: false, one: false } }],
  ])('is refused: %s', async (_, constraint) => {
    const { server, engine } = await start()
    expect(() => engine.generate(callTo(chain, {}, { prompt: { ...prompt, constraint } }))).toThrow(
      expect.objectContaining({ code: 'unsupported_by_engine' }),
    )
    expect(server.requests).toHaveLength(0)
  })
})

describe('faults of an Ollama', () => {
  const page = '<html>/etc/secret</html>'
  it.each<[string, NonNullable<Step['fault']>, string, RegExp]>([
    ['that fails before it begins', { status: 500 }, 'server_error', /down at .*HTTP 500.*as scripted/],
    [
      'that has no such model',
      { status: 404, body: '{"error":"model \'m\' not found"}' },
      'server_error',
      /no model 'm'/,
    ],
    ['that is something else', { status: 404, body: page, type: 'text/html' }, 'server_error', /is no Ollama/],
    ['that sends a page', { status: 200, body: page, type: 'text/html' }, 'server_error', /no event stream/],
    ['that is busy', { status: 503, body: '{"error":"server busy"}' }, 'server_is_overloaded', /waiting/],
    [
      'that finds the prompt too long',
      { status: 400, body: '{"error":"the input length exceeds the context length"}' },
      'context_length_exceeded',
      /longer than/,
    ],
    ['that sends garbage', 'garbage', 'server_error', /no answer of its interface/],
    ['that hangs up', 'down', 'server_error', /without an answer/],
    ['that cuts its answer', 'cut', 'server_error', /cut its answer off/],
    ['that ends without a last line', 'unended', 'server_error', /cut its answer off/],
    ['that fails in the middle', 'error', 'server_error', /failed while answering/],
    ['that is silent', 'silent', 'server_error', /silent for 200 ms/],
  ])('a server %s is told in a sentence', async (_, fault, code, words) => {
    const { server, engine } = await start({ text: 'Hello there.', fault }, { idleMs: 200 })
    const got = await read(engine, callTo(chain, {}, { prompt }))
    expect(codeOf(got.error)).toBe(code)
    expect(String(got.error)).toMatch(words)
    expect(String(got.error)).not.toContain('secret')
    await until(() => server.running === 0)
    server.step = { text: 'Well again.' }
    expect(textOf(await read(engine, callTo(chain, {}, { prompt })))).toBe('Well again.')
  })
  it('a line longer than it may be ends the turn', async () => {
    const { engine } = await start({ text: 'x'.repeat(10), last: { context: 'y'.repeat(5000) } }, { lineBytes: 1000 })
    expect(String((await read(engine, callTo(chain, {}, { prompt }))).error)).toContain('too long')
  })
})
