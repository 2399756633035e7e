import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { llamaServer, type LlamaServerInput } from '../../src/engines/llama-server.ts'
import { byteTokenizer } from '../../src/tokenizers/bytes.ts'
import type { Constraint, Engine } from '../../src/turn/ports.ts'
import { type Script, ScriptedLlamaServer, type Step } from './llama-server-script.ts'
import { suite } from './llama-server-suite.ts'
import { callTo, codeOf, read } from './simulated-generations.ts'
import { chain, idsOf, plainOf, promptOf, stop, tokensOf, turn, until, warmOf } from './token-prompts.ts'

const tokenizer = byteTokenizer(['<|im_start|>', stop, '<think>', '</think>'])
const [foreign, thought] = [tokenizer.control('<|im_start|>') ?? 0, tokenizer.control('</think>') ?? 0]
const says = idsOf(tokenizer, '<think>', 'Let me look.', '</think>', 'Sunny today!🎉日', stop)
const prompt = promptOf(tokenizer, turn(tokenizer, 'hi'))

const open: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close()
})
async function start(
  script: Script | Step = { ids: says },
  options: Partial<LlamaServerInput> = {},
): Promise<{ server: ScriptedLlamaServer; engine: Engine }> {
  const server = await ScriptedLlamaServer.start(tokenizer, typeof script === 'function' ? script : () => script)
  const engine = llamaServer({ url: server.url, ...options }, 'llama')
  open.push(server, engine)
  return { server, engine }
}

describe('the llama-server engine over a scripted server', () => {
  let at: { server: ScriptedLlamaServer; engine: Engine } | undefined
  const longer = Array.from({ length: 400 }, () => 65)
  beforeEach(async () => {
    at = await start((body) =>
      body.prompt.length === 10 ? { ids: longer, knowsStop: false, pace: 5 } : { ids: says, bytes: 150 },
    )
  })
  suite(() => {
    if (!at) throw new Error('not started')
    const { engine, server } = at
    return { engine, endless: engine, tokenizer, says, context: server.context, busy: () => server.busy }
  })
})

