// A turn around engines that break the contract of deltas, lie about usage, throw, or never end.
import { describe, expect, test } from 'vitest'
import { ApiError } from '../../src/protocol/errors.ts'
import type { Chunk, Delta, EngineUsage } from '../../src/turn/ports.ts'
import { Halt } from '../../src/turn/run.ts'
import { chunks, done, end, run, says, words } from './ran.ts'

describe('an engine that breaks the contract of deltas', () => {
  const call: Delta = { type: 'call', kind: 'function', name: 'f' }
  const broken: [string, Delta[]][] = [
    ['text inside a call', [call, words('x')]],
    ['arguments with nothing open', [{ type: 'arguments', text: '{}' }]],
    ['arguments inside a text', [words('x'), { type: 'arguments', text: '{}' }]],
    ['a call inside a text', [words('x'), call]],
    ['a call inside a call', [call, call]],
    ['text inside reasoning', [{ type: 'reasoning', text: 'x' }, words('y')]],
    ['reasoning inside text', [words('y'), { type: 'reasoning', text: 'x' }]],
  ]
  test.each(broken)('fails the response with a plain sentence, and the reason is reported: %s', async (_, deltas) => {
    const { outcome, response, reports, problems, kept } = await run(() => chunks(says(...deltas), done))
    expect(problems).toEqual([])
    expect(outcome).toBe('failed')
    expect(response.error).toMatchObject({ code: 'server_error' })
    expect(response.error?.message).not.toContain('engine:')
    expect(reports).toHaveLength(1)
    expect(kept).toBeUndefined()
  })
  test('loses nothing for ends, empty pieces and chunks that say nothing', async () => {
    const { response, problems, text } = await run(() =>
      chunks(says(end), {}, says(words('')), says(words('a'), words(''), end, end), done),
    )
    expect(problems).toEqual([])
    expect(text).toBe('a')
    expect(response).toMatchObject({ status: 'completed', output: [{ status: 'completed' }] })
  })
  const throwing: [string, () => AsyncIterable<Chunk>][] = [
    [
      'at once',
      () => {
        throw new TypeError('secret inside')
      },
    ],
    [
      'while it is read',
      async function* () {
        yield says(words('a'))
        throw new TypeError('secret inside')
      },
    ],
    [
      'with something that is no error',
      async function* () {
        yield says(words('a'))
        const odd: unknown = 'secret inside'
        throw odd
      },
    ],
  ]
  test.each(throwing)('that throws %s says nothing of its inside', async (_, generate) => {
    const { response, reports, problems } = await run(generate)
    expect(problems).toEqual([])
    expect(response).toMatchObject({ status: 'failed', error: { code: 'server_error' } })
    expect(JSON.stringify(response)).not.toContain('secret inside')
    expect(reports).toHaveLength(1)
  })
  test('that throws one of our errors is quoted, and is no surprise', async () => {
    const { response, reports } = await run(async function* () {
      yield says(words('a'))
      throw new ApiError('context_length_exceeded', 'Too long by 5.')
    })
    expect(response).toMatchObject({
      status: 'failed',
      error: { code: 'context_length_exceeded', message: 'Too long by 5.' },
    })
    expect(reports).toEqual([])
  })
  test('that stops inside an item without a finish has failed, between items it has not', async () => {
    expect((await run(() => chunks(says(words('a'))))).response).toMatchObject({
      status: 'failed',
      output: [{ status: 'incomplete' }],
    })
    expect((await run(() => chunks(says(words('a'), end)))).response).toMatchObject({ status: 'completed' })
  })
  test('that fails inside a call leaves it out, since clients would run half a call; one at its limit hands it over', async () => {
    const half = [call, { type: 'arguments', text: '{"cmd": "rm -r /' } as const]
    const failed = await run(() => chunks(says(words('a'), end, ...half)))
    expect(failed.problems).toEqual([])
    expect(failed.response).toMatchObject({ status: 'failed', output: [{ type: 'message', status: 'completed' }] })
    expect(failed.response.output).toHaveLength(1)
    const cut = await run(() => chunks(says(...half), { ...done, finish: 'length' }))
    expect(cut.response).toMatchObject({
      status: 'incomplete',
      output: [{ type: 'function_call', status: 'incomplete', arguments: '{"cmd": "rm -r /' }],
    })
  })
  test('that stops behind the name of a call has failed, since nobody knows what it wanted to call with', async () => {
    const { response, problems } = await run(() => chunks(says(call)))
    expect(problems).toEqual([])
    expect(response).toMatchObject({ status: 'failed', error: { code: 'server_error' }, output: [] })
  })
  test('that ignores max_output_tokens is cut, and so is one that says too much', async () => {
    const endless = async function* (): AsyncIterable<Chunk> {
      for (;;) yield says(words('word '))
    }
    const cut = await run(endless, { body: { max_output_tokens: 7 } })
    expect(cut.problems).toEqual([])
    expect(cut.response).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } })
    expect((await run(endless, { outputBytes: 2000 })).text.length).toBeLessThan(2100)
    const calling = async function* (): AsyncIterable<Chunk> {
      for (;;) yield says(call, end)
    }
    expect((await run(calling, { outputBytes: 2000 })).response.output.length).toBeLessThan(100)
  })
  test('that ignores parallel_tool_calls: false is heard to the end of the first call', async () => {
    const two = [call, { type: 'arguments', text: '{}' } as const, end]
    const { response, problems } = await run(() => chunks(says(...two, ...two), done), {
      body: { parallel_tool_calls: false },
    })
    expect(problems).toEqual([])
    expect(response).toMatchObject({ status: 'completed', output: [{ type: 'function_call' }] })
    expect(response.output).toHaveLength(1)
  })
  test('is given back on a stop, with the item that was open', async () => {
    const stop = new AbortController()
    let returned = false
    const { outcome, response } = await run(
      async function* ({ signal }) {
        try {
          yield says(words('a'))
          setTimeout(() => stop.abort(new Halt('cancelled')), 5)
          await new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))))
        } finally {
          returned = true
        }
      },
      { stop },
    )
    expect(outcome).toBe('cancelled')
    expect(response).toMatchObject({ status: 'cancelled', output: [{ status: 'incomplete' }] })
    expect(returned).toBe(true)
  })
})

