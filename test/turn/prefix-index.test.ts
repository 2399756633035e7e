import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Item } from '../../src/protocol/items.ts'
import { Chain } from '../../src/turn/chain.ts'
import { PrefixIndex } from '../../src/turn/prefix-index.ts'

const user = (text: string): Item => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] })
const says = (text: string): Item => ({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'output_text', text, annotations: [] }],
})
const limits = { keepBytes: 1_000_000, keepMs: 60_000 }
let made: PrefixIndex[] = []
const indexOf = (some: Partial<typeof limits> = {}): PrefixIndex => {
  const index = new PrefixIndex({ ...limits, ...some })
  made.push(index)
  return index
}
beforeEach(() => void vi.useFakeTimers())
afterEach(() => {
  for (const index of made) index.close()
  made = []
  vi.useRealTimers()
})
/** A conversation of these runs, one response a pair. */
function talk(owner: string, ...texts: string[]): Chain {
  return texts.reduce(
    (chain, text, n) =>
      chain.add({
        response: `resp_${owner}_${Math.floor(n / 2)}`,
        from: n % 2 === 0 ? 'input' : 'model',
        items: [n % 2 === 0 ? user(text) : says(text)],
      }),
    Chain.root(owner),
  )
}

test('finds the deepest known beginning, and says how many items it holds', () => {
  const index = indexOf()
  const chain = talk('a', 'one', 'two', 'three', 'four')
  index.add(chain, false)
  const found = index.find('a', [user('one'), says('two'), user('three'), says('four'), user('five')])
  expect(found?.chain).toBe(chain)
  expect(found?.items).toBe(4)
  expect(index.find('a', [user('one'), says('two'), user('other')])).toMatchObject({ items: 2 })
  expect(index.find('a', [user('other')])).toBeUndefined()
  expect(index.find('a', [])).toBeUndefined()
})
test('knows an item whatever its id, status, key order and parts that no model sees', () => {
  const index = indexOf()
  index.add(talk('a', 'one', 'two'), false)
  const sent = [
    { content: [{ text: 'one', type: 'input_text' }], role: 'user', id: 'msg_x', type: 'message', status: 'completed' },
    { ...says('two'), id: 'msg_y', content: [{ type: 'output_text', text: 'two', annotations: [{}], logprobs: [] }] },
  ] as unknown as Item[]
  expect(index.find('a', sent)).toMatchObject({ items: 2 })
})
test('a word, a role, a name, a call id or the order makes another conversation', () => {
  const index = indexOf()
  const call: Item = { type: 'function_call', call_id: 'c1', name: 'ls', arguments: '{"a":1}' }
  index.add(Chain.root('a').add({ response: 'r', from: 'input', items: [user('one'), call] }), false)
  expect(index.find('a', [user('one'), call])).toBeDefined()
  for (const other of [
    { ...call, arguments: '{"a": 1}' },
    { ...call, name: 'cat' },
    { ...call, call_id: 'c2' },
    { ...call, namespace: 'fs' },
    { type: 'custom_tool_call', call_id: 'c1', name: 'ls', input: '{"a":1}' } as const,
  ])
    expect(index.find('a', [user('one'), other])).toBeUndefined()
  expect(index.find('a', [call, user('one')])).toBeUndefined()
})
test('nobody finds what belongs to another key', () => {
  const index = indexOf()
  index.add(talk('a', 'one', 'two'), false)
  expect(index.find('b', [user('one'), says('two')])).toBeUndefined()
})
test('keeps to its bytes: the conversation that was unused longest goes first, as a whole', () => {
  const index = indexOf({ keepBytes: 60_000 })
  const long = (n: number) => `${n}`.repeat(5000)
  for (let n = 1; n <= 9; n++) {
    index.add(talk('a', long(n), 'yes'), false)
    index.find('a', [user(long(1))])
    expect(index.bytes).toBeLessThanOrEqual(60_000)
  }
  expect(index.find('a', [user(long(1)), says('yes')])).toBeDefined()
  expect(index.find('a', [user(long(2)), says('yes')])).toBeUndefined()
  expect(index.find('a', [user(long(9)), says('yes')])).toBeDefined()
})
test('one conversation that is larger than everything it may keep is not kept', () => {
  const index = indexOf({ keepBytes: 10_000 })
  index.add(talk('a', 'x'.repeat(20_000), 'yes'), false)
  expect(index.size).toBe(0)
  expect(index.bytes).toBe(0)
})
test('forgets what nobody goes on with after its time, and not what is used', () => {
  const index = indexOf({ keepMs: 10_000 })
  index.add(talk('a', 'one', 'two'), false)
  index.add(talk('a', 'three', 'four'), false)
  for (let n = 0; n < 5; n++) {
    vi.advanceTimersByTime(5000)
    expect(index.find('a', [user('one')])).toBeDefined()
  }
  expect(index.size).toBe(2)
  vi.advanceTimersByTime(20_000)
  expect(index.size).toBe(0)
  expect(index.bytes).toBe(0)
})
test('a deleted response takes its conversation with it', () => {
  const index = indexOf()
  const chain = talk('a', 'one', 'two', 'three', 'four')
  index.add(chain, false)
  index.add(talk('b', 'one', 'two'), false)
  index.forget('resp_a_0')
  expect(index.find('a', [user('one'), says('two')])).toBeUndefined()
  expect(index.find('b', [user('one'), says('two')])).toBeDefined()
  index.forget('resp_unknown')
})
test('0 bytes: nothing is remembered at all', () => {
  const index = indexOf({ keepBytes: 0 })
  index.add(talk('a', 'one', 'two'), false)
  expect(index.size).toBe(0)
})
test('what is said again replaces what was known, and its memory is counted once', () => {
  const index = indexOf()
  index.add(talk('a', 'one', 'two'), false)
  const { bytes, size } = index
  for (let n = 0; n < 5; n++) index.add(talk('a', 'one', 'two'), false)
  expect(index.size).toBe(size)
  expect(index.bytes).toBe(bytes)
})

