import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { causesOf } from '../../src/bench/causes.ts'
import { modeNames, rungs } from '../../src/bench/loop-modes.ts'

describe('the shares of causes', () => {
  const times = fc.dictionary(fc.constantFrom(...modeNames), fc.double({ min: 0.01, max: 1e6, noNaN: true }))
  it('add up to the whole gain, whichever modes were measured', () => {
    fc.assert(
      fc.property(times, (ms): void => {
        const { ms: gain, saved, steps } = causesOf(rungs, new Map(Object.entries(ms)))
        const seen = rungs.filter(({ mode }) => ms[mode] !== undefined)
        if (seen.length === 0) return
        const first = ms[seen[0]?.mode ?? ''] ?? NaN
        const last = ms[seen.at(-1)?.mode ?? ''] ?? NaN
        expect(steps.length).toBe(seen.length - 1)
        expect(gain).toBeCloseTo(first - last, 6)
        expect(saved).toBeCloseTo((first - last) / first, 6)
        expect(steps.reduce((sum, step) => sum + step.ms, 0)).toBeCloseTo(gain, 3)
        // Where next to nothing is gained, shares of it are huge and cancel out.
        if (Math.abs(gain) > first * 0.01) expect(steps.reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1, 3)
      }),
    )
  })
  it('name every cause between two modes where one was not measured, and count a loss as negative', () => {
    const { steps } = causesOf(
      rungs,
      new Map([
        ['http-new', 100],
        ['http-own', 60],
        ['http-index', 70],
        ['ws-full', 5],
      ]),
    )
    expect(steps.map(({ cause, ms }) => [cause, ms])).toEqual([
      ['connections, tokenizer and renderer', 40],
      ['rendering and encoding history again', -10],
    ])
    expect(steps[1]?.share).toBeCloseTo(-1 / 3)
  })
})
