// What a conversation costs to walk: once per request, however many of its items look something up.
import { expect, test } from 'vitest'
import type { Item } from '../../src/protocol/items.ts'
import { Chain } from '../../src/turn/chain.ts'

const call = (call_id: string): Item => ({ type: 'function_call', call_id, name: 'f', arguments: '{}' })
const answer = (call_id: string): Item => ({ type: 'function_call_output', call_id, output: '' })
const word: Item = { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'x' }] }
const many = (n: number, make: (n: number) => Item): Item[] => Array.from({ length: n }, (_, at) => make(at))
const took = (work: () => void): number => {
  const before = performance.now()
  work()
  return performance.now() - before
}
const chainOf = (...runs: Item[][]): Chain =>
  runs.reduce((chain, items) => chain.add({ response: 'r', from: 'input', items }), Chain.root('a/1'))

test('an output is answerable by a call before it, in any link or in the same input, and by nothing else', () => {
  const chain = chainOf([call('first'), word], [call('second')])
  expect(chain.unanswerable([answer('first'), answer('second'), call('third'), answer('third')])).toBeUndefined()
  expect(chain.unanswerable([answer('first'), answer('fourth'), answer('fifth'), call('fourth')])).toBe('fourth')
  expect(chain.unanswerable([answer('')])).toBe('')
  expect(chain.unanswerable([])).toBeUndefined()
})

test('many outputs for an old call do not walk the history once each', () => {
  const chain = chainOf([call('old'), ...many(20_000, () => word)])
  expect(took(() => chain.unanswerable(many(20_000, () => answer('old'))))).toBeLessThan(1000)
})

test('many items that bring tools are not copied once each, and their order stays', () => {
  const bring = (n: number): Item => ({
    type: 'additional_tools',
    role: 'developer',
    tools: [{ type: 'custom', name: `t${n}` }],
  })
  let chain = chainOf([bring(0)])
  expect(took(() => (chain = chain.add({ response: 'r', from: 'input', items: many(30_000, bring) })))).toBeLessThan(
    1500,
  )
  expect(chain.tools.length).toBe(30_001)
  expect(chain.tools.slice(0, 3)).toMatchObject([{ name: 't0' }, { name: 't0' }, { name: 't1' }])
})
