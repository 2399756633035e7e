// What DeepSeek V3.2 writes: calls as tagged values around one token.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { familyCodec } from '../../src/codecs/codec.ts'
import { deepseekV32 } from '../../src/codecs/deepseek-dsml.ts'
import type { Family } from '../../src/codecs/family.ts'
import { ApiError } from '../../src/protocol/errors.ts'
import type { Item } from '../../src/protocol/items.ts'
import { byteTokenizer } from '../../src/tokenizers/bytes.ts'
import { ends, reader, short } from './spoken.ts'
import { bytesFor, fromScratch, resent, settingsOf } from './talks.ts'

const ls = {
  type: 'function',
  name: 'ls',
  description: 'Lists.',
  parameters: { type: 'object', properties: { path: { type: 'string' }, n: { type: 'integer' } } },
  strict: false,
}
const tools = [ls, { type: 'custom', name: 'raw', description: 'Takes text.' }]
const model = reader(deepseekV32, tools)
const thinking = reader(deepseekV32, tools, { reasoning: { effort: 'high' } })
const eos = '<｜end▁of▁sentence｜>'
const value = (name: string, text: string, string = true): string =>
  `<｜DSML｜parameter name="${name}" string="${string}">${text}</｜DSML｜parameter>\n`
const invoke = (name: string, ...values: string[]): string =>
  `<｜DSML｜invoke name="${name}">\n${values.join('')}</｜DSML｜invoke>\n`
const block = (...calls: string[]): string => `\n\n<｜DSML｜function_calls>\n${calls.join('')}</｜DSML｜function_calls>`
const usual = `I must look.</think>Looking.${block(
  invoke('ls', value('path', 'a "b"\nc'), value('n', '2', false)),
  invoke('ls', value('path', 'x < y')),
)}${eos}`
const told = ['think:I must look.', 'text:Looking.', 'ls{"path": "a \\"b\\"\\nc", "n": 2}', 'ls{"path": "x < y"}']
const user = (text: string): Item => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] })

describe('reasoning, text and calls', () => {
  test('are read in the order in which they come, values as JSON', () => {
    const read = thinking.ids(usual)
    expect(short(read.deltas)).toEqual(told)
    expect(read.stop).toBe(eos)
    const [first = '', second = '', third = ''] = ends(read, thinking)
    expect(first).toBe('I must look.</think>')
    expect(second).toBe(`${first}Looking.\n\n<`)
    expect(third).toMatch(/<\/｜DSML｜invoke>$/)
  })
  test('are the same from engines that send text, in pieces of any size', () => {
    for (const size of [1, 2, 3, 7, 50, 1000]) expect(short(thinking.text(usual, size).deltas)).toEqual(told)
  })
  test('are the same where the tokenizer has no id for the token', () => {
    const bare: Family = { ...deepseekV32, markers: [] }
    const codec = familyCodec(deepseekV32, byteTokenizer([...bare.needs, ...bare.stops]))
    const settings = settingsOf({ tools, reasoning: { effort: 'high' } })
    const decoder = codec.decoder(settings, resent([user('go')], 0))
    const ids = usual
      .split(/(<\/think>|<｜end▁of▁sentence｜>)/)
      .flatMap((part, n) => (n % 2 === 1 ? [codec.tokenizer.control(part) ?? -1] : [...Buffer.from(part)]))
    expect(short(ids.flatMap((id) => [...decoder.push({ tokens: [id] })]))).toEqual(told)
  })
  test('end broken off wherever the engine is cut, and ids of what is kept are a prefix', () => {
    for (let n = 0; n < usual.length; n++) {
      const cut = usual.slice(0, n)
      // Control tokens and brackets that are cut in the middle are letters, as ids never cut one.
      if (/<[/think]*$|<｜end[^>]*$|｜D?S?M?L?$/.test(cut)) continue
      const read = thinking.ids(cut)
      expect(ends(read, thinking).every((text) => cut.startsWith(text))).toBe(true)
      const items = short(read.deltas)
      expect(items.length).toBeLessThanOrEqual(5)
      for (const [at, item] of items.entries())
        if (!item.startsWith('text:'))
          expect(told[at]?.slice(0, item.replace(/~$/, '').length)).toBe(item.replace(/~$/, ''))
    }
  })
  test('stream: strings letter by letter, objects as the model writes them', () => {
    const sofar = (text: string): string => short(model.ids(text).deltas).at(-1) ?? ''
    const open = '\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="ls">\n<｜DSML｜parameter name="path" string='
    expect(sofar(`${open}"true">ab`)).toBe('ls{"path": "ab~')
    expect(sofar(`${open}"false">{"k": [1`)).toBe('ls{"path": {"k": [1~')
    expect(sofar(`${open}"false">tr`)).toBe('ls{"path": ~')
  })
})

