// Filters of chat templates and the methods of Python's texts, lists and dictionaries that they call, as Python has them.
import { stripped } from './python-text.ts'
import {
  compare,
  dict,
  equal,
  float,
  func,
  integer,
  isTrue,
  json,
  keysOf,
  kind,
  list,
  missing,
  none,
  numberOf,
  pairsOf,
  parts,
  str,
  text,
  truth,
  type Value,
} from './jinja-values.ts'

export type Args = { readonly list: readonly Value[]; readonly named: ReadonlyMap<string, Value> }
type Filter = (value: Value, args: Args) => Value
type Method<T> = (self: T, args: Args) => Value

/** Characters that a template may have repeated, padded or indented out of nothing. */
const maxSpread = 1_000_000

const arg = ({ list: all, named }: Args, n: number, name: string): Value | undefined => all[n] ?? named.get(name)
function textArg(args: Args, n: number, name: string): string | undefined {
  const raw = arg(args, n, name)?.value
  if (raw === undefined || raw === null) return undefined
  if (typeof raw !== 'string') throw new Error(`'${name}' must be a text`)
  return raw
}
const numberArg = (args: Args, n: number, name: string): number | undefined => {
  const value = arg(args, n, name)
  return value && numberOf(value)
}
const flag = (args: Args, n: number, name: string): boolean => {
  const value = arg(args, n, name)
  return value !== undefined && isTrue(value)
}
function listOf(value: Value): Value[] {
  const all = parts(value)
  if (!all) throw new Error(`${kind(value)} is no list`)
  return all
}

