import { describe, expect, it } from 'vitest'
import type { Constraint, Content, Tag } from '../../src/turn/ports.ts'
import { gbnfOf, tagTriggers } from '../../src/engines/gbnf.ts'
import type { GbnfOptions } from '../../src/engines/gbnf.ts'
import { Gbnf } from './gbnf-matcher.ts'

const control: Record<string, number> = {
  '<tool_call>': 7,
  '</tool_call>': 8,
  '</think>': 9,
  '<think>': 15,
  '<|call|>': 10,
  '<arg_key>': 11,
  '</arg_key>': 12,
  '<arg_value>': 13,
  '</arg_value>': 14,
}
const asTokens: GbnfOptions = { control: (name) => control[name] }
const grammar = (constraint: Constraint, options: GbnfOptions = {}) =>
  new Gbnf(gbnfOf(constraint, options), options.control === undefined ? {} : control)
const whole = (content: Content, options?: GbnfOptions) =>
  grammar({ after: undefined, rule: { type: 'whole', content } }, options)
const tags = (list: readonly Tag[], { must = false, one = false } = {}, after?: string): Constraint => ({
  after,
  rule: { type: 'tags', tags: list, must, one },
})
const ways = [
  ['by text', {}],
  ['by token', asTokens],
] as const
const object = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }
const call = (name: string): Tag => ({
  begin: `<tool_call>\n{"name": "${name}", "arguments": `,
  content: { type: 'json', schema: object },
  end: '}\n</tool_call>',
})
const written = (name: string, n = 1) => `<tool_call>\n{"name": "${name}", "arguments": {"n": ${n}}}\n</tool_call>`

describe.each(ways)('tags matched %s', (_, options) => {
  it('lets free text stand around tags, and no tag that is none of them', () => {
    const g = grammar(tags([call('a'), call('b')]), options)
    expect(g.accepts('')).toBe(true)
    expect(g.accepts('if a < b then [x] "quotes" 😀\n')).toBe(true)
    expect(g.accepts(`Let me see.\n${written('a')}\n${written('b', -3)} done`)).toBe(true)
    expect(g.accepts(`${written('c')}`)).toBe(false)
    expect(g.accepts('<tool_call>')).toBe(false)
    expect(g.accepts('<tool_call>\n{"name": "a", "arguments": {"n": "x"}}\n</tool_call>')).toBe(false)
    expect(g.accepts('a <tool_cal')).toBe(true)
  })
  it('wants a tag and nothing else where one must be called', () => {
    const g = grammar(tags([call('a')], { must: true }), options)
    expect(g.accepts(written('a'))).toBe(true)
    expect(g.accepts(`\n\n${written('a')}\n${written('a')}`)).toBe(true)
    expect(g.accepts('')).toBe(false)
    expect(g.accepts(`x${written('a')}`)).toBe(false)
    expect(g.accepts(`${written('a')}x`)).toBe(false)
  })
  it('ends behind the tag where at most one may be called', () => {
    const g = grammar(tags([call('a')], { one: true }), options)
    expect(g.accepts('only text')).toBe(true)
    expect(g.accepts(`text ${written('a')}`)).toBe(true)
    expect(g.accepts(`${written('a')}${written('a')}`)).toBe(false)
    expect(g.accepts(`${written('a')} more`)).toBe(false)
    const exact = grammar(tags([call('a')], { one: true, must: true }), options)
    expect(exact.accepts(written('a'))).toBe(true)
    expect(exact.accepts('')).toBe(false)
    expect(exact.accepts(written('a') + written('a'))).toBe(false)
  })
  it('begins a lazy grammar with what triggers it', () => {
    const plain = tags([call('a'), call('b')])
    expect(tagTriggers(plain)).toEqual(['<tool_call>'])
    const g = grammar(plain, { ...options, lazy: true })
    expect(g.accepts(`${written('b')} and ${written('a')}`)).toBe(true)
    expect(g.accepts(`text ${written('b')}`)).toBe(false)
    expect(g.accepts('')).toBe(false)
    expect(tagTriggers(tags([call('a')], { must: true }))).toEqual([])
  })
  it('keeps text from holding what ends it, whatever it repeats', () => {
    const content: Content = { type: 'text' }
    const g = grammar(
      tags([{ begin: '<tool_call>', content, end: 'ab</tool_call>' }], { must: true, one: true }),
      options,
    )
    expect(g.accepts('<tool_call>aab</tool_call>')).toBe(true)
    expect(g.accepts('<tool_call>x < [y] </tool_cal ab</tool_call>')).toBe(true)
    expect(g.accepts('<tool_call>ab</tool_call>ab</tool_call>')).toBe(false)
  })
})

