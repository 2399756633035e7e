// The counts that a turn may not exceed without somebody saying so: times depend on the machine, these do not.
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { allocations, count } from '../../bench/counts/counts.ts'
import { allocationsWithin, countsFile, type Held } from '../../bench/counts/held.ts'

const minutes = 60_000
// Written by `npm run bench:counts -- --write`.
const held = JSON.parse(readFileSync(countsFile, 'utf8')) as Held

describe('a turn of a loop', { timeout: 3 * minutes }, () => {
  test('costs the tokens, bytes, events and writes that are held', async () => {
    expect(await count()).toEqual(held.counts)
  })
  test('would be seen to encode everything anew', async () => {
    const { tokensEncoded } = await count({ set: { caches: false } })
    expect(tokensEncoded).toBeGreaterThan(held.counts.tokensEncoded * 5)
  })
  test('allocates about what is held', async () => {
    const now = await allocations()
    expect(now.bytesPerEvent).toBeLessThan(held.allocations.bytesPerEvent * allocationsWithin)
    expect(now.bytesPerTurn).toBeLessThan(held.allocations.bytesPerTurn * allocationsWithin)
  })
})
