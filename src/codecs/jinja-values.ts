// Values of a chat template while it is rendered: made of ours, printed, compared and written as JSON the way Python does.
import { type Call, Environment, type Value } from './jinja-library.ts'

export type { Value }

/** The library keeps its classes of values to itself: they are taken from an example of each. */
const example = (value: unknown): Value => new Environment().set('example', value)
const maker = <T>(value: unknown): new (value: T) => Value =>
  example(value).constructor as unknown as new (value: T) => Value
const Text = maker<string>('')
const Integer = maker<number>(0)
const Float = maker<number>(0.5)
const Truth = maker<boolean>(true)
const List = maker<Value[]>([])
const Dict = maker<Map<string, Value>>({})
const Func = maker<Call>(() => null)

export const text = (value: string): Value => new Text(value)
export const integer = (value: number): Value => new Integer(value)
export const float = (value: number): Value => new Float(value)
export const truth = (value: boolean): Value => new Truth(value)
export const list = (value: Value[]): Value => new List(value)
export const dict = (value: Map<string, Value>): Value => new Dict(value)
export const func = (value: Call): Value => new Func(value)
/** The library's own is one without a value. */
export const none: Value = new (maker<null>(null))(null)
export const missing: Value = example(undefined)

export const isFloat = (value: Value): boolean => value.type === 'FloatValue'
export const isTrue = (value: Value): boolean => value.__bool__().value

/** A number whose digits JavaScript cannot hold, or a float that it would take for an integer, as it stood in JSON. */
export class Digits {
  readonly text: string
  constructor(digits: string) {
    this.text = digits
  }
}
const digitsOf = new WeakMap<Value, string>()

/** JSON-like data of ours as a value. `clean`: what is done to every string and key, which a client may have written. */
export function valueOf(data: unknown, clean: (text: string) => string): Value {
  if (typeof data === 'string') return text(clean(data))
  if (typeof data === 'number') return Number.isInteger(data) ? integer(data) : float(data)
  if (typeof data === 'boolean') return truth(data)
  if (data === null) return none
  if (Array.isArray(data)) return list(data.map((one) => valueOf(one, clean)))
  if (data instanceof Digits) {
    const made = /^-?\d+$/.test(data.text) ? integer(Number(data.text)) : float(Number(data.text))
    if (!isFloat(made)) digitsOf.set(made, data.text)
    return made
  }
  if (typeof data === 'object') {
    const fields = Object.entries(data).filter(([, one]) => one !== undefined)
    return dict(new Map(fields.map(([key, one]) => [clean(key), valueOf(one, clean)])))
  }
  return missing
}

/** `JSON.parse`, but numbers keep what Python would know of them. Throws for text that is no JSON. */
export function parseJson(json: string): unknown {
  if (!/\d[.eE]|\d{16}/.test(json)) return JSON.parse(json) as unknown
  const key = '\ue000'
  if (json.includes(key)) return JSON.parse(json) as unknown
  const kept = json.replaceAll(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/gs, (part) => {
    if (part.startsWith('"')) return part
    const exact = /[.eE]/.test(part) ? !Number.isInteger(Number(part)) : Number.isSafeInteger(Number(part))
    return exact ? part : `"${key}${part}"`
  })
  return JSON.parse(kept, (_, value: unknown) =>
    typeof value === 'string' && value.startsWith(key) ? new Digits(value.slice(1)) : value,
  ) as unknown
}

/** `repr` of a float: at least one digit behind the point, exponents of two digits. */
function floatText(value: number): string {
  if (Number.isNaN(value)) return 'nan'
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf'
  if (Object.is(value, -0)) return '-0.0'
  const size = Math.abs(value)
  if (size !== 0 && (size >= 1e16 || size < 1e-4)) return value.toExponential().replace(/e([+-])(\d)$/, 'e$10$2')
  return Number.isInteger(value) ? value.toFixed(1) : String(value)
}
const numberText = (value: Value, number: number): string =>
  isFloat(value) ? floatText(number) : (digitsOf.get(value) ?? String(number))

/** `str(value)`; an undefined one is empty. */
export const str = (value: Value): string => (typeof value.value === 'string' ? value.value : repr(value))

/** `repr(value)`; an undefined one is empty. */
export function repr(value: Value): string {
  const raw = value.value
  if (raw === undefined) return ''
  if (raw === null) return 'None'
  if (typeof raw === 'boolean') return raw ? 'True' : 'False'
  if (typeof raw === 'number') return numberText(value, raw)
  if (typeof raw === 'string') return quoted(raw)
  if (Array.isArray(raw)) return `[${raw.map(repr).join(', ')}]`
  if (raw instanceof Map) return `{${[...raw].map(([key, one]) => `${quoted(key)}: ${repr(one)}`).join(', ')}}`
  return '<function>'
}
function quoted(raw: string): string {
  const mark = raw.includes("'") && !raw.includes('"') ? '"' : "'"
  const names: Readonly<Record<string, string>> = { '\n': String.raw`\n`, '\r': String.raw`\r`, '\t': String.raw`\t` }
  // Control characters are what Python escapes; private-use ones are marks of ours.
  // oxlint-disable-next-line no-control-regex
  const inner = raw.replaceAll(/[\\\u0000-\u001f\u007f-\u00a0\u00ad]/g, (c) => {
    return c === '\\' ? '\\\\' : (names[c] ?? `\\x${c.charCodeAt(0).toString(16).padStart(2, '0')}`)
  })
  return mark + (mark === "'" ? inner.replaceAll("'", String.raw`\'`) : inner) + mark
}

