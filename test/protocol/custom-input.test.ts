// Law: however the arguments of a custom tool are cut, the joined pieces are the input.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CustomInput } from '../../src/protocol/custom-input.ts'

/** Cuts a text at any UTF-16 unit, inside escapes and surrogate pairs too. */
const cut = (text: string, at: readonly number[]): string[] => {
  const places = [...new Set(at.map((n) => n % (text.length + 1)))].sort((a, b) => a - b)
  return [0, ...places].map((from, i) => text.slice(from, places[i] ?? text.length))
}
const pieces = (text: string, at: readonly number[]): string[] => {
  const input = new CustomInput()
  const out = cut(text, at).map((piece) => input.push(piece))
  return [...out, input.end()]
}
const cuts = fc.array(fc.nat(500), { maxLength: 20 })
const anyText = fc.oneof(fc.string({ unit: 'binary', maxLength: 60 }), fc.string({ unit: 'grapheme', maxLength: 60 }))
const escapeAll = (text: string): string =>
  [...Array(text.length).keys()].map((i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')
const halves = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/

describe('CustomInput', () => {
  it('gives the input string for any cuts, written plainly', () => {
    fc.assert(
      fc.property(anyText, cuts, fc.constantFrom('', ' ', '\n  '), (text, at, space) => {
        const args = `${space}{${space}"input"${space}:${space}${JSON.stringify(text)}${space}}${space}`
        expect(pieces(args, at).join('')).toBe(text)
      }),
      { numRuns: 1000 },
    )
  })
  it('gives the input string for any cuts, every character escaped', () => {
    fc.assert(
      fc.property(anyText, cuts, (text, at) => {
        expect(pieces(`{"input":"${escapeAll(text)}"}`, at).join('')).toBe(text)
      }),
      { numRuns: 1000 },
    )
  })
  it('never splits a surrogate pair over two pieces', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 40 }), cuts, fc.boolean(), (text, at, escaped) => {
        fc.pre(!halves.test(text))
        const args = `{"input":${escaped ? `"${escapeAll(text)}"` : JSON.stringify(text)}}`
        for (const piece of pieces(args, at)) expect(piece).not.toMatch(halves)
      }),
      { numRuns: 500 },
    )
  })
  it('streams: a piece comes out before the string ends', () => {
    const input = new CustomInput()
    expect(input.push('{"inp')).toBe('')
    expect(input.push('ut": "*** Begin')).toBe('*** Begin')
    expect(input.push(' Patch\\')).toBe(' Patch')
    expect(input.push('n+a\\u00e')).toBe('\n+a')
    expect(input.push('9"}')).toBe('é')
    expect(input.end()).toBe('')
  })
  it('gives free text as it came, for any cuts', () => {
    const free = anyText.filter((text) => {
      try {
        const value: unknown = JSON.parse(text)
        return !(typeof value === 'object' && value !== null && 'input' in value)
      } catch {
        return !/^\s*\{\s*"input"\s*:\s*"/.test(text)
      }
    })
    fc.assert(
      fc.property(
        fc.oneof(
          free,
          free.map((text) => `{${text}`),
          free.map((text) => `{"path":"${text}`),
        ),
        cuts,
        (text, at) => {
          expect(pieces(text, at).join('')).toBe(text)
        },
      ),
      { numRuns: 1000 },
    )
  })
  it('streams free text that cannot be the object', () => {
    const input = new CustomInput()
    expect(input.push('*** Begin')).toBe('*** Begin')
    expect(input.push(' Patch')).toBe(' Patch')
    expect(input.end()).toBe('')
  })
  it('finds an input behind other keys and one whose key is escaped', () => {
    expect(pieces('{"why":"because","input":"ls"}', [3, 9, 20]).join('')).toBe('ls')
    expect(pieces('{"\\u0069nput":"ls"}', [5]).join('')).toBe('ls')
    expect(pieces(`{"why":"${'x'.repeat(5000)}","input":"ls"}`, [3, 900, 2000, 4000]).join('')).toBe('ls')
  })
  it('gives an object without a string input back whole', () => {
    for (const text of ['{}', '{"input":1}', '{"input":null}', '{"command":"ls"}', '{ not json', '{'])
      expect(pieces(text, [1, 2, 5]).join('')).toBe(text)
  })
  it('of a cut stream it gives what was said so far, and no half escape', () => {
    fc.assert(
      fc.property(anyText, fc.nat(100), cuts, (text, end, at) => {
        const args = `{"input":${JSON.stringify(text)}}`
        const short = args.slice(0, Math.max('{"input":"'.length, end))
        expect(text.startsWith(pieces(short, at).join(''))).toBe(true)
      }),
      { numRuns: 500 },
    )
  })
  it('keeps escapes that JSON has not, and line breaks that JSON forbids', () => {
    expect(pieces(`{"input":"it\\'s \\uZZ \n \\d"}`, [12, 13, 17, 18, 19]).join('')).toBe("it\\'s \\uZZ \n \\d")
  })
  it('holds no more than a megabyte of an odd object', () => {
    const input = new CustomInput()
    const first = `{"why":"${'x'.repeat(2000)}`
    expect(input.push(first)).toBe('')
    let out = ''
    for (let i = 0; i < 40; i++) out += input.push('y'.repeat(50_000))
    expect(out.length).toBe(first.length + 40 * 50_000)
    expect(out.startsWith('{"why":"x')).toBe(true)
  })
})