/** `str.strip(chars)`; `ends`: which of both. */
function strip(self: string, args: Args, left: boolean, right: boolean): string {
  const chars = textArg(args, 0, 'chars')
  if (chars === undefined) {
    const whole = stripped(self)
    if (left && right) return whole
    if (whole === '') return ''
    const at = self.indexOf(whole)
    return left ? self.slice(at) : self.slice(0, at + whole.length)
  }
  const set = new Set(chars)
  const all = Array.from(self)
  let [from, to] = [0, all.length]
  while (left && from < to && set.has(all[from] ?? '')) from++
  while (right && to > from && set.has(all[to - 1] ?? '')) to--
  return all.slice(from, to).join('')
}
function split(self: string, args: Args, fromRight: boolean): Value {
  const sep = textArg(args, 0, 'sep')
  const most = numberArg(args, 1, 'maxsplit') ?? -1
  const found =
    sep === undefined
      ? stripped(self).split(/[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/)
      : self.split(sep)
  if (sep === '') throw new Error('a text cannot be split at nothing')
  if (sep === undefined && found.length === 1 && found[0] === '') return list([])
  if (most >= 0 && found.length > most + 1) {
    if (sep === undefined) {
      if (fromRight) throw new Error('rsplit() without a separator takes no maxsplit here')
      let rest = stripped(self)
      const out: string[] = []
      for (let n = 0; n < most; n++) {
        const word = found[n] ?? ''
        out.push(word)
        rest = strip(rest.slice(word.length), noArgs, true, false)
      }
      return list([...out, rest].map(text))
    }
    if (fromRight) found.splice(0, found.length - most, found.slice(0, found.length - most).join(sep))
    else found.push(found.splice(most).join(sep))
  }
  return list(found.map(text))
}
function replace(self: string, args: Args): string {
  const [old, by] = [textArg(args, 0, 'old'), textArg(args, 1, 'new')]
  if (old === undefined || by === undefined) throw new Error('replace() takes two texts')
  const most = numberArg(args, 2, 'count') ?? -1
  const found = old === '' ? ['', ...Array.from(self), ''] : self.split(old)
  const more = most >= 0 && found.length > most + 1 ? found.splice(most + 1) : []
  return found.join(by) + more.map((part) => old + part).join('')
}
function starts(self: string, args: Args, test: (self: string, one: string) => boolean): Value {
  const given = args.list[0]
  const all = given && Array.isArray(given.value) ? given.value : given ? [given] : []
  return truth(all.some(({ value }) => typeof value === 'string' && test(self, value)))
}
const capitalized = (self: string): string => self.slice(0, 1).toUpperCase() + self.slice(1).toLowerCase()
const titled = (self: string): string =>
  self.replaceAll(/\p{L}+/gu, (word) => word.slice(0, 1).toUpperCase() + word.slice(1).toLowerCase())
function spread(self: string, times: number): string {
  if (self.length * times > maxSpread) throw new Error('a text is repeated too often')
  return self.repeat(Math.max(0, times))
}
/** `text * n`. */
export const repeated = spread

/** `'{} of {0} and {name}'`, without anything behind a colon. */
function fields(self: string, args: Args): string {
  let next = 0
  return self.replaceAll(/\{\{|\}\}|\{(\w*)\}/g, (found, name: string | undefined) => {
    if (name === undefined) return found.slice(0, 1)
    const value = name === '' ? args.list[next++] : /^\d+$/.test(name) ? args.list[Number(name)] : args.named.get(name)
    if (!value) throw new Error('format() is given too little')
    return str(value)
  })
}

const texts: Readonly<Record<string, Method<string>>> = {
  strip: (self, args) => text(strip(self, args, true, true)),
  lstrip: (self, args) => text(strip(self, args, true, false)),
  rstrip: (self, args) => text(strip(self, args, false, true)),
  upper: (self) => text(self.toUpperCase()),
  lower: (self) => text(self.toLowerCase()),
  title: (self) => text(titled(self)),
  capitalize: (self) => text(capitalized(self)),
  startswith: (self, args) => starts(self, args, (all, one) => all.startsWith(one)),
  endswith: (self, args) => starts(self, args, (all, one) => all.endsWith(one)),
  split: (self, args) => split(self, args, false),
  rsplit: (self, args) => split(self, args, true),
  splitlines: (self) =>
    list(
      self
        .replace(/(?:\r\n|\n|\r)$/, '')
        .split(/\r\n|\n|\r/)
        .map(text),
    ),
  replace: (self, args) => text(replace(self, args)),
  join: (self, args) =>
    text(
      listOf(args.list[0] ?? missing)
        .map(str)
        .join(self),
    ),
  find: (self, args) => integer(self.indexOf(textArg(args, 0, 'sub') ?? '')),
  count: (self, args) => integer(self.split(textArg(args, 0, 'sub') ?? '').length - 1),
  isdigit: (self) => truth(/^\p{Nd}+$/u.test(self)),
  isalpha: (self) => truth(/^\p{L}+$/u.test(self)),
  isalnum: (self) => truth(/^[\p{L}\p{N}]+$/u.test(self)),
  isspace: (self) => truth(self !== '' && stripped(self) === ''),
  format: (self, args) => text(fields(self, args)),
  removeprefix: (self, args) => {
    const start = textArg(args, 0, 'prefix') ?? ''
    return text(self.startsWith(start) ? self.slice(start.length) : self)
  },
  removesuffix: (self, args) => {
    const end = textArg(args, 0, 'suffix') ?? ''
    return text(end !== '' && self.endsWith(end) ? self.slice(0, -end.length) : self)
  },
}
const lists: Readonly<Record<string, Method<Value[]>>> = {
  // The reference's sandbox has these only where templates are trusted; they change what the template itself made.
  append: (self, { list: given }) => {
    self.push(...given.slice(0, 1))
    return none
  },
  extend: (self, { list: given }) => {
    self.push(...listOf(given[0] ?? missing))
    return none
  },
  pop: (self, args) => self.splice(numberArg(args, 0, 'index') ?? -1, 1)[0] ?? missing,
  index: (self, { list: given }) => integer(self.findIndex((one) => given[0] !== undefined && equal(one, given[0]))),
  count: (self, { list: given }) =>
    integer(self.filter((one) => given[0] !== undefined && equal(one, given[0])).length),
}
const dicts: Readonly<Record<string, Method<Map<string, Value>>>> = {
  get: (self, args) => self.get(str(args.list[0] ?? missing)) ?? arg(args, 1, 'default') ?? none,
  items: pairsOf,
  keys: (self) => list(keysOf(self)),
  values: (self) => list([...self.values()]),
  copy: (self) => dict(new Map(self)),
  pop: (self, args) => {
    const key = str(args.list[0] ?? missing)
    const found = self.get(key) ?? arg(args, 1, 'default') ?? missing
    self.delete(key)
    return found
  },
  update: (self, { list: given }) => {
    const more = given[0]?.value
    if (more instanceof Map) for (const [key, one] of more) self.set(key, one)
    return none
  },
}
/** The method of this name, bound; undefined where Python has none that we know. */
export function method(self: Value, name: string): ((args: Args) => Value) | undefined {
  const raw = self.value
  if (typeof raw === 'string') return bound(texts, raw, name)
  if (Array.isArray(raw)) return bound(lists, raw, name)
  return raw instanceof Map && self.type !== 'NamespaceValue' ? bound(dicts, raw, name) : undefined
}
function bound<T>(of: Readonly<Record<string, Method<T>>>, self: T, name: string): ((args: Args) => Value) | undefined {
  const found = Object.hasOwn(of, name) ? of[name] : undefined
  return found && ((args) => found(self, args))
}
/** A method that is looked at and not called. */
export const asValue = (call: (args: Args) => Value): Value => func((given) => call({ list: given, named: new Map() }))

const noArgs: Args = { list: [], named: new Map() }
const method0 =
  (name: string): Filter =>
  (value, args) => {
    const call = method(typeof value.value === 'string' ? value : text(str(value)), name)
    return call ? call(args) : missing
  }
const sized = (value: Value): Value => {
  const raw = value.value
  if (raw instanceof Map) return integer(raw.size)
  return integer(typeof raw === 'string' ? Array.from(raw).length : listOf(value).length)
}
export function attribute(value: Value, path: string): Value {
  let at = value
  for (const name of path.split('.')) {
    const raw = at.value
    at = (raw instanceof Map ? raw.get(name) : Array.isArray(raw) ? raw[Number(name)] : undefined) ?? missing
  }
  return at
}
function ordered(value: Value, args: Args, by: (one: Value) => Value, reverse: boolean, exact: boolean): Value[] {
  const folded = (one: Value): Value => (exact || typeof one.value !== 'string' ? one : text(one.value.toLowerCase()))
  const out = listOf(value).toSorted((a, b) => compare(folded(by(a)), folded(by(b))))
  return reverse ? out.reverse() : out
}
function indented(value: Value, args: Args): Value {
  const width = arg(args, 0, 'width')
  const pad = typeof width?.value === 'string' ? width.value : spread(' ', (width && numberOf(width)) ?? 4)
  const [first, blank] = [flag(args, 1, 'first'), flag(args, 2, 'blank')]
  const lines = str(value).split('\n')
  if (lines.length * pad.length > maxSpread) throw new Error('a text is indented too far')
  return text(lines.map((line, n) => ((n === 0 && !first) || (line === '' && !blank) ? line : pad + line)).join('\n'))
}
function asJson(value: Value, args: Args): Value {
  const indent = numberArg(args, 1, 'indent')
  const given = args.named.get('separators')?.value
  const [between, behind] = Array.isArray(given) ? given.map(str) : []
  return text(
    json(value, {
      indent: indent === undefined ? undefined : Math.min(Math.max(0, indent), 16),
      ascii: flag(args, 0, 'ensure_ascii'),
      sorted: flag(args, 3, 'sort_keys'),
      separators: [between ?? (indent === undefined ? ', ' : ','), behind ?? ': '],
    }),
  )
}
function asInteger(value: Value, args: Args): Value {
  const number = numberOf(value)
  if (number !== undefined) return integer(Math.trunc(number))
  const read = /^\s*[+-]?\d+(?:\.\d+)?\s*$/.test(str(value)) ? Math.trunc(Number(str(value))) : undefined
  return read === undefined ? (arg(args, 0, 'default') ?? integer(0)) : integer(read)
}
const otherwise: Filter = (value, args) =>
  value.value === undefined || (flag(args, 1, 'boolean') && !isTrue(value))
    ? (arg(args, 0, 'default_value') ?? text(''))
    : value
const sequence: Filter = (value) => list([...listOf(value)])

export const filters: Readonly<Record<string, Filter>> = {
  tojson: asJson,
  string: (value) => text(str(value)),
  trim: (value, args) => text(strip(str(value), args, true, true)),
  default: otherwise,
  d: otherwise,
  safe: (value) => value,
  length: sized,
  count: sized,
  list: sequence,
  items: (value) => {
    if (value.value instanceof Map) return pairsOf(value.value)
    if (value.value !== undefined) throw new Error(`${kind(value)} has no items`)
    return list([])
  },
  first: (value) => listOf(value)[0] ?? missing,
  last: (value) => listOf(value).at(-1) ?? missing,
  reverse: (value) =>
    typeof value.value === 'string'
      ? text(Array.from(value.value).reverse().join(''))
      : list([...listOf(value)].reverse()),
  join: (value, args) => {
    const by = textArg(args, 1, 'attribute')
    const all = listOf(value).map((one) => str(by === undefined ? one : attribute(one, by)))
    return text(all.join(textArg(args, 0, 'd') ?? ''))
  },
  unique: (value) => {
    const out: Value[] = []
    for (const one of listOf(value)) if (!out.some((other) => equal(one, other))) out.push(one)
    return list(out)
  },
  sort: (value, args) => {
    const by = textArg(args, 2, 'attribute')
    const at = (one: Value): Value => (by === undefined ? one : attribute(one, by))
    return list(ordered(value, args, at, flag(args, 0, 'reverse'), flag(args, 1, 'case_sensitive')))
  },
  dictsort: (value, args) => {
    const at = (textArg(args, 1, 'by') ?? 'key') === 'key' ? '0' : '1'
    const all = (filters['items'] ?? sequence)(value, noArgs)
    const by = (one: Value): Value => attribute(one, at)
    return list(ordered(all, args, by, flag(args, 2, 'reverse'), flag(args, 0, 'case_sensitive')))
  },
  min: (value) => listOf(value).reduce<Value>((a, b) => (a === missing || compare(b, a) < 0 ? b : a), missing),
  max: (value) => listOf(value).reduce<Value>((a, b) => (a === missing || compare(b, a) > 0 ? b : a), missing),
  sum: (value) => integer(listOf(value).reduce((sum, one) => sum + (numberOf(one) ?? 0), 0)),
  abs: (value) => {
    const size = Math.abs(numberOf(value) ?? 0)
    return value.type === 'FloatValue' ? float(size) : integer(size)
  },
  int: asInteger,
  float: (value) => float(Number(str(value)) || 0),
  map: (value, args) => {
    const by = args.named.get('attribute')
    const filter = args.list[0] && filters[str(args.list[0])]
    if (by) {
      const instead = args.named.get('default')
      return list(
        listOf(value).map((one) => {
          const found = attribute(one, str(by))
          return found === missing ? (instead ?? missing) : found
        }),
      )
    }
    if (!filter) throw new Error('map() takes an attribute or the name of a filter')
    return list(listOf(value).map((one) => filter(one, { list: args.list.slice(1), named: new Map() })))
  },
  indent: indented,
  upper: method0('upper'),
  lower: method0('lower'),
  title: (value) =>
    text(
      str(value)
        .split(/([-\s({[<]+)/)
        .map(capitalized)
        .join(''),
    ),
  capitalize: method0('capitalize'),
  replace: method0('replace'),
}
