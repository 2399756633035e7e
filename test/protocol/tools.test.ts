// Tool definitions at the door, and the callable ones as engines see them.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ApiError } from '../../src/protocol/errors.ts'
import { parseTools } from '../../src/protocol/parse.ts'
import { callables, chosen, type Tool } from '../../src/protocol/tools.ts'

const refusal = (value: unknown, param?: string): Pick<ApiError, 'code' | 'param' | 'message'> => {
  try {
    parseTools(value, param)
  } catch (e) {
    if (e instanceof ApiError) return e
    throw e
  }
  throw new Error('nothing was refused')
}
const fn = (parameters: unknown, more: object = {}) => ({ type: 'function', name: 'f', parameters, ...more })
const schema = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] }

describe('parseTools', () => {
  it('takes no tools', () => {
    expect(parseTools(undefined)).toEqual([])
    expect(parseTools(null)).toEqual([])
    expect(parseTools([])).toEqual([])
  })
  it('fills in what a function may leave out, and keeps unknown fields', () => {
    expect(parseTools([{ type: 'function', name: 'f', new_field: [1] }])).toEqual([
      { type: 'function', name: 'f', parameters: null, strict: null, new_field: [1] },
    ])
    expect(parseTools([fn(schema, { strict: true, async: null, defer_loading: null })])).toEqual([
      fn(schema, { strict: true }),
    ])
  })
  it('raises what chat clients nest under `function`', () => {
    expect(
      parseTools([{ type: 'function', function: { name: 'f', description: 'd', parameters: schema, strict: true } }]),
    ).toEqual([{ type: 'function', name: 'f', description: 'd', parameters: schema, strict: true }])
    expect(refusal([{ type: 'function', function: { name: 'f', parameters: 'x' } }]).code).toBe('invalid_tool_schema')
  })
  it('keeps hosted and unknown kinds exactly as they came', () => {
    const sent = [
      { type: 'web_search', filters: { allowed_domains: ['a'] }, x: 1 },
      { type: 'image_generation', size: 'auto' },
      { type: 'tool_search', execution: 'client', parameters: { type: 'string' } },
      { type: 'mcp', server_label: 'l', server_url: 'https://x.example' },
      { type: 'local_shell' },
      { type: 'from_2027', anything: { at: ['all'] } },
    ]
    expect(parseTools(sent)).toEqual(sent)
  })
  it('takes custom tools with every format, and namespaces', () => {
    const grammar = { type: 'grammar', syntax: 'lark', definition: 'start: "a"' }
    const sent = [
      { type: 'custom', name: 'apply_patch', description: 'd', format: grammar },
      { type: 'custom', name: 'c', format: { type: 'text' } },
      {
        type: 'namespace',
        name: 'n',
        description: 'd',
        tools: [fn(schema, { strict: false }), { type: 'custom', name: 'c' }],
      },
    ]
    expect(parseTools(sent)).toEqual(sent)
    expect(parseTools([{ type: 'custom', name: 'c', description: null, format: null }])).toEqual([
      { type: 'custom', name: 'c' },
    ])
  })
  it.each([
    ['a string', 'x'],
    ['a list', []],
    ['a number', 3],
    ['another type', { type: 'string' }],
    ['no type name', { type: null }],
    ['a list of types', { type: ['object', 'null'] }],
    ['properties that are a list', { type: 'object', properties: ['a'] }],
    ['a property that is a string', { type: 'object', properties: { a: 'string' } }],
    ['required that is a word', { type: 'object', required: 'a' }],
    ['required that holds numbers', { type: 'object', required: [1] }],
    ['an unknown type inside', { type: 'object', properties: { a: { type: 'strang' } } }],
    ['items that are a number', { type: 'object', properties: { a: { type: 'array', items: 3 } } }],
    ['anyOf that is no list', { type: 'object', anyOf: {} }],
    ['anyOf that holds a word', { type: 'object', properties: { a: { anyOf: ['x'] } } }],
    ['an enum that is a word', { type: 'object', properties: { a: { enum: 'x' } } }],
    ['a definition that is null', { type: 'object', $defs: { a: null } }],
    ['a reference that is an object', { type: 'object', properties: { a: { $ref: {} } } }],
  ])('refuses parameters that are %s', (_, parameters) => {
    const error = refusal([{ type: 'local_shell' }, fn(parameters)])
    expect(error).toMatchObject({ code: 'invalid_tool_schema', param: 'tools.1.parameters' })
    const inside = refusal(
      [{ type: 'namespace', name: 'n', description: '', tools: [fn(parameters)] }],
      'input.3.tools',
    )
    expect(inside).toMatchObject({ code: 'invalid_tool_schema', param: 'input.3.tools.0.tools.0.parameters' })
  })
  it.each([
    ['nothing', null],
    ['an empty schema', {}],
    ['no type', { properties: {} }],
    ['booleans as schemas', { type: 'object', properties: { a: true }, additionalProperties: false }],
    ['several types', { type: 'object', properties: { a: { type: ['string', 'null'] } } }],
    [
      'references and definitions',
      { type: 'object', $defs: { a: { type: 'string' } }, properties: { a: { $ref: '#/$defs/a' } } },
    ],
    [
      'unknown keywords',
      { type: 'object', 'x-order': [3], $schema: 'http://json-schema.org/draft-07/schema#', nullable: true },
    ],
    [
      'a property named like a keyword',
      { type: 'object', properties: { type: { type: 'string' }, required: { type: 'array', items: {} } } },
    ],
    ['a tuple of older drafts', { type: 'object', properties: { a: { type: 'array', items: [{ type: 'string' }] } } }],
    ['a property named constructor', { type: 'object', properties: { constructor: { type: 'string' } } }],
  ])('takes parameters that are %s', (_, parameters) => {
    expect(parseTools([fn(parameters)])).toMatchObject([{ parameters }])
  })
  it('names the fault', () => {
    expect(refusal([fn({ properties: { a: { items: { required: {} } } } })]).message).toContain(
      '`properties.a.items.required`',
    )
  })
  it.each(['', 'a b', 'ä', 'a/b', 'x'.repeat(129), 3, null, undefined])('refuses %s as a name', (name) => {
    for (const tool of [
      fn(schema, { name }),
      { type: 'custom', name },
      { type: 'namespace', name, description: '', tools: [] },
    ])
      expect(refusal([tool])).toMatchObject({ code: 'invalid_request', param: 'tools.0.name' })
  })
  it('refuses lists and entries of the wrong kind', () => {
    expect(refusal({})).toMatchObject({ code: 'invalid_request', param: 'tools' })
    expect(refusal('x', 'input.0.tools')).toMatchObject({ code: 'invalid_request', param: 'input.0.tools' })
    for (const tool of [null, 'x', [], {}, { type: 3 }])
      expect(refusal([tool])).toMatchObject({ code: 'invalid_request', param: 'tools.0' })
    expect(refusal([{ type: 'mcp' }]).param).toBe('tools.0.server_label')
    expect(
      refusal([{ type: 'custom', name: 'c', format: { type: 'grammar', syntax: 'ebnf', definition: '' } }]).param,
    ).toBe('tools.0.format.syntax')
    expect(
      refusal([
        {
          type: 'namespace',
          name: 'n',
          description: '',
          tools: [{ type: 'namespace', name: 'm', description: '', tools: [] }],
        },
      ]).code,
    ).toBe('invalid_request')
  })
  it('takes 4096 tools and no more, those in namespaces counted', () => {
    const many = (n: number) => Array.from({ length: n }, (_, i) => ({ type: 'custom', name: `c${i}` }))
    expect(parseTools(many(4096))).toHaveLength(4096)
    expect(refusal(many(4097)).message).toContain('4096')
    expect(refusal([{ type: 'namespace', name: 'n', description: '', tools: many(4096) }]).message).toContain('4096')
  })
  it('never throws anything but an ApiError, and pollutes no prototype', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.oneof(
            fc.object(),
            fc.jsonValue().map((parameters) => fn(parameters)),
          ),
        ),
        (tools) => {
          try {
            parseTools(tools)
          } catch (e) {
            expect(e).toBeInstanceOf(ApiError)
          }
        },
      ),
      { numRuns: 300 },
    )
    const bad =
      '{"type":"function","name":"f","__proto__":{"x":1},"parameters":{"properties":{"__proto__":{"x":1},"constructor":{"prototype":{"x":1}}}}}'
    parseTools([
      JSON.parse(
        bad.replace(',"parameters":{"properties":{"__proto__":{"x":1},"constructor":{"prototype":{"x":1}}}}', ''),
      ),
    ])
    try {
      parseTools([JSON.parse(bad)])
    } catch (e) {
      expect(e).toBeInstanceOf(ApiError)
    }
    expect(({} as Record<string, unknown>)['x']).toBeUndefined()
  })
})

