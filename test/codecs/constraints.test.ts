// What every format asks engines to hold the model to: the model's own way of writing what fits is taken, all else is not.
import { expect, describe, test } from 'vitest'
import { familyCodec } from '../../src/codecs/codec.ts'
import { dialects, plain } from '../../src/codecs/jinja-dialect.ts'
import { gbnfOf, openingOf } from '../../src/engines/gbnf.ts'
import { structuredOf } from '../../src/engines/structured.ts'
import type { Item } from '../../src/protocol/items.ts'
import type { Settings } from '../../src/protocol/request.ts'
import type { Chain } from '../../src/turn/chain.ts'
import type { Codec, Constraint } from '../../src/turn/ports.ts'
import { applyPatch } from '../engines/apply-patch.ts'
import { Gbnf } from '../engines/gbnf-matcher.ts'
import { families } from './families.ts'
import { bytesFor, fromScratch, resent, settingsOf, writtenIds } from './talks.ts'

const schema = {
  type: 'object',
  properties: { city: { type: 'string' }, days: { type: 'integer', minimum: 1, maximum: 9 } },
  required: ['city', 'days'],
  additionalProperties: false,
}
const strict = { type: 'function', name: 'weather', description: 'Tells it.', parameters: schema, strict: true }
const loose = { type: 'function', name: 'look', parameters: { type: 'object', properties: { at: {} } }, strict: false }
const patch = {
  ...{ type: 'custom', name: 'apply_patch', description: 'Edits files.' },
  format: { type: 'grammar', syntax: 'lark', definition: applyPatch },
}
const ticket = {
  type: 'custom',
  name: 'ticket',
  format: { type: 'grammar', syntax: 'regex', definition: '[A-Z]{2}-\\d+' },
}
const format = { type: 'json_schema', name: 'trip', schema, strict: true }

const say = (text: string): Item => ({
  ...{ type: 'message', role: 'assistant' },
  content: [{ type: 'output_text', text, annotations: [] }],
})
const call = (name: string, args: object): Item => ({
  ...{ type: 'function_call', call_id: 'call_1', name },
  arguments: JSON.stringify(args),
})
const give = (name: string, input: string): Item => ({ type: 'custom_tool_call', call_id: 'call_1', name, input })
const think: Item = { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'Let me {"see"}.' }] }
const fits = JSON.stringify({ city: 'Bonn é "x"\n', days: 3 })
const weather = call('weather', { city: 'a < b\nc', days: 9 })
const edit = give(
  'apply_patch',
  '*** Begin Patch\n*** Update File: a "b".ts\n@@ f()\n-x = "\\n"\n+y < 1\n*** End Patch',
)

/** Asked for, taken, not taken. */
type Case = readonly [asked: object, taken: readonly (readonly Item[])[], refused: readonly (readonly Item[])[]]
const cases: Readonly<Record<string, Case>> = {
  'an answer by a JSON schema': [
    { text: { format } },
    [[say(fits)], [say('{"city": "", "days": 1}')]],
    [[say('Bonn')], [say('{"city":"Bonn","days":10}')], [say('{"city":"Bonn"}')], [say(`${fits} `.repeat(2))]],
  ],
  'an answer of any JSON object': [
    { text: { format: { type: 'json_object' } } },
    [[say('{"a": [1, null, {"b": "c"}]}')], [say('{}')]],
    [[say('[1]')], [say('It is {}')]],
  ],
  'an answer by a JSON schema, or calls': [
    { tools: [strict, loose], text: { format } },
    [[say(fits)], [weather], [call('look', { at: [1] })]],
    [[say('Bonn')], [call('weather', { city: 'Bonn', days: 0 })]],
  ],
  'a strict function': [
    { tools: [strict, loose] },
    [[say('It is < 3 [days].')], [weather], [call('look', {})]],
    [
      [call('weather', { city: 'Bonn', days: 10 })],
      [call('weather', { days: 1 })],
      [call('weather', { city: 'a', days: 1, more: 2 })],
    ],
  ],
  'a custom tool with a Lark grammar': [
    { tools: [patch, loose] },
    [[say('Done.')], [edit], [call('look', { at: '*** Begin Patch' })]],
    [[give('apply_patch', 'x')], [give('apply_patch', '*** Begin Patch\n*** End Patch')]],
  ],
  'a custom tool with a regular expression': [
    { tools: [ticket] },
    [[give('ticket', 'AB-12')], [say('No.')]],
    [[give('ticket', 'ab-12')], [give('ticket', 'AB-')], [give('ticket', 'AB-1\n')]],
  ],
  'some call': [
    { tools: [strict, loose, ticket], tool_choice: 'required' },
    [[weather], [call('look', { at: 1 })], [give('ticket', 'AB-1')]],
    [[say('No.')], [], [call('weather', {})]],
  ],
  'one function by name': [
    { tools: [strict, loose], tool_choice: { type: 'function', name: 'look' } },
    [[call('look', { at: 1 })]],
    [[weather], [say('No.')]],
  ],
  'one custom tool by name': [
    { tools: [patch, ticket], tool_choice: { type: 'custom', name: 'apply_patch' } },
    [[edit]],
    [[give('ticket', 'AB-1')], [give('apply_patch', 'x')]],
  ],
  'some of the tools, perhaps': [
    {
      tools: [strict, loose],
      tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'look' }] },
    },
    [[call('look', {})], [say('Words.')]],
    [[weather]],
  ],
  'one of some of the tools': [
    {
      tools: [strict, loose, ticket],
      tool_choice: { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'weather' }] },
    },
    [[weather]],
    [[call('look', {})], [say('Words.')]],
  ],
  'one call at a time': [
    { tools: [strict, loose], tool_choice: 'required', parallel_tool_calls: false },
    [[weather]],
    [
      [weather, call('look', {})],
      [weather, weather],
    ],
  ],
}