describe('what the llama-server engine sends', () => {
  it('is the digits of the run and the fields that the settings ask for', async () => {
    const { server, engine } = await start(undefined, {
      apiKey: 'secret',
      model: 'up',
      headers: { 'x-team': 'a' },
      body: { top_k: 20, stop: ['x'], prompt: 'no', stream: false, message_delimiters: [] },
    })
    const some = { temperature: 0.5, top_p: 0.9, presence_penalty: 1, frequency_penalty: -1, max_output_tokens: 64 }
    await read(engine, callTo(chain, some, { prompt }))
    const { raw, body, headers } = server.last
    expect(raw.startsWith(`{"prompt":[${Buffer.concat(prompt.run.json()).toString()}],`)).toBe(true)
    expect(headers).toMatchObject({ authorization: 'Bearer secret', 'x-team': 'a' })
    const { prompt: ids, response_fields: fields, ...rest } = body
    expect(ids).toEqual([...prompt.run.view()])
    expect(fields).not.toContain('prompt')
    expect(rest).toEqual({
      ...{ model: 'up', top_k: 20, message_delimiters: [], n_predict: 64 },
      ...{ temperature: 0.5, top_p: 0.9, presence_penalty: 1, frequency_penalty: -1 },
      ...{ stream: true, return_tokens: true, return_progress: true, cache_prompt: true },
    })
  })
  it('names the slot of the chain only while no other call of ours can be in it', async () => {
    const { server, engine } = await start({ ids: says, pace: 5 })
    const warm = { value: warmOf(await read(engine, callTo(chain, {}, { prompt }))), at: chain }
    const fork = (): Promise<unknown> => read(engine, callTo(chain, {}, { prompt, warm }))
    await Promise.all([fork(), fork(), fork()])
    expect(server.requests.map((r) => r.body.id_slot)).toEqual([undefined, warm.value, undefined, undefined])
    await fork()
    expect(server.last.body.id_slot).toBe(warm.value)
    // A turn that was stopped before it began holds none.
    await read(engine, callTo(chain, {}, { prompt, warm, signal: AbortSignal.abort(new Error('early')) }))
    await fork()
    expect(server.last.body.id_slot).toBe(warm.value)
  })
  it('is a grammar of ours where the output is constrained, lazy where that begins behind a token', async () => {
    const { server, engine } = await start()
    const content = { type: 'json', schema: { type: 'integer' } } as const
    const rule: Constraint['rule'] = { type: 'whole', content }
    const tag = { begin: '<think>', content, end: '</think>' }
    const ask = async (constraint: Constraint, generate = true): Promise<Record<string, unknown>> => {
      await read(engine, callTo(chain, {}, { prompt: { ...prompt, constraint }, generate }))
      return server.last.body
    }
    const plain = await ask({ after: undefined, rule })
    expect(plain['grammar']).toMatch(/^root ::= /)
    expect(plain).not.toHaveProperty('grammar_lazy')
    // Reasoning is part of the grammar: it may be left out, and where the prompt has begun it, it goes on.
    const open = tokenizer.control('<think>')
    const behind = await ask({ after: '</think>', rule })
    expect(behind).not.toHaveProperty('grammar_lazy')
    expect(behind['grammar']).toMatch(new RegExp(`^root ::= part\\S*\\?[^]*<\\[${open}\\]>[^]*<\\[${thought}\\]>`))
    const call = { type: 'tags', tags: [tag], must: false, one: false } as const
    expect(await ask({ after: undefined, rule: call })).toMatchObject({
      ...{ grammar_lazy: true, preserved_tokens: ['<think>'] },
      grammar_triggers: [{ type: 0, value: '<think>', token: open }],
    })
    // A mark that is no token of this vocabulary is looked for in the text.
    expect(await ask({ after: undefined, rule: { ...call, tags: [{ ...tag, begin: '<call>' }] } })).toMatchObject({
      grammar_triggers: [{ type: 1, value: '<call>' }],
    })
    expect(await ask({ after: undefined, rule }, false)).not.toHaveProperty('grammar')
  })
  it('is no grammar of a client as it stands', async () => {
    const { server, engine } = await start()
    for (const definition of ['%llguidance {}', 'start: "a"\n%llguidance {}', 'root ::= "x"']) {
      const rule: Constraint['rule'] = { type: 'whole', content: { type: 'lark', definition, quoted: false } }
      expect(() =>
        engine.generate(callTo(chain, {}, { prompt: { ...prompt, constraint: { after: undefined, rule } } })),
      ).toThrow(expect.objectContaining({ name: 'ApiError', status: 400 }))
    }
    expect(server.requests).toHaveLength(0)
  })
  it('takes a URL that ends in /v1', async () => {
    const { server } = await start()
    const engine = llamaServer({ url: `${server.url}/v1/` })
    open.push(engine)
    expect((await read(engine, callTo(chain, {}, { prompt }))).finish).toBe('stop')
  })
  it('refuses log probabilities before a response begins', async () => {
    const { engine } = await start()
    expect(() => engine.admit(callTo(chain, { top_logprobs: 2 }).settings, chain)).toThrow('top_logprobs')
  })
})

