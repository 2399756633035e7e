import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { vllm, type VllmEngine, type VllmInput } from '../../src/engines/vllm.ts'
import { ApiError } from '../../src/protocol/errors.ts'
import { Chain } from '../../src/turn/chain.ts'
import { type Asked, callOf, heard, type Reply, runOf, type Script, TokenServer } from './token-server.ts'
import { settings } from './simulated-generations.ts'

const generate = '/inference/v1/generate'
const completions = '/v1/completions'
const usage = (input: number, output: number, cached?: number) => ({
  prompt_tokens: input,
  total_tokens: input + output,
  completion_tokens: output,
  ...(cached === undefined ? {} : { prompt_tokens_details: { cached_tokens: cached } }),
})
/** As `/inference/v1/generate` of 0.33.0 streams: nulls included, usage alone and at the end. */
const tokens = (ids: number[], finish: string | null = null, stop: number | null = null) => ({
  request_id: 'generate-tokens-resp_1-1',
  usage: null,
  prompt_token_ids: null,
  mm_placeholders: null,
  metrics: null,
  output_mode: 'tokens',
  choices: [
    { index: 0, finish_reason: finish, stop_reason: stop, token_ids: ids, routed_experts: null, logprobs: null },
  ],
})
const total = (input: number, output: number, cached?: number) => ({
  request_id: 'generate-tokens-resp_1-1',
  usage: usage(input, output, cached),
  output_mode: 'tokens',
  choices: [],
})
/** As `/v1/completions` streams with return_token_ids. */
const completion = (text: string, ids: number[] | null, finish: string | null = null) => ({
  id: 'cmpl-1',
  object: 'text_completion',
  created: 1,
  model: 'm',
  choices: [
    {
      index: 0,
      text,
      logprobs: null,
      finish_reason: finish,
      stop_reason: null,
      prompt_token_ids: null,
      token_ids: ids,
    },
  ],
  usage: null,
})
const answer: Reply = { events: [tokens([11]), tokens([12, 13]), tokens([9], 'stop', 9), total(3, 4, 2)] }
const error = (message: string, code: number) => ({ error: { message, type: 'BadRequestError', param: null, code } })
const bare = (a: Asked): boolean => a.raw === '{}'

let server: TokenServer | undefined
let engine: VllmEngine | undefined
afterEach(async () => {
  await engine?.close()
  await server?.close()
})
/** A server that has `/inference/v1/generate`; `script` answers real requests. */
async function start(
  script: Script,
  options: Partial<VllmInput> = {},
): Promise<{ server: TokenServer; engine: VllmEngine }> {
  server = await TokenServer.start((asked) =>
    bare(asked) && asked.path === generate ? { status: 400, json: error('Field required', 400) } : script(asked),
  )
  engine = vllm({ url: server.url, ...options }, 'v')
  return { server, engine }
}
/** What the engine of a turn that fails says. */
async function failure(script: Script, options: Partial<VllmInput> = {}): Promise<ApiError> {
  const s = await start(script, options)
  const e: unknown = await heard(s.engine, callOf(runOf([1, 2, 3]))).catch((reason: unknown) => reason)
  if (e instanceof ApiError) return e
  throw new Error('it did not fail with an ApiError')
}