describe('control tokens', () => {
  it('are wanted as tokens where their ids are known', () => {
    expect(gbnfOf(tags([call('a')]), asTokens)).toContain('<[7]> "\\n{\\"name\\": \\"a\\"')
    expect(new Gbnf(gbnfOf(tags([call('a')], { must: true }), asTokens)).accepts(written('a'))).toBe(false)
  })
  it('that end the turn are left out, and the tag is the last', () => {
    const options = { ...asTokens, stops: [10] }
    const tag: Tag = { begin: '<tool_call>f ', content: { type: 'json', schema: object }, end: '<|call|>' }
    const g = grammar(tags([tag, call('a')], { must: true }), options)
    expect(g.accepts('<tool_call>f {"n":1}')).toBe(true)
    expect(g.accepts(`${written('a')}<tool_call>f {"n":1}`)).toBe(true)
    expect(g.accepts(`<tool_call>f {"n":1}${written('a')}`)).toBe(false)
    expect(g.accepts('<tool_call>f {"n":1}<|call|>')).toBe(false)
    const text = grammar(tags([{ ...tag, content: { type: 'text' } }], { must: true }), options)
    expect(text.accepts('<tool_call>f any < thing')).toBe(true)
  })
  it('that end a turn are never wanted inside of it as tokens, which no engine would sample', () => {
    const content: Content = { type: 'json', schema: object }
    const tag: Tag = { begin: '<|im_end|><tool_call>', content, end: '</s></tool_call>' }
    const ids = new Map(Object.entries({ ...control, '<|im_end|>': 20, '</s>': 21 }))
    const made = gbnfOf(tags([tag], { must: true }), { control: (name) => ids.get(name), stops: [7] })
    expect([...made.matchAll(/<\[(\d+)\]>/g)].map(([, id]) => Number(id))).not.toContain(20)
    expect(made).not.toMatch(/<\[(7|20|21)\]>/)
    expect(made).toContain('<[8]>')
  })
  it('of several kinds are kept out of free text by their names', () => {
    const list: Tag[] = [call('a'), { begin: '<arg_key>x', content: { type: 'text' }, end: '</arg_key>' }]
    const g = grammar(tags(list), asTokens)
    expect(g.accepts(`text < ${written('a')}<arg_key>xyz</arg_key> end`)).toBe(true)
    expect(g.accepts('text <arg_key>y')).toBe(false)
    expect(g.accepts('text <tool_call>')).toBe(false)
  })
})

describe('U+0000', () => {
  const regex = (definition: string, quoted = false) => whole({ type: 'regex', definition, quoted })
  it('is in no class of a grammar, and none of its texts', () => {
    // A class of all but some is written as such: engines never sample U+0000 under a grammar.
    for (const [definition, not] of [
      ['[\\0ab]', '\0'],
      ['[\\x00-b]', '\0'],
      ['[^c]', 'c'],
      ['(?s:.)', 'aa'],
      ['\\W|a', 'b'],
    ] as const) {
      const g = regex(definition)
      expect([definition, g.accepts('a'), g.accepts(not)]).toEqual([definition, true, false])
      expect(g.text).not.toMatch(/\\x00|\0/)
      expect(regex(definition, true).accepts('\\u0000')).toBe(false)
    }
    for (const definition of ['\\0', '[\\x00]', 'a\\u0000'])
      expect(() => regex(definition)).toThrow(expect.objectContaining({ name: 'ApiError', code: 'invalid_request' }))
    const raw: Content = { type: 'xml', style: 'qwen', schema: { properties: { a: { enum: ['\0'] } } } }
    expect(() => whole(raw)).toThrow(/U\+0000/)
  })
})

