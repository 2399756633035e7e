// JSON strings as expressions: any, by length, by pattern, by format; and the same without quotes for tagged values.
import { choice, optional, repeat, sequence, set, text } from './grammar-expression.ts'
import type { Expression } from './grammar-expression.ts'
import { quoted } from './grammar-quoted.ts'
import { complement, controls, digits, of, span, union } from './grammar-ranges.ts'
import { regexOf } from './grammar-regex.ts'
import { unsupported } from './grammar-schema.ts'
import type { Fields } from './grammar-schema.ts'

const hexDigit = set(union(digits, span('a', 'f'), span('A', 'F')))
export const plainCharacters = complement(union(controls, of('"\\')))
/** What strings, objects and arrays need of the schema that they stand in. */
export type Inner = {
  value(schema: unknown, path: string, depth: number): Expression
  add(hint: string, e: Expression): Expression
  /** One character inside a string, as a rule. */
  readonly character: Expression
}

/** One character inside a JSON string, in any form. */
export const character = choice(
  set(plainCharacters),
  sequence(text('\\'), choice(set(of('"\\/bfnrt')), sequence(text('u'), repeat(hexDigit, 4, 4)))),
)
export const inQuotes = (inner: Expression): Expression => sequence(text('"'), inner, text('"'))

const date = '[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])'
const hour = '(?:[01][0-9]|2[0-3])'
const time = `${hour}:[0-5][0-9]:(?:[0-5][0-9]|60)(?:\\.[0-9]{1,9})?(?:[Zz]|[+-]${hour}:[0-5][0-9])`
const byte = '(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])'
const label = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?'
/** Formats that are held to; by JSON Schema all others are remarks. */
const formats: ReadonlyMap<string, string> = new Map([
  ['date', date],
  ['time', time],
  ['date-time', `${date}[Tt]${time}`],
  ['uuid', '[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}'],
  ['ipv4', `${byte}(?:\\.${byte}){3}`],
  ['hostname', `${label}(?:\\.${label}){0,8}`],
  ['email', `[A-Za-z0-9._%+-]{1,64}@${label}(?:\\.${label}){1,8}`],
])

type Length = { readonly min: number; readonly max: number | undefined }
export function lengthOf(schema: Fields, least: string, most: string, path: string): Length {
  const count = (key: string): number | undefined => {
    const value = schema[key]
    if (value === undefined) return undefined
    if (typeof value === 'number' && Number.isInteger(value) && value >= 0) return value
    throw unsupported(key, path, ' unless it is a whole number')
  }
  return { min: count(least) ?? 0, max: count(most) }
}

/** What a pattern or a format says of the text, unescaped; undefined where there is neither. */
function described(schema: Fields, path: string): Expression | undefined {
  const pattern = schema['pattern']
  const format = typeof schema['format'] === 'string' ? formats.get(schema['format']) : undefined
  const origin = { what: `the JSON schema, at '${path === '' ? '#' : path}',`, param: null }
  if (pattern === undefined) return format === undefined ? undefined : regexOf(format, origin)
  if (typeof pattern !== 'string') throw unsupported('pattern', path, ' unless it is a string')
  if (format !== undefined) throw unsupported('pattern', path, ' beside `format`')
  const e = regexOf(pattern, origin, 'search')
  const { min, max } = lengthOf(schema, 'minLength', 'maxLength', path)
  const [shortest, longest] = lengths(e)
  // Two conditions at once are beyond a grammar, unless the pattern itself keeps to the lengths.
  if (shortest < min || longest > (max ?? Infinity)) throw unsupported('pattern', path, ' beside a length')
  return e
}
/** Fewest and most characters of an expression that names no rules. */
function lengths(e: Expression): [number, number] {
  if (e.type === 'text') return [Array.from(e.text).length, Array.from(e.text).length]
  if (e.type === 'repeat') {
    const [low, high] = lengths(e.part)
    return [low * e.min, high === 0 ? 0 : high * (e.max ?? Infinity)]
  }
  if (e.type !== 'sequence' && e.type !== 'choice') return [1, 1]
  const all = e.parts.map(lengths)
  if (e.type === 'choice') return [Math.min(...all.map(([low]) => low)), Math.max(...all.map(([, high]) => high))]
  return all.reduce(([low, high], [l, h]) => [low + l, high + h], [0, 0])
}

/** A string by its schema, with its quotes. `one`: a character, as a rule. */
export function stringOf(schema: Fields, path: string, one: Expression): Expression {
  const inner = described(schema, path)
  if (inner !== undefined) return inQuotes(quoted(inner))
  const { min, max } = lengthOf(schema, 'minLength', 'maxLength', path)
  return inQuotes(repeat(one, min, max))
}

/** The same without quotes and escapes; undefined where any text fits. With a length, text is of one line or has no `<`. */
export function rawStringOf(schema: Fields, path: string): Expression | undefined {
  const inner = described(schema, path)
  if (inner !== undefined) return inner
  const { min, max } = lengthOf(schema, 'minLength', 'maxLength', path)
  if (min === 0 && max === undefined) return undefined
  return choice(repeat(set(complement(of('\n'))), min, max), repeat(set(complement(of('<'))), min, max))
}

export function stringFits(schema: Fields, value: string, path: string): boolean {
  if (schema['pattern'] !== undefined) throw unsupported('pattern', path, ' beside `enum`')
  const { min, max } = lengthOf(schema, 'minLength', 'maxLength', path)
  const length = Array.from(value).length
  return length >= min && length <= (max ?? Infinity)
}

/** Keys of further members: any but these, whatever way a key is escaped. */
export function keysBut(names: readonly string[], inner: Inner): Expression {
  const rest = repeat(inner.character)
  // In the part that a name may still follow, no \uXXXX and no \/: they could spell one of the names.
  const plainEscapes = '"\\bfnrt'
  const level = (tails: readonly (readonly string[])[]): Expression => {
    const byUnit = new Map<string, (readonly string[])[]>()
    for (const [unit, ...more] of tails) {
      if (unit === undefined) continue
      const list = byUnit.get(unit)
      if (list === undefined) byUnit.set(unit, [more])
      else list.push(more)
    }
    const raw = [...byUnit.keys()].filter((unit) => unit.length === 1 || !unit.startsWith('\\'))
    const escaped = [...byUnit.keys()].filter((unit) => unit.startsWith('\\')).map((unit) => unit.slice(1))
    const letters = Array.from(plainEscapes)
      .filter((letter) => !escaped.includes(letter))
      .join('')
    const others = choice(
      set(complement(union(complement(plainCharacters), of(raw.join(''))))),
      letters === '' ? choice() : sequence(text('\\'), set(of(letters))),
    )
    const parts = [sequence(others, rest)]
    for (const [unit, list] of byUnit) parts.push(sequence(text(unit), level(list)))
    const end = tails.some((tail) => tail.length === 0)
    return end ? choice(...parts) : optional(inner.add('other-key', choice(...parts)))
  }
  return inQuotes(level(names.map(unitsOf)))
}
/** The characters of a name as JSON.stringify writes them. */
const unitsOf = (name: string): string[] => Array.from(name, (c) => JSON.stringify(c).slice(1, -1))
