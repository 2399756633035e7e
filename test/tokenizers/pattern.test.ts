import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Matcher } from '../../src/tokenizers/bpe-matcher.ts'
import { parsePattern } from '../../src/tokenizers/bpe-pattern.ts'
import { atOnce } from '../../src/tokenizers/slices.ts'
import { corpus } from './corpus.ts'
import { pattern } from './small.ts'

const runs = { numRuns: Number(process.env['RUNS'] ?? 40) }
const split = (source: string, text: string): string[] => text.match(new Matcher(parsePattern(source)).regexp) ?? []
const patterns = [
  pattern,
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  '[\\p{Han}]+|[^\\p{Han}&&[^\\s]]+|\\s+',
  "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
  '[一-龥\\x{3040}-\\u30ff]+|(?:ab|a){2,4}c?|.',
]
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 80 }),
  fc.array(fc.constantFrom(...corpus().slice(1, 150)), { maxLength: 20 }).map((parts) => parts.join('')),
  fc
    .array(fc.constantFrom('a', 'b', 'c', ' ', '\n', "'", 's', 'S', '1', '漢'), { maxLength: 40 })
    .map((c) => c.join('')),
)

describe('a pattern of a tokenizer file', () => {
  it.each(patterns)('matches alike by RegExp and by the matcher that can stop: %s', (source) => {
    const matcher = new Matcher(parsePattern(source))
    fc.assert(
      fc.property(text, (input) => {
        const whole = input.replaceAll(/\p{Surrogate}/gu, '\ufffd')
        const sticky = new RegExp(matcher.regexp.source, 'vy')
        for (let at = 0; at < whole.length; at += (whole.codePointAt(at) ?? 0) > 0xffff ? 2 : 1) {
          sticky.lastIndex = at
          const match = sticky.exec(whole)
          expect(atOnce(matcher.match(whole, at, whole.length))).toBe(match ? at + match[0].length : -1)
        }
      }),
      runs,
    )
  })
  it('means by white space what Unicode means', () => {
    expect(split('\\s+', 'a\u0085b\ufeffc\u00a0d')).toEqual(['\u0085', '\u00a0'])
  })
  it('folds the case of ASCII letters, and of the signs that fold to them', () => {
    expect(split("(?i:'s|'k|[x-z])", "'S 's 'ſ '\u212a Y x W")).toEqual(["'S", "'s", "'ſ", "'\u212a", 'Y', 'x'])
  })
  it('keeps what a possessive loop took', () => {
    expect(split('a++b|c?+c|.', 'aaab cc')).toEqual(['aaab', ' ', 'cc'])
    expect(split('a++ab|.', 'aab')).toEqual(['a', 'a', 'b'])
  })
  it('finds long runs and no short ones', () => {
    const matcher = new Matcher(parsePattern(pattern))
    for (const char of ['a', ' ', '\n', '漢', '😀', '\u0301', '𠀀']) {
      const run = char.repeat(5000)
      expect(matcher.hasLongRun(run, 0, run.length)).toBe(true)
      const short = `${char.repeat(400)}1`.repeat(20)
      expect(matcher.hasLongRun(short, 0, short.length)).toBe(false)
    }
  })
  const refused: readonly (readonly [string, string])[] = [
    ['^a', '^'],
    ['a$', '$'],
    ['\\bx', '\\b'],
    ['\\w+', '\\w'],
    ['(?<=a)b', '(?<'],
    ['(?>a)', '(?>'],
    ['a+?', 'quantifier'],
    ['a{1,3}+', 'quantifier'],
    ['a**', 'quantifier'],
    ['(a+)+', 'repeated without an end'],
    ['[[:alpha:]]', '[:'],
    ['\\p{Alpha}', '\\p{Alpha}'],
    ['\\p{Nonsense}', '\\p{Nonsense}'],
    ['(?i:ß)', 'not ASCII'],
    ['(?i:ss)', '(?i:'],
    ['(a', 'breaks off'],
    ['a)', ')'],
    ['[a', 'breaks off'],
    ['a*', 'matches nothing'],
    ['a(?=b+)', 'look-ahead'],
    ['[b-a]', 'order'],
    ['a{2000}', '{2000}'],
  ]
  it.each(refused)('is refused by name where it is not understood: %s', (source, words) => {
    expect(() => new Matcher(parsePattern(source))).toThrow(words)
  })
})
