// Chunks that are read by their likeness to the one before say the same as when each is parsed.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Likeness } from '../../src/engines/chat-likeness.ts'

const chunk = (delta: Record<string, unknown>, more: Record<string, unknown> = {}): Record<string, unknown> => ({
  id: 'c1',
  model: 'm',
  choices: [{ index: 0, delta, finish_reason: null, ...more }],
})
/** Learns the first, then reads the second. */
function read(first: unknown, second: unknown): ReturnType<Likeness['said']> {
  const like = new Likeness()
  like.learn(JSON.stringify(first), first as Record<string, unknown>)
  return like.said(JSON.stringify(second))
}
const hostile = fc.oneof(
  fc.string({ maxLength: 12 }),
  fc.string({ unit: 'grapheme', maxLength: 12 }),
  fc.constantFrom(
    'c1',
    'm',
    'content',
    ',',
    ':',
    '},{',
    'role',
    'probe',
    '"',
    '\\',
    '\n',
    '\u0001',
    'null',
    '0',
    'index',
  ),
)

test('a text is read without parsing where only it differs', () => {
  expect(read(chunk({ content: 'Hello' }), chunk({ content: ' world' }))).toEqual({ field: 'content', text: ' world' })
  expect(
    read(chunk({ reasoning_content: 'a', content: null }), chunk({ reasoning_content: 'b', content: null })),
  ).toEqual({
    field: 'reasoning_content',
    text: 'b',
  })
})
test('whatever it reads is what the chunk says, and nothing else is in it', () => {
  let hits = 0
  fc.assert(
    fc.property(hostile, hostile, fc.constantFrom('content', 'reasoning', 'refusal'), (one, other, field) => {
      const said = read(chunk({ role: 'assistant', [field]: one }), chunk({ role: 'assistant', [field]: other }))
      if (!said) return
      hits++
      expect(said).toEqual({ field, text: other })
    }),
    { numRuns: 2000 },
  )
  expect(hits).toBeGreaterThan(100)
})
test.each([
  ['an end', chunk({ content: 'b' }, { finish_reason: 'stop' })],
  ['a call beside it', chunk({ content: 'b', tool_calls: [{ index: 0 }] })],
  ['another choice', chunk({ content: 'b' }, { index: 1 })],
  ['usage', { ...chunk({ content: 'b' }), usage: { prompt_tokens: 1 } }],
  ['an error', { ...chunk({ content: 'b' }), error: 'no' }],
  ['a quote in it', chunk({ content: 'b"' })],
  ['an escape in it', chunk({ content: 'b\n' })],
  ['two texts', chunk({ content: 'b', reasoning: 'c' })],
])('a chunk with %s is parsed', (_, other) => {
  expect(read(chunk({ content: 'a' }), other)).toBeUndefined()
  expect(read(other, other)).toBeUndefined()
})
test('a chunk that differs elsewhere is parsed', () => {
  const first = chunk({ content: 'a' })
  expect(read(first, { ...chunk({ content: 'b' }), id: 'c2' })).toBeUndefined()
  expect(read(first, { ...chunk({ content: 'b' }), more: 1 })).toBeUndefined()
})
test('a text like the one that stands in for it is found in its own place, too', () => {
  for (const text of ['probe', 'other']) {
    const said = (id: string) => ({ kind: 'content', ...chunk({ content: text }), id })
    expect(read(said(text), said('more'))).toBeUndefined()
    expect(read(chunk({ content: text }), chunk({ content: 'b' }))).toEqual({ field: 'content', text: 'b' })
  }
})
test('gives up where something differs in every chunk, and costs nothing from then on', () => {
  const like = new Likeness()
  for (let n = 0; n < 20; n++) {
    const one = { ...chunk({ content: `w${n}` }), nonce: `n${n}` }
    expect(like.said(JSON.stringify(one))).toBeUndefined()
    like.learn(JSON.stringify(one), one)
  }
  const plain = chunk({ content: 'a' })
  like.learn(JSON.stringify(plain), plain)
  expect(like.said(JSON.stringify(chunk({ content: 'b' })))).toBeUndefined()
})