const began = Date.UTC(2026, 6, 26)
const chain = resent([{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'go' }] }], began)
/** What the model says, control tokens by name, without the one that ends its turn. */
function spoken(codec: Codec, items: readonly Item[], settings: Settings): string {
  const ids = writtenIds(codec, items, settings, chain)
  const end = codec.stops.includes(ids.at(-1) ?? -1) ? -1 : undefined
  return codec.tokenizer.decode(ids.slice(0, end))
}
const isOpen = (codec: Codec, settings: Settings, { after }: Constraint, at: Chain): boolean =>
  after !== undefined &&
  codec.tokenizer
    .decode(fromScratch(codec, at, settings))
    .trimEnd()
    .endsWith(openingOf(after))

describe.each(families.map((family) => [family.name, family] as const))('%s', (_, family) => {
  const codec = familyCodec(family, bytesFor(family))
  const { tokenizer, stops } = codec
  const names = [...new Set([...family.needs, ...family.stops, ...family.markers])]
  const ids = Object.fromEntries(names.map((name) => [name, tokenizer.control(name) ?? -1]))
  const control = (name: string): number | undefined => tokenizer.control(name)
  const efforts = family.needs.some((name) => /think/i.test(name)) ? ['none', 'high'] : ['none']

  test.each(Object.entries(cases))('%s', (_, [asked, taken, refused]) => {
    for (const effort of efforts) {
      const settings = settingsOf({ ...asked, reasoning: { effort } })
      const constraint = codec.constraint(settings, chain)
      if (!constraint) throw new Error('nothing is held')
      const opened = isOpen(codec, settings, constraint, chain)
      const grammar = new Gbnf(gbnfOf(constraint, { control, stops, opened }), ids)
      const thinks = effort === 'high' && constraint.after !== undefined
      for (const [accepted, list] of [
        [true, taken],
        [false, refused],
      ] as const)
        for (const items of list)
          for (const all of thinks ? [items, [think, ...items]] : [items]) {
            const text = spoken(codec, all, settings)
            expect([effort, text, grammar.accepts(text)]).toEqual([effort, text, accepted])
          }
      expect(structuredOf(constraint, { engine: 'e', opened }).type).toMatch(/^(json|tag)$/)
    }
  })
  test('the same constraint comes again for the same request, and another one for another', () => {
    const asked = (days: number): Settings =>
      settingsOf({ tools: [strict], text: { format: { ...format, schema: { ...schema, maxProperties: days } } } })
    const first = codec.constraint(asked(2), chain)
    expect(first).toBeDefined()
    expect(codec.constraint(asked(2), chain)).toBe(first)
    expect(codec.constraint(asked(3), chain)).not.toBe(first)
  })
  test('nothing is held where nothing is asked for', () => {
    expect(codec.constraint(settingsOf({ tools: [loose] }), chain)).toBeUndefined()
    expect(codec.constraint(settingsOf({ tools: [strict], tool_choice: 'none' }), chain)).toBeUndefined()
  })
})

test('a format that is not known has answers by a schema, and no calls that are held to anything', () => {
  const want = { answer: schema, tools: [], must: false, one: false }
  const head = { system: undefined, tools: [], thinking: false, effort: null, date: '' }
  expect(plain.constrain(want, head, 'user').rule.type).toBe('whole')
  expect(() => plain.constrain({ ...want, answer: undefined, must: true }, head, 'user')).toThrow(/known codecs/)
  expect(Object.keys(dialects)).toContain('none')
})
