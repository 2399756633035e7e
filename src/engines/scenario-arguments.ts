// Values that are valid against a JSON schema, always the same for the same schema: arguments of tool calls and
// structured output. Candidates are made simplest first, and the first that fits is taken.
import { patternOf } from './scenario-pattern.ts'
import {
  canonical,
  type Document,
  fits,
  isObject,
  needs,
  numberOf,
  propertySchemas,
  resolve,
  type Schema,
  schemaOf,
  schemasOf,
  textsOf,
} from './scenario-schema.ts'
import { formatted, wordFor } from './scenario-words.ts'

/** `sparse`: as little as is valid, null where it may be; right for arguments, where more means more to go wrong. */
type Style = { readonly sparse: boolean }
type Work = Document & Style
/** A schema and all it refers to, with one branch taken at each choice. */
type Flat = { readonly all: readonly Exclude<Schema, boolean>[] }

const budget = 50_000
const deepest = 24
const mostItems = 1000
const longestText = 10_000

/** A valid value for a schema, as far as one is found within a bounded search; else the nearest candidate. */
export function valueFor(schema: Schema, style: Style = { sparse: false }): unknown {
  return build(schema, { root: schema, left: budget, ...style }, 0, '', 0)
}
/** The same for the arguments of a function: always an object. */
export function argumentsFor(parameters: Record<string, unknown>): Record<string, unknown> {
  const work = { root: parameters, left: budget, sparse: true }
  const made = build({ allOf: [parameters, { type: 'object' }] }, work, 0, '', 0)
  return isObject(made) ? made : {}
}
/** Is the value valid against the schema? Formats are not checked. */
export const isValid = (schema: Schema, value: unknown): boolean => fits(schema, value, { root: schema, left: budget })

function build(schema: Schema, work: Work, depth: number, name: string, salt: number): unknown {
  let first: { readonly value: unknown } | undefined
  let tries = 0
  for (const flat of variants([schema], [], work, depth, 0))
    for (const value of candidates(flat, work, depth, name, salt)) {
      first ??= { value }
      // A long text costs in proportion, so that many of them cannot add up without end.
      if (typeof value === 'string') work.left -= value.length >> 6
      if (fits(schema, value, work)) return value
      if (++tries > 64 || work.left <= 0) return first.value
    }
  return first ? first.value : null
}

/** Every way to take the choices (`anyOf`, `oneOf`, `if`) in a conjunction of schemas. */
function* variants(
  open: readonly Schema[],
  all: Flat['all'],
  work: Work,
  depth: number,
  hops: number,
): Generator<Flat> {
  if (--work.left <= 0 || hops > 200) return
  const [schema, ...rest] = open
  if (schema === undefined) {
    yield { all }
    return
  }
  if (schema === false) return
  if (schema === true) {
    yield* variants(rest, all, work, depth, hops + 1)
    return
  }
  const more = [...rest, ...schemasOf(schema['allOf'])]
  const target = '$ref' in schema ? resolve(schema['$ref'], work.root) : undefined
  if (target !== undefined) more.push(target)
  let choices: Schema[][] = [[]]
  for (const key of ['anyOf', 'oneOf'])
    if (Array.isArray(schema[key])) {
      const branches = ordered(schemasOf(schema[key]), work, depth)
      choices = choices.flatMap((taken) => branches.map((b) => [...taken, b])).slice(0, 64)
    }
  if ('if' in schema) {
    const both = [[schemaOf(schema['if']), schemaOf(schema['then'])], [schemaOf(schema['else'])]]
    choices = choices.flatMap((taken) => both.map((b) => [...taken, ...b])).slice(0, 64)
  }
  for (const choice of choices) yield* variants([...more, ...choice], [...all, schema], work, depth, hops + 1)
}
/** Null comes last, or first in a sparse value; deep down what refers to nothing comes first, so that recursion ends. */
function ordered(branches: readonly Schema[], work: Work, depth: number): Schema[] {
  const rank = (s: Schema): number => {
    if (typeof s === 'boolean') return 1
    if (s['type'] === 'null') return work.sparse || depth > 3 ? 0 : 3
    const plain = ['string', 'number', 'integer', 'boolean'].includes(String(s['type'])) || 'const' in s || 'enum' in s
    return depth > 3 && !plain ? 2 : 1
  }
  return branches
    .map((s, n) => ({ s, n, r: rank(s) }))
    .sort((a, b) => a.r - b.r || a.n - b.n)
    .map(({ s }) => s)
}

