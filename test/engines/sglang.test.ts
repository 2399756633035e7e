import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { SglangSessions } from '../../src/engines/sglang-sessions.ts'
import { sglang, type SglangEngine, type SglangInput } from '../../src/engines/sglang.ts'
import { ApiError } from '../../src/protocol/errors.ts'
import { Chain } from '../../src/turn/chain.ts'
import { TokenRun } from '../../src/turn/tokens.ts'
import { abort, SglangModel } from './sglang-server.ts'
import { settings } from './simulated-generations.ts'
import { type Asking, callOf, type Heard, heard, type Reply, runOf, TokenServer } from './token-server.ts'

const path = '/generate'
let model: SglangModel
let server: TokenServer
let engine: SglangEngine
beforeEach(async () => {
  model = new SglangModel()
  server = await TokenServer.start((asked) => model.answer(asked))
  engine = sglang({ url: server.url }, 's')
})
afterEach(async () => {
  await engine.close()
  await server.close()
})
function options(some: Partial<SglangInput>): void {
  engine = sglang({ url: server.url, ...some }, 's')
}
/** Answers the next request of /generate so, and all others as the server does. */
function once(reply: Reply): void {
  let told = false
  server.script = (asked) => {
    if (asked.path !== path || told) return model.answer(asked)
    told = true
    return reply
  }
}
const sent = (n: number) => server.to(path).at(n)?.body
async function failure(act: Promise<unknown>): Promise<ApiError> {
  const e: unknown = await act.catch((reason: unknown) => reason)
  if (e instanceof ApiError) return e
  throw new Error('it did not fail with an ApiError')
}

/** A conversation as turns keep it: what was sent, what came back, what the engine wants back. */
class Talk {
  run = TokenRun.empty
  warm: unknown = undefined
  /** Ids of the last call, output included: what a new prompt is compared with. */
  #held = TokenRun.empty
  #turn = 0

