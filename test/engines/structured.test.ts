import { describe, expect, it } from 'vitest'
import { type StructuredOptions, structuredOf, triggersOf } from '../../src/engines/structured.ts'
import type { Constraint, Content, Rule, Tag } from '../../src/turn/ports.ts'

const schema = { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'], additionalProperties: false }
const json: Content = { type: 'json', schema }
const call = (name: string, content: Content = json): Tag => ({
  begin: `<tool_call>\n{"name": "${name}", "arguments": `,
  content,
  end: '}\n</tool_call>',
})
const tags = (some: Partial<Extract<Rule, { type: 'tags' }>> = {}): Rule => ({
  type: 'tags',
  tags: [call('f'), call('g')],
  must: false,
  one: false,
  ...some,
})
const whole = (content: Content): Rule => ({ type: 'whole', content })
function format(constraint: Constraint, more: Partial<StructuredOptions> = {}): unknown {
  const structured = structuredOf(constraint, { engine: 'e', ...more })
  if (structured.type !== 'tag') throw new Error(`not a tag but ${structured.type}`)
  return (JSON.parse(structured.tag) as { format: unknown }).format
}
const tagOf = (name: string) => ({
  type: 'tag',
  begin: `<tool_call>\n{"name": "${name}", "arguments": `,
  content: { type: 'json_schema', json_schema: schema },
  end: '}\n</tool_call>',
})

describe('a constraint', () => {
  it('that is one schema or one pattern is given as such', () => {
    const given = (content: Content) => structuredOf({ after: undefined, rule: whole(content) }, { engine: 'e' })
    expect(given(json)).toEqual({ type: 'json', schema })
    expect(given({ type: 'regex', definition: '[a-z]+', quoted: false })).toEqual({ type: 'regex', pattern: '[a-z]+' })
  })
  const answer = { type: 'json_schema', json_schema: schema }
  const gap = { type: 'regex', pattern: '\\n{0,2}' }
  it('behind reasoning has the reasoning in it, whether or not the model reasons', () => {
    const constraint: Constraint = { after: '</think>', rule: whole(json) }
    const thought = (begin: string) => ({ type: 'tag', begin, content: { type: 'any_text' }, end: '</think>' })
    expect(format(constraint)).toEqual({
      type: 'sequence',
      elements: [
        { type: 'or', elements: [{ type: 'sequence', elements: [gap, thought('<think>'), gap] }, gap] },
        answer,
      ],
    })
    expect(format(constraint, { opened: true })).toEqual({ type: 'sequence', elements: [thought(''), gap, answer] })
    expect(format({ ...constraint, rule: tags() }, { opened: true })).toMatchObject({
      elements: [{ content: { type: 'any_text', excludes: ['<tool_call>'] } }, gap, { type: 'triggered_tags' }],
    })
  })
  it('that a server starts behind the reasoning may follow the line ends that models write there', () => {
    const constraint: Constraint = { after: '</think>', rule: whole(json) }
    expect(format(constraint, { gated: true })).toEqual({ type: 'sequence', elements: [gap, answer] })
  })
  it('of tags in text lets whatever begins like a tag be nothing else', () => {
    expect(format({ after: undefined, rule: tags() })).toEqual({
      type: 'triggered_tags',
      triggers: ['<tool_call>'],
      tags: [tagOf('f'), tagOf('g')],
      at_least_one: false,
      stop_after_first: false,
    })
    expect(format({ after: undefined, rule: tags({ one: true }) })).toMatchObject({ stop_after_first: true })
  })
  it('of tags alone leaves no room for text, nor for more than one where one is wanted', () => {
    const only = { type: 'tags_with_separator', separator: '', at_least_one: true }
    const open = (name: string) => ({ ...tagOf(name), end: ['}\n</tool_call>', '}\n</tool_call>\n'] })
    const many = { ...only, tags: [open('f'), open('g')], stop_after_first: false }
    expect(format({ after: undefined, rule: tags({ must: true }) })).toEqual(many)
    expect(format({ after: undefined, rule: tags({ must: true, one: true }) })).toEqual({
      ...only,
      ...{ tags: [tagOf('f'), tagOf('g')], stop_after_first: true },
    })
    expect(format({ after: undefined, rule: tags({ otherwise: json }) })).toEqual({
      type: 'or',
      elements: [many, answer],
    })
  })
  it('whose tag ends with the token that ends the turn may end without its text, and nothing else is enough', () => {
    const call: Tag = { begin: '<|channel|>x<|message|>', content: json, end: '<|call|>' }
    const thought: Tag = { begin: '<|channel|>analysis<|message|>', content: { type: 'text' }, end: '<|end|>' }
    const made = format(
      { after: undefined, rule: tags({ tags: [thought, call], must: true }) },
      {
        stops: ['<|return|>', '<|call|>'],
      },
    ) as { elements: object[] }
    expect(made.elements.at(-1)).toMatchObject({ type: 'or', elements: [{ end: ['<|call|>', ''] }] })
    expect(made.elements).toHaveLength(5)
    for (const before of made.elements.slice(0, -1))
      expect(before).toMatchObject({
        type: 'or',
        elements: [{ begin: '<|channel|>analysis<|message|>' }, { type: 'const_string', value: '' }],
      })
  })
  it('says every kind of content', () => {
    const content = (c: Content) => {
      const tag: Tag = { begin: '<x>', content: c, end: '</x>' }
      const made = format({ after: undefined, rule: tags({ tags: [tag], must: true }) }) as {
        tags: { content: unknown }[]
      }
      return made.tags[0]?.content
    }
    expect(content({ type: 'text' })).toEqual({ type: 'any_text' })
    expect(content({ type: 'regex', definition: 'a+', quoted: false })).toEqual({ type: 'regex', pattern: 'a+' })
    expect(content({ type: 'xml', style: 'qwen', schema })).toEqual({ type: 'qwen_xml_parameter', json_schema: schema })
    expect(content({ type: 'xml', style: 'glm', schema })).toEqual({
      type: 'json_schema',
      style: 'glm_xml',
      json_schema: schema,
    })
    expect(content({ type: 'sequence', parts: ['a', { type: 'text' }] })).toEqual({
      type: 'sequence',
      elements: [{ type: 'const_string', value: 'a' }, { type: 'any_text' }],
    })
    expect(content({ type: 'sequence', parts: ['a', { type: 'text' }, 'b', json] })).toEqual({
      type: 'sequence',
      elements: [
        { type: 'const_string', value: 'a' },
        { type: 'tag', begin: '', content: { type: 'any_text' }, end: 'b' },
        answer,
      ],
    })
  })
  it('with a grammar of a client is given in the syntax that every version reads', () => {
    const lark: Content = { type: 'lark', definition: 'start: "a" WORD\nWORD: /[a-z]+/', quoted: false }
    const given = structuredOf({ after: undefined, rule: whole(lark) }, { engine: 'e' })
    expect(given).toMatchObject({ type: 'grammar', grammar: expect.stringMatching(/^root ?::=/m) })
    const quoted: Content = { type: 'regex', definition: '"[a-z]+', quoted: true }
    expect(structuredOf({ after: undefined, rule: whole(quoted) }, { engine: 'e' })).toMatchObject({ type: 'grammar' })
  })
  it('that is too large is refused', () => {
    const wide = Object.fromEntries(Array.from({ length: 60_000 }, (_, n) => [`property_number_${n}`, {}]))
    const big: Constraint = { after: undefined, rule: whole({ type: 'json', schema: { properties: wide } }) }
    expect(() => structuredOf(big, { engine: 'e' })).toThrow(/too large for the engine 'e'/)
  })
})

describe('the triggers of tags', () => {
  const tag = (begin: string): Tag => ({ begin, content: { type: 'text' }, end: 'x' })
  const control = (name: string) => ['<tool_call>', '[TOOL_CALLS]'].includes(name)
  it('are the control tokens they begin with', () => {
    expect(triggersOf([tag('<tool_call>a'), tag('<tool_call>b'), tag('[TOOL_CALLS]c')], control)).toEqual([
      '<tool_call>',
      '[TOOL_CALLS]',
    ])
  })
  it('are what plain tags have in common, or all of their beginning', () => {
    expect(triggersOf([tag('{"name": "f"'), tag('{"name": "g"')], control)).toEqual(['{"name": "'])
    expect(triggersOf([tag('f('), tag('g(')], control)).toEqual(['f(', 'g('])
  })
  it('never begin with one another, so that each tag has exactly one', () => {
    expect(triggersOf([tag('<tool_call>a'), tag('<tool_call')], control)).toEqual(['<tool_call'])
  })
})
