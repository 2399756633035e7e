import { describe, expect, it, vi } from 'vitest'
import { Faults, injectedFault } from '../../src/engines/simulated-faults.ts'
import { simulated, type SimulatedOptions } from '../../src/engines/simulated.ts'
import { callTo, chainOf, codeOf, read, tool, user } from './simulated-generations.ts'

type Fault = NonNullable<SimulatedOptions['faults']>[number]
const failing = (fault: Fault, text = 'x') => read(simulated({ faults: [fault] }), callTo(chainOf([user(text)])))
const ends = (deltas: readonly { type: string }[]) => deltas.filter((d) => d.type === 'end')

describe('an injected fault of the simulated engine', () => {
  it('error: throws its code before anything was said', async () => {
    for (const code of [
      'server_error',
      'rate_limit_exceeded',
      'server_is_overloaded',
      'context_length_exceeded',
    ] as const) {
      const { chunks, error } = await failing({ kind: 'error', code, message: 'because' })
      expect([chunks, codeOf(error), (error as Error).message]).toEqual([[], code, 'because'])
    }
  })
  it('cut: throws after some of it was said and read', async () => {
    const { deltas, error, finish } = await failing({ kind: 'cut', after: 5 })
    expect([deltas.length, codeOf(error), finish, ends(deltas)]).toEqual([5, 'server_error', undefined, []])
    expect(codeOf((await failing({ kind: 'failed' })).error)).toBe('server_error')
  })
  it('vanish: just ends, with no end of the item, no finish, no usage', async () => {
    const { deltas, error, finish, usage } = await failing({ kind: 'vanish', after: 4 })
    expect([deltas.length, ends(deltas), error, finish, usage]).toEqual([4, [], undefined, undefined, undefined])
  })
  it('incomplete and filter: break the item off and say why', async () => {
    const cut = await failing({ kind: 'incomplete', after: 4 })
    expect([cut.finish, cut.usage?.output, ends(cut.deltas)]).toEqual(['length', 4, [{ type: 'end', whole: false }]])
    expect((await failing({ kind: 'filter' })).finish).toBe('filter')
  })
  it('strikes at the end where the answer is shorter than its place', async () => {
    expect(codeOf((await failing({ kind: 'cut', after: 1_000_000 })).error)).toBe('server_error')
    expect((await failing({ kind: 'incomplete', after: 1_000_000 })).finish).toBe('length')
  })
  it('hang: says no more, and does not end', async () => {
    const engine = simulated({ faults: [{ kind: 'hang', after: 2 }] })
    const stop = new AbortController()
    let over = false
    let deltas = 0
    const done = read(
      engine,
      callTo(chainOf([user('x')]), {}, { signal: stop.signal }),
      (c) => void (deltas += c.deltas?.length ?? 0),
    ).then((r) => {
      over = true
      return r
    })
    await vi.waitFor(() => expect(deltas).toBe(2))
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect([deltas, over, engine.running]).toEqual([2, false, 1])
    stop.abort(new Error('enough'))
    expect(String((await done).error)).toContain('enough')
  })
  it('endless: goes on until a limit cuts it', async () => {
    const engine = simulated({ faults: [{ kind: 'endless' }] })
    const { usage, finish } = await read(engine, callTo(chainOf([user('x')]), { max_output_tokens: 20_000 }))
    expect([usage?.output, finish]).toEqual([20_000, 'length'])
  })
  it('slow: takes its time for every token', async () => {
    const started = performance.now()
    const { usage, error } = await failing({ kind: 'slow', ms: 3 })
    expect(error).toBeUndefined()
    expect(performance.now() - started).toBeGreaterThan(((usage?.output ?? 0) - 1) * 3 - 1)
  })
  it('overlap: begins an item inside another', async () => {
    const { deltas } = await failing({ kind: 'overlap', after: 2 })
    const at = deltas.findIndex((d) => d.type === 'call')
    expect(deltas.slice(0, at).map((d) => d.type)).toEqual(['text', 'text'])
    expect(deltas[at + 1]?.type).toBe('text')
  })
  it('no-end: leaves the item open', async () => {
    const { deltas, finish } = await failing({ kind: 'no-end' })
    expect([ends(deltas), finish, deltas.length > 3]).toEqual([[], 'stop', true])
  })
  it('usage-missing, usage-double, usage-negative: as they say', async () => {
    const reports = async (kind: Fault['kind']) => (await failing({ kind })).chunks.flatMap((c) => c.usage ?? [])
    expect(await reports('usage-missing')).toEqual([])
    expect(await reports('usage-negative')).toEqual([{ input: -1, cached: -1, output: -1, reasoning: -1 }])
    const [one, two, ...more] = await reports('usage-double')
    expect([one, more]).toEqual([two, []])
    expect(one?.output).toBeGreaterThan(0)
    expect((await failing({ kind: 'usage-missing' })).finish).toBe('stop')
  })
  it('strikes a script at its place, counted from there', async () => {
    const engine = simulated({
      scenario: {
        turns: [
          { steps: [{ text: 'one' }, { fault: 'cut' }, { text: 'two' }] },
          { steps: [{ text: 'some words' }, { fault: { kind: 'vanish', after: 1 } }, { text: 'some more words' }] },
        ],
      },
    })
    const one = await read(engine, callTo(chainOf([user('x')])))
    expect([one.text, ends(one.deltas).length, codeOf(one.error)]).toEqual(['one', 1, 'server_error'])
    const two = await read(
      engine,
      callTo(chainOf([user('x'), { type: 'message', role: 'assistant', content: [] }, user('y')])),
    )
    expect([two.text, ends(two.deltas).length, two.finish]).toEqual(['some wordssome', 1, undefined])
  })
})

