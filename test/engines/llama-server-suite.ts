// What holds for the llama-server engine over any server: the scripted one, and a real one where there is one.
import { expect, it } from 'vitest'
import type { Engine, Tokenizer } from '../../src/turn/ports.ts'
import { callTo, codeOf, read } from './simulated-generations.ts'
import { chain, idsOf, plainOf, promptOf, tokensOf, turn, until, warmOf } from './token-prompts.ts'

export type Suite = {
  readonly engine: Engine
  /** Over the same server: one whose model goes on for a while behind 'never ends'. */
  readonly endless: Engine
  readonly tokenizer: Tokenizer
  /** What is answered to a prompt that ends in a newline, the end of the turn with it. */
  readonly says: readonly number[]
  readonly context: number
  /** How many slots are at work. */
  busy(): number | Promise<number>
}
/** Greedy, so that a real model says the same every time. */
const greedy = { temperature: 0 }

/** `setUp` is asked by every test. */
export function suite(setUp: () => Suite): void {
  it('gives back every id that was sampled, those inside characters and the one that ends the turn too', async () => {
    const { engine, tokenizer, says } = setUp()
    const prompt = promptOf(tokenizer, turn(tokenizer, 'weather?'))
    const got = await read(engine, callTo(chain, greedy, { prompt }))
    expect(got.error).toBeUndefined()
    expect(tokensOf(got)).toEqual(says)
    expect(got.finish).toBe('stop')
    expect(got.usage).toMatchObject({ input: prompt.run.length, output: says.length, reasoning: 0 })
  })
  it('returns to its slot, where only what is new is evaluated', async () => {
    const { engine, tokenizer, says } = setUp()
    const first = promptOf(tokenizer, turn(tokenizer, 'one'))
    const got = await read(engine, callTo(chain, greedy, { prompt: first }))
    const warm = { value: warmOf(got), at: chain }
    const more = [...idsOf(tokenizer, '\n'), ...turn(tokenizer, 'two')]
    const run = first.run.append(tokensOf(got)).append(more)
    const second = promptOf(tokenizer, run, { common: first.run.length + says.length })
    const next = await read(engine, callTo(chain, greedy, { prompt: second, warm }))
    expect(tokensOf(next)).toEqual(says)
    expect(warmOf(next)).toBe(warm.value)
    // The last sampled token is never in the cache.
    expect(next.usage).toEqual({ input: run.length, cached: second.common - 1, output: says.length, reasoning: 0 })
  })
  it('ends with length where max_output_tokens does', async () => {
    const { engine, tokenizer, says } = setUp()
    const prompt = promptOf(tokenizer, turn(tokenizer, 'long'))
    const got = await read(engine, callTo(chain, { ...greedy, max_output_tokens: 3 }, { prompt }))
    expect(tokensOf(got)).toEqual(says.slice(0, 3))
    expect(got.finish).toBe('length')
    expect(got.usage?.output).toBe(3)
  })
  it('brings a prompt into the cache without an answer', async () => {
    const { engine, tokenizer } = setUp()
    const prompt = promptOf(tokenizer, turn(tokenizer, 'warm up, please'))
    const got = await read(engine, callTo(chain, greedy, { prompt, generate: false }))
    expect(tokensOf(got)).toEqual([])
    expect(got.finish).toBe('stop')
    expect(got.usage).toMatchObject({ input: prompt.run.length, output: 0 })
    const warm = { value: warmOf(got), at: chain }
    const next = await read(engine, callTo(chain, greedy, { prompt, warm }))
    // One token is evaluated always.
    expect(next.usage?.cached).toBe(prompt.run.length - 1)
  })
  it('serves more lanes than there are slots', async () => {
    const { engine, tokenizer, says } = setUp()
    const all = Array.from({ length: 5 }, (_, n) => promptOf(tokenizer, turn(tokenizer, `lane ${n}`)))
    const got = await Promise.all(all.map((prompt) => read(engine, callTo(chain, greedy, { prompt }))))
    for (const one of got) {
      expect(one.error).toBeUndefined()
      expect(tokensOf(one)).toEqual(says)
    }
  })
  it('frees the slot when the turn is stopped, and when it is read no further', async () => {
    const { endless: engine, tokenizer, busy } = setUp()
    // No stop is known here, so that there is something to stop.
    const prompt = promptOf(tokenizer, idsOf(tokenizer, 'never ends'), { stops: [] })
    const abort = new AbortController()
    const reading = read(engine, callTo(chain, {}, { prompt, signal: abort.signal }), () =>
      abort.abort(new Error('enough')),
    )
    expect((await reading).error).toEqual(new Error('enough'))
    await until(async () => (await busy()) === 0)
    for await (const chunk of engine.generate(callTo(chain, {}, { prompt }))) {
      expect(chunk.tokens?.length).toBeGreaterThan(0)
      break
    }
    await until(async () => (await busy()) === 0)
  })
  it('says that the tokenizer is another one where the server does not know an id', async () => {
    const { engine, tokenizer } = setUp()
    const got = await read(engine, callTo(chain, {}, { prompt: promptOf(tokenizer, [1_000_000]) }))
    expect(codeOf(got.error)).toBe('server_error')
    expect(String(got.error)).toContain('give the model the tokenizer')
  })
  it('says that a prompt is longer than the context', async () => {
    const { engine, tokenizer, context } = setUp()
    const prompt = promptOf(tokenizer, idsOf(tokenizer, 'x'.repeat(context)))
    const got = await read(engine, callTo(chain, {}, { prompt }))
    expect(codeOf(got.error)).toBe('context_length_exceeded')
  })
  it('tells of its model, its template and its context, and tokenises plain text', async () => {
    const { engine, tokenizer, context } = setUp()
    const { signal } = new AbortController()
    expect(await engine.probe(signal)).toHaveLength(1)
    expect(await engine.describe?.(signal)).toEqual({ context, template: expect.stringContaining('messages') })
    // What a model lists as added without being special is always found by llama.cpp.
    const texts = ['plain text', '<|im_end|> [INST]', '🎉', '']
    expect(await engine.tokenize?.(texts, signal)).toEqual(texts.map((text) => plainOf(tokenizer, text)))
  })
}
