// What a JSON schema says about a value: local references, merging, and a check of the keywords that tools use.
// Owns no values; scenario-arguments.ts makes them.
import { patternOf } from './scenario-pattern.ts'

export type Schema = boolean | { readonly [keyword: string]: unknown }
/** The document that `$ref` points into, and how much work may still go into it: schemas come from clients. */
export type Document = { readonly root: Schema; left: number }

export const isObject = (v: unknown): v is Record<string, unknown> =>
  v !== null && typeof v === 'object' && !Array.isArray(v)
export const schemaOf = (v: unknown): Schema => (typeof v === 'boolean' || isObject(v) ? v : true)
export const schemasOf = (v: unknown): Schema[] => (Array.isArray(v) ? v.map(schemaOf) : [])
export const numberOf = (v: unknown): number | undefined => (typeof v === 'number' ? v : undefined)
export const textsOf = (v: unknown): string[] => (Array.isArray(v) ? v.filter((x) => typeof x === 'string') : [])

/** What a local `$ref` (`#`, `#/…`, `#anchor`) points to; undefined for all others. */
export function resolve(ref: unknown, root: Schema): Schema | undefined {
  if (typeof ref !== 'string' || !ref.startsWith('#')) return undefined
  if (ref === '#') return root
  if (!ref.startsWith('#/')) return anchored(ref.slice(1), root, 0)
  let at: unknown = root
  for (const step of ref.slice(2).split('/')) {
    const key = decode(step).replaceAll('~1', '/').replaceAll('~0', '~')
    if (Array.isArray(at)) at = at[Number(key)] as unknown
    else if (isObject(at) && Object.hasOwn(at, key)) at = at[key]
    else return undefined
  }
  return schemaOf(at)
}
function decode(step: string): string {
  try {
    return decodeURIComponent(step)
  } catch {
    return step
  }
}
function anchored(name: string, schema: unknown, depth: number): Schema | undefined {
  if (!isObject(schema) || depth > 8) return undefined
  if (schema['$anchor'] === name) return schema
  for (const part of [schema['$defs'], schema['definitions']])
    if (isObject(part))
      for (const inner of Object.values(part)) {
        const found = anchored(name, inner, depth + 1)
        if (found !== undefined) return found
      }
  return undefined
}

/** JSON with sorted keys: equal for equal values. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (!isObject(value)) return JSON.stringify(value) ?? 'null'
  const keys = Object.keys(value).filter((k) => value[k] !== undefined)
  return `{${keys
    .sort()
    .map((k) => `${JSON.stringify(k)}:${canonical(value[k])}`)
    .join(',')}}`
}

/** Whether the value fits, as far as this check goes: formats and annotations are not looked at. True when out of budget. */
export function fits(schema: Schema, value: unknown, doc: Document, depth = 0): boolean {
  if (typeof schema === 'boolean') return schema
  if (--doc.left <= 0 || depth > 64) return true
  const inner = (s: unknown, v: unknown): boolean => fits(schemaOf(s), v, doc, depth + 1)
  if ('$ref' in schema && !inner(resolve(schema['$ref'], doc.root) ?? true, value)) return false
  if ('type' in schema && ![schema['type']].flat().some((t) => isType(t, value))) return false
  if ('const' in schema && canonical(schema['const']) !== canonical(value)) return false
  if (Array.isArray(schema['enum']) && !schema['enum'].some((v) => canonical(v) === canonical(value))) return false
  if (!schemasOf(schema['allOf']).every((s) => inner(s, value))) return false
  if (Array.isArray(schema['anyOf']) && !schemasOf(schema['anyOf']).some((s) => inner(s, value))) return false
  if (Array.isArray(schema['oneOf']) && schemasOf(schema['oneOf']).filter((s) => inner(s, value)).length !== 1)
    return false
  if ('not' in schema && inner(schema['not'], value)) return false
  if ('if' in schema && !inner(inner(schema['if'], value) ? (schema['then'] ?? true) : (schema['else'] ?? true), value))
    return false
  if (typeof value === 'number') return fitsNumber(schema, value)
  if (typeof value === 'string') return fitsText(schema, value)
  if (Array.isArray(value)) return fitsArray(schema, value, inner)
  return isObject(value) ? fitsObject(schema, value, inner) : true
}

type Keywords = Exclude<Schema, boolean>
type Inner = (schema: unknown, value: unknown) => boolean

export function isType(type: unknown, value: unknown): boolean {
  if (type === 'null') return value === null
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return isObject(value)
  if (type === 'integer') return Number.isInteger(value)
  return type === typeof value
}
const within = (n: number, low: unknown, high: unknown): boolean =>
  n >= (numberOf(low) ?? -Infinity) && n <= (numberOf(high) ?? Infinity)

function fitsNumber(s: Keywords, n: number): boolean {
  if (!within(n, s['minimum'], s['maximum'])) return false
  if (n <= (numberOf(s['exclusiveMinimum']) ?? -Infinity) || n >= (numberOf(s['exclusiveMaximum']) ?? Infinity))
    return false
  const step = numberOf(s['multipleOf'])
  return step === undefined || Number.isInteger(n / step)
}
function fitsText(s: Keywords, text: string): boolean {
  if (!within(Array.from(text).length, s['minLength'], s['maxLength'])) return false
  return typeof s['pattern'] !== 'string' || (patternOf(s['pattern'])?.test?.(text) ?? true)
}
function fitsArray(s: Keywords, list: readonly unknown[], inner: Inner): boolean {
  if (!within(list.length, s['minItems'], s['maxItems'])) return false
  if (s['uniqueItems'] === true && new Set(list.map(canonical)).size < list.length) return false
  const prefix = schemasOf(s['prefixItems'] ?? s['items'])
  const rest = Array.isArray(s['items']) ? (s['additionalItems'] ?? true) : (s['items'] ?? true)
  if (!list.every((v, n) => inner(prefix[n] ?? rest, v))) return false
  if (!('contains' in s)) return true
  return within(list.filter((v) => inner(s['contains'], v)).length, s['minContains'] ?? 1, s['maxContains'])
}
function fitsObject(s: Keywords, object: Record<string, unknown>, inner: Inner): boolean {
  const keys = Object.keys(object)
  if (!within(keys.length, s['minProperties'], s['maxProperties'])) return false
  if (!textsOf(s['required']).every((k) => Object.hasOwn(object, k))) return false
  if (!keys.every((key) => inner({ allOf: propertySchemas(s, key) }, object[key]))) return false
  if ('propertyNames' in s && !keys.every((key) => inner(s['propertyNames'], key))) return false
  return needs(s, keys).every((k) => Object.hasOwn(object, k))
}

/** All that a schema itself (not those it refers to) says about one property. */
export function propertySchemas(s: Keywords, key: string): Schema[] {
  const out: Schema[] = []
  const properties = s['properties']
  if (isObject(properties) && Object.hasOwn(properties, key)) out.push(schemaOf(properties[key]))
  if (isObject(s['patternProperties']))
    for (const [pattern, schema] of Object.entries(s['patternProperties']))
      if (patternOf(pattern)?.test?.(key) === true) out.push(schemaOf(schema))
  return out.length > 0 ? out : [schemaOf(s['additionalProperties'] ?? true)]
}
/** Properties that others make necessary. */
export function needs(s: Keywords, keys: readonly string[]): string[] {
  const out: string[] = []
  for (const map of [s['dependentRequired'], s['dependencies']])
    if (isObject(map)) for (const key of keys) if (Object.hasOwn(map, key)) out.push(...textsOf(map[key]))
  return out
}
