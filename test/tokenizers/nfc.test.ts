import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nfc, nfcLong } from '../../src/tokenizers/nfc.ts'
import { atOnce } from '../../src/tokenizers/slices.ts'

const runs = { numRuns: Number(process.env['RUNS'] ?? 40) }
const marks = Array.from({ length: 0x20000 }, (_, code) => String.fromCodePoint(code)).filter((c) => /\p{M}/u.test(c))
const others = [
  'a',
  'e',
  'u',
  'A',
  '\u1100',
  '\u1161',
  '\u11a8',
  '가',
  '\u0b92',
  '\u212b',
  '\u{11930}',
  '한',
  '漢',
  ' ',
]

describe('normalisation form C', () => {
  it('is that of the language, of any marks in any order', () => {
    const text = fc.array(fc.oneof(fc.constantFrom(...marks), fc.constantFrom(...others)), { maxLength: 300 })
    fc.assert(
      fc.property(text, (chars) => {
        expect(nfc(chars.join(''))).toBe(chars.join('').normalize('NFC'))
      }),
      runs,
    )
  })
  it('is the same where it is made in parts', () => {
    const few = ['\u0301', '\u0316', '\u0334', '\u0345', '\u093c', '\u0dca', '\u05b0', '\u0344']
    const piece = fc.array(fc.constantFrom(...few, ...others, '\u0dd9', '\u0dcf', '\u09c7', '\u09be'), {
      minLength: 20,
    })
    fc.assert(
      fc.property(piece, (chars) => {
        const text = chars.join('').repeat(Math.ceil(40_000 / chars.join('').length))
        expect(atOnce(nfcLong(text))).toBe(text.normalize('NFC'))
      }),
      { numRuns: Math.min(10, runs.numRuns) },
    )
    // All on one letter; more than this takes String.normalize seconds.
    const stack = `u${'\u0301\u0316\u0334\u0308'.repeat(1500)}${'\u0301'.repeat(60_000)}`
    expect(atOnce(nfcLong(stack))).toBe(stack.normalize('NFC'))
  })
  it('takes a million marks in two orders within seconds', () => {
    const text = `u${'\u0301\u0316'.repeat(500_000)}`
    const out = atOnce(nfcLong(text))
    expect(out).toHaveLength(1_000_000)
    expect(out.slice(0, 3)).toBe('ú\u0316\u0316')
  }, 30_000)
})
