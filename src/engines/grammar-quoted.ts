// An expression as it stands inside a JSON string: every character in the form, or the forms, that models write it in.
import { choice, repeat, sequence, set, text } from './grammar-expression.ts'
import type { Expression } from './grammar-expression.ts'
import { controls, minus, of, union } from './grammar-ranges.ts'
import type { Ranges } from './grammar-ranges.ts'

const short: Readonly<Record<string, number>> = { '"': 0x22, '\\': 0x5c, b: 8, f: 12, n: 10, r: 13, t: 9 }
const escaped = union(controls, of('"\\'))

/** Characters outside ASCII stand as they are, and so does `/`. Rules are left: their own expressions are quoted where they are made. */
export function quoted(e: Expression): Expression {
  if (e.type === 'set') return quotedSet(e.ranges)
  if (e.type === 'text') return sequence(...Array.from(e.text, quotedCharacter))
  if (e.type === 'sequence') return sequence(...e.parts.map(quoted))
  if (e.type === 'choice') return choice(...e.parts.map(quoted))
  if (e.type === 'repeat') return repeat(quoted(e.part), e.min, e.max)
  return e
}

function quotedCharacter(c: string): Expression {
  const point = c.codePointAt(0) ?? 0
  return point >= 0x20 && c !== '"' && c !== '\\' ? text(c) : quotedSet([[point, point]])
}

function quotedSet(ranges: Ranges): Expression {
  const has = (point: number): boolean => ranges.some(([low, high]) => low <= point && point <= high)
  const letters = Object.keys(short).filter((letter) => has(short[letter] ?? -1))
  const forms = [set(minus(ranges, escaped))]
  if (letters.length > 0) forms.push(sequence(text('\\'), oneOf(letters)))
  for (const high of [0, 1]) {
    const low = Array.from('0123456789abcdef').filter((_, n) => has(high * 16 + n))
    if (low.length > 0) forms.push(sequence(text(`\\u00${high}`), oneOf([...low, ...low.map((d) => d.toUpperCase())])))
  }
  return choice(...forms)
}

function oneOf(characters: readonly string[]): Expression {
  return new Set(characters).size === 1 ? text(characters[0] ?? '') : set(of(characters.join('')))
}