function* candidates(flat: Flat, work: Work, depth: number, name: string, salt: number): Generator<unknown> {
  for (const s of flat.all)
    if ('const' in s) {
      yield s['const']
      return
    }
  const lists = flat.all.flatMap((s) => (Array.isArray(s['enum']) ? [s['enum'] as unknown[]] : []))
  const [list] = lists
  if (list) {
    const texts = lists.slice(1).map((l) => new Set(l.map(canonical)))
    const left = list.slice(0, 1000).filter((v) => texts.every((t) => t.has(canonical(v))))
    for (let n = 0; n < left.length; n++) yield left[(n + salt) % left.length]
    return
  }
  for (const type of types(flat, work)) {
    if (type === 'null') yield null
    else if (type === 'boolean') yield* salt % 2 === 0 ? [true, false] : [false, true]
    else if (type === 'string') yield* strings(flat, name, salt)
    else if (type === 'number' || type === 'integer') yield* numbers(flat, type === 'integer', salt)
    else if (type === 'array') yield* arrays(flat, work, depth, name, salt)
    else if (type === 'object') yield* objects(flat, work, depth, salt)
  }
}
function types(flat: Flat, work: Work): string[] {
  let said: string[] | undefined
  for (const s of flat.all)
    if ('type' in s) {
      const own = [s['type']].flat().map(String)
      const both = (t: string): boolean => own.includes(t) || (t === 'integer' && own.includes('number'))
      said = said
        ? [...said.filter(both), ...(said.includes('number') && own.includes('integer') ? ['integer'] : [])]
        : own
    }
  if (said) {
    const others = said.filter((t) => t !== 'null')
    return others.length === said.length ? said : work.sparse ? ['null', ...others] : [...others, 'null']
  }
  const has = (...keys: string[]): boolean => flat.all.some((s) => keys.some((k) => k in s))
  const all = ['string', 'object', 'array', 'number', 'boolean', 'null']
  const likely = has('properties', 'required', 'additionalProperties', 'patternProperties', 'minProperties')
    ? 'object'
    : has('items', 'prefixItems', 'minItems', 'uniqueItems', 'contains')
      ? 'array'
      : has('minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf')
        ? 'number'
        : 'string'
  return [likely, ...all.filter((t) => t !== likely)]
}

const highest = (flat: Flat, key: string): number | undefined => edge(flat, key, Math.max)
const lowest = (flat: Flat, key: string): number | undefined => edge(flat, key, Math.min)
function edge(flat: Flat, key: string, pick: (...n: number[]) => number): number | undefined {
  const all = flat.all.flatMap((s) => numberOf(s[key]) ?? [])
  return all.length > 0 ? pick(...all) : undefined
}

function* numbers(flat: Flat, whole: boolean, salt: number): Generator<number> {
  const above = highest(flat, 'exclusiveMinimum')
  const below = lowest(flat, 'exclusiveMaximum')
  const low = Math.max(
    highest(flat, 'minimum') ?? -Infinity,
    whole && above !== undefined ? Math.floor(above) + 1 : (above ?? -Infinity),
  )
  const high = Math.min(
    lowest(flat, 'maximum') ?? Infinity,
    whole && below !== undefined ? Math.ceil(below) - 1 : (below ?? Infinity),
  )
  const steps = flat.all.flatMap((s) => numberOf(s['multipleOf']) ?? [])
  const step = steps.length > 1 && steps.every(Number.isInteger) ? steps.reduce((a, b) => a * b) : (steps[0] ?? 1)
  const wish = Math.min(Math.max(1, low), high)
  const first = Math.ceil(wish / step) * step
  const clean = (n: number): number => (whole ? Math.round(n) : Number(n.toPrecision(15)))
  yield clean(first + salt * step)
  yield clean(Math.floor(high / step) * step - salt * step)
  yield clean(Math.ceil(low / step) * step + salt * step)
  for (let n = 1; n <= 8; n++) yield clean(first + (salt + n) * step)
  if (Number.isFinite(low) && Number.isFinite(high))
    for (let n = 2; n < 6; n++) yield low + ((high - low) * (salt + 1)) / (salt + n)
  if (Number.isFinite(low)) yield low
  if (Number.isFinite(high)) yield high
}

