// The only way bytes of a client become values: bounded before anything is built, and every failure is `invalid_json`.
import { isUtf8 } from 'node:buffer'
import { ApiError } from './errors.ts'

/** Levels of nesting; deeper input makes recursive readers overflow, and JSON.parse take seconds. */
const maxDepth = 128
/** Members of one object: distinct keys are what makes JSON.parse slow (500,000 of them take 0.6 s). */
const maxKeys = 10_000
/** Commas in one text: a hundred thousand items with ten fields each. */
const maxValues = 1_000_000

const refuse = (message: string): ApiError => new ApiError('invalid_json', message)

/**
 * Parses JSON from a client. Bytes must be UTF-8; a byte order mark is dropped. Throws ApiError `invalid_json` for what
 * is no JSON, is nested past 128 levels, has too many members, or has a key named `__proto__`.
 */
export function parseJson(bytes: Buffer | string): unknown {
  measure(typeof bytes === 'string' ? Buffer.from(bytes) : bytes)
  const text = typeof bytes === 'string' ? bytes : decode(bytes)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // The engine's message quotes the input.
    throw refuse('This is not valid JSON.')
  }
  // Most texts cannot hold such a key; only those that may are walked. Escaped letters count too.
  if ((text.includes('__proto__') || /\\u00[567]/.test(text)) && namesPrototype(value))
    throw refuse("A key named '__proto__' is not accepted.")
  return value
}

/** As parseJson, and refuses arrays, scalars and null: every body and frame is an object. */
export function parseObject(bytes: Buffer | string): Record<string, unknown> {
  const value = parseJson(bytes)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw refuse('This is no JSON object.')
  // Checked above; JSON has no other objects.
  return value as Record<string, unknown>
}

function decode(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw refuse('This is not valid UTF-8.')
  const text = bytes.toString('utf8')
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text
}

// Keys seen so far in the object that is open at each depth. Reused: the scan never waits.
const keys = new Uint32Array(maxDepth + 1)

/**
 * Looks at structure only, jumps over strings, builds nothing; what is malformed is left for JSON.parse to refuse. Reads
 * bytes, since walking a large string costs twice that; bytes of other characters than ASCII match nothing here.
 */
function measure(text: Uint8Array): void {
  let depth = 0
  let values = 0
  keys[0] = 0
  for (let i = 0; i < text.length; i++) {
    switch (text[i]) {
      case 0x22: // "
        i = closingQuote(text, i + 1)
        if (i < 0) return
        break
      case 0x7b: // {
      case 0x5b: // [
        if (++depth > maxDepth) throw refuse(`This is nested past ${maxDepth} levels.`)
        keys[depth] = 0
        break
      case 0x7d: // }
      case 0x5d: // ]
        if (--depth < 0) return
        break
      case 0x3a: // :
        keys[depth] = (keys[depth] ?? 0) + 1
        if ((keys[depth] ?? 0) > maxKeys) throw refuse(`One object has more than ${maxKeys} keys.`)
        break
      case 0x2c: // ,
        if (++values > maxValues) throw refuse(`This has more than ${maxValues} values.`)
        break
      default:
    }
  }
}

// A call of `indexOf` costs as much as walking this many characters.
const stride = 256

/** Index of the quote that ends the string begun before `from`; -1 where none does. Walks short strings, jumps long ones. */
function closingQuote(text: Uint8Array, from: number): number {
  let at = from
  for (;;) {
    for (const far = Math.min(at + stride, text.length); at < far; at++) {
      const c = text[at]
      if (c === 0x22) return at
      if (c === 0x5c) at++
    }
    const quote = text.indexOf(0x22, at)
    if (quote < 0) return -1
    let slashes = 0
    while (quote - slashes - 1 >= at && text[quote - slashes - 1] === 0x5c) slashes++
    if (slashes % 2 === 0) return quote
    at = quote + 1
  }
}

function namesPrototype(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(value)) return value.some(namesPrototype)
  return Object.hasOwn(value, '__proto__') || Object.values(value).some(namesPrototype)
}
