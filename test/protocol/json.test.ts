// JSON at the door: bounds before building, exact values otherwise.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ApiError } from '../../src/protocol/errors.ts'
import { parseJson, parseObject } from '../../src/protocol/json.ts'

const refusal = (run: () => unknown): ApiError => {
  try {
    run()
  } catch (e) {
    if (e instanceof ApiError) return e
    throw e
  }
  throw new Error('nothing was refused')
}
const took = (run: () => unknown): number => {
  const start = performance.now()
  run()
  return performance.now() - start
}

describe('parseJson', () => {
  it('gives what JSON.parse gives, for text and for bytes', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 6 }), (text) => {
        fc.pre(!text.includes('__proto__'))
        expect(parseJson(text)).toEqual(JSON.parse(text))
        expect(parseJson(Buffer.from(text))).toEqual(JSON.parse(Buffer.from(text).toString()))
      }),
      { numRuns: 500 },
    )
  })
  it('refuses exactly what JSON.parse refuses, whatever is broken in the text', () => {
    const pieces = fc.constantFrom('{', '}', '[', ']', '"', '\\', ':', ',', '1', 'a', ' ', '\\"', 'null')
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 12 }), (parts) => {
        const text = parts.join('')
        let valid = true
        try {
          JSON.parse(text)
        } catch {
          valid = false
        }
        if (valid) expect(parseJson(text)).toEqual(JSON.parse(text))
        else expect(refusal(() => parseJson(text)).code).toBe('invalid_json')
      }),
      { numRuns: 2000 },
    )
  })
  it('takes 128 levels and refuses 129, whatever opens them', () => {
    const arrays = (n: number) => '['.repeat(n) + ']'.repeat(n)
    const objects = (n: number) => '{"a":'.repeat(n) + '1' + '}'.repeat(n)
    for (const nest of [arrays, objects]) {
      expect(() => parseJson(nest(128))).not.toThrow()
      expect(refusal(() => parseJson(nest(129))).message).toContain('128 levels')
    }
  })
  it('does not count brackets inside strings, also behind escaped quotes and backslashes', () => {
    const text = JSON.stringify({ a: '['.repeat(500), b: '\\"{'.repeat(500), c: '\\\\' })
    expect(parseJson(text)).toEqual(JSON.parse(text))
  })
  it('refuses a million levels in under 20 ms', () => {
    for (const open of ['[', '{"a":']) {
      const deep = Buffer.from(open.repeat(1_000_000))
      const best = Math.min(
        ...[1, 2, 3].map(() => took(() => expect(refusal(() => parseJson(deep)).code).toBe('invalid_json'))),
      )
      expect(best).toBeLessThan(20)
    }
  })
  it('refuses a million keys in one object, and more than a million values, before building them', () => {
    const keys = `{${Array.from({ length: 1_000_000 }, (_, i) => `"k${i}":1`).join(',')}}`
    expect(refusal(() => parseJson(keys)).message).toContain('10000 keys')
    const values = `[${'1,'.repeat(1_000_001)}1]`
    expect(refusal(() => parseJson(values)).message).toContain('1000000 values')
    const bytes = Buffer.from(keys)
    const best = Math.min(...[1, 2, 3].map(() => took(() => refusal(() => parseJson(bytes)))))
    expect(best).toBeLessThan(20)
  })
  it('counts keys per object: many small objects pass', () => {
    const many = `[${'{"a":1,"b":2},'.repeat(20_000)}1]`
    expect(parseJson(many)).toHaveLength(20_001)
  })
  it('adds little to a megabyte of ordinary input', () => {
    const line = {
      type: 'message',
      role: 'user',
      content: [{ type: 'input_text', text: 'const a = "x"\n'.repeat(20) }],
    }
    const text = JSON.stringify(Array.from({ length: 2_500 }, () => line))
    const bytes = Buffer.from(text)
    expect(bytes.length).toBeGreaterThan(1_000_000)
    const best = (run: () => unknown) => Math.min(...Array.from({ length: 7 }, () => took(run)))
    const plain = best(() => JSON.parse(bytes.toString()))
    const ours = best(() => parseJson(bytes))
    expect(ours).toBeLessThan(plain * 2 + 10)
  })
  it('refuses bytes that are no UTF-8 and drops a byte order mark', () => {
    for (const bad of [
      [0x22, 0xff, 0x22],
      [0x22, 0xc3, 0x22],
      [0x22, 0xed, 0xa0, 0x80, 0x22],
    ])
      expect(refusal(() => parseJson(Buffer.from(bad))).message).toContain('UTF-8')
    expect(parseJson(Buffer.from('\ufeff{"a":1}'))).toEqual({ a: 1 })
  })
  it('never repeats what was sent', () => {
    expect(refusal(() => parseJson('{"secret-key-123": oops')).message).not.toContain('secret')
  })
  it('refuses keys named __proto__ at any depth, plain or escaped, and leaves values of that text alone', () => {
    for (const key of ['__proto__', '\\u005f_proto__', '__\\u0070roto__'])
      for (const text of [`{"${key}":{"x":1}}`, `{"a":[{"b":{"${key}":{"x":1}}}]}`])
        expect(refusal(() => parseJson(text)).message).toContain('__proto__')
    expect(parseJson('{"a":"__proto__","b":["\\u005f_proto__"]}')).toEqual({ a: '__proto__', b: ['__proto__'] })
    expect(parseJson('{"constructor":{"prototype":{"x":1}}}')).toHaveProperty('constructor')
    expect(({} as Record<string, unknown>)['x']).toBeUndefined()
  })
})

describe('parseObject', () => {
  it('takes objects only', () => {
    expect(parseObject('{"a":1}')).toEqual({ a: 1 })
    for (const text of ['[]', 'null', '1', '"a"', 'true', ''])
      expect(refusal(() => parseObject(text)).code).toBe('invalid_json')
  })
})
