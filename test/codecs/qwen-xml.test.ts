// Calls as tagged values, which Qwen3-Coder and Qwen3.5 write: types, pieces, tags that were left out or are quoted.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { qwen35, qwen3Coder } from '../../src/codecs/qwen-xml.ts'
import { familyCodec } from '../../src/codecs/codec.ts'
import type { Item } from '../../src/protocol/items.ts'
import { ends, reader, short } from './spoken.ts'
import { bytesFor, fromScratch, resent, settingsOf } from './talks.ts'

const numRuns = Number(process.env['RUNS'] ?? 40)
const properties = {
  path: { type: 'string' },
  n: { type: 'integer' },
  deep: { type: 'boolean' },
  of: { type: 'object' },
  all: { type: 'array', items: { type: 'string' } },
  maybe: { anyOf: [{ type: 'string' }, { type: 'null' }] },
  either: { type: ['string', 'integer'] },
  far: { $ref: '#/$defs/far' },
  level: { enum: [1, 2] },
  any: {},
}
const tools = [
  {
    type: 'function',
    name: 'ls',
    description: 'Lists.',
    parameters: { type: 'object', properties, $defs: { far: { type: 'number' } } },
    strict: false,
  },
  { type: 'custom', name: 'raw', description: 'Takes text.' },
]
const coder = reader(qwen3Coder, tools)
const value = (name: string, text: string): string => `<parameter=${name}>\n${text}\n</parameter>\n`
const call = (inner: string, name = 'ls'): string =>
  `<tool_call>\n<function=${name}>\n${inner}</function>\n</tool_call>`
const read = (output: string): string[] => short(coder.ids(`${output}<|im_end|>`).deltas)
const read1 = (name: string, text: string): unknown => {
  const [said = ''] = read(call(value(name, text)))
  return (JSON.parse(said.slice(2)) as Record<string, unknown>)[name]
}

describe('values', () => {
  test('are strings as they stand, and JSON for all other types', () => {
    expect(read1('path', '  a "b"\n\\c\n')).toBe('  a "b"\n\\c\n')
    expect(read1('path', '42')).toBe('42')
    expect(read1('path', 'null')).toBe('null')
    expect(read1('path', '')).toBe('')
    expect(read1('n', '42')).toBe(42)
    expect(read1('deep', 'true')).toBe(true)
    expect(read1('of', '{"a": [1]}')).toEqual({ a: [1] })
    expect(read1('all', '["x"]')).toEqual(['x'])
    expect(read1('far', '-1.5e3')).toBe(-1500)
    expect(read1('level', '2')).toBe(2)
  })
  test('may be Python’s words for true, false and null', () => {
    expect(read1('deep', 'False')).toBe(false)
    expect(read1('maybe', 'None')).toBe(null)
    expect(read1('path', 'None')).toBe('None')
  })
  test('are strings where the schema allows them and nothing else fits', () => {
    expect(read1('maybe', 'null')).toBe(null)
    expect(read1('maybe', 'nullable')).toBe('nullable')
    expect(read1('maybe', '42')).toBe('42')
    expect(read1('either', '42')).toBe(42)
    expect(read1('either', '42 apples')).toBe('42 apples')
    expect(read1('any', '{"a": 1}')).toEqual({ a: 1 })
    expect(read1('any', '{a')).toBe('{a')
    expect(read1('any', '"quoted"')).toBe('"quoted"')
  })
  test('that do not parse as their type are what they are, or strings', () => {
    expect(read1('n', 'five')).toBe('five')
    expect(read1('all', '7')).toBe(7)
    expect(read1('of', "{'a': 1}")).toBe("{'a': 1}")
    expect(read1('n', '')).toBe('')
  })
  test('keep the digits that JavaScript would round', () => {
    expect(read(call(value('n', '12345678901234567890')))).toEqual(['ls{"n":12345678901234567890}'])
  })
  test('of unknown tools and properties are JSON where they can be', () => {
    expect(read(call(value('x', '1') + value('y', 'a b'), 'other'))).toEqual(['other{"x":1,"y":"a b"}'])
    expect(read(call(value('x', 'true')))).toEqual(['ls{"x":true}'])
  })
  test('come back from what is written for them, whatever a string holds', () => {
    const text = fc.oneof(
      fc.string({ unit: 'grapheme' }),
      fc.constantFrom(
        '\n',
        ' x ',
        '</parameter>',
        'a\n</function>\nb',
        '<parameter=path>\n',
        'é\r\n',
        '</para',
        '\n\n',
      ),
    )
    fc.assert(
      fc.property(fc.array(text, { maxLength: 4 }), fc.integer({ min: 1, max: 9 }), (texts, size) => {
        const joined = texts.join('')
        // What looks like the end of the whole value cannot be told from it.
        fc.pre(!/<\/parameter>\s*(<\/function>|<parameter=)|<parameter=path>|\n<\/function>\s*$/.test(`${joined}\n`))
        const output = `${call(value('path', joined))}<|im_end|>`
        const [said = ''] = short(coder.text(output, size).deltas)
        expect(JSON.parse(said.slice(2))).toEqual({ path: joined })
      }),
      { numRuns },
    )
  })
})

