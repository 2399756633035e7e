import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { argumentsFor, isValid, valueFor } from '../../src/engines/scenario-arguments.ts'
import { patternOf } from '../../src/engines/scenario-pattern.ts'

// The outside oracle. Formats are checked by ajv's own default: not at all, so they have tests of their own below.
const ajv = new Ajv2020({ strict: false, validateFormats: false, ownProperties: true })
const complaints = (schema: object, value: unknown): unknown => {
  const check = ajv.compile(schema)
  return check(value) ? [] : check.errors
}

type Json = Record<string, unknown>
const range = (max: number): fc.Arbitrary<[number, number]> =>
  fc.tuple(fc.integer({ min: 0, max }), fc.integer({ min: 0, max })).map(([a, b]) => [Math.min(a, b), Math.max(a, b)])
const key = fc.constantFrom('path', 'city', 'query', 'count', 'a b', 'ünïcode', 'x-1', 'toString', 'items', 'type')

const text: fc.Arbitrary<Json> = fc.oneof(
  fc.record({ type: fc.constant('string') }),
  range(40).map(([minLength, maxLength]) => ({ type: 'string', minLength, maxLength })),
  fc
    .constantFrom(
      '^[a-z]+$',
      '^\\d{4}-\\d{2}$',
      '^(foo|bar)-[A-F0-9]{8}$',
      '^[^\\s/]{1,5}(/[^\\s/]+)*$',
      '\\.md$',
      '^#[0-9a-f]{6}$',
      '^v?\\d+\\.\\d+$',
    )
    .map((pattern) => ({ type: 'string', pattern })),
  range(30).map(([minLength, more]) => ({
    type: 'string',
    pattern: '^[A-Z][a-z]*$',
    minLength: minLength + 1,
    maxLength: minLength + more + 1,
  })),
  fc.uniqueArray(fc.string(), { minLength: 1, maxLength: 4 }).map((list) => ({ enum: list })),
)
const number: fc.Arbitrary<Json> = fc.oneof(
  fc
    .tuple(fc.integer({ min: -500, max: 500 }), fc.integer({ min: 0, max: 500 }))
    .map(([minimum, more]) => ({ type: 'integer', minimum, maximum: minimum + more })),
  fc
    .tuple(fc.integer({ min: -50, max: 50 }), fc.integer({ min: 1, max: 9 }))
    .map(([minimum, multipleOf]) => ({ type: 'integer', minimum, multipleOf })),
  fc
    .tuple(fc.integer({ min: -50, max: 50 }), fc.integer({ min: 1, max: 9 }))
    .map(([exclusiveMaximum, multipleOf]) => ({ type: 'integer', exclusiveMaximum, multipleOf })),
  fc.integer({ min: -50, max: 50 }).map((n) => ({ type: 'number', exclusiveMinimum: n, exclusiveMaximum: n + 0.5 })),
)
const leaf: fc.Arbitrary<Json> = fc.oneof(
  text,
  number,
  fc.constantFrom<Json>(
    { type: 'boolean' },
    { type: 'null' },
    {},
    { type: ['string', 'null'] },
    { type: ['integer', 'string'], minimum: 3 },
    { const: { a: [1, null] } },
  ),
)
const { schema } = fc.letrec<{ schema: Json; object: Json; array: Json; choice: Json }>((tie) => ({
  schema: fc.oneof({ maxDepth: 4, depthSize: 'medium' }, leaf, tie('object'), tie('array'), tie('choice')),
  object: fc.oneof(
    fc
      .tuple(fc.dictionary(key, tie('schema'), { maxKeys: 4 }), fc.boolean(), fc.boolean())
      .map(([properties, strict, all]) => ({
        type: 'object',
        properties,
        required: all ? Object.keys(properties) : Object.keys(properties).slice(0, 1),
        ...(strict ? { additionalProperties: false } : {}),
      })),
    fc
      .tuple(fc.integer({ min: 0, max: 3 }), tie('schema'))
      .map(([minProperties, s]) => ({ type: 'object', minProperties, additionalProperties: s })),
    fc.tuple(tie('schema'), text).map(([s, t]) => ({
      allOf: [
        { type: 'object', properties: { left: s }, required: ['left'] },
        { properties: { right: t }, required: ['right'] },
      ],
    })),
    text.map((t) => ({
      type: 'object',
      properties: { a: t },
      required: ['a'],
      dependentRequired: { a: ['b'], b: ['c'] },
    })),
  ),
  array: fc.oneof(
    fc
      .tuple(tie('schema'), range(5))
      .map(([items, [minItems, maxItems]]) => ({ type: 'array', items, minItems, maxItems })),
    fc
      .tuple(tie('schema'), tie('schema'))
      .map(([a, b]) => ({ type: 'array', prefixItems: [a, b], minItems: 2, items: false })),
    range(5).map(([minItems]) => ({ type: 'array', items: { type: 'string' }, minItems, uniqueItems: true })),
    range(5).map(([minItems]) => ({
      type: 'array',
      items: { type: 'integer', multipleOf: 3, minimum: 7 },
      minItems,
      uniqueItems: true,
    })),
    fc.constantFrom<Json>(
      { type: 'array', items: { enum: ['a', 'b', 'c'] }, minItems: 3, uniqueItems: true },
      { type: 'array', contains: { const: 5 } },
    ),
  ),
  choice: fc.oneof(
    fc.tuple(tie('schema'), tie('schema')).map((anyOf) => ({ anyOf })),
    fc
      .tuple(tie('object'), fc.integer())
      .map(([o, n]) => ({ oneOf: [{ const: n }, { type: 'null' }, { allOf: [o, { type: 'object' }] }] })),
    fc.constantFrom<Json>(
      {
        oneOf: [
          { type: 'number', multipleOf: 3 },
          { type: 'number', multipleOf: 1 },
        ],
      },
      {
        type: 'object',
        properties: { kind: { enum: ['a', 'b'] } },
        required: ['kind'],
        if: { properties: { kind: { const: 'a' } } },
        then: { required: ['size'] },
      },
      { type: 'string', not: { const: 'text' } },
      {
        anyOf: [
          { type: 'integer', minimum: 5, maximum: 4 },
          { type: 'string', maxLength: 2 },
        ],
      },
    ),
  ),
}))