export type JsonStyle = {
  readonly indent: number | undefined
  readonly ascii: boolean
  readonly sorted: boolean
  /** Between parts, and behind a key. */
  readonly separators: readonly [string, string]
}
/** `json.dumps`. Throws for what is no data. */
export function json(value: Value, style: JsonStyle, depth = 0): string {
  const raw = value.value
  if (typeof raw === 'string') return jsonText(raw, style.ascii)
  if (typeof raw === 'number') {
    const shown = numberText(value, raw)
    return { nan: 'NaN', inf: 'Infinity', '-inf': '-Infinity' }[shown] ?? shown
  }
  if (typeof raw === 'boolean') return String(raw)
  if (raw === null) return 'null'
  const { indent, separators } = style
  const wrap = ([open, close]: readonly [string, string], parts: string[]): string => {
    if (parts.length === 0 || indent === undefined) return open + parts.join(separators[0]) + close
    const [outer, inner] = [' '.repeat(indent * depth), ' '.repeat(indent * (depth + 1))]
    return `${open}\n${inner}${parts.join(`${separators[0]}\n${inner}`)}\n${outer}${close}`
  }
  if (Array.isArray(raw))
    return wrap(
      ['[', ']'],
      raw.map((one) => json(one, style, depth + 1)),
    )
  if (!(raw instanceof Map))
    throw new Error(raw === undefined ? 'an undefined value is no JSON' : 'a function is no JSON')
  const fields = style.sorted ? [...raw].toSorted(([a], [b]) => (a < b ? -1 : 1)) : [...raw]
  return wrap(
    ['{', '}'],
    fields.map(([key, one]) => jsonText(key, style.ascii) + separators[1] + json(one, style, depth + 1)),
  )
}
function jsonText(raw: string, ascii: boolean): string {
  const out = JSON.stringify(raw)
  if (!ascii) return out
  // Not the private-use area: there stand the marks.
  return out.replaceAll(/[\u007f-\udfff\uf900-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** `a == b`. */
export function equal(a: Value, b: Value): boolean {
  const [x, y] = [a.value, b.value]
  if (Array.isArray(x) && Array.isArray(y)) {
    if (x.length !== y.length) return false
    return x.every((one, n) => {
      const other = y[n]
      return other !== undefined && equal(one, other)
    })
  }
  if (x instanceof Map && y instanceof Map) {
    if (x.size !== y.size) return false
    return [...x].every(([key, one]) => {
      const other = y.get(key)
      return other !== undefined && equal(one, other)
    })
  }
  if (typeof x === 'boolean' && typeof y === 'number') return Number(x) === y
  if (typeof x === 'number' && typeof y === 'boolean') return x === Number(y)
  return x === y
}
/** Negative where `a < b`. Throws where Python would. */
export function compare(a: Value, b: Value): number {
  const [x, y] = [numberOf(a) ?? a.value, numberOf(b) ?? b.value]
  if (typeof x === 'number' && typeof y === 'number') return x - y
  if (typeof x === 'string' && typeof y === 'string') return x < y ? -1 : x > y ? 1 : 0
  throw new Error(`${kind(a)} and ${kind(b)} cannot be compared`)
}
/** The number that a value is to Python's arithmetic. */
export const numberOf = (value: Value): number | undefined =>
  typeof value.value === 'number' ? value.value : typeof value.value === 'boolean' ? Number(value.value) : undefined
const counted = new WeakSet<ReadonlyMap<string, Value>>()
/** A dictionary with numbers among its keys, as a template may write one: looked up by their digits, given back as numbers. */
export function numbered(fields: Map<string, Value>): Value {
  counted.add(fields)
  return dict(fields)
}
export const keysOf = (fields: ReadonlyMap<string, Value>): Value[] =>
  [...fields.keys()].map((key) => (counted.has(fields) && /^-?\d+$/.test(key) ? integer(Number(key)) : text(key)))
/** Keys and values in pairs. */
export const pairsOf = (fields: ReadonlyMap<string, Value>): Value =>
  list(keysOf(fields).map((key) => list([key, fields.get(str(key)) ?? missing])))

/** What a loop goes over; undefined for what cannot be looped over. */
export function parts(value: Value): Value[] | undefined {
  const raw = value.value
  if (Array.isArray(raw)) return raw
  if (typeof raw === 'string') return Array.from(raw, text)
  if (raw instanceof Map) return keysOf(raw)
  return raw === undefined ? [] : undefined
}
/** For sentences. */
export function kind(value: Value): string {
  const raw = value.value
  if (raw === undefined) return 'an undefined value'
  if (raw === null) return 'none'
  if (Array.isArray(raw)) return 'a list'
  if (raw instanceof Map) return 'a dictionary'
  return { string: 'a text', number: 'a number', boolean: 'a truth value' }[typeof raw as string] ?? 'a function'
}