const usual = `Looking.\n\n${call(value('path', 'a\nb') + value('n', '3'))}\n${call('')}<|im_end|>`

describe('calls', () => {
  test('are read one by one, with the text in front', () => {
    expect(read(usual.replace('<|im_end|>', ''))).toEqual(['text:Looking.', 'ls{"path":"a\\nb","n":3}', 'ls{}'])
    expect(ends(coder.ids(usual), coder)[0]).toBe('Looking.\n\n')
  })
  test('are the same from engines that send text, in pieces of any size', () => {
    const whole = coder.ids(usual)
    for (const size of [1, 2, 3, 7, 50, 1000]) {
      const text = coder.text(usual, size)
      expect(short(text.deltas)).toEqual(short(whole.deltas))
      expect(ends(text, coder)).toEqual(ends(whole, coder))
    }
  })
  test('of custom tools give the free text', () => {
    expect(read(call(value('input', '*** Begin\n+"x"'), 'raw'))).toEqual(['raw*** Begin\n+"x"'])
  })
  test('stream their strings', () => {
    const begun = `<tool_call>\n<function=ls>\n<parameter=path>\nsome text`
    expect(short(coder.ids(begun).deltas)).toEqual(['ls{"path":"some text~'])
    expect(short(coder.ids(begun.replace('path', 'maybe')).deltas)).toEqual(['ls{"maybe":"some text~'])
  })
  test('end broken off wherever the engine is cut, and ids of what is kept are a prefix', () => {
    const whole = read(usual.replace('<|im_end|>', '')).join('\n')
    for (let n = 0; n < usual.length; n++) {
      const cut = usual.slice(0, n)
      const got = coder.ids(cut)
      expect(ends(got, coder).every((text) => cut.startsWith(text))).toBe(true)
      if (/<[^>]*$|<\/?(?:parameter|function)[^>]*>?\s*$|\n$/.test(cut)) continue
      expect(whole.startsWith(short(got.deltas).join('\n').replaceAll(/~$/gm, ''))).toBe(true)
    }
  })
  test('that lack closing tags are whole once the model goes on or ends its turn', () => {
    const open = '<tool_call>\n<function=ls>\n<parameter=path>\n/\n'
    const whole = ['ls{"path":"/","n":3}']
    expect(read(`${open}<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>`)).toEqual(whole)
    expect(read(`${open}</parameter>\n<parameter=n>\n3\n</function>\n</tool_call>`)).toEqual(whole)
    expect(read(`${open}</parameter>\n<parameter=n>\n3\n</parameter>\n</tool_call>`)).toEqual(whole)
    expect(read(`${open}</parameter>\n<parameter=n>\n3\n</tool_call>`)).toEqual(whole)
    expect(read(`${open}</parameter>\n<parameter=n>\n3\n</parameter>`)).toEqual(whole)
    expect(read(`${open}</parameter>\n${call(value('n', '3'))}`)).toEqual(['ls{"path":"/"}', 'ls{"n":3}'])
    expect(read('<tool_call><function=ls><parameter=n>3</tool_call>')).toEqual(['ls{"n":3}'])
    expect(read('<tool_call><function=ls><parameter=n>3</function></tool_call>')).toEqual(['ls{"n":3}'])
    expect(read(open)).toEqual(['ls{"path":"/\\n~'])
  })
  test('that lack their opening marker are calls of a known tool at the start of a line', () => {
    const bare = '<function=ls>\n<parameter=path>\n/\n</parameter>\n</function>'
    expect(read(`Looking.\n\n${bare}\n</tool_call>`)).toEqual(['text:Looking.', 'ls{"path":"/"}'])
    expect(read(`${bare}\n${bare}`)).toEqual(['ls{"path":"/"}', 'ls{"path":"/"}'])
    expect(read(`${bare}\nDone.`)).toEqual(['ls{"path":"/"}', 'text:Done.'])
    expect(read('Write <function=ls> to call.')).toEqual(['text:Write <function=ls> to call.'])
    expect(read('<function=other>\n</function>')).toEqual(['text:<function=other>\n</function>'])
    expect(ends(coder.ids(`Looking.\n\n${bare}`), coder)[0]).toBe('Looking.\n\n')
    const later = `${call('')}\nThen\n${bare}`
    expect(ends(coder.ids(later), coder)).toEqual([call(''), `${call('')}\nThen\n`, later])
  })
  test('written as JSON are calls too', () => {
    expect(read('<tool_call>\n{"name": "ls", "arguments": {"path": "/"}}\n</tool_call>')).toEqual(['ls{"path": "/"}'])
    expect(read(call('{"path": "a  b<c"}\n'))).toEqual(['ls{"path": "a  b<c"}'])
  })
  test('that are none are text', () => {
    expect(read('Use <tool_call> to call, </tool_call> to end.')).toEqual([
      'text:Use <tool_call> to call, </tool_call> to end.',
    ])
    const got = coder.ids('Well.\n\n<tool_call>\n<func')
    expect(short(got.deltas)).toEqual(['text:Well.~'])
    expect(ends(got, coder)).toEqual(['Well.\n\n'])
  })
  test('may quote markers and tags within a value', () => {
    expect(read1('path', 'echo <tool_call> </tool_call> ok')).toBe('echo <tool_call> </tool_call> ok')
    expect(read1('path', 'x\n</tool_call>\ny')).toBe('x\n</tool_call>\ny')
    expect(read1('path', '<parameter=a>\n</parameter>!')).toBe('<parameter=a>\n</parameter>!')
    expect(read1('path', 'a ‹<|im_end|>› b')).toBe('a <|im_end|> b')
  })
})