const f = (name: string, more: object = {}): Tool => ({
  type: 'function',
  name,
  parameters: null,
  strict: null,
  ...more,
})
const ns = (name: string, ...names: string[]): Tool => ({
  type: 'namespace',
  name,
  description: '',
  tools: names.map((n) => ({ type: 'custom', name: n })),
})

describe('callables', () => {
  it('gives every name once, short and plain enough for any engine, and the same ones each time', () => {
    const name = fc.oneof(
      fc.stringMatching(/^[A-Za-z0-9_.-]{1,128}$/),
      fc.constantFrom('a.b', 'a_b', 'a__b', 'x'.repeat(128), `${'x'.repeat(64)}y`),
    )
    const tool = fc.oneof(
      name.map((n) => f(n)),
      fc.tuple(name, fc.array(name, { maxLength: 4 })).map(([n, inner]) => ns(n, ...inner)),
    )
    fc.assert(
      fc.property(fc.array(tool, { maxLength: 12 }), (tools) => {
        const found = callables(tools)
        const flats = found.map((one) => one.flat)
        expect(new Set(flats).size).toBe(flats.length)
        for (const flat of flats) expect(flat).toMatch(/^[A-Za-z0-9_-]{1,64}$/)
        expect(callables(tools).map((one) => one.flat)).toEqual(flats)
      }),
      { numRuns: 300 },
    )
  })
  it('keeps a plain name, joins a namespace to it, and numbers what would fall together', () => {
    const tools = [f('shell'), ns('git', 'log', 'shell'), f('git__log'), f('a.b'), f('a_b')]
    expect(callables(tools).map((one) => one.flat)).toEqual([
      'shell',
      'git__log',
      'git__shell',
      'git__log_2',
      'a_b',
      'a_b_2',
    ])
    expect(callables([f('x'.repeat(64))])[0]?.flat).toBe('x'.repeat(64))
  })
  it('lets a later definition win and keep its flat name', () => {
    const found = callables([f('a', { description: 'old' })], [f('a', { description: 'new', strict: true })])
    expect(found).toMatchObject([{ flat: 'a', description: 'new', strict: true }])
  })
  it('leaves out hosted kinds and gives custom tools one string', () => {
    const found = callables([{ type: 'web_search' }, { type: 'custom', name: 'c', format: { type: 'text' } }])
    expect(found).toMatchObject([
      { name: 'c', kind: 'custom', parameters: { required: ['input'] }, format: { type: 'text' } },
    ])
  })
  it('names thousands of tools with one prefix at once', () => {
    const tools = Array.from({ length: 4096 }, (_, i) => f(`${'x'.repeat(70)}${i}`))
    const start = performance.now()
    const found = callables(tools)
    expect(performance.now() - start).toBeLessThan(500)
    expect(new Set(found.map((one) => one.flat)).size).toBe(4096)
    expect(Math.max(...found.map((one) => one.flat.length))).toBeLessThanOrEqual(64)
  })
})