describe('values made for a JSON schema', () => {
  it('are valid against any schema that can be met, by an outside validator', () => {
    fc.assert(
      fc.property(schema, (s) => {
        expect(complaints(s, valueFor(s))).toEqual([])
        expect(complaints(s, valueFor(s, { sparse: true }))).toEqual([])
      }),
      { numRuns: 250 },
    )
  })
  it('are an object for every tool, and the same one every time', () => {
    fc.assert(
      fc.property(fc.dictionary(key, schema, { maxKeys: 5 }), (properties) => {
        const parameters = {
          type: 'object',
          properties,
          required: Object.keys(properties),
          additionalProperties: false,
        }
        const made = argumentsFor(parameters)
        expect(complaints(parameters, made)).toEqual([])
        expect(JSON.stringify(argumentsFor(structuredClone(parameters)))).toBe(JSON.stringify(made))
      }),
      { numRuns: 150 },
    )
  })
  it('agree with the validator here: what it accepts the outside one accepts, and the other way round', () => {
    fc.assert(
      fc.property(
        schema,
        fc.oneof(
          fc.jsonValue({ maxDepth: 3 }),
          schema.map((s) => valueFor(s)),
        ),
        (s, value) => {
          // Patterns that are too costly to run are not checked here.
          fc.pre(!JSON.stringify(s).includes('(/['))
          // The outside one reads 1e21 as 1 when it looks for multiples.
          fc.pre(!/\de[+-]?\d/.test(JSON.stringify(value)))
          expect(isValid(s, value)).toBe(ajv.compile(s)(value))
        },
      ),
      { numRuns: 250 },
    )
  })
  it('end where a schema refers to itself, and keep to it', () => {
    const tree = {
      $defs: {
        node: {
          type: 'object',
          properties: {
            name: { type: 'string' },
            left: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] },
            right: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] },
          },
          required: ['name', 'left', 'right'],
          additionalProperties: false,
        },
      },
      $ref: '#/$defs/node',
    }
    expect(complaints(tree, valueFor(tree))).toEqual([])
    const list = { type: 'object', properties: { inner: { type: 'array', items: { $ref: '#' } } }, required: ['inner'] }
    expect(complaints(list, valueFor(list))).toEqual([])
  })
  it('come to an end, with some value, for schemas that nothing can meet', () => {
    const impossible = [
      { type: 'object', properties: { self: { $ref: '#' } }, required: ['self'] },
      { allOf: [{ type: 'string' }, { type: 'integer' }] },
      { $ref: '#' },
      { anyOf: Array.from({ length: 60 }, () => ({ anyOf: Array.from({ length: 60 }, () => false) })) },
      { type: 'array', minItems: 1e9, items: { type: 'string', minLength: 1e9 } },
      false,
    ]
    for (const s of impossible) {
      const started = performance.now()
      expect(JSON.stringify(valueFor(s)).length, JSON.stringify(s).slice(0, 80)).toBeLessThan(20_000_000)
      expect(performance.now() - started, JSON.stringify(s).slice(0, 80)).toBeLessThan(5000)
    }
  })
  it('take null in arguments where it may stand, and a real value in structured output', () => {
    const s = {
      type: 'object',
      properties: { unit: { type: ['string', 'null'] }, n: { anyOf: [{ type: 'integer' }, { type: 'null' }] } },
      required: ['unit', 'n'],
    }
    expect(argumentsFor(s)).toEqual({ unit: null, n: null })
    expect(valueFor(s)).toEqual({ unit: 'unit', n: 1 })
  })
  it('leave out what is optional in arguments', () => {
    expect(
      argumentsFor({
        type: 'object',
        properties: { city: { type: 'string' }, days: { type: 'integer' } },
        required: ['city'],
      }),
    ).toEqual({ city: 'Berlin' })
  })
  it('have the form that a format asks for', () => {
    const form: Record<string, RegExp> = {
      date: /^\d{4}-\d\d-\d\d$/,
      'date-time': /^\d{4}-\d\d-\d\dT[\d:]{8}Z$/,
      email: /^[^@\s]+@[^@\s]+$/,
      uuid: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
      ipv4: /^(\d+\.){3}\d+$/,
      uri: /^https:\/\//,
    }
    for (const [format, regexp] of Object.entries(form)) expect(valueFor({ type: 'string', format })).toMatch(regexp)
  })
})

describe('texts made for a pattern', () => {
  it('match it, with the length that is asked for', () => {
    const patterns = [
      '^[a-z]+$',
      '^\\w{3,}$',
      '^(?:ab|cd){2}x?$',
      '^\\p{Lu}\\p{Ll}*$',
      '^[\\d-]{5}$',
      'a{2}\\.b',
      '^\\u0041\\x42$',
      '^[^a-z]$',
      '^(a|b)*$',
      '^.{0,5}$',
    ]
    for (const source of patterns)
      for (const min of [0, 2]) expect(patternOf(source)?.sample(min, Infinity, 0)).toMatch(new RegExp(source, 'u'))
    expect(patternOf('^[a-z]+$')?.sample(300, 300, 0)).toHaveLength(300)
  })
  it('never need a run of a pattern that could take exponential time', () => {
    for (const source of ['^(a+)+$', '^(a|a)*b$', '(x*)*y', '(\\w+\\s?)*!', '(a)\\1', 'a*a*a*a*a*b'])
      expect(patternOf(source)?.test).toBeUndefined()
    const started = performance.now()
    valueFor({ type: 'string', pattern: '^(\\w+\\s?)*!$', minLength: 60 })
    expect(performance.now() - started).toBeLessThan(5000)
  })
})