describe('what was said before', () => {
  const user: Item = { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'go' }] }
  const made = (args: string): Item => ({ type: 'function_call', call_id: 'c', name: 'ls', arguments: args })
  const history = (items: readonly Item[]): string => {
    const codec = familyCodec(qwen35, bytesFor(qwen35))
    const text = codec.tokenizer.decode(fromScratch(codec, resent(items, 0), settingsOf()))
    return text.replace('<|im_start|>user\ngo<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n', '')
  }
  const behind = '<|im_end|>\n<|im_start|>assistant\n<think>\n'
  test('shows arguments in tags, strings as they are and the rest in the client’s own JSON', () => {
    const shown = call(value('path', 'a\n"b"') + value('n', '1.50') + value('of', '{"a":null}') + value('deep', 'true'))
    expect(history([user, made('{"path":"a\\n\\"b\\"", "n": 1.50,"of":{"a":null}, "deep":true}')])).toBe(shown + behind)
  })
  test('shows arguments that were cut as they are', () => {
    expect(history([user, made('{"path":"a')])).toBe(call('{"path":"a\n') + behind)
  })
  test('shows pictures in their place, and no white space at the ends', () => {
    const picture = { type: 'input_image' as const, image_url: 'data:image/png;base64,AAAA', detail: 'auto' as const }
    const content = [
      { type: 'input_text' as const, text: ' see ' },
      picture,
      { type: 'input_text' as const, text: ' and ' },
      picture,
    ]
    const mark = '<|vision_start|><|image_pad|><|vision_end|>'
    expect(history([{ type: 'message', role: 'user', content }])).toBe(
      `<|im_start|>user\nsee ${mark} and ${mark}${behind}`,
    )
  })
})

test('constraints hold values to the schema of a strict tool, and custom input to its grammar, unquoted', () => {
  const strict = { type: 'function', name: 'ls', strict: true, parameters: { type: 'object', properties } }
  const none = { ...strict, name: 'now', parameters: { type: 'object', properties: {} } }
  const raw = { type: 'custom', name: 'raw', format: { type: 'grammar', syntax: 'regex', definition: 'a+' } }
  const codec = familyCodec(qwen35, bytesFor(qwen35))
  const chain = resent([], 0)
  const lineEnd = { type: 'regex', definition: '\\n?', quoted: false }
  const tag = (name: string, content: object): object => ({
    begin: `<tool_call>\n<function=${name}>\n`,
    content: { type: 'sequence', parts: [content, lineEnd] },
    end: '</function>\n</tool_call>',
  })
  const inner = { type: 'regex', definition: 'a+', quoted: false }
  expect(codec.constraint(settingsOf({ tools: [strict, none, raw], tool_choice: 'required' }), chain)).toEqual({
    after: '</think>',
    rule: {
      type: 'tags',
      must: true,
      one: false,
      tags: [
        tag('ls', { type: 'xml', style: 'qwen', schema: strict.parameters }),
        tag('now', { type: 'xml', style: 'qwen', schema: none.parameters }),
        tag('raw', { type: 'sequence', parts: ['<parameter=input>\n', inner, '\n</parameter>'] }),
      ],
    },
  })
})

describe('Qwen3.5', () => {
  const qwen = reader(qwen35, tools)
  test('begins within its reasoning', () => {
    const output = `Hm.\n</think>\n\nLooking.\n\n${call(value('n', '1'))}<|im_end|>`
    expect(short(qwen.ids(output).deltas)).toEqual(['think:Hm.', 'text:Looking.', 'ls{"n":1}'])
    expect(short(qwen.ids('\n</think>\n\nYes.<|im_end|>').deltas)).toEqual(['text:Yes.'])
  })
  test('without reasoning begins with its text', () => {
    const quick = reader(qwen35, tools, { reasoning: { effort: 'none' } })
    expect(short(quick.ids('Yes.<|im_end|>').deltas)).toEqual(['text:Yes.'])
  })
})
