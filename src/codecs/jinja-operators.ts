// Operators and tests of chat templates, as Python has them.
import { repeated } from './jinja-filters.ts'
import {
  equal,
  float,
  integer,
  isFloat,
  isTrue,
  kind,
  list,
  missing,
  numberOf,
  parts,
  repr,
  str,
  text,
  type Value,
} from './jinja-values.ts'

export type Test = (value: Value) => boolean
export const tests: Readonly<Record<string, Test>> = {
  defined: ({ value }) => value !== undefined,
  undefined: ({ value }) => value === undefined,
  none: ({ value }) => value === null,
  string: ({ value }) => typeof value === 'string',
  boolean: ({ value }) => typeof value === 'boolean',
  true: ({ value }) => value === true,
  false: ({ value }) => value === false,
  number: (value) => numberOf(value) !== undefined,
  integer: (value) => typeof value.value === 'number' && !isFloat(value),
  float: isFloat,
  mapping: (value) => value.value instanceof Map && value.type !== 'NamespaceValue',
  iterable: (value) => parts(value) !== undefined,
  sequence: ({ value }) => typeof value === 'string' || Array.isArray(value) || value instanceof Map,
}
/** A test as filters are given one: its name, and what to compare with. */
export function testOf([name, other = missing]: readonly Value[]): Test {
  if (name === undefined) return isTrue
  switch (str(name)) {
    case 'equalto':
    case 'eq':
    case '==':
      return (value) => equal(value, other)
    case 'ne':
    case '!=':
      return (value) => !equal(value, other)
    case 'in':
      return (value) => holds(other, value)
    default: {
      const test = tests[str(name)]
      if (!test) throw new Error(`there is no test '${str(name)}' here`)
      return test
    }
  }
}
/** `left op right`, of numbers, lists and formats. Throws where Python would. */
export function arithmetic(op: string, left: Value, right: Value): Value {
  const [x, y] = [left.value, right.value]
  if (op === '+' && Array.isArray(x) && Array.isArray(y)) return list([...x, ...y])
  if (op === '%' && typeof x === 'string') return text(formatted(x, Array.isArray(y) ? y : [right]))
  if (op === '*' && typeof x === 'string' && typeof y === 'number') return text(repeated(x, y))
  const [a, b] = [numberOf(left), numberOf(right)]
  if (a === undefined || b === undefined)
    throw new Error(`'${op}' does not go together with ${kind(left)} and ${kind(right)}`)
  if (b === 0 && ['/', '//', '%'].includes(op)) throw new Error('a number is divided by zero')
  const result = calculate(op, a, b)
  return op === '/' || isFloat(left) || isFloat(right) || !Number.isInteger(result) ? float(result) : integer(result)
}
/** `part in whole`. */
export function holds(whole: Value, part: Value): boolean {
  const [all, one] = [whole.value, part.value]
  if (typeof all === 'string' && typeof one === 'string') return all.includes(one)
  if (all instanceof Map) return typeof one === 'string' && all.has(one)
  if (Array.isArray(all)) return all.some((other) => equal(other, part))
  if (all === undefined) return false
  throw new Error(`'in' does not go together with ${kind(whole)}`)
}
function calculate(op: string, a: number, b: number): number {
  switch (op) {
    case '+':
      return a + b
    case '-':
      return a - b
    case '*':
      return a * b
    case '/':
      return a / b
    case '//':
      return Math.floor(a / b)
    case '%':
      return a - b * Math.floor(a / b)
    case '**':
      return a ** b
    default:
      throw new Error(`there is no operator '${op}' here`)
  }
}
/** `'%s of %d' % (a, b)`. */
function formatted(format: string, values: readonly Value[]): string {
  let n = 0
  return format.replaceAll(/%(?:%|0?(\d{0,3})(?:\.(\d{1,2}))?([sdrf]))/g, (found, width, digits, as) => {
    if (found === '%%') return '%'
    const value = values[n++] ?? missing
    const shown =
      as === 'f'
        ? (numberOf(value) ?? 0).toFixed(digits === undefined ? 6 : Number(digits))
        : as === 'd'
          ? String(Math.trunc(numberOf(value) ?? 0))
          : as === 'r'
            ? repr(value)
            : str(value)
    return shown.padStart(Number(width ?? 0), found.startsWith('%0') ? '0' : ' ')
  })
}
