// JSON schemas as objects: paths, references inside the document, and two schemas made one.
import { ApiError } from '../protocol/errors.ts'

export type Fields = Readonly<Record<string, unknown>>
export const isFields = (v: unknown): v is Fields => v !== null && typeof v === 'object' && !Array.isArray(v)

/** Characters of a schema as JSON. */
export const maxSchema = 256 * 1024

/** The JSON pointer some steps further. */
export const child = (path: string, ...steps: readonly (string | number)[]): string =>
  [...(path === '' ? [] : [path]), ...steps.map((step) => `${step}`.replaceAll('~', '~0').replaceAll('/', '~1'))].join(
    '/',
  )

/** What a local `$ref` (`#`, `#/…`) leads to; undefined where it leads nowhere or outside. */
export function locate(root: unknown, ref: unknown): unknown {
  if (ref === '#') return root
  if (typeof ref !== 'string' || !ref.startsWith('#/')) return undefined
  let at: unknown = root
  for (const step of ref.slice(2).split('/')) {
    const key = decoded(step).replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined
    // Any own member of an object or an array.
    at = (at as Fields)[key]
  }
  return at
}
function decoded(step: string): string {
  try {
    return decodeURIComponent(step)
  } catch {
    return step
  }
}

/** JSON with sorted keys: equal for equal values. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (!isFields(value)) return JSON.stringify(value) ?? 'null'
  const keys = Object.keys(value).toSorted()
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(',')}}`
}

const larger = ['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties']
const smaller = ['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties']

/**
 * Keywords that say which values fit; `false` where no grammar of ours can follow it. All others, known or not, say nothing
 * about that, as JSON Schema has it.
 */
const telling: Readonly<Record<string, boolean>> = Object.fromEntries([
  ...(
    '$ref type enum const properties required additionalProperties propertyNames patternProperties minProperties ' +
    'maxProperties items prefixItems additionalItems minItems maxItems anyOf oneOf allOf minLength maxLength pattern ' +
    'format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf nullable uniqueItems'
  )
    .split(' ')
    .map((key) => [key, true] as const),
  ...(
    'not if then else contains minContains maxContains dependentRequired dependentSchemas dependencies ' +
    'unevaluatedProperties unevaluatedItems $dynamicRef $recursiveRef'
  )
    .split(' ')
    .map((key) => [key, false] as const),
])

export const unsupported = (keyword: string, path: string, why = ''): ApiError =>
  new ApiError(
    'unsupported_by_engine',
    `The JSON schema has \`${keyword}\` at '${path === '' ? '#' : path}', which this engine's grammars cannot follow${why}.`,
  )

/** The keywords of a schema that say which values fit. Throws for those that cannot be followed. */
export function rules(schema: Fields, path: string): Fields {
  const out: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(schema)) {
    const known = telling[key]
    // What is off by its own word: `unevaluatedProperties` restricts only where it is false or a schema.
    const off = (key === 'uniqueItems' && value !== true) || (key.startsWith('unevaluated') && value === true)
    if (known === undefined || off || value === undefined) continue
    if (!known) throw unsupported(key, path)
    out[key] = value
  }
  return out
}

/** A schema that fits what both fit; both are without `$ref`, and what neither can be merged in is refused. */
export function merged(a: Fields, b: Fields, path: string): Fields {
  const out: Record<string, unknown> = { ...a }
  const both = (x: unknown, y: unknown): unknown => (canonical(x) === canonical(y) ? x : { allOf: [x, y] })
  for (const [key, value] of Object.entries(b)) {
    const own = a[key]
    if (own === undefined) out[key] = value
    else if (larger.includes(key)) out[key] = Math.max(Number(own), Number(value))
    else if (smaller.includes(key)) out[key] = Math.min(Number(own), Number(value))
    else if (key === 'required') out[key] = [...new Set([...listOf(own), ...listOf(value)])]
    else if (key === 'type') out[key] = typesOfBoth(own, value)
    else if (key === 'items' || key === 'additionalProperties' || key === 'propertyNames') out[key] = both(own, value)
    else if (key === 'allOf') out[key] = [...listOf(own), ...listOf(value)]
    else if (key === 'anyOf' || key === 'oneOf') out['allOf'] = [...listOf(out['allOf']), { [key]: value }]
    else if (key === 'enum' && Array.isArray(own) && Array.isArray(value)) {
      const there = new Set(value.map(canonical))
      out[key] = own.filter((one) => there.has(canonical(one)))
    } else if (key !== 'properties' && canonical(own) !== canonical(value)) throw unsupported(key, path, ' twice')
  }
  if (isFields(a['properties']) || isFields(b['properties'])) out['properties'] = propertiesOfBoth(a, b, path, both)
  return out
}

function propertiesOfBoth(a: Fields, b: Fields, path: string, both: (x: unknown, y: unknown) => unknown): Fields {
  const [mine, theirs] = [fieldsOf(a['properties']), fieldsOf(b['properties'])]
  const out = new Map<string, unknown>()
  // A property that one of them does not name is one of its additional ones.
  const alone = (schema: unknown, other: Fields): unknown => {
    if (other['patternProperties'] !== undefined) throw unsupported('patternProperties', path, ' beside `allOf`')
    const rest = other['additionalProperties']
    return rest === undefined || rest === true ? schema : rest === false ? false : both(schema, rest)
  }
  for (const [name, schema] of Object.entries(mine))
    out.set(name, Object.hasOwn(theirs, name) ? both(schema, theirs[name]) : alone(schema, b))
  for (const [name, schema] of Object.entries(theirs)) if (!Object.hasOwn(mine, name)) out.set(name, alone(schema, a))
  return Object.fromEntries(out)
}

/** Types that both allow: an integer is a number. */
function typesOfBoth(a: unknown, b: unknown): unknown[] {
  const [mine, theirs] = [listOf(a), listOf(b)]
  const out = mine.filter((type) => theirs.includes(type) || (type === 'integer' && theirs.includes('number')))
  return [...out, ...theirs.filter((type) => type === 'integer' && mine.includes('number') && !out.includes('integer'))]
}
export const fieldsOf = (value: unknown): Fields => (isFields(value) ? value : {})
export const listOf = (value: unknown): readonly unknown[] =>
  Array.isArray(value) ? value : value === undefined ? [] : [value]