function* strings(flat: Flat, name: string, salt: number): Generator<string> {
  const min = highest(flat, 'minLength') ?? 0
  const max = lowest(flat, 'maxLength') ?? Infinity
  for (const s of flat.all) {
    const pattern = typeof s['pattern'] === 'string' ? patternOf(s['pattern']) : undefined
    for (let n = 0; pattern && n < 3; n++) yield pattern.sample(min, max, salt + n)
  }
  for (const s of flat.all) {
    const made = formatted(s['format'], salt)
    if (made !== undefined) yield made
  }
  const word = wordFor(name)
  const text = salt === 0 ? word : `${word} ${salt + 1}`
  if (text.length >= min && text.length <= max) yield text
  const length = Math.min(Math.max(min, Math.min(max, 4)), longestText)
  for (const start of [salt === 0 ? word : salt.toString(36), 'other', ''])
    yield start.padEnd(length, 'a').slice(0, length)
}

function* arrays(flat: Flat, work: Work, depth: number, name: string, salt: number): Generator<unknown[]> {
  const min = Math.max(
    highest(flat, 'minItems') ?? 0,
    ...flat.all.map((s) => ('contains' in s ? (numberOf(s['minContains']) ?? 1) : 0)),
  )
  const max = lowest(flat, 'maxItems') ?? Infinity
  const unique = flat.all.some((s) => s['uniqueItems'] === true)
  const wish = work.sparse || depth > 2 ? min : Math.min(Math.max(min, 1), max)
  for (const count of new Set([wish, min])) {
    const list: unknown[] = []
    for (let n = 0; n < Math.min(count, mostItems) && depth < deepest && work.left > 0; n++) {
      const of = flat.all.flatMap((s): Schema[] => {
        const prefix = schemasOf(s['prefixItems'] ?? s['items'])
        const rest = Array.isArray(s['items']) ? s['additionalItems'] : s['items']
        const own = prefix[n] ?? schemaOf(rest)
        const wanted = 'contains' in s && n >= prefix.length && n < prefix.length + (numberOf(s['minContains']) ?? 1)
        return wanted ? [own, schemaOf(s['contains'])] : [own]
      })
      list.push(build(join(of), work, depth + 1, name, unique ? salt + n : salt))
    }
    yield list
  }
}

function* objects(flat: Flat, work: Work, depth: number, salt: number): Generator<Record<string, unknown>> {
  const min = highest(flat, 'minProperties') ?? 0
  const known = flat.all.flatMap((s) => (isObject(s['properties']) ? Object.keys(s['properties']) : []))
  const names = new Set(flat.all.flatMap((s) => textsOf(s['required'])))
  const spare = [...known, ...Array.from({ length: Math.min(min, mostItems) }, (_, n) => extraName(flat, n))]
  for (const key of spare) if (names.size < min || (salt > 0 && names.size === 0)) names.add(key)
  // What a property makes necessary may make others necessary in turn.
  for (let before = -1; before < names.size;) {
    before = names.size
    for (const s of flat.all) for (const key of needs(s, [...names])) names.add(key)
  }
  const object: Record<string, unknown> = {}
  if (depth < deepest)
    for (const key of names) {
      const value = build(join(flat.all.flatMap((s) => propertySchemas(s, key))), work, depth + 1, key, salt)
      Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true })
    }
  yield object
}
function extraName(flat: Flat, n: number): string {
  for (const s of flat.all) {
    const names = s['propertyNames']
    const pattern = isObject(names)
      ? names['pattern']
      : isObject(s['patternProperties'])
        ? Object.keys(s['patternProperties'])[0]
        : undefined
    const made = typeof pattern === 'string' ? patternOf(pattern)?.sample(0, 64, n) : undefined
    if (made !== undefined && made !== '') return made
  }
  return `key${n + 1}`
}
const join = (schemas: readonly Schema[]): Schema => {
  const [only] = schemas
  return schemas.length === 1 && only !== undefined ? only : { allOf: schemas }
}
