// JSON numbers as expressions: any, whole ones in a range, and fractions between whole bounds.
import { choice, nothing, optional, repeat, sequence, set, text } from './grammar-expression.ts'
import type { Expression } from './grammar-expression.ts'
import { digits as digitRanges } from './grammar-ranges.ts'
import { listOf, unsupported } from './grammar-schema.ts'
import type { Fields } from './grammar-schema.ts'

const digit = set(digitRanges)
const from = (low: number, high: number): Expression =>
  low > high ? nothing : low === high ? text(`${low}`) : set([[0x30 + low, 0x30 + high]])
const one = from(1, 9)

/** Digits are bounded, so that a model cannot go on with them for ever: as many as JavaScript writes, and some. */
const natural = choice(text('0'), sequence(one, repeat(digit, 0, 24)))
const fraction = sequence(text('.'), repeat(digit, 1, 32))
const exponent = sequence(
  set([
    [0x45, 0x45],
    [0x65, 0x65],
  ]),
  optional(
    set([
      [0x2b, 0x2b],
      [0x2d, 0x2d],
    ]),
  ),
  repeat(digit, 1, 3),
)
const minus = optional(text('-'))

export const anyInteger = sequence(minus, natural)
export const anyNumber = sequence(minus, natural, optional(fraction), optional(exponent))

/** A number by its schema. */
export function numberOf(schema: Fields, integer: boolean, path: string): Expression {
  const bound = (key: string): number | undefined => {
    const value = schema[key]
    if (value === undefined) return undefined
    if (typeof value === 'number' && Number.isFinite(value)) return value
    throw unsupported(key, path, ' unless it is a number')
  }
  const step = bound('multipleOf')
  if (step !== undefined && step !== 1) throw unsupported('multipleOf', path, ' unless it is 1')
  const [least, above] = [bound('minimum'), bound('exclusiveMinimum')]
  const [most, below] = [bound('maximum'), bound('exclusiveMaximum')]
  if (integer || step === 1) {
    const low = Math.max(Math.ceil(least ?? -Infinity), Math.floor(above ?? -Infinity) + 1)
    const high = Math.min(Math.floor(most ?? Infinity), Math.ceil(below ?? Infinity) - 1)
    if (low === -Infinity && high === Infinity) return anyInteger
    return integersWithin(low, high, path)
  }
  const low =
    above !== undefined && above >= (least ?? -Infinity)
      ? { at: above, open: true }
      : { at: least ?? -Infinity, open: false }
  const high =
    below !== undefined && below <= (most ?? Infinity)
      ? { at: below, open: true }
      : { at: most ?? Infinity, open: false }
  if (low.at === -Infinity && high.at === Infinity) return anyNumber
  for (const [key, { at }] of [
    ['minimum', low],
    ['maximum', high],
  ] as const)
    if (Number.isFinite(at) && !Number.isSafeInteger(at)) throw unsupported(key, path, ' unless it is a whole number')
  return numbersWithin(low, high)
}

/** Whole numbers from `low` to `high`; either may be infinite. */
function integersWithin(low: number, high: number, path: string): Expression {
  for (const [key, value] of [
    ['minimum', low],
    ['maximum', high],
  ] as const)
    if (Number.isFinite(value) && !Number.isSafeInteger(value)) throw unsupported(key, path, ' past 2^53')
  if (low > high) return nothing
  const negative = low < 0 ? sequence(text('-'), naturalsWithin(Math.max(1, -high), -low)) : nothing
  const positive = high >= 0 ? naturalsWithin(Math.max(0, low), high) : nothing
  return choice(negative, positive)
}
function naturalsWithin(low: number, high: number): Expression {
  if (low > high) return nothing
  const least = `${low}`
  if (high === Infinity) {
    // As many digits as the bound, or more.
    const longer = sequence(one, repeat(digit, least.length, 24))
    return choice(sameLength(least, '9'.repeat(least.length)), longer)
  }
  const most = `${high}`
  const parts: Expression[] = []
  for (let length = least.length; length <= most.length; length++) {
    const start = length === least.length ? least : `1${'0'.repeat(length - 1)}`
    parts.push(sameLength(start, length === most.length ? most : '9'.repeat(length)))
  }
  return choice(...parts)
}
/** Numbers of one length between two of that length. */
function sameLength(low: string, high: string): Expression {
  const [a, b] = [Number(low[0] ?? 0), Number(high[0] ?? 0)]
  const [lowRest, highRest] = [low.slice(1), high.slice(1)]
  const length = lowRest.length
  if (length === 0) return from(a, b)
  const free = /^0*$/.test(lowRest) && /^9*$/.test(highRest)
  if (free) return sequence(from(a, b), repeat(digit, length, length))
  if (a === b) return sequence(text(`${a}`), sameLength(lowRest, highRest))
  return choice(
    sequence(text(`${a}`), sameLength(lowRest, '9'.repeat(length))),
    sequence(from(a + 1, b - 1), repeat(digit, length, length)),
    sequence(text(`${b}`), sameLength('0'.repeat(length), highRest)),
  )
}

type End = { readonly at: number; readonly open: boolean }
const zeros = sequence(text('.'), repeat(text('0'), 1, 32))
const some = sequence(text('.'), repeat(digit, 0, 16), one, repeat(digit, 0, 15))

/** Numbers between whole bounds, written without exponents. */
function numbersWithin(low: End, high: End): Expression {
  if (low.at > high.at) return nothing
  // Away from zero: up to `high`, and below zero up to `-low`, each with its sign.
  const positive = high.at < 0 ? nothing : magnitudes({ at: Math.max(0, low.at), open: low.open && low.at >= 0 }, high)
  const negative =
    low.at >= 0
      ? nothing
      : magnitudes(
          { at: Math.max(0, -high.at), open: high.at <= 0 ? high.open : true },
          { at: -low.at, open: low.open },
        )
  return choice(sequence(text('-'), negative), positive)
}
function magnitudes(low: End, high: End): Expression {
  if (low.at > high.at || (low.at === high.at && (low.open || high.open))) return nothing
  const exact = (end: End): Expression => (end.open ? nothing : sequence(text(`${end.at}`), optional(zeros)))
  if (low.at === high.at) return exact(low)
  return choice(
    exact(low),
    sequence(text(`${low.at}`), some),
    sequence(naturalsWithin(low.at + 1, high.at - 1), optional(fraction)),
    exact(high),
  )
}

/** Whether a listed value keeps to the bounds that stand beside `enum`. */
export function numberFits(schema: Fields, value: number): boolean {
  const [least, above] = [schema['minimum'], schema['exclusiveMinimum']]
  const [most, below] = [schema['maximum'], schema['exclusiveMaximum']]
  if (listOf(schema['multipleOf']).some((step) => typeof step === 'number' && !Number.isInteger(value / step)))
    return false
  return (
    !(typeof least === 'number' && value < least) &&
    !(typeof above === 'number' && value <= above) &&
    !(typeof most === 'number' && value > most) &&
    !(typeof below === 'number' && value >= below)
  )
}