describe('what the llama-server engine reads', () => {
  it('ends the turn at an id that the server takes for any other, and frees the slot', async () => {
    const { server, engine } = await start({ ids: says, knowsStop: false, pace: 2 })
    const got = await read(engine, callTo(chain, {}, { prompt }))
    expect(tokensOf(got)).toEqual(says)
    expect(got.finish).toBe('stop')
    expect(got.usage).toEqual({ input: prompt.run.length, cached: 0, output: says.length, reasoning: 0 })
    await until(() => server.busy === 0)
  })
  it('stands in for ids that it cannot know with those of the same text', async () => {
    // Five ids for one character of four bytes: not how anybody would encode it.
    const frame = { content: 'a🎉', tokens: [0x89], tokens_predicted: 6, stop: false }
    const last = { tokens: [], stop: true, stop_type: 'eos', tokens_predicted: 6, tokens_evaluated: 3, id_slot: 0 }
    const { engine } = await start({ frames: [JSON.stringify(frame), JSON.stringify(last)] })
    const got = await read(engine, callTo(chain, {}, { prompt }))
    expect(tokenizer.decode(tokensOf(got))).toBe('a🎉')
    expect(got.usage).toMatchObject({ input: 3, output: 6 })
  })
  it('keeps a control token that comes in the middle of a character', async () => {
    const frame = { content: '\ufffd</think>', tokens: [thought], tokens_predicted: 3, stop: false }
    const last = { tokens: [], stop: true, stop_type: 'limit', tokens_predicted: 3, tokens_evaluated: 3 }
    const { engine } = await start({ frames: [JSON.stringify(frame), JSON.stringify(last)] })
    const got = await read(engine, callTo(chain, {}, { prompt }))
    expect(tokensOf(got)).toEqual([...plainOf(tokenizer, '\ufffd'), thought])
  })
  it('leaves out an id that ended the generation and ends no turn of the format', async () => {
    const ids = idsOf(tokenizer, '<think>', 'x', '</think>', 'y')
    const ended = await start({ ids: [...ids, foreign] })
    const got = await read(ended.engine, callTo(chain, {}, { prompt }))
    expect(tokensOf(got)).toEqual(ids)
    expect(got.finish).toBe('stop')
    // Where the bound ended it, the same id is one like any other.
    const cut = await start({ ids: [...ids, foreign] })
    const bound = await read(cut.engine, callTo(chain, { max_output_tokens: ids.length + 1 }, { prompt }))
    expect(tokensOf(bound)).toEqual([...ids, foreign])
  })
  it('ends with length at the edge of the window', async () => {
    const { engine } = await start({ ids: says.slice(0, 5), last: { truncated: true, stop_type: 'limit' } })
    expect((await read(engine, callTo(chain, {}, { prompt }))).finish).toBe('length')
  })
  it('fails where the server has thrown a part of the conversation away', async () => {
    const { engine } = await start({ ids: says, last: { truncated: true, tokens_cached: 12 } })
    const got = await read(engine, callTo(chain, {}, { prompt }))
    expect(codeOf(got.error)).toBe('context_length_exceeded')
    expect(String(got.error)).toContain('--context-shift')
  })
  it('takes an answer that is no stream', async () => {
    const whole = { tokens: says, stop: true, stop_type: 'eos', tokens_predicted: says.length, tokens_evaluated: 9 }
    const { engine } = await start({
      fault: { status: 200, body: JSON.stringify({ ...whole, content: 'é', id_slot: 1 }) },
    })
    const got = await read(engine, callTo(chain, {}, { prompt }))
    expect(tokensOf(got)).toEqual(says)
    expect(warmOf(got)).toBe(1)
  })
})

describe('faults of a llama-server', () => {
  const page = '<html>/etc/secret</html>'
  it.each<[string, Step['fault'], string, RegExp]>([
    [
      'that is loading',
      { status: 503, body: '{"error":{"message":"Loading model"}}' },
      'server_error',
      /still loading/,
    ],
    [
      'that cannot read a grammar',
      { status: 400, body: '{"error":{"message":"Failed to initialize samplers: failed to parse grammar"}}' },
      'unsupported_by_engine',
      /cannot hold its output/,
    ],
    ['that fails', { status: 500 }, 'server_error', /down at .*HTTP 500.*as scripted/],
    [
      'that is something else',
      { status: 404, body: page, type: 'text/html' },
      'server_error',
      /does not answer as a llama-server/,
    ],
    ['that sends a page', { status: 200, body: page, type: 'text/html' }, 'server_error', /no event stream/],
    ['that wants a key', { status: 401 }, 'server_error', /API key/],
    ['that sends garbage', 'garbage', 'server_error', /no answer of its interface/],
    ['that sends garbage as its answer', { status: 200, body: '[' }, 'server_error', /no answer of its interface/],
    ['that hangs up', 'down', 'server_error', /without an answer/],
    ['that cuts its answer', 'cut', 'server_error', /cut its answer off/],
    ['that ends without a last frame', 'unended', 'server_error', /cut its answer off/],
    ['that fails in the middle', 'error', 'server_error', /failed while answering.*decode failed/],
    ['that is silent', 'silent', 'server_error', /silent for 200 ms/],
  ])('a server %s is told in a sentence', async (_, fault, code, words) => {
    const { server, engine } = await start({ ids: says.slice(0, -1), ...(fault ? { fault } : {}) }, { idleMs: 200 })
    const got = await read(engine, callTo(chain, {}, { prompt }))
    expect(codeOf(got.error)).toBe(code)
    expect(String(got.error)).toMatch(words)
    expect(String(got.error)).not.toContain('secret')
    await until(() => server.running === 0)
    // And the next turn is none the worse for it.
    server.script = () => ({ ids: says })
    expect(tokensOf(await read(engine, callTo(chain, {}, { prompt })))).toEqual(says)
  })
  it('refuses what it is not, when it is asked what it is', async () => {
    const engine = llamaServer({ url: 'http://127.0.0.1:9', connectMs: 500 })
    open.push(engine)
    await expect(engine.probe(new AbortController().signal)).rejects.toThrow(/down at 127.0.0.1:9/)
    await expect(engine.describe?.(new AbortController().signal)).rejects.toThrow(/down at/)
  })
})