describe('calls of custom tools', () => {
  test('give the free text', () => {
    expect(short(model.ids(block(invoke('raw', value('input', 'a "b"\nc')))).deltas)).toEqual(['rawa "b"\nc'])
  })
})

describe('odd calls', () => {
  const read = (text: string): string[] => short(model.ids(text, 1, 'stop').deltas)
  test('without values have none, and the list may be named as V4 names it', () => {
    expect(read(block(invoke('ls')) + eos)).toEqual(['ls{}'])
    expect(read(block(invoke('ls', value('path', '/'))).replaceAll('function_calls', 'tool_calls') + eos)).toEqual([
      'ls{"path": "/"}',
    ])
  })
  test('may lack the list around them, or its end', () => {
    expect(read(invoke('ls', value('path', '/')) + eos)).toEqual(['ls{"path": "/"}'])
    expect(read(`\n\n<｜DSML｜function_calls>\n${invoke('ls')}${eos}`)).toEqual(['ls{}'])
  })
  test('whose values are no JSON are strings', () => {
    expect(read(block(invoke('ls', value('n', 'two', false))) + eos)).toEqual(['ls{"n": "two"}'])
    expect(read(block(invoke('ls', value('n', 'True', false))) + eos)).toEqual(['ls{"n": true}'])
    expect(read(block(invoke('ls', value('n', '"two"', false))) + eos)).toEqual(['ls{"n": "two"}'])
  })
  test('that stop inside a value are broken off', () => {
    expect(
      read(`${block().slice(0, 25)}<｜DSML｜invoke name="ls">\n<｜DSML｜parameter name="path" string="true">/${eos}`),
    ).toEqual(['ls{"path": "/~'])
  })
  test('quoted in text or in a value are text', () => {
    expect(read(`Write <‹｜DSML｜›function_calls> so.${eos}`)).toEqual(['text:Write <｜DSML｜function_calls> so.'])
    expect(read(`The token ｜DSML｜ alone.${eos}`)).toEqual(['text:The token ｜DSML｜ alone.'])
    expect(read(block(invoke('ls', value('path', 'a </‹｜DSML｜›parameter> b'))) + eos)).toEqual([
      'ls{"path": "a </｜DSML｜parameter> b"}',
    ])
    expect(read(block(invoke('ls', value('path', 'a <｜DSML｜invoke name="x"> b'))) + eos)).toEqual([
      'ls{"path": "a <｜DSML｜invoke name=\\"x\\"> b"}',
    ])
  })
  test('opened right behind a tag that the format has not are calls', () => {
    const output = `</｜DSML｜\nparameter>${invoke('ls', value('path', '/'))}${eos}`
    for (const size of [1, 6, 1000])
      for (const { deltas } of [model.ids(output, size, 'stop'), model.text(output, size, 'stop')])
        expect(short(deltas)).toEqual(['text:</｜DSML｜\nparameter>', 'ls{"path": "/"}'])
  })
  test('with tags that the format has not are text', () => {
    expect(read(`a <｜DSML｜other> b${eos}`).join('')).toBe('text:a text:<｜DSML｜other> b')
  })
})

