// A run of ids is what a plain list would be, however many forks grow from it, and never changes.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { TokenRun } from '../../src/turn/tokens.ts'

const numRuns = Number(process.env['RUNS'] ?? 40)

const ids = fc.array(fc.oneof(fc.nat(12), fc.nat(200_000), fc.nat(2 ** 31 - 1)), { maxLength: 6 })
type Step = { of: number; do: 'append' | 'cut' | 'json'; ids: number[]; share: number }
const step: fc.Arbitrary<Step> = fc.record({
  of: fc.nat(),
  do: fc.constantFrom('append', 'append', 'append', 'cut', 'json'),
  ids,
  share: fc.double({ min: 0.9, max: 1, noNaN: true }),
})
const lists = (start: readonly number[], steps: readonly Step[]): { run: TokenRun; list: readonly number[] }[] => {
  const made = [{ run: TokenRun.empty.append(start), list: start }]
  for (const { of, do: what, ids: more, share } of steps) {
    const from = made[of % made.length]
    if (!from) continue
    if (what === 'append') made.push({ run: from.run.append(more), list: [...from.list, ...more] })
    else if (what === 'json') from.run.json()
    else {
      const length = Math.floor(from.list.length * share)
      made.push({ run: from.run.cut(length), list: from.list.slice(0, length) })
    }
  }
  return made
}
const long = Array.from({ length: 4500 }, (_, n) => (n * 7919) % 150_000)
const text = (run: TokenRun): string => Buffer.concat(run.json()).toString()

for (const [name, start] of [
  ['short', [1, 2, 3]],
  ['long', long],
] as const)
  test(`runs that grow, fork and are cut from a ${name} one say what lists would`, () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), fc.nat(), (steps, place) => {
        const made = lists(start, steps)
        for (const { run, list } of made) {
          expect(run.length).toBe(list.length)
          expect([...run.view()]).toEqual(list)
          const from = list.length === 0 ? 0 : place % list.length
          expect([...run.from(from)]).toEqual(list.slice(from))
          expect([run.at(from), run.at(list.length)]).toEqual([list[from], undefined])
          expect(text(run)).toBe(list.join(','))
        }
        const [a, b] = [made[place % made.length], made.at(-1)]
        let same = 0
        while (a && b && same < a.list.length && same < b.list.length && a.list[same] === b.list[same]) same++
        if (a && b) expect(a.run.common(b.run)).toBe(same)
      }),
      { numRuns },
    )
  })

test('forks of a long run share its ids and digits; a view, once taken, never changes', () => {
  const base = TokenRun.empty.append(long)
  const tip = base.append([1])
  const [view, digits] = [tip.view(), text(tip)]
  const copies = TokenRun.copies
  const forks = Array.from({ length: 20 }, (_, n) => base.append([n + 2]))
  for (const fork of forks) {
    expect(fork.json()[0]?.buffer).toBe(tip.json()[0]?.buffer)
    expect(fork.shares(tip)).toBe(true)
  }
  expect(forks[0]?.shares(forks[1] ?? tip)).toBe(false)
  expect(forks[0]?.common(forks[1] ?? tip)).toBe(long.length)
  expect(TokenRun.copies).toBe(copies)
  let grown = tip
  for (let n = 0; n < 2000; n++) grown = grown.append([n, n])
  expect([...view]).toEqual([...long, 1])
  expect(text(tip)).toBe(digits)
})

test('a fork of a fork of a fork is put together anew in the end', () => {
  let run = TokenRun.empty.append(long)
  const copies = TokenRun.copies
  const list = [...long]
  for (let n = 0; n < 40; n++) {
    run.append([0])
    run = run.append([n])
    list.push(n)
    expect(run.json().length).toBeLessThan(12)
  }
  expect(TokenRun.copies - copies).toBeGreaterThan(0)
  expect(TokenRun.copies - copies).toBeLessThan(8)
  expect(text(run)).toBe(list.join(','))
})
