import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ApiError } from '../../src/protocol/errors.ts'
import { encodeEvent, type Event } from '../../src/protocol/events.ts'
import { knownTools, toolsJson } from '../../src/protocol/known-tools.ts'
import { parseTools } from '../../src/protocol/parse-tools.ts'
import { parseCreate } from '../../src/protocol/request.ts'
import type { Response } from '../../src/protocol/response.ts'

const word = fc.constantFrom('a', 'b', 'read_file')
const tool = fc.oneof(
  fc.record({
    type: fc.constant('function'),
    name: word,
    description: fc.oneof(fc.string(), fc.constant(null)),
    parameters: fc.constantFrom(
      { type: 'object', properties: { a: { type: 'string' }, b: { type: 'number' } } },
      { properties: { b: { type: 'number' }, a: { type: 'string' } }, type: 'object' },
      { type: 'object', properties: { a: { type: 'string' } } },
    ),
  }),
  fc.record({ type: fc.constant('custom'), name: word }),
  fc.record({ type: fc.constantFrom('web_search', 'of_the_future'), setting: fc.jsonValue() }),
)
const list = fc.array(tool, { maxLength: 3 })
const copy = (value: unknown): unknown => JSON.parse(JSON.stringify(value))
/** A function tool whose JSON is about so long. */
const heavy = (length: number, name: string) => [
  { type: 'function', name, description: 'x'.repeat(length), parameters: { type: 'object' } },
]

describe('known tools', () => {
  it('are what parsing them gives, in the same order of keys, whatever lists came before', () => {
    fc.assert(
      fc.property(fc.array(list, { maxLength: 12 }), (lists) => {
        for (const sent of lists) {
          const parsed = JSON.stringify(parseTools(copy(sent)))
          const known = knownTools(copy(sent))
          expect(JSON.stringify(known)).toBe(parsed)
          expect(toolsJson(known)).toBe(parsed)
        }
      }),
    )
  })
  it('are one object for all requests that bring the same list', () => {
    const frame = { model: 'm', input: 'x', tools: heavy(100, 'one') }
    expect(parseCreate(copy(frame)).settings.tools).toBe(parseCreate(copy(frame)).settings.tools)
    const other = { ...frame, tools: heavy(101, 'one') }
    expect(parseCreate(copy(other)).settings.tools).not.toBe(parseCreate(copy(frame)).settings.tools)
  })
  it('are refused again each time where they are wrong', () => {
    const wrong = [{ type: 'function', name: 'no spaces please' }]
    for (let n = 0; n < 2; n++) expect(() => knownTools(copy(wrong))).toThrow(ApiError)
  })
  it('are forgotten when many others follow, in number or in size', () => {
    const first = knownTools(heavy(10, 'first'))
    for (let n = 0; n < 31; n++) knownTools(heavy(20, `many_${n}`))
    expect(knownTools(heavy(10, 'first'))).toBe(first)
    for (let n = 0; n < 32; n++) knownTools(heavy(30, `more_${n}`))
    expect(knownTools(heavy(10, 'first'))).not.toBe(first)

    const second = knownTools(heavy(10, 'second'))
    for (let n = 0; n < 9; n++) knownTools(heavy(1_000_000, `large_${n}`))
    expect(knownTools(heavy(10, 'second'))).not.toBe(second)
  })
  it('are not remembered where one list is larger than a megabyte', () => {
    expect(knownTools(heavy(2_000_000, 'huge'))).not.toBe(knownTools(heavy(2_000_000, 'huge')))
  })
})

describe('encodeEvent of a response', () => {
  it('is what JSON.stringify gives, whatever tools and instructions it echoes', () => {
    const instructions = fc.oneof(fc.constant(null), fc.string({ unit: 'binary' }))
    const type = fc.constantFrom(
      'response.created',
      'response.in_progress',
      'response.completed',
      'response.failed',
      'response.incomplete',
    )
    fc.assert(
      fc.property(
        fc.array(fc.tuple(type, list, instructions, fc.dictionary(fc.string(), fc.string())), { maxLength: 6 }),
        (all) => {
          for (const [n, [kind, tools, text, metadata]] of all.entries()) {
            const response = {
              id: 'resp_1',
              object: 'response',
              instructions: text,
              output: [],
              tools: knownTools(tools),
              usage: null,
              user: undefined,
              metadata,
            }
            // Only the fields that this is about.
            const event = { type: kind, response: response as unknown as Response, sequence_number: n } as Event
            expect(encodeEvent(event)).toBe(JSON.stringify(event))
          }
        },
      ),
    )
  })
})