  fork(): Talk {
    const talk = new Talk()
    Object.assign(talk, { run: this.run, warm: this.warm })
    talk.#held = this.#held
    talk.#turn = this.#turn + 100
    return talk
  }
  /** Sends what is kept of the conversation, and `ids` behind it. */
  async say(ids: readonly number[], keep = this.#held.length, asking: Asking = {}): Promise<Heard> {
    this.run = this.#held.cut(keep).append(ids)
    const common = this.warm === undefined ? 0 : this.run.common(this.#held)
    const got = await heard(
      engine,
      callOf(this.run, { ...asking, common, warm: this.warm, id: `resp_${++this.#turn}` }),
    )
    this.#held = this.run.append(got.tokens)
    this.warm = got.warm ?? this.warm
    return got
  }
}

describe('SGLang', () => {
  it('is asked for ids by ids and gives back those it sampled', async () => {
    const got = await heard(engine, callOf(runOf([1, 2, 3])))
    expect(got).toMatchObject({ tokens: [11, 12, 13, 9], finish: 'stop' })
    expect(got.usage).toEqual({ input: 3, cached: 2, output: 4, reasoning: 0 })
    expect(server.last(path).raw.startsWith('{"input_ids":[1,2,3],')).toBe(true)
    const { extra_key: salt, ...body } = server.last(path).body
    expect(body).toEqual({
      input_ids: [1, 2, 3],
      rid: 'resp_1-1',
      stream: true,
      sampling_params: { max_new_tokens: null, stop_token_ids: [9] },
    })
    expect(salt).toMatch(/^[\w-]{43}$/)
  })
  it('passes sampling on, with what the operator set where a request leaves it open', async () => {
    options({ sampling: { top_k: 20, temperature: 0.6 }, cacheSalt: false, context: 100 })
    await heard(engine, callOf(runOf([1]), { settings: { temperature: 0, top_p: 0, max_output_tokens: 700 } }))
    expect(server.last(path).body).toEqual({
      input_ids: [1],
      rid: 'resp_1-1',
      stream: true,
      sampling_params: { top_k: 20, temperature: 0, top_p: 1e-6, max_new_tokens: 98, stop_token_ids: [9] },
    })
  })
  it('is sent pictures as data URLs, in the order of their placeholders, and never in a session', async () => {
    const talk = new Talk()
    const pictures = ['data:image/png;base64,AAAA', 'data:image/png;base64,BBBB']
    const first = await talk.say([1, 99, 2], undefined, { pictures: pictures.slice(0, 1) })
    expect(server.last(path).body).toMatchObject({ input_ids: [1, 99, 2], image_data: pictures.slice(0, 1) })
    // What the server made of the placeholder is its own affair.
    expect(first).toMatchObject({ tokens: [11, 12, 13, 9], usage: { input: 6 } })
    await talk.say([3, 99], undefined, { pictures })
    expect(server.last(path).body).toMatchObject({ input_ids: [1, 99, 2, 11, 12, 13, 9, 3, 99], image_data: pictures })
    expect(server.last(path).body).not.toHaveProperty('session_params')
    expect([server.to(path).length, server.to('/open_session').length]).toEqual([2, 0])
  })
  it('is given no bound that a picture might not leave room for', async () => {
    options({ context: 40_000 })
    const pictures = ['data:image/png;base64,AAAA']
    const bound = async (most: number, some: string[]): Promise<unknown> => {
      await heard(engine, callOf(runOf([1, 99]), { pictures: some, settings: { max_output_tokens: most } }))
      return (server.last(path).body['sampling_params'] as { max_new_tokens: unknown }).max_new_tokens
    }
    expect(await bound(20_000, pictures)).toBe(20_000)
    expect(await bound(30_000, pictures)).toBeNull()
    expect(await bound(30_000, [])).toBe(30_000)
  })
  it('reads the prompt only for a warm-up', async () => {
    const got = await heard(engine, callOf(runOf([1, 2, 3]), { generate: false }))
    expect(got).toMatchObject({ tokens: [], usage: { input: 3, output: 0 } })
    expect(server.last(path).body['sampling_params']).toMatchObject({ max_new_tokens: 0 })
  })
  it('gives the same tokens whether events hold all or only what is new, however they are cut', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 10, max: 150_000 }), { maxLength: 6 }),
        fc.boolean(),
        fc.integer({ min: 1, max: 4 }),
        fc.integer({ min: 3, max: 200 }),
        async (output, incremental, step, bytes) => {
          Object.assign(model, { say: () => [...output, 9], incremental, step, bytes })
          expect((await heard(engine, callOf(runOf([1])))).tokens).toEqual([...output, 9])
        },
      ),
      { numRuns: Number(process.env['RUNS'] ?? 40) },
    )
  })
  it('gives each token once where an event has more ids than it counts', async () => {
    const event = (ids: number[], total: number, finish: unknown = null) => ({
      text: '',
      output_ids: ids,
      meta_info: { id: 'r', prompt_tokens: 1, completion_tokens: total, cached_tokens: 0, finish_reason: finish },
    })
    once({
      events: [event([11, 12], 1), event([11, 12, 13], 2), event([11, 12, 13, 9], 4, { type: 'stop', matched: 9 })],
    })
    expect((await heard(engine, callOf(runOf([1])))).tokens).toEqual([11, 12, 13, 9])
  })
  it.each<[string, Reply, string, RegExp]>([
    [
      'a prompt that is too long',
      {
        events: [
          {
            error: {
              message: "The input (9 tokens) is longer than the model's context length (8 tokens).",
              type: 'invalid_request_error',
              code: 400,
              retryable: false,
            },
          },
        ],
      },
      'context_length_exceeded',
      /shorten or compact/,
    ],
    [
      'a prompt that the scheduler finds too long',
      abort(
        'r',
        'Input length (9 tokens) exceeds the maximum allowed length (8 tokens). Use a shorter input or enable --allow-auto-truncate.',
      ),
      'context_length_exceeded',
      /shorten or compact/,
    ],
    [
      'a grammar that it refuses',
      abort('r', 'Failed to compile structural_tag grammar: bad'),
      'unsupported_by_engine',
      /Failed to compile/,
    ],
    ['a full queue', abort('r', 'The request queue is full.', 503), 'server_is_overloaded', /queue is full/],
    [
      'a body that it refuses',
      { status: 400, json: { error: 'unknown field `nonsense`' } },
      'unsupported_by_engine',
      /unknown field/,
    ],
    [
      'an error before the first token',
      { status: 500, json: 'Internal Server Error' },
      'server_error',
      /is down at .*HTTP 500/,
    ],
    ['garbage', { events: ['{"text":'] }, 'server_error', /no answer of its interface/],
    [
      'an event without its counts',
      { events: [{ text: 'a', output_ids: [1], meta_info: {} }] },
      'server_error',
      /no answer of its interface/,
    ],
    ['a stream that breaks', { events: [], fault: 'cut' }, 'server_error', /cut its answer off/],
    ['no words for its end', { events: [] }, 'server_error', /cut its answer off/],
    [
      'another server',
      { status: 404, json: { detail: 'Not Found' } },
      'server_error',
      /does not take tokens under this URL \(HTTP 404\)/,
    ],
  ])('says what is wrong with %s', async (_, reply, code, words) => {
    once(reply)
    const e = await failure(heard(engine, callOf(runOf([1, 2, 3]))))
    expect(e.code).toBe(code)
    expect(e.message).toMatch(words)
  })
  it('ends the far side at once when a turn is aborted or its reader leaves', async () => {
    const first = {
      text: '',
      output_ids: [11],
      meta_info: { prompt_tokens: 1, completion_tokens: 1, finish_reason: null },
    }
    server.script = () => ({ events: [first], fault: 'silent' })
    const enough = new AbortController()
    const turn = heard(engine, callOf(runOf([1]), { signal: enough.signal }))
    await expect.poll(() => server.to(path).length).toBe(1)
    enough.abort(new Error('enough'))
    await expect(turn).rejects.toThrow('enough')
    for await (const chunk of engine.generate(callOf(runOf([1])))) {
      expect(chunk.tokens).toEqual([11])
      break
    }
    await expect.poll(() => server.dropped).toBe(2)
  })
  it('tells its models, their length and where its tokenizer came from, on old servers too', async () => {
    const signal = new AbortController().signal
    expect(await engine.probe(signal)).toEqual(['q'])
    expect(await engine.describe(signal)).toEqual({ source: '/m/Qwen3-8B', context: 4096 })
    server.script = (a) =>
      model.answer({
        ...a,
        path: a.path === '/get_model_info' ? '/model_info' : a.path === '/model_info' ? '/no' : a.path,
      })
    expect(await engine.describe(signal)).toMatchObject({ source: '/m/Qwen3-8B' })
  })
  it('tokenises by the server, nothing added', async () => {
    expect(await engine.tokenize(['ab', 'c'], new AbortController().signal)).toEqual([[97, 98], [99]])
    expect(server.last('/tokenize').body).toEqual({ prompt: ['ab', 'c'], add_special_tokens: false })
  })
  it('holds the output to a schema, reasoning in front of it', async () => {
    const rule = { type: 'whole', content: { type: 'json', schema: { type: 'object' } } } as const
    await heard(engine, callOf(runOf([1]), { constraint: { after: undefined, rule } }))
    expect(server.last(path).body['sampling_params']).toMatchObject({ json_schema: '{"type":"object"}' })
    await heard(engine, callOf(runOf([1]), { constraint: { after: '</think>', rule } }))
    const { structural_tag: tag } = server.last(path).body['sampling_params'] as { structural_tag: string }
    expect(JSON.parse(tag)).toMatchObject({ type: 'structural_tag', format: { type: 'sequence' } })
  })
  it('refuses log probabilities before anything is asked', () => {
    expect(() => engine.admit(settings({ top_logprobs: 3 }), Chain.root('o'))).toThrow(/gives no log probabilities/)
    expect(server.asked).toEqual([])
  })
})

