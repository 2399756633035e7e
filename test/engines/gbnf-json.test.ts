import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { gbnfOf } from '../../src/engines/gbnf.ts'
import { ApiError } from '../../src/protocol/errors.ts'
import { Gbnf } from './gbnf-matcher.ts'

const runs = { numRuns: Number(process.env['RUNS'] ?? 40) }
type Schema = Record<string, unknown>
const of = (schema: Schema) =>
  new Gbnf(gbnfOf({ after: undefined, rule: { type: 'whole', content: { type: 'json', schema } } }))
const takes = (schema: Schema, ...values: unknown[]) => {
  const g = of(schema)
  for (const value of values) expect([value, g.accepts(JSON.stringify(value))]).toEqual([value, true])
}
const leaves = (schema: Schema, ...values: unknown[]) => {
  const g = of(schema)
  for (const value of values) expect([value, g.accepts(JSON.stringify(value))]).toEqual([value, false])
}
const refused = (schema: Schema): string => {
  try {
    of(schema)
  } catch (e) {
    if (e instanceof ApiError) return `${e.code}: ${e.message}`
    throw e
  }
  return 'taken'
}

describe('a schema as a grammar', () => {
  it('takes any JSON where it says nothing, compact or with single spaces', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
        takes({}, value)
      }),
      runs,
    )
    const g = of({ type: 'object', properties: { a: {}, b: {} } })
    expect(g.accepts('{"a": [1, {"x": null}], "b": "\\u00e9\\n"}')).toBe(true)
    expect(g.accepts('{"a":  1}')).toBe(false)
    expect(g.accepts('{\n"a":1}')).toBe(false)
    expect(g.accepts('{"a":"\n"}')).toBe(false)
    expect(g.accepts('{"a":01}')).toBe(false)
  })
  it('keeps to types, lists of types and nullable', () => {
    const samples = {
      string: 'x',
      integer: 3,
      number: -2.5e-7,
      boolean: true,
      null: null,
      array: [1, 'a'],
      object: { k: [] },
    }
    for (const type of Object.keys(samples))
      for (const [other, value] of Object.entries(samples)) {
        const fits = type === other || (type === 'number' && other === 'integer')
        ;(fits ? takes : leaves)({ type }, value)
      }
    takes({ type: ['string', 'null'] }, 'a', null)
    leaves({ type: ['string', 'null'] }, 1)
    takes({ type: 'integer', nullable: true }, null, 1)
  })
  it('keeps to listed values', () => {
    takes({ enum: ['a', 1, null, { k: [1, 2] }] }, 'a', 1, null, { k: [1, 2] })
    leaves({ enum: ['a', 1] }, 'b', '1', 11)
    leaves({ type: 'string', enum: ['a', 1] }, 1)
    takes({ const: false }, false)
    leaves({ const: 'a', enum: ['a', 'b'] }, 'b')
  })
  it('wants required members, lets others be left out, and takes no further ones unless it says so', () => {
    const properties = {
      a: { type: 'integer' },
      b: { type: 'integer' },
      c: { type: 'integer' },
      d: { type: 'integer' },
    }
    const schema = { type: 'object', properties, required: ['b', 'd'] }
    takes(schema, { b: 1, d: 2 }, { a: 0, b: 1, d: 2 }, { b: 1, c: 1, d: 2 }, { a: 1, b: 1, c: 1, d: 2 })
    leaves(schema, {}, { b: 1 }, { d: 1, b: 1 }, { b: 1, d: 2, e: 3 })
    takes({ type: 'object', properties }, {}, { c: 1 }, { a: 1, d: 1 })
    const open = { ...schema, additionalProperties: { type: 'string' } }
    takes(open, { b: 1, d: 2, e: 'x', bb: 'y', '': '' })
    leaves(open, { b: 1, d: 2, e: 3 })
    const g = of(open)
    expect(g.accepts('{"b":1,"d":2,"b":"x"}')).toBe(false)
    expect(g.accepts('{"b":1,"d":2,"\\u0062":"x"}')).toBe(false)
    takes({ type: 'object', additionalProperties: { type: 'integer' } }, {}, { x: 1, y: 2 })
    takes({ type: 'object' }, {}, { x: [1] })
    takes({ type: 'object', properties: {}, additionalProperties: false }, {})
    leaves({ type: 'object', properties: {}, additionalProperties: false }, { a: 1 })
    takes({ type: 'object', required: ['x'], additionalProperties: { type: 'null' } }, { x: null, y: null })
    const map = {
      type: 'object',
      propertyNames: { type: 'string', pattern: '^[a-z]+$' },
      additionalProperties: { type: 'integer' },
      minProperties: 1,
      maxProperties: 2,
    }
    takes(map, { a: 1 }, { a: 1, b: 2 })
    leaves(map, {}, { A: 1 }, { a: 1, b: 1, c: 1 })
    takes(
      { type: 'object', patternProperties: { '^x_': { type: 'integer' } }, additionalProperties: false },
      { x_1: 1 },
      {},
    )
    leaves({ type: 'object', patternProperties: { '^x_': { type: 'integer' } }, additionalProperties: false }, { y: 1 })
  })
  it('keeps to lengths of arrays, and to the places of tuples', () => {
    takes({ type: 'array', items: { type: 'integer' }, minItems: 1, maxItems: 3 }, [1], [1, 2], [1, 2, 3])
    leaves({ type: 'array', items: { type: 'integer' }, minItems: 1, maxItems: 3 }, [], [1, 2, 3, 4], ['a'])
    takes({ type: 'array', maxItems: 0 }, [])
    const tuple = { type: 'array', prefixItems: [{ type: 'integer' }, { type: 'string' }], minItems: 1 }
    takes(tuple, [1], [1, 'a'])
    leaves(tuple, [], ['a'], [1, 'a', 2])
    takes({ ...tuple, items: { type: 'null' }, maxItems: 3 }, [1, 'a', null])
    leaves({ ...tuple, items: { type: 'null' }, maxItems: 3 }, [1, 'a', null, null], [1, 'a', 1])
    takes({ items: [{ type: 'integer' }], additionalItems: { type: 'string' } }, [1, 'a', 'b'])
  })
  it('keeps to lengths, patterns and formats of strings', () => {
    takes({ type: 'string', minLength: 2, maxLength: 4 }, 'ab', '😀"\n\\')
    leaves({ type: 'string', minLength: 2, maxLength: 4 }, 'a', 'abcde')
    takes({ type: 'string', pattern: '^[a-z]+\\.(ts|js)$' }, 'main.ts')
    leaves({ type: 'string', pattern: '^[a-z]+\\.(ts|js)$' }, 'main.py', 'xmain.ts.')
    takes({ type: 'string', pattern: 'b"?c' }, 'abcd', 'b"c')
    leaves({ type: 'string', pattern: 'b"?c' }, 'ab')
    takes({ type: 'string', format: 'date' }, '2026-08-31')
    leaves({ type: 'string', format: 'date' }, '2026-13-31', '26-01-01')
    takes({ type: 'string', format: 'date-time' }, '2026-08-31T23:59:60.5+02:00', '2026-08-31T00:00:00Z')
    leaves({ type: 'string', format: 'date-time' }, '2026-08-31 00:00:00')
    takes({ type: 'string', format: 'time' }, '12:00:00Z')
    takes({ type: 'string', format: 'uuid' }, '123e4567-e89b-12d3-a456-426614174000')
    leaves({ type: 'string', format: 'uuid' }, '123e4567')
    takes({ type: 'string', format: 'email' }, 'a.b@c-d.org')
    takes({ type: 'string', format: 'of-their-own' }, 'anything')
    takes({ type: 'string', pattern: '^[a-f0-9]{40}$', minLength: 40, maxLength: 40 }, 'a'.repeat(40))
  })
  it('takes long bounds apart, since llama.cpp repeats at most 2,000 times', () => {
    const g = of({ type: 'string', minLength: 1500, maxLength: 4600 })
    for (const [length, fits] of [
      [1499, false],
      [1500, true],
      [2500, true],
      [3499, true],
      [4600, true],
      [4601, false],
    ] as const)
      expect([length, g.accepts(JSON.stringify('x'.repeat(length)))]).toEqual([length, fits])
    expect(refused({ type: 'string', maxLength: 2_000_000 })).toMatch(/^unsupported_by_engine.*too large/)
  })
  it('keeps whole numbers in their bounds', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: -3000, max: 3000 }),
        fc.nat(3000),
        fc.array(fc.integer({ min: -7000, max: 7000 }), { minLength: 1, maxLength: 20 }),
        (low, more, samples) => {
          const high = low + more
          const bounded = of({ type: 'integer', minimum: low, maximum: high })
          const above = of({ type: 'integer', minimum: low })
          const below = of({ type: 'integer', exclusiveMaximum: high })
          for (const n of [...samples, low, high, low - 1, high + 1]) {
            const text = JSON.stringify(n)
            expect([n, bounded.accepts(text)]).toEqual([n, low <= n && n <= high])
            expect([n, above.accepts(text)]).toEqual([n, n >= low])
            expect([n, below.accepts(text)]).toEqual([n, n < high])
          }
        },
      ),
      runs,
    )
    leaves({ type: 'integer', minimum: 0 }, -1)
    expect(of({ type: 'integer', minimum: 5, maximum: 120 }).accepts('007')).toBe(false)
  })
  it('keeps numbers between whole bounds', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: -30, max: 30 }),
        fc.nat(30),
        fc.boolean(),
        fc.array(fc.integer({ min: -700, max: 700 }), { minLength: 1, maxLength: 20 }),
        (low, more, open, tenths) => {
          const high = low + more + 1
          const g = of({
            type: 'number',
            [open ? 'exclusiveMinimum' : 'minimum']: low,
            [open ? 'exclusiveMaximum' : 'maximum']: high,
            description: 'x',
          })
          for (const n of [...tenths.map((t) => t / 10), low, high]) {
            const fits = open ? low < n && n < high : low <= n && n <= high
            expect([n, g.accepts(JSON.stringify(n))]).toEqual([n, fits])
          }
        },
      ),
      runs,
    )
    takes({ type: 'number', minimum: 0, maximum: 1 }, 0, 0.5, 1, 0.001)
    leaves({ type: 'number', minimum: 0, maximum: 1 }, 1.01, -0.1, 2)
    takes({ type: 'number', multipleOf: 1 }, 3)
    leaves({ type: 'number', multipleOf: 1 }, 3.5)
  })
  it('follows references, and those that lead back', () => {
    const tree = {
      $ref: '#/$defs/node',
      $defs: {
        node: {
          type: 'object',
          properties: { name: { type: 'string' }, children: { type: 'array', items: { $ref: '#/$defs/node' } } },
          required: ['name', 'children'],
          additionalProperties: false,
        },
      },
    }
    takes(tree, { name: 'a', children: [{ name: 'b', children: [] }] })
    leaves(tree, { name: 'a', children: [{ name: 'b' }] })
    takes({ anyOf: [{ type: 'integer' }, { type: 'array', items: { $ref: '#' } }] }, 1, [1, [2, []]])
    leaves({ anyOf: [{ type: 'integer' }, { type: 'array', items: { $ref: '#' } }] }, ['x'])
    const merged = {
      type: 'object',
      properties: { next: { description: 'more', nullable: true, $ref: '#/definitions/list' } },
      definitions: {
        list: {
          type: 'object',
          properties: { next: { allOf: [{ $ref: '#/definitions/list' }], nullable: true } },
          required: ['next'],
        },
      },
    }
    takes(merged, {}, { next: null }, { next: { next: { next: null } } })
    leaves(merged, { next: {} })
    expect(refused({ $ref: 'https://example.com/schema.json' })).toMatch(/^unsupported_by_engine.*\$ref/)
    expect(refused({ $ref: '#/$defs/none' })).toMatch(/no such place/)
    expect(refused({ $ref: '#' })).toMatch(/no finite text/)
    expect(
      refused({ $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } }, $ref: '#/$defs/a', type: 'object' }),
    ).toMatch(/unsupported_by_engine.*round/)
  })
  it('takes any of several schemas, with what stands beside them', () => {
    takes({ anyOf: [{ type: 'string' }, { type: 'null' }] }, 'a', null)
    takes({ oneOf: [{ type: 'integer' }, { type: 'boolean' }] }, 1, true)
    const shapes = {
      type: 'object',
      properties: { kind: { type: 'string' } },
      required: ['kind'],
      anyOf: [
        { properties: { kind: { const: 'a' }, x: { type: 'integer' } }, required: ['x'] },
        { properties: { kind: { const: 'b' } } },
      ],
    }
    takes(shapes, { kind: 'a', x: 1 }, { kind: 'b' })
    leaves(shapes, { kind: 'a' }, { kind: 'b', x: 1 }, { kind: 'c' })
    const both = {
      anyOf: [{ minimum: 0 }, { maximum: -10 }],
      oneOf: [{ type: 'integer' }, { type: 'null' }],
      allOf: [{ maximum: 5 }],
    }
    takes(both, 0, 5, -10)
    leaves(both, 6, -5, 'x')
  })
  it('wants all of several objects at once', () => {
    const part = (name: string) => ({ type: 'object', properties: { [name]: { type: 'integer' } }, required: [name] })
    takes({ allOf: [part('a'), part('b')] }, { a: 1, b: 2 })
    leaves({ allOf: [part('a'), part('b')] }, { a: 1 })
    takes({ allOf: [{ type: 'integer', minimum: 0 }, { maximum: 9 }, { type: ['number', 'null'] }] }, 0, 9)
    leaves({ allOf: [{ type: 'integer', minimum: 0 }, { maximum: 9 }, { type: ['number', 'null'] }] }, 10, null, 1.5)
    leaves({ allOf: [{ enum: [1, 2] }, { enum: [2, 3] }] }, 1, 3)
    expect(refused({ allOf: [{ ...part('a'), additionalProperties: false }, part('b')] })).toMatch(/no finite text/)
  })
  it.each([
    [{ not: { type: 'null' } }, "`not` at '#'"],
    [{ type: 'object', properties: { a: { type: 'array', uniqueItems: true } } }, "`uniqueItems` at 'properties/a'"],
    [{ type: 'object', properties: { 'a/b': { contains: { type: 'null' } } } }, "`contains` at 'properties/a~1b'"],
    [{ if: {}, then: {} }, '`if`'],
    [{ type: 'number', multipleOf: 0.25 }, '`multipleOf`'],
    [{ type: 'number', minimum: 0.5 }, '`minimum`'],
    [{ type: 'object', dependentRequired: { a: ['b'] } }, '`dependentRequired`'],
    [{ type: 'object', unevaluatedProperties: false }, '`unevaluatedProperties`'],
    [{ type: 'object', properties: { a: {} }, minProperties: 1 }, '`minProperties`'],
    [{ type: 'object', properties: { a: {} }, patternProperties: { x: {} } }, '`patternProperties`'],
    [{ type: 'string', pattern: 'a+', maxLength: 3 }, '`pattern`'],
    [{ type: 'text' }, '`type`'],
  ])('refuses %j by keyword and place', (schema, words) => {
    expect(refused(schema)).toMatch(/^unsupported_by_engine/)
    expect(refused(schema)).toContain(words)
  })
  it('takes what says nothing about values', () => {
    const remarks = {
      title: 'T',
      description: 'd',
      default: 1,
      examples: [1],
      $schema: 'x',
      $comment: 'c',
      deprecated: true,
      'x-own': {},
      uniqueItems: false,
    }
    takes({ ...remarks, type: 'integer' }, 1)
  })
  it('bounds depth, number of schemas, and what merging makes', () => {
    let deep: Schema = { type: 'integer' }
    for (let n = 0; n < 70; n++) deep = { type: 'array', items: deep }
    expect(refused(deep)).toMatch(/nesting/)
    // Each level doubles: 2^30 combinations, in a few kilobytes.
    const levels = Array.from({ length: 30 }, (_, n) => [
      `l${n}`,
      { maximum: 1000 + n, anyOf: [{ $ref: `#/$defs/l${n + 1}` }, { maximum: n, $ref: `#/$defs/l${n + 1}` }] },
    ])
    const wide = { $ref: '#/$defs/l0', $defs: { ...Object.fromEntries(levels), l30: { type: 'integer', minimum: 0 } } }
    const began = Date.now()
    expect(refused(wide)).toMatch(/too large|taken/)
    expect(refused({ description: 'x'.repeat(300_000) })).toMatch(/too large/)
    expect(Date.now() - began).toBeLessThan(2000)
  })
})