describe('chosen', () => {
  const tools = callables([f('a'), f('b'), { type: 'custom', name: 'c' }, ns('n', 'a', 'd')])
  const names = (choice: Parameters<typeof chosen>[1]) => {
    const { tools: left, must } = chosen(tools, choice)
    return [left.map((one) => one.flat), must]
  }
  it('reads the words', () => {
    expect(names('auto')).toEqual([['a', 'b', 'c', 'n__a', 'n__d'], false])
    expect(names('required')).toEqual([['a', 'b', 'c', 'n__a', 'n__d'], true])
    expect(names('none')).toEqual([[], false])
  })
  it('finds one tool by kind and name', () => {
    expect(names({ type: 'function', name: 'a' })).toEqual([['a'], true])
    expect(names({ type: 'custom', name: 'c' })).toEqual([['c'], true])
    expect(names({ type: 'function', name: 'c' })).toEqual([[], true])
    expect(names({ type: 'web_search_preview' })).toEqual([[], true])
  })
  it('keeps the allowed ones, by name or by namespace', () => {
    const allowed = (mode: 'auto' | 'required', ...list: Record<string, unknown>[]) =>
      names({ type: 'allowed_tools', mode, tools: list })
    expect(allowed('auto', { type: 'function', name: 'b' }, { type: 'mcp', server_label: 'x' })).toEqual([['b'], false])
    expect(allowed('required', { type: 'namespace', name: 'n' })).toEqual([['n__a', 'n__d'], true])
    expect(allowed('auto', { type: 'custom', name: 'd', namespace: 'n' })).toEqual([['n__d'], false])
    expect(allowed('auto', { type: 'custom', name: 'd', namespace: 'other' })).toEqual([[], false])
  })
})
