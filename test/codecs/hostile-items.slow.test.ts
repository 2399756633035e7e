// A request of very many items costs what it is long, not the square of it, and does not hold the event loop to encode it.
import { expect, test } from 'vitest'
import { familyCodec } from '../../src/codecs/codec.ts'
import { qwen3 } from '../../src/codecs/hermes.ts'
import type { Item } from '../../src/protocol/items.ts'
import { now, resent, settingsOf, smallBpe } from './talks.ts'

const many = 20_000
const numbers = [...Array(many).keys()]
const message = (role: 'user' | 'system', text: string): Item => ({
  type: 'message',
  role,
  content: [{ type: 'input_text', text }],
})
const call = (n: number): Item => ({ type: 'function_call', call_id: `c${n}`, name: 'ls', arguments: '{}' })
const output = (n: number): Item => ({ type: 'function_call_output', call_id: `c${n}`, output: 'x' })
const thought: Item = { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'x' }] }
const user = message('user', 'x')
const kinds: Record<string, readonly Item[]> = {
  'all calls in front of all outputs': [...numbers.map(call), ...numbers.map(output), user],
  'outputs of calls that nobody made': [...numbers.map(output), user],
  'nothing but reasoning': [...numbers.map(() => thought), user],
  'nothing but system messages': [...numbers.map(() => message('system', 'x')), user],
  'long system messages and short turns': [
    message('system', 'x'.repeat(1_000_000)),
    message('system', 'y'.repeat(1_000_000)),
    ...numbers.map(() => user),
  ],
}

test.each(Object.entries(kinds))('%s', async (_, items) => {
  const codec = familyCodec(qwen3, smallBpe(qwen3))
  const chain = resent(items, 0)
  const from = performance.now()
  const encoded = codec.encode(chain, settingsOf())
  // Each of them took 5 to 80 s where something grew with the square.
  expect(performance.now() - from).toBeLessThan(3000)
  await encoded
})
test('much text in small pieces is encoded in slices, to the same ids', async () => {
  const codec = familyCodec(qwen3, smallBpe(qwen3))
  const items = numbers.slice(0, 2000).map((n) => message('user', `the ${n} `.repeat(20)))
  const chain = resent(items, 0)
  const encoded = codec.encode(chain, settingsOf())
  expect(encoded).toBeInstanceOf(Promise)
  const { ids } = await codec.layout(chain, settingsOf())
  expect((await encoded).prompt.view()).toEqual(ids)
  expect(now(codec.encode(resent(items.slice(0, 20), 0), settingsOf())).prompt.length).toBeGreaterThan(0)
})