describe('a session', () => {
  it('begins with the second turn of a chain, and takes only what is new from the third on', async () => {
    const talk = new Talk()
    await talk.say([1, 2, 3])
    expect(server.to('/open_session')).toHaveLength(0)
    await talk.say([4])
    const [opened] = model.sessions.keys()
    expect(server.last('/open_session').body).toEqual({ capacity_of_str_len: 0, session_id: opened, timeout: 3600 })
    expect(sent(1)).toMatchObject({ input_ids: [1, 2, 3, 11, 12, 13, 9, 4], session_params: { id: opened } })
    await talk.say([5, 6])
    expect(sent(2)).toMatchObject({ input_ids: [5, 6], session_params: { id: opened, rid: 'resp_2-2', offset: 12 } })
    expect(model.contexts.at(-1)).toEqual([...talk.run.view()])
  })
  it('gives the server the very prompt of every turn, over appends, edits and forks', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({
            add: fc.array(fc.integer({ min: 20, max: 60 }), { minLength: 1, maxLength: 5 }),
            keep: fc.option(fc.double({ min: 0, max: 1, noNaN: true }), { freq: 2 }),
            fork: fc.boolean(),
            output: fc.array(fc.integer({ min: 20, max: 60 }), { maxLength: 5 }),
          }),
          { minLength: 2, maxLength: 6 },
        ),
        fc.array(fc.integer({ min: 70, max: 80 }), { maxLength: 2 }),
        fc.option(fc.integer({ min: 20, max: 24 }), { nil: undefined }),
        async (turns, behind, bos) => {
          Object.assign(model, { behind, bos })
          options({ sessionIds: 400 })
          let talk = new Talk()
          const older: Talk[] = []
          for (const turn of turns) {
            model.say = () => [...turn.output, 9]
            if (turn.fork && older[0]) talk = older[0].fork()
            older.push(talk.fork())
            const keep = turn.keep === null ? undefined : Math.floor(turn.keep * talk.run.length)
            const got = await talk.say(turn.add, keep)
            expect(got.tokens).toEqual([...turn.output, 9])
            expect(model.contexts.at(-1)).toEqual([...talk.run.view()])
          }
          await engine.close()
        },
      ),
      { numRuns: Number(process.env['RUNS'] ?? 40) },
    )
  })
  it('sends one id again where nothing is new', async () => {
    const talk = new Talk()
    for (let n = 0; n < 2; n++) await talk.say([1])
    const before = talk.run
    await talk.say([], before.length)
    expect(sent(2)).toMatchObject({ input_ids: [1], session_params: { offset: before.length - 1 } })
    expect(model.contexts.at(-1)).toEqual([...before.view()])
  })
  it.each<[string, () => void]>([
    ['is gone', () => model.sessions.clear()],
    ['has lost the request', () => model.sessions.forEach((nodes) => nodes.clear())],
    ['is refused by an older server', () => once({ status: 400, json: { error: 'unknown field `offset`' } })],
    ['loses the first of the new ids', () => void (model.bos = 5)],
  ])('that %s is replaced by the whole prompt in the same turn', async (_, happens) => {
    const talk = new Talk()
    for (let n = 0; n < 3; n++) await talk.say([4])
    happens()
    const asked = server.to(path).length
    expect((await talk.say([5, 6])).tokens).toEqual([11, 12, 13, 9])
    expect(server.to(path).length).toBe(asked + 2)
    expect(sent(-1)).toMatchObject({ input_ids: [...talk.run.view()] })
    expect(sent(-1)).not.toHaveProperty('session_params')
    expect(model.contexts.at(-1)).toEqual([...talk.run.view()])
    // And the turn behind it opens another one.
    model.bos = undefined
    await talk.say([6])
    expect(sent(-1)).toMatchObject({ input_ids: [...talk.run.view()], session_params: { id: expect.any(String) } })
  })
  it('is given up for good where it fails turn after turn', async () => {
    const talk = new Talk()
    model.bos = 5
    for (let n = 0; n < 12; n++) await talk.say([5])
    const opened = server.to('/open_session').length
    for (let n = 0; n < 4; n++) await talk.say([5])
    expect(server.to('/open_session').length).toBe(opened)
  })
  it.each<[string, () => void]>([
    ['is too old', () => void (model.version = '0.5.10.post1')],
    ['has several ranks', () => void (model.ranks = 2)],
    ['is told not to', () => options({ sessions: false })],
  ])('is never begun with a server that %s', async (_, happens) => {
    happens()
    const talk = new Talk()
    for (let n = 0; n < 3; n++) await talk.say([4])
    expect(server.to('/open_session')).toEqual([])
    expect(model.contexts.at(-1)).toEqual([...talk.run.view()])
  })
  it('does not hide that the prompt is too long, and is not tried again for it', async () => {
    const talk = new Talk()
    for (let n = 0; n < 2; n++) await talk.say([4])
    once(abort('r', 'Input length (9 tokens) exceeds the maximum allowed length (8 tokens).'))
    const asked = server.to(path).length
    expect((await failure(talk.say([5]))).code).toBe('context_length_exceeded')
    expect(server.to(path).length).toBe(asked + 1)
  })
  it('is closed when it is the oldest of too many, and all with the engine', async () => {
    options({ maxSessions: 2 })
    const talks = [new Talk(), new Talk(), new Talk()]
    for (const talk of talks) for (let n = 0; n < 2; n++) await talk.say([4])
    await expect.poll(() => model.sessions.size).toBe(2)
    const oldest = talks[0]
    await oldest?.say([5])
    expect(sent(-1)).toMatchObject({ input_ids: [...(oldest?.run.view() ?? [])] })
    expect(engine.sessions.size).toBe(2)
    await expect.poll(() => model.sessions.size).toBe(2)
    await engine.close()
    expect(model.sessions.size).toBe(0)
  })
  it('of a turn that was broken off is counted, and closed with the others', async () => {
    const talk = new Talk()
    await talk.say([4])
    const stop = new AbortController()
    server.script = (asked) => {
      const reply = model.answer(asked)
      return asked.path === path ? { events: reply.events?.slice(0, 1) ?? [], fault: 'silent' } : reply
    }
    const turn = talk.say([5], undefined, { signal: stop.signal })
    await expect.poll(() => engine.sessions.size).toBe(1)
    stop.abort(new Error('enough'))
    await expect(turn).rejects.toThrow('enough')
    await engine.close()
    expect(model.sessions.size).toBe(0)
  })
})

describe('the open sessions', () => {
  it('keep to both bounds, the least recently used going first', () => {
    const closed: string[] = []
    const sessions = new SglangSessions({ most: 3, ids: 100 }, (id) => closed.push(id))
    for (const id of ['a', 'b', 'c']) sessions.used(id, 10)
    sessions.used('a', 5)
    sessions.used('d', 10)
    expect(closed).toEqual(['b'])
    sessions.used('c', 12)
    sessions.used('d', 16)
    expect(closed).toEqual(['b', 'd'])
    sessions.clear()
    expect(closed).toEqual(['b', 'd', 'a', 'c'])
    expect(sessions.size).toBe(0)
    sessions.drop('a')
    expect(closed).toHaveLength(4)
  })
})
