// The counting ledger adds up, whatever order permits are settled in and however often.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { countingLedger } from '../../src/access/ledger.ts'
import type { Settings } from '../../src/protocol/request.ts'
import type { EngineUsage, Permit } from '../../src/turn/ports.ts'

const settings: Settings = {
  model: 'm',
  instructions: null,
  tools: [],
  tool_choice: 'auto',
  parallel_tool_calls: true,
  max_output_tokens: null,
  max_tool_calls: null,
  temperature: null,
  top_p: null,
  top_logprobs: null,
  presence_penalty: null,
  frequency_penalty: null,
  reasoning: null,
  text: { format: { type: 'text' } },
  truncation: 'disabled',
  service_tier: null,
  prompt_cache_key: null,
  safety_identifier: null,
  user: null,
  metadata: {},
  include: [],
}
const principal = { tenant: 't', key: 'k', owner: 't/k' }
const intent = (id: string) => ({ id, principal, settings })
const usage = (n: number): EngineUsage => ({ input: n, cached: 1, output: 2, reasoning: 0 })

test('counts each permit once, however often it is settled', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.nat({ max: 9 }), { maxLength: 40 }),
      fc.integer({ min: 0, max: 10 }),
      async (settles, permits) => {
        const ledger = countingLedger()
        const given: Permit[] = []
        for (let n = 0; n < permits; n++) given.push(await ledger.reserve(intent(`r${n}`)))
        const done = new Set<number>()
        let repeated = 0
        for (const n of settles) {
          if (n >= permits) continue
          if (done.has(n)) repeated++
          done.add(n)
          given[n]?.settle(usage(n))
        }
        expect([ledger.open, ledger.settled, ledger.repeated]).toEqual([permits - done.size, done.size, repeated])
        expect(ledger.rows.map((r) => r.id)).toEqual([...done].map((n) => `r${n}`))
        expect(ledger.totals).toEqual({
          input: [...done].reduce((sum, n) => sum + n, 0),
          cached: done.size,
          output: 2 * done.size,
          reasoning: 0,
        })
      },
    ),
  )
})
test('rows say who used what, and whether it was estimated', async () => {
  const ledger = countingLedger()
  const permit = await ledger.reserve(intent('r1'))
  permit.settle({ input: 5, cached: 0, output: 7, reasoning: 3, estimated: true })
  expect(ledger.rows).toEqual([
    { id: 'r1', owner: 't/k', model: 'm', usage: { input: 5, cached: 0, output: 7, reasoning: 3, estimated: true } },
  ])
})
test('keeps the newest rows only, and counts all', async () => {
  const ledger = countingLedger({ maxRows: 3 })
  for (let n = 0; n < 20; n++) {
    ;(await ledger.reserve(intent(`r${n}`))).settle(usage(1))
    expect(ledger.rows.map((r) => r.id)).toEqual(
      Array.from({ length: Math.min(n + 1, 3) }, (_, k) => `r${n - Math.min(n, 2) + k}`),
    )
  }
  expect([ledger.settled, ledger.totals.input]).toEqual([20, 20])
  const none = countingLedger({ maxRows: 0 })
  ;(await none.reserve(intent('r'))).settle(usage(1))
  expect([none.settled, none.rows]).toEqual([1, []])
})
test('settling never throws, and impossible numbers leave the sums whole', async () => {
  const ledger = countingLedger()
  for (const n of [NaN, Infinity, -5, 1.9])
    (await ledger.reserve(intent('r'))).settle({ input: n, cached: n, output: n, reasoning: n })
  expect(ledger.totals).toEqual({ input: 1, cached: 1, output: 1, reasoning: 1 })
})