describe('usage', () => {
  const said = says(words('one'), words(' two'), words(' three'), end)
  const good = { input: 50, cached: 10, output: 3, reasoning: 1 }
  const impossible: [string, EngineUsage | undefined][] = [
    ['missing', undefined],
    ['negative', { ...good, input: -1 }],
    ['broken', { ...good, output: 1.5 }],
    ['not a number', { ...good, output: Number.NaN }],
    ['endless', { ...good, input: Infinity }],
    ['more cached than there was', { ...good, cached: 51 }],
    ['more reasoning than output', { ...good, reasoning: 4 }],
    ['nothing, although something was said', { ...good, output: 0, reasoning: 0 }],
  ]
  test.each(impossible)('that is %s becomes our own count, marked as estimated', async (_, usage) => {
    const ran = await run(() => chunks(said, { finish: 'stop', ...(usage ? { usage } : {}) }))
    expect(ran.response.usage).toMatchObject({ output_tokens: 3, estimated: true })
    expect(ran.response.usage?.input_tokens).toBeGreaterThan(0)
    expect(ran.usage).toMatchObject({ output: 3, estimated: true })
    expect(ran.problems).toEqual([])
  })
  test('that comes twice counts once, the last one', async () => {
    const ran = await run(() => chunks(said, { usage: { ...good, output: 2 } }, { usage: good, finish: 'stop' }))
    expect(ran.response.usage).toMatchObject({
      input_tokens: 50,
      output_tokens: 3,
      total_tokens: 53,
      input_tokens_details: { cached_tokens: 10 },
      output_tokens_details: { reasoning_tokens: 1 },
    })
    expect(ran.response.usage).not.toHaveProperty('estimated')
    expect(ran.usage).toMatchObject({ ...good, estimated: false })
  })
  test('of a turn that failed is what was said until then', async () => {
    const ran = await run(async function* () {
      yield said
      throw new ApiError('server_error')
    })
    expect(ran.usage).toMatchObject({ output: 3, estimated: true })
  })
  test('of a warm-up is nothing', async () => {
    const ran = await run(() => chunks(), { body: { generate: false } })
    expect(ran.usage).toMatchObject({ input: 0, output: 0, estimated: false })
  })
})

describe('what stops a turn while a long item makes room for others in front of its end', () => {
  const long = 'x'.repeat(3000)
  const longCall: Delta[] = [
    { type: 'call', kind: 'function', name: 'f' },
    { type: 'arguments', text: JSON.stringify({ a: long }) },
  ]
  /** Stops it in the gap, whether the engine says the end or leaves it out. */
  const stopped = (reason: Error, deltas: Delta[], told: boolean) => {
    const stop = new AbortController()
    return run(
      async function* () {
        setImmediate(() => stop.abort(reason))
        yield says(...deltas, ...(told ? [end] : []))
      },
      { stop },
    )
  }
  test.each([true, false])('a failure leaves no call behind that a client would run (end told: %s)', async (told) => {
    const { outcome, response, problems } = await stopped(new ApiError('invalid_prompt'), longCall, told)
    expect([outcome, problems]).toEqual(['failed', []])
    expect(response.output).toEqual([])
  })
  test('an interrupt that discards leaves the item out', async () => {
    const { outcome, response, problems } = await stopped(new Halt('interrupted', true), [words(long)], true)
    expect([outcome, problems]).toEqual(['interrupted', []])
    expect(response.output).toEqual([])
  })
  test('an interrupt that keeps what is there keeps it whole', async () => {
    const { outcome, response, problems } = await stopped(new Halt('interrupted'), [words(long)], true)
    expect([outcome, problems]).toEqual(['interrupted', []])
    expect(response.output).toMatchObject([{ status: 'completed', content: [{ text: long }] }])
  })
})
