// What the simulated engine finds in its cache of ids is what comparing with everything it has seen would find.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { RunCache } from '../../src/engines/simulated-ids.ts'
import { TokenRun } from '../../src/turn/tokens.ts'

const numRuns = Number(process.env['RUNS'] ?? 60)
const ids = fc.array(fc.nat(1), { maxLength: 5 })
/** Grow one that is there, as a loop or a fork does, or begin anew; `behind` is what was generated. */
const step = fc.record({ of: fc.nat(), anew: fc.boolean(), ids, behind: ids, cut: fc.boolean() })

test('the longest known beginning is found, whatever grew from what', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
      const cache = new RunCache()
      const seen: (readonly number[])[] = []
      const runs = [TokenRun.empty]
      for (const { of, anew, ids: more, behind, cut } of steps) {
        const from = (anew ? undefined : runs[of % runs.length]) ?? TokenRun.empty
        const run = (cut ? from.cut(Math.floor(from.length / 2)) : from).append(more)
        const prompt = [...run.view()]
        const common = seen.map((old) => {
          const at = old.findIndex((id, n) => id !== prompt[n])
          return at < 0 ? old.length : at
        })
        expect(cache.cached('owner', run)).toBe(Math.max(0, ...common))
        expect(cache.cached('stranger', run)).toBe(0)
        cache.learn('owner', run, behind)
        seen.push([...prompt, ...behind])
        // As the conversation goes on: what was generated, and then something else.
        runs.push(run, run.append(behind))
      }
    }),
    { numRuns },
  )
})