describe('contents', () => {
  it('follow each other in a sequence, and text ends where the next part begins', () => {
    const g = whole({
      type: 'sequence',
      parts: ['<a>', { type: 'text' }, '</a>', { type: 'json', schema: object }, '!'],
    })
    expect(g.accepts('<a>x<b</a>{"n":1}!')).toBe(true)
    expect(g.accepts('<a></a></a>{"n":1}!')).toBe(false)
    expect(whole({ type: 'text' }).accepts('any\nthing 😀')).toBe(true)
  })
  it('of a grammar stand in a JSON string where they are quoted', () => {
    const parts = ['{"input":"', { type: 'regex', definition: '[a-z"\\n\\\\]+', quoted: true }, '"}'] as const
    const g = whole({ type: 'sequence', parts })
    expect(g.accepts(`{"input":${JSON.stringify('a"b\n\\c')}}`)).toBe(true)
    expect(g.accepts('{"input":"a"b"}')).toBe(false)
    expect(g.accepts('{"input":"A"}')).toBe(false)
  })
  it('stand tagged as Qwen3-Coder writes them', () => {
    const schema = {
      type: 'object',
      properties: {
        path: { type: 'string' },
        lines: { type: 'array', items: { type: 'integer' } },
        mode: { enum: ['r', 'w', null] },
      },
      required: ['path', 'lines'],
    }
    const g = whole({ type: 'sequence', parts: [{ type: 'xml', style: 'qwen', schema }, '</function>'] })
    const path = '<parameter=path>\na\n<b>\n</parameter>\n'
    expect(g.accepts(`${path}<parameter=lines>\n[1, 2]\n</parameter>\n</function>`)).toBe(true)
    expect(
      g.accepts(`${path}<parameter=lines>\n[1,2]\n</parameter>\n<parameter=mode>\nw\n</parameter>\n</function>`),
    ).toBe(true)
    expect(g.accepts(`${path}<parameter=lines>\n["1"]\n</parameter>\n</function>`)).toBe(false)
    expect(g.accepts(`${path}</function>`)).toBe(false)
    expect(
      g.accepts(`${path}<parameter=lines>\n[]\n</parameter>\n<parameter=mode>\n"w"\n</parameter>\n</function>`),
    ).toBe(false)
  })
  it.each(ways)('stand tagged as GLM writes them, matched %s', (_, options) => {
    const schema = {
      type: 'object',
      properties: { q: { type: ['string', 'null'] }, n: { type: 'number' } },
      required: ['q'],
    }
    const g = whole({ type: 'sequence', parts: ['f', { type: 'xml', style: 'glm', schema }, '</tool_call>'] }, options)
    const pair = (key: string, value: string, line: string) =>
      `<arg_key>${key}</arg_key>${line}<arg_value>${value}</arg_value>`
    expect(g.accepts(`f\n${pair('q', 'two\nlines <b>', '\n')}\n${pair('n', '-1.5', '\n')}\n</tool_call>`)).toBe(true)
    expect(g.accepts(`f${pair('q', '', '')}</tool_call>`)).toBe(true)
    expect(g.accepts(`f${pair('q', '', '')}${pair('n', 'x', '')}</tool_call>`)).toBe(false)
    expect(g.accepts(`f${pair('n', '1', '')}</tool_call>`)).toBe(false)
  })
})

