// JSON schemas as expressions: references, combinations, types. What a schema says and a grammar cannot follow is refused
// by name and place; where JSON Schema is open (further members beside listed ones) the grammar is stricter, never wider,
// with one exception: `oneOf` is read as `anyOf`.
import { choice, isEmpty, nothing, optional, repeat, sequence, text, tooLarge } from './grammar-expression.ts'
import type { Expression, Rules } from './grammar-expression.ts'
import {
  canonical,
  child,
  isFields,
  listOf,
  locate,
  maxSchema,
  merged,
  rules as telling,
  unsupported,
} from './grammar-schema.ts'
import type { Fields } from './grammar-schema.ts'
import { anyNumber, numberFits, numberOf } from './gbnf-number.ts'
import { arrayOf, colon, comma, objectOf } from './gbnf-object.ts'
import { character, inQuotes, stringFits, stringOf } from './gbnf-string.ts'
import type { Inner } from './gbnf-string.ts'

const maxDepth = 64
const maxSchemas = 20_000
/** Characters of all schemas that merging makes. */
const maxMerged = 8 * 1024 * 1024
const maxHops = 64

const allTypes = ['object', 'array', 'string', 'number', 'boolean', 'null']
const typeByKeyword: Readonly<Record<string, string>> = Object.fromEntries(
  [
    ['object', 'properties required additionalProperties patternProperties propertyNames minProperties maxProperties'],
    ['array', 'items prefixItems additionalItems minItems maxItems uniqueItems'],
    ['string', 'minLength maxLength pattern format'],
    ['number', 'minimum maximum exclusiveMinimum exclusiveMaximum multipleOf'],
  ].flatMap(([type = '', keys = '']) => keys.split(' ').map((key) => [key, type] as const)),
)

export class JsonSchema implements Inner {
  readonly #rules: Rules
  readonly #root: unknown
  readonly #references = new Map<unknown, Expression>()
  readonly #merged = new Map<string, Expression>()
  readonly #waiting: (() => void)[] = []
  #any: Expression | undefined
  #character: Expression | undefined
  #schemas = 0
  #characters = 0

