// Whatever models that write in tags put together, well formed or not, is read without fail.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Family } from '../../src/codecs/family.ts'
import { hermes3, qwen25, qwen3 } from '../../src/codecs/hermes.ts'
import { qwen35, qwen3Coder } from '../../src/codecs/qwen-xml.ts'
import type { Finish } from '../../src/turn/ports.ts'
import { type Read, reader } from './spoken.ts'

const numRuns = Number(process.env['RUNS'] ?? 40)
const tools = [
  {
    type: 'function',
    name: 'ls',
    description: 'Lists.',
    parameters: { type: 'object', properties: { path: { type: 'string' }, n: { type: 'integer' }, any: {} } },
    strict: false,
  },
  { type: 'custom', name: 'raw', description: 'Takes text.' },
]
const fragments = [
  ...['<think>', '</think>', '<tool_call>', '</tool_call>', '<tool_response>', '</tool_response>', '<|im_end|>'],
  ...['\n', '\n\n', ' ', 'a', '"', '\\', '{', '}', ',', 'ä🙂', '<', '</', 'null', '42', 'True'],
  ...['{"name": "ls", "arguments": {', '"path": "', '"}}', '{"name": "raw", "arguments": {"input": "'],
  ...['<function=ls>', '<function=raw>', '<function=', '</function>', '<parameter=path>', '<parameter=n>'],
  ...['<parameter=any>', '<parameter=input>', '</parameter>', '<parameter=', '>'],
]
const output = fc.array(fc.constantFrom(...fragments), { maxLength: 24 }).map((all) => all.join(''))
const finish = fc.constantFrom<Finish>('stop', 'length')
/** Without the cuts between pieces, which depend on the chunks. */
const joined = ({ deltas }: Read): object[] => {
  const out: { type: string; text?: string }[] = []
  for (const delta of deltas) {
    const last = out.at(-1)
    if ('text' in delta && last?.type === delta.type && last.text !== undefined) last.text += delta.text
    else out.push({ ...delta })
  }
  return out
}

describe.each<Family>([qwen25, qwen3, hermes3, qwen3Coder, qwen35])('$name', (family) => {
  const model = reader(family, tools)
  test('reads anything as items that do not overlap, each with the ids up to its end', () => {
    fc.assert(
      fc.property(output, finish, (text, how) => {
        const { deltas, ids } = model.ids(text, 1, how)
        let open: string | undefined
        let front = 0
        for (const delta of deltas) {
          if (delta.type === 'end') {
            expect(open).toBeDefined()
            expect(delta.at).toBeGreaterThanOrEqual(front)
            front = delta.at ?? 0
            open = undefined
          } else if (delta.type === 'arguments') expect(open).toBe('call')
          else {
            expect(open === undefined || open === delta.type).toBe(true)
            expect(open === 'call' && delta.type === 'call').toBe(false)
            open = delta.type
          }
        }
        expect(open).toBeUndefined()
        expect(front).toBeLessThanOrEqual(ids.length)
      }),
      { numRuns },
    )
  })
  test('reads the same from ids and from text, in pieces of any size', () => {
    fc.assert(
      fc.property(output, finish, fc.integer({ min: 1, max: 12 }), (text, how, size) => {
        const whole = joined(model.ids(text, 10_000, how))
        expect(joined(model.ids(text, size, how))).toEqual(whole)
        expect(joined(model.text(text, 1, how))).toEqual(whole)
        // Where a call begins within a piece of text, without its marker, its place is that of the piece.
        const placeless = (all: readonly object[]): object[] => all.map((delta) => ({ ...delta, at: undefined }))
        expect(placeless(joined(model.text(text, size, how)))).toEqual(placeless(whole))
      }),
      { numRuns },
    )
  })
  test('reads arguments that are JSON wherever a call with tagged values is whole', () => {
    fc.assert(
      fc.property(output, finish, (text, how) => {
        let call: string | undefined
        for (const delta of model.ids(text, 3, how).deltas) {
          if (delta.type === 'call') call = delta.kind === 'function' && text.includes('<function=') ? '' : undefined
          else if (delta.type === 'arguments' && call !== undefined) call += delta.text
          else if (delta.type === 'end') {
            if (call !== undefined && delta.whole && !text.includes('"name"')) JSON.parse(call)
            call = undefined
          }
        }
      }),
      { numRuns },
    )
  })
})
