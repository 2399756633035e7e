// Law 5: the JSON of an event, read again, is the event.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { encodeEvent, isDelta, isTerminal, type Event } from '../../src/protocol/events.ts'

// Whole 16-bit range: lone surrogates, control characters, line separators, quotes.
const text = fc.oneof(
  fc.string({ unit: fc.nat(0xffff).map((n) => String.fromCharCode(n)), maxLength: 12 }),
  fc.constantFrom('', '"', '\\', '\u2028\u2029', '\ud800', '\udc00\ud800', '\0\x1b[0m\r\n', '__proto__', '</script>'),
)
const index = fc.nat(5)
const at = {
  item_id: fc.oneof(text, fc.constantFrom('msg_1', 'msg_2')),
  output_index: index,
  sequence_number: fc.nat(),
}
const within = { ...at, content_index: index }
const logprobs = fc.array(fc.record({ token: text, logprob: fc.integer(), top_logprobs: fc.constant<unknown[]>([]) }), {
  maxLength: 2,
})
const event: fc.Arbitrary<Event> = fc.oneof(
  fc.record({ type: fc.constant('response.output_text.delta' as const), ...within, delta: text, logprobs }),
  fc.record({
    type: fc.constantFrom('response.refusal.delta' as const, 'response.reasoning_text.delta' as const),
    ...within,
    delta: text,
  }),
  fc.record({
    type: fc.constantFrom(
      'response.function_call_arguments.delta' as const,
      'response.custom_tool_call_input.delta' as const,
    ),
    ...at,
    delta: text,
  }),
  fc.record({ type: fc.constant('response.output_text.done' as const), ...within, text, logprobs }),
  fc.record({ type: fc.constant('response.function_call_arguments.done' as const), ...at, arguments: text }),
  fc.record({
    type: fc.constant('response.content_part.added' as const),
    ...within,
    part: fc.record({ type: fc.constant('output_text' as const), text, annotations: fc.constant<unknown[]>([]) }),
  }),
  fc.record({
    type: fc.constant('response.steer.accepted' as const),
    sequence_number: fc.nat(),
    steer: fc.record({ id: text, previous_response_id: text }),
  }),
)

describe('encodeEvent', () => {
  it('is read back as the same event, whatever came before it', () => {
    fc.assert(
      fc.property(fc.array(event, { minLength: 1, maxLength: 12 }), (events) => {
        for (const e of events) expect(JSON.parse(encodeEvent(e))).toEqual(e)
      }),
      { numRuns: 1000 },
    )
  })
  it('stays on one line and is valid UTF-8, so that any framing can carry it', () => {
    fc.assert(
      fc.property(event, (e) => {
        const json = encodeEvent(e)
        expect(json).not.toMatch(/[\r\n]/)
        expect(Buffer.from(json).toString()).toBe(json)
      }),
      { numRuns: 500 },
    )
  })
  it('keeps parts of two lanes apart when their deltas take turns', () => {
    const delta = (item_id: string, output_index: number, n: number): Event => ({
      type: 'response.output_text.delta',
      item_id,
      output_index,
      content_index: n % 2,
      sequence_number: n,
      delta: `${n}`,
      logprobs: [],
    })
    for (const e of [delta('a', 0, 1), delta('b', 0, 2), delta('a', 1, 3), delta('a', 1, 4), delta('a', 0, 5)])
      expect(JSON.parse(encodeEvent(e))).toEqual(e)
  })
})

describe('kinds of events', () => {
  it('deltas are those with a delta', () => {
    fc.assert(fc.property(event, (e) => isDelta(e) === e.type.endsWith('.delta')))
  })
  it('three types end a response', () => {
    for (const type of ['completed', 'incomplete', 'failed'])
      expect(isTerminal({ type: `response.${type}` })).toBe(true)
    for (const type of ['response.created', 'response.in_progress', 'response.steer.pending', 'error', 'keepalive'])
      expect(isTerminal({ type })).toBe(false)
  })
})