  constructor(rules: Rules, root: unknown) {
    this.#rules = rules
    this.#root = root
    if ((JSON.stringify(root) ?? '').length > maxSchema) throw tooLarge()
  }
  /** All values of the whole schema, or of `schema`, whose references lead into the whole. */
  all(schema = this.#root): Expression {
    const out = this.value(schema, '', 0)
    this.finish()
    return out
  }
  /** Makes the rules that are only named so far: one after the other, so that chains of references nest nothing. */
  finish(): void {
    for (let next = this.#waiting.pop(); next !== undefined; next = this.#waiting.pop()) next()
  }
  add(hint: string, e: Expression): Expression {
    return this.#rules.add(hint, e)
  }
  get character(): Expression {
    this.#character ??= this.#rules.add('json-character', character)
    return this.#character
  }

  value(schema: unknown, path: string, depth: number): Expression {
    if (++this.#schemas > maxSchemas) throw tooLarge()
    if (depth > maxDepth) throw unsupported('nesting', path, ` past ${maxDepth} levels`)
    if (schema === false) return nothing
    const own = isFields(schema) ? telling(schema, path) : {}
    const { $ref: ref, anyOf, oneOf, allOf, nullable, ...rest } = own
    if (nullable === true) {
      const { nullable: _, ...others } = own
      return choice(this.value(others, path, depth), text('null'))
    }
    const alone = Object.keys(rest).length === 0
    if (ref !== undefined) {
      const { $ref: _, ...others } = own
      if (Object.keys(others).length === 0) return this.#reference(ref, path)
      return this.#both(this.flat(own, path), {}, path, depth)
    }
    for (const [key, list] of Object.entries({ anyOf, oneOf })) {
      if (list === undefined) continue
      if (!Array.isArray(list)) throw unsupported(key, path, ' unless it is a list')
      const { [key]: _, ...others } = own
      const siblings = Object.keys(others).length > 0
      return choice(
        ...list.map((one, n) => {
          const at = child(path, key, n)
          return siblings ? this.#both(others, one, at, depth) : this.value(one, at, depth + 1)
        }),
      )
    }
    if (Array.isArray(allOf)) {
      if (alone && allOf.length === 1) return this.value(allOf[0], child(path, 'allOf', 0), depth)
      const whole = allOf.reduce((sum: Fields | false, one, n) => this.merge(sum, one, child(path, 'allOf', n)), rest)
      return this.#both(whole, {}, path, depth)
    }
    return this.#plain(own, path, depth)
  }
  /** A schema with its references resolved, as far as they stand at its top. `false` fits nothing. */
  flat(schema: unknown, path: string): Fields | false {
    let out = schema
    for (let n = 0; n < maxHops; n++) {
      if (out === false) return false
      const own: Fields = isFields(out) ? telling(out, path) : {}
      const { $ref: ref, ...rest } = own
      if (ref === undefined) return own
      const target = this.#locate(ref, path)
      out =
        target === false
          ? false
          : Object.keys(rest).length === 0
            ? target
            : merged(isFields(target) ? telling(target, path) : {}, rest, path)
    }
    throw unsupported('$ref', path, ' round and round')
  }
  /** What fits both. */
  merge(a: Fields | false, b: unknown, path: string): Fields | false {
    const other = this.flat(b, path)
    return a === false || other === false ? false : merged(a, other, path)
  }
  /** Merged schemas come again where they refer to themselves: equal ones are one rule. */
  #both(a: Fields | false, b: unknown, path: string, depth: number): Expression {
    const one = this.merge(a, b, path)
    if (one === false) return nothing
    const key = canonical(one)
    const known = this.#merged.get(key)
    if (known !== undefined) return known
    this.#characters += key.length
    if (this.#characters > maxMerged) throw tooLarge()
    return this.#later(this.#merged, key, path, () => this.value(one, path, depth))
  }
  #locate(ref: unknown, path: string): unknown {
    const target = locate(this.#root, ref)
    if (target === undefined)
      throw unsupported('$ref', path, ` to ${JSON.stringify(ref)}: there is no such place in it`)
    return target
  }
  #reference(ref: unknown, path: string): Expression {
    const target = this.#locate(ref, path)
    const known = this.#references.get(target)
    if (known !== undefined) return known
    const at = String(ref).replace(/^#\/?/, '')
    return this.#later(this.#references, target, at, () => this.value(target, at, 0))
  }
  #later<K>(known: Map<K, Expression>, key: K, path: string, make: () => Expression): Expression {
    const name = this.#rules.reserve(hintOf(path))
    const rule: Expression = { type: 'rule', name }
    known.set(key, rule)
    this.#waiting.push(() => this.#rules.set(name, make()))
    return rule
  }

  #plain(schema: Fields, path: string, depth: number): Expression {
    if (Object.keys(schema).length === 0) return this.#anyValue()
    const types = typesOf(schema, path)
    if (schema['const'] !== undefined || schema['enum'] !== undefined) {
      const values = schema['enum'] ?? [schema['const']]
      if (!Array.isArray(values)) throw unsupported('enum', path, ' unless it is a list')
      const only = schema['const'] === undefined ? undefined : canonical(schema['const'])
      const listed = only === undefined ? values : values.filter((value) => canonical(value) === only)
      const fitting = listed.filter((value) => types.some((type) => this.#fits(schema, type, value, path)))
      return this.add(hintOf(path), choice(...fitting.map(literal)))
    }
    return choice(...types.map((type) => this.#typed(type, schema, path, depth)))
  }
  #typed(type: string, schema: Fields, path: string, depth: number): Expression {
    if (type === 'object') return this.add(hintOf(path), objectOf(schema, this, path, depth))
    if (type === 'array') return this.add(hintOf(path), arrayOf(schema, this, path, depth))
    if (type === 'string') return stringOf(schema, path, this.character)
    if (type === 'boolean') return choice(text('true'), text('false'))
    return type === 'null' ? text('null') : numberOf(schema, type === 'integer', path)
  }
  #fits(schema: Fields, type: string, value: unknown, path: string): boolean {
    if (type === 'null') return value === null
    if (
      type === 'integer'
        ? !Number.isInteger(value)
        : type === 'array'
          ? !Array.isArray(value)
          : type === 'object'
            ? !isFields(value)
            : typeof value !== type
    )
      return false
    if (typeof value === 'number') return numberFits(schema, value)
    if (typeof value === 'string') return stringFits(schema, value, path)
    const more = Object.keys(schema).find((key) => typeByKeyword[key] === type)
    if (more !== undefined) throw unsupported(more, path, ' beside `enum`')
    return true
  }
  #anyValue(): Expression {
    if (this.#any !== undefined) return this.#any
    const name = this.#rules.reserve('json-value')
    const any: Expression = { type: 'rule', name }
    this.#any = any
    const string = this.#rules.add('json-string', inQuotes(repeat(this.character)))
    const member = sequence(string, colon, any)
    const object = sequence(text('{'), optional(sequence(member, repeat(sequence(comma, member)))), text('}'))
    const array = sequence(text('['), optional(sequence(any, repeat(sequence(comma, any)))), text(']'))
    const rest = [string, anyNumber, text('true'), text('false'), text('null')]
    this.#rules.set(name, choice(this.add('json-object', object), this.add('json-array', array), ...rest))
    return any
  }
}

/** Types that a schema names, or that its keywords are about; all where it tells nothing. */
export function typesOf(schema: Fields, path: string): readonly string[] {
  const named = listOf(schema['type'])
  const types = [...allTypes, 'integer']
  if (named.length > 0)
    return named.map((type) => {
      if (typeof type === 'string' && types.includes(type)) return type
      throw unsupported('type', path, ` as ${JSON.stringify(type)}`)
    })
  if (schema['type'] !== undefined) return []
  if (schema['enum'] !== undefined || schema['const'] !== undefined) return allTypes
  return [...new Set(Object.keys(schema).flatMap((key) => typeByKeyword[key] ?? []))]
}

/** A value as JSON, written compactly or with a space behind commas and colons. */
export function literal(value: unknown): Expression {
  if (Array.isArray(value)) return sequence(text('['), separated(value.map(literal)), text(']'))
  if (!isFields(value)) return text(JSON.stringify(value) ?? 'null')
  const members = Object.entries(value).map(([key, one]) => sequence(text(JSON.stringify(key)), colon, literal(one)))
  return sequence(text('{'), separated(members), text('}'))
}
function separated(parts: readonly Expression[]): Expression {
  return sequence(...parts.flatMap((part, n) => (n === 0 || isEmpty(part) ? [part] : [comma, part])))
}

const hintOf = (path: string): string => path.split('/').at(-1) || 'value'