describe.each(ways)('reasoning in front of a rule, matched %s', (_, options) => {
  const plain = tags([call('a')], {}, '</think>')
  const json: Constraint = { after: '</think>', rule: { type: 'whole', content: { type: 'json', schema: object } } }
  it('may be left out, and then the rule holds from the first token on', () => {
    expect(tagTriggers(plain)).toEqual([])
    const g = grammar(json, options)
    expect(g.accepts('{"n":1}')).toBe(true)
    expect(g.accepts('<think>\nany {"x": 1} < thing\n</think>\n\n{"n":1}')).toBe(true)
    expect(g.accepts('\n<think></think>{"n":1}')).toBe(true)
    expect(g.accepts('text {"n":1}')).toBe(false)
    expect(g.accepts('text</think>{"n":1}')).toBe(false)
    expect(g.accepts('<think>text{"n":1}')).toBe(false)
    expect(g.accepts('<think>x</think>{"n":"x"}')).toBe(false)
    const called = grammar(plain, options)
    expect(called.accepts(`text ${written('a')}`)).toBe(true)
    expect(called.accepts(`<think>hm</think>\n\n${written('a')}`)).toBe(true)
    expect(called.accepts(`<think>hm</think>${written('b')}`)).toBe(false)
    expect(called.accepts(written('b'))).toBe(false)
  })
  it('goes on where the prompt has begun it', () => {
    const g = grammar(json, { ...options, opened: true })
    expect(g.accepts('hm\n</think>\n\n{"n":1}')).toBe(true)
    expect(g.accepts('{"n":1}')).toBe(false)
    expect(g.accepts('</think>{"n":1}</think>')).toBe(false)
  })
  it('hides no call, which would be read as one', () => {
    for (const opened of [true, false]) {
      const g = grammar(plain, { ...options, opened })
      const begin = opened ? '' : '<think>'
      expect(g.accepts(`${begin}hm </think>`)).toBe(true)
      expect(g.accepts(`${begin}hm ${written('b')}</think>`)).toBe(false)
    }
    expect(grammar(plain, { ...options, opened: true }).accepts(`hm ${written('a')}</think>`)).toBe(false)
  })
})

describe('an answer beside tags', () => {
  it.each(ways)('is the only other thing that may be written, matched %s', (_, options) => {
    const rule = {
      type: 'tags',
      tags: [call('a')],
      must: false,
      one: false,
      otherwise: { type: 'json', schema: object },
    } as const
    expect(tagTriggers({ after: undefined, rule })).toEqual([])
    const g = grammar({ after: undefined, rule }, options)
    expect(g.accepts(`${written('a')}\n${written('a')}`)).toBe(true)
    expect(g.accepts('{"n":1}')).toBe(true)
    expect(g.accepts('')).toBe(false)
    expect(g.accepts(`{"n":1}${written('a')}`)).toBe(false)
    expect(g.accepts('text')).toBe(false)
    const reasoned = grammar({ after: '</think>', rule }, options)
    expect(reasoned.accepts('\n\n{"n":1}')).toBe(true)
    expect(reasoned.accepts('\n\n\n{"n":1}')).toBe(false)
  })
})

describe('tags that begin with no control token', () => {
  const named = (name: string): Tag => ({
    begin: `{"name": "${name}", "parameters": `,
    content: { type: 'json', schema: object },
    end: '}',
  })
  it('are known by what they have in common', () => {
    const constraint = tags([named('f'), named('g')])
    expect(tagTriggers(constraint)).toEqual(['{"name": "'])
    const g = grammar(constraint)
    expect(g.accepts('a {"name": 1} {"name": "f", "parameters": {"n": 2}}')).toBe(true)
    expect(g.accepts('{"name": "h", "parameters": {"n": 2}}')).toBe(false)
    expect(tagTriggers(tags([named('f')]))).toEqual(['{"name": "f", "parameters": '])
  })
  it('may hold a token in their middle', () => {
    const tag: Tag = { begin: '\n\n<｜D｜calls>', content: { type: 'text' }, end: '</｜D｜calls>' }
    const options = { control: (name: string) => (name === '｜D｜' ? 20 : undefined) }
    const g = new Gbnf(gbnfOf(tags([tag]), options), { '｜D｜': 20 })
    expect(g.accepts('1 < 2\n\n<｜D｜calls>x < y</｜D｜calls>')).toBe(true)
    expect(g.accepts('<｜D｜calls>')).toBe(false)
  })
})