// ── random schemas with values that fit them, and values that do not ───────────────────────────────────────────────────
type Pair = { readonly schema: Schema; readonly good: unknown; readonly bad: unknown }
const name = fc.stringMatching(/^[a-z"\\é]{1,6}$/)
const leaf: fc.Arbitrary<Pair> = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 12 }).map((good) => ({ schema: { type: 'string' }, good, bad: 7 })),
  fc
    .double({ noNaN: true, noDefaultInfinity: true })
    .map((good) => ({ schema: { type: 'number' }, good, bad: `${good}` })),
  fc.maxSafeInteger().map((good) => ({ schema: { type: 'integer' }, good, bad: 0.5 })),
  fc.boolean().map((good) => ({ schema: { type: ['boolean', 'null'] }, good, bad: 'true' })),
  fc.tuple(fc.uniqueArray(fc.string(), { minLength: 1, maxLength: 4 }), fc.nat()).map(([values, n]) => ({
    schema: { enum: values },
    good: values[n % values.length],
    bad: `${values.join('')}x`,
  })),
  fc.tuple(fc.nat(5), fc.string({ unit: 'binary', minLength: 5, maxLength: 9 })).map(([min, good]) => ({
    schema: { type: 'string', minLength: min, maxLength: 9 },
    good,
    bad: 'x'.repeat(10),
  })),
)
const { pair } = fc.letrec<{ pair: Pair; object: Pair; array: Pair }>((tie) => ({
  pair: fc.oneof({ maxDepth: 3, withCrossShrink: true }, leaf, tie('object'), tie('array')),
  object: fc
    .tuple(
      fc.uniqueArray(name, { minLength: 1, maxLength: 5 }),
      fc.array(tie('pair'), { minLength: 5, maxLength: 5 }),
      fc.array(fc.boolean(), { minLength: 5, maxLength: 5 }),
      fc.array(fc.boolean(), { minLength: 5, maxLength: 5 }),
    )
    .map(([names, pairs, must, there]) => {
      const all = names.map((key, n) => [key, pairs[n] ?? { schema: {}, good: 1, bad: 1 }] as const)
      const present = all.filter((_, n) => must[n] === true || there[n] === true)
      const required = all.filter((_, n) => must[n] === true).map(([key]) => key)
      const good = Object.fromEntries(present.map(([key, one]) => [key, one.good]))
      const [first] = present
      const bad = first === undefined ? { ...good, 'not-there': 1 } : { ...good, [first[0]]: first[1].bad }
      return {
        schema: {
          type: 'object',
          properties: Object.fromEntries(all.map(([key, one]) => [key, one.schema])),
          required,
          additionalProperties: false,
        },
        good,
        bad,
      }
    }),
  array: fc.tuple(tie('pair'), fc.integer({ min: 1, max: 3 })).map(([one, n]) => ({
    schema: { type: 'array', items: one.schema, minItems: 1, maxItems: 3 },
    good: Array.from({ length: n }, () => one.good),
    bad: [one.good, one.bad],
  })),
}))

describe('any schema', () => {
  it('accepts a value that fits, and refuses it changed or broken', () => {
    fc.assert(
      fc.property(pair, fc.nat(), ({ schema, good, bad }, at) => {
        const g = of(schema)
        const text = JSON.stringify(good)
        expect(g.accepts(text)).toBe(true)
        expect(g.accepts(JSON.stringify(bad))).toBe(false)
        expect(g.accepts(`${text} `)).toBe(false)
        expect(g.accepts(`${text}}`)).toBe(false)
        // Cut anywhere, it is no longer JSON, but for numbers.
        const cut = text.slice(0, at % text.length)
        if (!/^-?\d/.test(text)) expect(g.accepts(cut)).toBe(false)
      }),
      runs,
    )
  })
})