describe('who gets a fault', () => {
  const struck = async (options: SimulatedOptions, count: number) => {
    const engine = simulated(options)
    const out: number[] = []
    for (let n = 1; n <= count; n++) if ((await read(engine, callTo(chainOf([user('x')])))).error) out.push(n)
    return out
  }
  it('is every nth request, or the first ones, or all', async () => {
    expect(await struck({ faults: [{ kind: 'error', every: 3 }] }, 7)).toEqual([3, 6])
    expect(await struck({ faults: [{ kind: 'error', times: 2 }] }, 5)).toEqual([1, 2])
    expect(await struck({ faults: [{ kind: 'error' }] }, 3)).toEqual([1, 2, 3])
  })
  it('is a share of the requests drawn from a seed, always the same', async () => {
    const draw = (seed: number) => {
      const faults = new Faults([injectedFault.parse({ kind: 'error', probability: 0.2 })], seed)
      return Array.from({ length: 2000 }, () => faults.next() !== undefined)
    }
    expect(draw(1)).toEqual(draw(1))
    expect(draw(1)).not.toEqual(draw(2))
    expect(draw(1).filter(Boolean).length).toBeGreaterThan(320)
    expect(draw(1).filter(Boolean).length).toBeLessThan(480)
  })
  it('is no warm-up', async () => {
    const engine = simulated({ faults: [{ kind: 'error', times: 1 }] })
    expect((await read(engine, callTo(chainOf([user('x')]), {}, { generate: false }))).error).toBeUndefined()
    expect((await read(engine, callTo(chainOf([user('x')])))).error).toBeDefined()
  })
  it('is who marks the text with it, if and only if markers are switched on', async () => {
    const ask = (text: string, faultMarkers: boolean) =>
      read(simulated({ faultMarkers, tokensPerSecond: 0 }), callTo(chainOf([user(text)]), { tools: [tool('send')] }))
    expect(codeOf((await ask('please [fault:failed] now', true)).error)).toBe('server_error')
    expect((await ask('[fault:incomplete:7]', true)).usage?.output).toBe(7)
    expect((await ask('[fault:incomplete]', true)).finish).toBe('length')
    expect((await ask('[fault:unknown]', true)).finish).toBe('stop')
    const off = await ask('[fault:failed]', false)
    expect([off.error, off.finish]).toEqual([undefined, 'stop'])
  })
  it('is refused where it is told in two ways, or unknown', () => {
    expect(() => simulated({ faults: [{ kind: 'error', every: 2, probability: 0.5 }] })).toThrow(
      /faults\.0: give `every` or `probability`/,
    )
    expect(() => simulated({ faults: [{ kind: 'nope' as 'error' }] })).toThrow(/faults\.0\.kind/)
  })
})
