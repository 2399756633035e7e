// Two items of one hash are rendered alike; whatever a model would see in another way has another hash.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { extendHash } from '../../src/protocol/item-hash.ts'
import type { Item } from '../../src/protocol/items.ts'

const numRuns = Number(process.env['RUNS'] ?? 40)
const hashOf = (items: readonly Item[]): string => items.reduce(extendHash, '')

/** Few letters, so that texts which differ in where they are cut come up; what looks like the hash's own marks is among them. */
const text = fc.string({
  unit: fc.constantFrom('a', '1', ':', '-', '!', '[', '{', '"', '\\', '\0', '\ud800', '\ufffd', '🙂'),
})
const part = fc.record({ type: fc.constant('input_text' as const), text })
const item: fc.Arbitrary<Item> = fc.oneof(
  fc.record({
    type: fc.constant('message' as const),
    role: fc.constantFrom('user' as const, 'assistant' as const),
    phase: fc.constantFrom(null, 'commentary' as const, 'final_answer' as const),
    content: fc.array(part, { maxLength: 3 }),
  }),
  fc.record({
    type: fc.constant('reasoning' as const),
    summary: fc.constant<never[]>([]),
    content: fc.array(fc.record({ type: fc.constant('reasoning_text' as const), text }), {
      minLength: 1,
      maxLength: 1,
    }),
  }),
  fc.record({ type: fc.constant('function_call' as const), call_id: text, name: text, arguments: text }),
  fc.record({ type: fc.constant('custom_tool_call' as const), call_id: text, name: text, input: text }),
  fc.record({
    type: fc.constantFrom('function_call_output' as const, 'custom_tool_call_output' as const),
    call_id: text,
    output: fc.oneof(text, fc.array(part, { maxLength: 3 })),
  }),
)

test('conversations of one hash are the same, item for item', () => {
  const seen = new Map<string, readonly Item[]>()
  fc.assert(
    fc.property(fc.array(item, { minLength: 1, maxLength: 2 }), (items) => {
      const hash = hashOf(items)
      expect(seen.get(hash) ?? items).toEqual(items)
      seen.set(hash, items)
    }),
    { numRuns: numRuns * 50 },
  )
})

test('fields that change places, and text that moves from one to the next, change the hash', () => {
  const call = (call_id: string, name: string, args: string): Item => ({
    type: 'function_call',
    call_id,
    name,
    arguments: args,
  })
  const all = [call('ab', 'c', ''), call('a', 'bc', ''), call('a', 'b', 'c'), call('', 'abc', ''), call('c', 'ab', '')]
  const message = (...texts: string[]): Item => ({
    type: 'message',
    role: 'user',
    content: texts.map((one) => ({ type: 'input_text', text: one })),
  })
  const messages = [message('ab'), message('a', 'b'), message('', 'ab'), message('ab', ''), message('1:a1:b')]
  const lone = [message('\ud800'), message('\ud801'), message('\ufffd'), message('"\\ud800"')]
  const output = (value: string | { type: 'input_text'; text: string }[]): Item => ({
    type: 'function_call_output',
    call_id: 'c',
    output: value,
  })
  const outputs = [output('a'), output([{ type: 'input_text', text: 'a' }]), output('[1:a')]
  const hashes = [...all, ...messages, ...lone, ...outputs].map((one) => hashOf([one]))
  expect(new Set(hashes).size).toBe(hashes.length)
})

test('ids, statuses, sealed content, annotations and the order of keys do not count', () => {
  const said: Item = {
    type: 'message',
    role: 'assistant',
    content: [{ type: 'output_text', text: 'x', annotations: [] }],
  }
  const echoed = {
    content: [{ text: 'x', annotations: [{ type: 'url' }], logprobs: [], type: 'output_text' }],
    status: 'completed',
    role: 'assistant',
    id: 'msg_1',
    type: 'message',
  } as unknown as Item
  expect(hashOf([echoed])).toBe(hashOf([said]))
  const picture = { type: 'input_image', image_url: 'data:image/png;base64,AA==', detail: 'low' }
  const shown = (part: object): Item => ({ type: 'message', role: 'user', content: [part] }) as unknown as Item
  expect(hashOf([shown(picture)])).toBe(hashOf([shown(Object.fromEntries(Object.entries(picture).toReversed()))]))
  expect(hashOf([shown(picture)])).not.toBe(hashOf([shown({ ...picture, detail: 'high' })]))
  const thought: Item = { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'y' }] }
  expect(hashOf([{ ...thought, id: 'rs_1', encrypted_content: 'z', status: 'completed' }])).toBe(hashOf([thought]))
})

test('items of types that nobody knows count with all their fields, in any order', () => {
  const one = { type: 'later_thing', id: 'a', value: { x: 1, y: [2] } } as unknown as Item
  const other = { value: { y: [2], x: 1 }, type: 'later_thing' } as unknown as Item
  expect(hashOf([one])).toBe(hashOf([other]))
  expect(hashOf([{ ...one, value: { x: 1, y: [3] } } as unknown as Item])).not.toBe(hashOf([one]))
})
test("what a tool's schema names like a field of items is part of it", () => {
  const brings = (id: object): Item =>
    ({
      type: 'additional_tools',
      role: 'developer',
      tools: [{ type: 'function', name: 'look', parameters: { type: 'object', properties: id }, strict: false }],
    }) as unknown as Item
  const schemas = [{ id: { type: 'string' } }, { id: { type: 'integer' } }, { status: { enum: [['a', 1]] } }, {}]
  const others = [{ status: { enum: { a: 1 } } }, { id: { const: null } }, { id: {} }]
  const all = [...schemas, ...others]
  expect(new Set(all.map((schema) => hashOf([brings(schema)]))).size).toBe(all.length)
})