describe('prompts', () => {
  const call = (json: string): Item => ({ type: 'function_call', call_id: 'c', name: 'ls', arguments: json })
  const rendered = (items: Item[], more: object = {}): string => {
    const codec = familyCodec(deepseekV32, bytesFor(deepseekV32))
    return codec.tokenizer.decode(fromScratch(codec, resent(items, 0), settingsOf(more)))
  }
  test('write each argument as it stands in the JSON', () => {
    const shown = rendered([user('go'), call('{ "a" : 1.0,"b":"x\\ny", "c": {"d": [1, "}"]}, "e":null}')])
    expect(shown).toContain(
      invoke(
        'ls',
        value('a', '1.0', false),
        value('b', 'x\ny'),
        value('c', '{"d": [1, "}"]}', false),
        value('e', 'null', false),
      ),
    )
  })
  test('show arguments that are no object', () => {
    expect(rendered([user('go'), call('{"a": ')])).toContain(invoke('ls', value('arguments', '{"a": ')))
  })
  test('keep reasoning until the user speaks again', () => {
    const reasoning: Item = { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'Hm.' }] }
    const output: Item = { type: 'function_call_output', call_id: 'c', output: 'a' }
    const high = { reasoning: { effort: 'high' } }
    expect(rendered([user('go'), reasoning, call('{}'), output], high)).toMatch(
      /<think>Hm\.<\/think>\n\n<｜DSML｜function_calls>[^]*<result>a<\/result>\n<\/function_results>\n\n<think>$/,
    )
    expect(rendered([user('go'), reasoning, call('{}'), output, user('on')], high)).not.toContain('Hm.')
  })
})

describe('constraints', () => {
  const codec = familyCodec(deepseekV32, bytesFor(deepseekV32))
  const chain = resent([user('go')], 0)
  const strict = (parameters: object): object => ({ ...ls, strict: true, parameters })
  test('hold strict tools to one value after the other', () => {
    const parameters = {
      type: 'object',
      properties: { path: { type: 'string', description: 'Where.' }, kind: { type: 'string', enum: ['a', 'b'] } },
      required: ['path', 'kind'],
      additionalProperties: false,
    }
    const found = codec.constraint(settingsOf({ tools: [strict(parameters)], reasoning: { effort: 'low' } }), chain)
    expect(found).toMatchObject({
      after: '</think>',
      rule: {
        tags: [
          {
            content: {
              type: 'sequence',
              parts: [
                '<｜DSML｜parameter name="path" string="true">',
                { type: 'text' },
                '</｜DSML｜parameter>\n',
                '<｜DSML｜parameter name="kind" string="false">',
                { type: 'json', schema: { type: 'string', enum: ['a', 'b'] } },
                '</｜DSML｜parameter>\n',
              ],
            },
          },
        ],
      },
    })
  })
  test('refuse strict tools with values that may be left out', () => {
    const parameters = { type: 'object', properties: { path: { type: 'string' } }, additionalProperties: false }
    const ask = (): unknown => codec.constraint(settingsOf({ tools: [strict(parameters)] }), chain)
    expect(ask).toThrow(ApiError)
    expect(ask).toThrow(/strict.*'ls'/)
  })
})

test('whatever a model writes, nothing throws, and it is read alike however it comes', () => {
  const pieces = fc.array(
    fc.constantFrom(
      '｜DSML｜',
      '<｜DSML｜',
      '</｜DSML｜',
      ...deepseekV32.needs,
      '<',
      '</',
      'function_calls>',
      'invoke name="ls">',
      'invoke>',
      'parameter name="path" string="true">',
      'parameter name="n" string="false">',
      'parameter>',
      'some words',
      '{"k": [',
      '12',
      '\n',
    ),
    { maxLength: 14 },
  )
  fc.assert(
    fc.property(
      pieces,
      fc.integer({ min: 1, max: 9 }),
      fc.constantFrom('stop' as const, 'length' as const),
      (all, size, finish) => {
        const output = all.join('')
        for (const one of [model, thinking]) {
          const whole = one.ids(output, 1000, finish)
          expect(short(one.ids(output, size, finish).deltas)).toEqual(short(whole.deltas))
          expect(short(one.text(output, size, finish).deltas)).toEqual(short(whole.deltas))
          expect(ends(whole, one).every((text) => output.startsWith(text))).toBe(true)
        }
      },
    ),
    { numRuns: Number(process.env['RUNS'] ?? 40) * 3 },
  )
})