describe('vLLM', () => {
  it('is asked for ids by ids and gives back those it sampled, the stop token among them', async () => {
    const s = await start(() => answer)
    const got = await heard(s.engine, callOf(runOf([1, 2, 3])))
    expect(got.tokens).toEqual([11, 12, 13, 9])
    expect(got.finish).toBe('stop')
    expect(got.usage).toEqual({ input: 3, cached: 2, output: 4, reasoning: 0 })
    expect(s.server.last(generate).raw.startsWith('{"token_ids":[1,2,3],')).toBe(true)
    const { cache_salt: salt, ...body } = s.server.last(generate).body
    expect(body).toEqual({
      token_ids: [1, 2, 3],
      request_id: 'resp_1-1',
      stream: true,
      stream_options: { include_usage: true },
      sampling_params: { max_tokens: null, stop_token_ids: [9], detokenize: false },
    })
    expect(salt).toMatch(/^[\w-]{43}$/)
  })
  it('passes sampling on, with what the operator set where a request leaves it open', async () => {
    const s = await start(() => answer, {
      sampling: { top_k: 20, temperature: 0.6 },
      model: 'adapter',
      cacheSalt: false,
    })
    await heard(
      s.engine,
      callOf(runOf([1]), {
        settings: { temperature: 0, top_p: 0, presence_penalty: 1, frequency_penalty: 0.5, max_output_tokens: 7 },
      }),
    )
    expect(s.server.last(generate).body).toEqual({
      token_ids: [1],
      model: 'adapter',
      request_id: 'resp_1-1',
      stream: true,
      stream_options: { include_usage: true },
      sampling_params: {
        top_k: 20,
        temperature: 0,
        top_p: 1e-6,
        presence_penalty: 1,
        frequency_penalty: 0.5,
        max_tokens: 7,
        stop_token_ids: [9],
        detokenize: false,
      },
    })
  })
  it('reads the prompt for a warm-up, and says nothing of the one token that had to be sampled', async () => {
    const s = await start(() => ({ events: [tokens([11], 'length'), total(3, 1)] }))
    const got = await heard(
      s.engine,
      callOf(runOf([1, 2, 3]), { generate: false, settings: { max_output_tokens: 50 } }),
    )
    expect(got).toMatchObject({ tokens: [], usage: { input: 3, output: 0, cached: 0 } })
    expect(s.server.last(generate).body['sampling_params']).toMatchObject({ max_tokens: 1 })
  })
  it.each([
    [403, 'Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.'],
    [404, 'Not Found'],
    [405, 'Method Not Allowed'],
  ])('uses completions with ids where the token endpoint answers %d', async (status, message) => {
    const s = await start((a) => {
      if (a.path === generate) return { status, json: error(message, status) }
      if (bare(a)) return { status: 400, json: error('Either prompt or prompt_embeds must be provided', 400) }
      return {
        events: [
          completion('a', [11]),
          completion('b', [12, 9], 'stop'),
          { ...completion('', null), choices: [], usage: usage(2, 3) },
        ],
      }
    })
    s.server.script = (
      (before) => (a) =>
        a.path === generate ? { status, json: error(message, status) } : before(a)
    )(s.server.script)
    for (const id of ['resp_1', 'resp_2']) {
      const got = await heard(s.engine, callOf(runOf([1, 2]), { id }))
      expect(got).toMatchObject({ tokens: [11, 12, 9], finish: 'stop', usage: { input: 2, output: 3 } })
    }
    expect(s.server.to(generate)).toHaveLength(1)
    const { cache_salt: _, ...body } = s.server.last(completions).body
    expect(body).toEqual({
      prompt: [1, 2],
      request_id: 'resp_2-2',
      stream: true,
      stream_options: { include_usage: true },
      max_tokens: null,
      stop_token_ids: [9],
      return_token_ids: true,
    })
  })
  it('is asked once more which endpoints it has after its connections were lost', async () => {
    const s = await start(() => answer)
    await heard(s.engine, callOf(runOf([1])))
    const before = s.server.to(generate).filter(bare).length
    s.server.hangUp()
    await expect.poll(() => s.server.to(generate).length).toBe(2)
    await new Promise((resolve) => setTimeout(resolve, 20))
    await heard(s.engine, callOf(runOf([1])))
    expect(s.server.to(generate).filter(bare).length).toBe(before + 1)
  })
  it('finds the other endpoint in the same turn when the first one was switched off meanwhile', async () => {
    const s = await start(() => answer)
    await heard(s.engine, callOf(runOf([1])))
    s.server.script = (a) => {
      if (a.path === generate) return { status: 403, json: error('Scale-out endpoints are disabled.', 403) }
      return bare(a) ? { status: 400, json: error('no prompt', 400) } : { events: [completion('a', [12, 9], 'stop')] }
    }
    expect((await heard(s.engine, callOf(runOf([1])))).tokens).toEqual([12, 9])
  })
  it('is refused with what is needed where neither endpoint is there', async () => {
    server = await TokenServer.start(() => ({ status: 404, json: { detail: 'Not Found' } }))
    engine = vllm({ url: `${server.url}/v1` }, 'v')
    await expect(heard(engine, callOf(runOf([1])))).rejects.toThrow(/neither .*0\.10\.2 or newer is needed/)
    expect(server.asked.map((a) => a.path)).toEqual([generate, completions])
  })
  it('is refused where it sends text without ids', async () => {
    expect((await failure(() => ({ events: [completion('a', null)] }))).message).toMatch(
      /without token ids; vLLM 0\.10\.2/,
    )
  })
  it('takes an answer that was not streamed, as older servers give it', async () => {
    const s = await start(() => ({
      json: {
        request_id: 'x',
        choices: [{ index: 0, logprobs: null, finish_reason: 'length', token_ids: [11, 12] }],
        usage: usage(3, 2),
      },
    }))
    expect(await heard(s.engine, callOf(runOf([1, 2, 3])))).toMatchObject({ tokens: [11, 12], finish: 'length' })
  })
  it('gives the usage of a stream that breaks behind its end, and fails one that breaks before', async () => {
    const s = await start(() => ({ events: [tokens([11]), tokens([9], 'stop')], fault: 'cut' }))
    expect(await heard(s.engine, callOf(runOf([1])))).toMatchObject({
      tokens: [11, 9],
      finish: 'stop',
      usage: undefined,
    })
    s.server.script = (a) => (bare(a) ? { status: 400, json: {} } : { events: [tokens([11])], fault: 'cut' })
    await expect(heard(s.engine, callOf(runOf([1])))).rejects.toThrow(/cut its answer off/)
  })
  it('waits no longer for usage than it was told to', async () => {
    const s = await start(() => ({ events: [tokens([9], 'stop')], fault: 'silent' }), { lingerMs: 30 })
    expect((await heard(s.engine, callOf(runOf([1])))).finish).toBe('stop')
    await expect.poll(() => s.server.dropped).toBe(1)
  })
  it('ends the far side at once when a turn is aborted or its reader leaves', async () => {
    const s = await start(() => ({ events: [tokens([11])], fault: 'silent' }))
    const abort = new AbortController()
    const turn = heard(s.engine, callOf(runOf([1]), { signal: abort.signal }))
    await expect.poll(() => s.server.to(generate).length).toBe(2)
    abort.abort(new Error('enough'))
    await expect(turn).rejects.toThrow('enough')
    for await (const chunk of s.engine.generate(callOf(runOf([1])))) {
      expect(chunk.tokens).toEqual([11])
      break
    }
    await expect.poll(() => s.server.dropped).toBe(2)
  })
  it.each<[string, Reply, string, RegExp]>([
    [
      'a prompt that is too long',
      {
        status: 400,
        json: error(
          'The decoder prompt (length 9) is longer than the maximum model length of 8. Make sure that `max_model_len` is no smaller.',
          400,
        ),
      },
      'context_length_exceeded',
      /shorten or compact/,
    ],
    [
      'ids of another vocabulary',
      { status: 400, json: error('Token id 999999 is out of vocabulary', 400) },
      'server_error',
      /give the model the tokenizer/,
    ],
    [
      'a field that it refuses',
      { status: 400, json: error('Invalid structural tag specification.', 400) },
      'unsupported_by_engine',
      /Invalid structural tag/,
    ],
    [
      'an error before the first token',
      { status: 500, json: error('boom at /srv/vllm/x.py', 500) },
      'server_error',
      /is down at 127\.0\.0\.1:\d+ \(HTTP 500\): "boom at …"/,
    ],
    [
      'an error behind the first token',
      { events: [tokens([11]), error('Internal server error', 500)] },
      'server_error',
      /failed while answering: "Internal server error"/,
    ],
    ['a wrong key', { status: 401, json: { error: 'Unauthorized' } }, 'server_error', /refused its API key/],
    [
      'overload',
      { status: 429, json: error('slow down', 429), headers: { 'retry-after': '7' } },
      'rate_limit_exceeded',
      /no more requests now/,
    ],
    ['garbage', { events: ['{"choices":[{"token'] }, 'server_error', /no answer of its interface/],
    ['ids that are none', { events: [tokens([1.5])] }, 'server_error', /no answer of its interface/],
    ['no words for its end', { events: [tokens([11])] }, 'server_error', /cut its answer off/],
    [
      'an abort of its own',
      { events: [tokens([11]), tokens([], 'abort')] },
      'server_error',
      /ended the request \(abort\)/,
    ],
    [
      'an unknown model',
      { status: 404, json: error('The model `x` does not exist.', 404) },
      'server_error',
      /HTTP 404\): "The model `x` does not exist/,
    ],
  ])('says what is wrong with %s', async (_, reply, code, words) => {
    const e = await failure(() => reply)
    expect(e.code).toBe(code)
    expect(e.message).toMatch(words)
  })
  it('says that it is down', async () => {
    const s = await start(() => answer)
    await s.server.close()
    await expect(heard(s.engine, callOf(runOf([1])))).rejects.toThrow(/is down at .*connection refused/)
  })
  it('gives the same tokens however the bytes of the stream are cut', async () => {
    const s = await start(() => answer)
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(fc.nat(150_000), { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 6 }),
        fc.integer({ min: 1, max: 40 }),
        async (deltas, bytes) => {
          s.server.script = (a) =>
            bare(a)
              ? { status: 400, json: {} }
              : { bytes, events: [...deltas.map((d) => tokens(d)), tokens([9], 'stop'), total(1, 1)] }
          expect((await heard(s.engine, callOf(runOf([1])))).tokens).toEqual([...deltas.flat(), 9])
        },
      ),
      { numRuns: Number(process.env['RUNS'] ?? 40) },
    )
  })
  it('tells its models, their length, where they came from, and their template where it may', async () => {
    const card = { id: 'qwen', object: 'model', root: '/models/Qwen3-8B', parent: null, max_model_len: 100 }
    const adapter = { id: 'lora', object: 'model', root: '/lora', parent: 'qwen', max_model_len: null }
    const s = await start(
      (a) => {
        if (a.path === '/v1/models') return { json: { object: 'list', data: [card, adapter] } }
        if (a.path === '/tokenizer_info')
          return { json: { tokenizer_class: 'Qwen2Tokenizer', chat_template: '{{ x }}' } }
        return answer
      },
      { model: 'lora', apiKey: 'secret' },
    )
    const signal = new AbortController().signal
    expect(await s.engine.probe(signal)).toEqual(['qwen', 'lora'])
    expect(await s.engine.describe(signal)).toEqual({ source: '/models/Qwen3-8B', context: 100, template: '{{ x }}' })
    expect(s.server.last('/v1/models').headers.authorization).toBe('Bearer secret')
    // Now that the length is known, no more is asked for than fits.
    await heard(s.engine, callOf(runOf([1, 2, 3]), { settings: { max_output_tokens: 5000 } }))
    expect(s.server.last(generate).body['sampling_params']).toMatchObject({ max_tokens: 96 })
  })
  it('tokenises by the server, nothing added', async () => {
    const s = await start((a) => {
      const text = String(a.body['prompt'])
      return {
        json: {
          count: text.length,
          max_model_len: 100,
          tokens: Array.from(text, (c) => c.charCodeAt(0)),
          token_strs: null,
        },
      }
    })
    const texts = Array.from({ length: 40 }, (_, n) => `t${n}`)
    const ids = await s.engine.tokenize(texts, new AbortController().signal)
    expect(ids).toEqual(texts.map((t) => Array.from(t, (c) => c.charCodeAt(0))))
    expect(s.server.last('/tokenize').body).toMatchObject({ add_special_tokens: false })
    s.server.script = () => ({ status: 501, json: error('no tokenizer', 501) })
    await expect(s.engine.tokenize(['a'], new AbortController().signal)).rejects.toThrow(/--tokens-only/)
  })
  it('holds the output to a schema, told where reasoning is', async () => {
    const s = await start(() => answer)
    const content = { type: 'json', schema: { type: 'object' } } as const
    await heard(s.engine, callOf(runOf([1]), { constraint: { after: undefined, rule: { type: 'whole', content } } }))
    expect(s.server.last(generate).body).toMatchObject({
      reasoning_ended: true,
      sampling_params: { structured_outputs: { json: { type: 'object' } } },
    })
    await heard(s.engine, callOf(runOf([1]), { constraint: { after: '</think>', rule: { type: 'whole', content } } }))
    const { structured_outputs: rule } = s.server.last(generate).body['sampling_params'] as {
      structured_outputs: { structural_tag: string }
    }
    expect(JSON.parse(rule.structural_tag)).toMatchObject({ format: { type: 'sequence' } })
    // A warm-up generates nothing that could be held to anything.
    await heard(
      s.engine,
      callOf(runOf([1]), { generate: false, constraint: { after: undefined, rule: { type: 'whole', content } } }),
    )
    expect(s.server.last(generate).body).not.toHaveProperty('reasoning_ended')
  })
  it('leaves the reasoning to a server that has a parser, where it cannot be told', async () => {
    const s = await start(
      (a) =>
        a.path === completions && !bare(a) ? { events: [completion('a', [9], 'stop')] } : { status: 400, json: {} },
      { reasoningParser: true },
    )
    s.server.script = (
      (before) => (a) =>
        a.path === generate ? { status: 404, json: {} } : before(a)
    )(s.server.script)
    const content = { type: 'json', schema: { type: 'object' } } as const
    await heard(s.engine, callOf(runOf([1]), { constraint: { after: '</think>', rule: { type: 'whole', content } } }))
    const { structured_outputs: rule } = s.server.last(completions).body as {
      structured_outputs: { structural_tag: string }
    }
    expect(rule.structural_tag).not.toContain('think')
    expect(rule.structural_tag).toContain('"json_schema":{"type":"object"}')
  })
  it('refuses log probabilities before anything is asked', async () => {
    const s = await start(() => answer)
    const admit = () => s.engine.admit(settings({ top_logprobs: 3 }), Chain.root('o'))
    expect(admit).toThrow(/gives no log probabilities/)
    expect(s.server.asked).toEqual([])
  })
  it('is not made of options it does not know', () => {
    expect(() => vllm({ url: 'http://h', nonsense: 1 } as never, 'v')).toThrow()
  })
})
