// JSON objects and arrays as expressions: listed members in their order, further ones, and how many there may be.
import { choice, empty, isNothing, nothing, optional, repeat, sequence, text } from './grammar-expression.ts'
import type { Expression } from './grammar-expression.ts'
import { quoted } from './grammar-quoted.ts'
import { regexOf } from './grammar-regex.ts'
import { child, fieldsOf, isFields, listOf, unsupported } from './grammar-schema.ts'
import type { Fields } from './grammar-schema.ts'
import { inQuotes, keysBut, lengthOf } from './gbnf-string.ts'
import type { Inner } from './gbnf-string.ts'

type Member = { readonly pair: Expression; readonly must: boolean }

/** White space is one space at most, where JSON is mostly written with one: no model can go on with it. */
const space = optional(text(' '))
export const comma = sequence(text(','), space)
export const colon = sequence(text(':'), space)
const maxName = 512

export function objectOf(schema: Fields, inner: Inner, path: string, depth: number): Expression {
  const properties = Object.entries(fieldsOf(schema['properties']))
  const required = new Set(listOf(schema['required']))
  const members: Member[] = []
  for (const [name, one] of properties) {
    const must = required.has(name)
    const value = inner.value(one, child(path, 'properties', name), depth + 1)
    if (must && isNothing(value)) return nothing
    if (!isNothing(value)) members.push({ pair: sequence(text(`${JSON.stringify(name)}`), colon, value), must })
  }
  const named = new Set(properties.map(([name]) => name))
  const further = furtherOf(schema, inner, path, depth, [...named])
  for (const name of required)
    if (typeof name === 'string' && !named.has(name)) {
      // A required member that nothing describes: as a further one, before all others of them.
      const rest = schema['additionalProperties']
      if (rest === false || schema['patternProperties'] !== undefined)
        throw unsupported('required', path, ' for a member that is not listed')
      members.push({
        pair: sequence(text(JSON.stringify(name)), colon, inner.value(rest ?? true, path, depth + 1)),
        must: true,
      })
    }
  const { min, max } = lengthOf(schema, 'minProperties', 'maxProperties', path)
  if (
    members.length > 0 &&
    (min > [...members].filter((one) => one.must).length || (max !== undefined && max < members.length))
  )
    throw unsupported(min > 0 ? 'minProperties' : 'maxProperties', path, ' beside listed members')
  if (members.length === 0) return sequence(text('{'), listed(further, min, max), text('}'))
  return sequence(text('{'), inOrder(members, further, inner), text('}'))
}

/** One member that is not listed, with its key; nothing where there are none. */
function furtherOf(schema: Fields, inner: Inner, path: string, depth: number, named: readonly string[]): Expression {
  const rest = schema['additionalProperties']
  const patterns = Object.entries(fieldsOf(schema['patternProperties']))
  // Where members are listed and nothing is said of others, there are none: stricter than JSON Schema, and what is meant.
  const open = rest === undefined ? named.length === 0 && patterns.length === 0 : rest !== false
  if (patterns.length > 0 && (open || named.length > 0))
    throw unsupported('patternProperties', path, ' beside other members')
  const value = (one: unknown, key: string): Expression => inner.value(one, child(path, key), depth + 1)
  if (patterns.length > 0) {
    if (schema['propertyNames'] !== undefined) throw unsupported('propertyNames', path, ' beside `patternProperties`')
    return choice(
      ...patterns.map(([pattern, one]) => {
        const key = regexOf(pattern, { what: `the JSON schema, at '${path}',`, param: null }, 'search')
        return sequence(inQuotes(quoted(key)), colon, value(one, 'patternProperties'))
      }),
    )
  }
  if (!open) return nothing
  return inner.add(
    'member',
    sequence(keyOf(schema, inner, path, depth, named), colon, value(rest ?? true, 'additionalProperties')),
  )
}
function keyOf(schema: Fields, inner: Inner, path: string, depth: number, named: readonly string[]): Expression {
  const names = schema['propertyNames']
  if (names !== undefined && names !== true && !isPlainString(names)) {
    if (named.length > 0 || !isFields(names)) throw unsupported('propertyNames', path, ' beside listed members')
    return inner.value({ type: 'string', ...names }, child(path, 'propertyNames'), depth + 1)
  }
  if (named.some((name) => name.length > maxName))
    throw unsupported('additionalProperties', path, ' beside a name of such length')
  if (named.length === 0) return inQuotes(repeat(inner.character))
  return keysBut(named, inner)
}
const isPlainString = (schema: unknown): boolean =>
  isFields(schema) && Object.entries(schema).every(([key, value]) => key === 'type' && value === 'string')

/** Members in their order, those that need not be left out, then further ones. Two rules each: with and without one before. */
function inOrder(members: readonly Member[], further: Expression, inner: Inner): Expression {
  let begun = repeat(sequence(comma, further))
  let first = listed(further, 0, undefined)
  for (const { pair, must } of members.toReversed()) {
    const own = inner.add('pair', pair)
    const [later, alone] = [sequence(comma, own, begun), sequence(own, begun)]
    const [begunBefore, firstBefore] = [begun, first]
    begun = inner.add('members', must ? later : choice(later, begunBefore))
    first = must ? alone : inner.add('members', choice(alone, firstBefore))
  }
  return first
}

/** A list of `one` with commas. */
function listed(one: Expression, min: number, max: number | undefined): Expression {
  if (max === 0 || isNothing(one)) return min > 0 ? nothing : empty
  const list = sequence(
    one,
    repeat(sequence(comma, one), Math.max(0, min - 1), max === undefined ? undefined : max - 1),
  )
  return min === 0 ? optional(list) : list
}

export function arrayOf(schema: Fields, inner: Inner, path: string, depth: number): Expression {
  if (schema['uniqueItems'] === true) throw unsupported('uniqueItems', path)
  // Before 2020-12 a list of schemas stood in `items`, and what follows it in `additionalItems`.
  const old = Array.isArray(schema['items'])
  const prefix = listOf(old ? schema['items'] : schema['prefixItems'])
  const rest = old ? schema['additionalItems'] : schema['items']
  const { min, max } = lengthOf(schema, 'minItems', 'maxItems', path)
  if (max !== undefined && max < min) return nothing
  const values = prefix.map((one, n) => inner.value(one, child(path, old ? 'items' : 'prefixItems', n), depth + 1))
  // As with members: places are listed, so there are no others unless the schema says so, or asks for more.
  const open = rest !== undefined || prefix.length === 0 || min > prefix.length
  const item = open ? inner.add('item', inner.value(rest ?? true, child(path, 'items'), depth + 1)) : nothing
  if (values.length === 0) return sequence(text('['), listed(item, min, max), text(']'))
  const places = values.slice(0, max ?? values.length)
  const more = max === undefined ? undefined : max - places.length
  const tail = isNothing(item) ? empty : repeat(sequence(comma, item), Math.max(0, min - places.length), more)
  if (isNothing(item) && min > places.length) return nothing
  let out = places.length < values.length ? empty : tail
  for (const [n, value] of [...places.entries()].toReversed()) {
    const here = sequence(n === 0 ? empty : comma, value, out)
    out = n < min ? here : optional(inner.add('items', here))
  }
  return sequence(text('['), out, text(']'))
}