test('what was said twice is forgotten with the response that said it last', () => {
  const index = indexOf()
  for (let n = 0; n < 3; n++) index.add(talk('a', 'one', 'two'), true)
  index.forget('resp_a_0')
  expect(index.find('a', [user('one'), says('two')])).toBeUndefined()
  expect(index).toMatchObject({ size: 0, bytes: 0 })
})
test('conversations that only begin alike leave each other alone', () => {
  const index = indexOf()
  const [a, b] = [talk('a', 'one', 'two', 'three'), talk('a', 'one', 'other', 'three')]
  for (let n = 0; n < 3; n++) for (const chain of [a, b]) index.add(chain, false)
  expect(index.find('a', [user('one'), says('two'), user('three')])?.chain).toBe(a)
  expect(index.find('a', [user('one'), says('other'), user('three')])?.chain).toBe(b)
})
test('a warm-up without input is the beginning of no conversation in particular', () => {
  const index = indexOf()
  const warm = (response: string) => Chain.root('a').add({ response, from: 'input', items: [] })
  const chain = warm('w1').add({ response: 'r1', from: 'input', items: [user('one')] })
  index.add(chain, false)
  index.add(warm('w2'), false)
  expect(index.find('a', [user('one'), user('two')])?.chain).toBe(chain)
})

test('the chain of a stored response is found by its id, by its owner alone; that of others is not', () => {
  const index = indexOf()
  const chain = talk('a', 'one', 'two')
  index.add(chain, true)
  expect(index.stored('resp_a_0', 'a')).toBe(chain)
  expect(index.stored('resp_a_0', 'b')).toBeUndefined()
  const longer = chain.add({ response: 'resp_next', from: 'input', items: [user('three')] })
  index.add(longer, false)
  expect(index.stored('resp_next', 'a')).toBeUndefined()
  expect(index.stored('resp_a_0', 'a')).toBe(chain)
  index.forget('resp_next')
  expect(index.stored('resp_a_0', 'a')).toBeUndefined()
})
