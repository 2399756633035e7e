// Bounds and dialect of what clients send as grammars and schemas: checked before any engine sees them, since some
// engines abort, or compute without end, on what they do not expect.
import { ApiError } from '../protocol/errors.ts'
import type { CustomFormat } from '../protocol/tools.ts'
import { Rules, inside } from './grammar-expression.ts'
import type { Expression } from './grammar-expression.ts'
import { larkOf } from './grammar-lark.ts'
import { normalised } from './grammar-normal.ts'
import { regexOf } from './grammar-regex.ts'
import { child, isFields, locate, maxSchema } from './grammar-schema.ts'
import type { Fields } from './grammar-schema.ts'

/** Characters of a grammar; characters that a terminal comes to with its repetitions written out. */
const maxDefinition = 64 * 1024
const maxWritten = 50_000
/** Levels in a schema, characters of one pattern, and counts that its bounds may name. */
const maxSchemaDepth = 64
const maxPattern = 4096
const maxLength = 1_000_000
const maxCount = 10_000

/** Throws ApiError for a custom tool's format that must not reach an engine; `param` names the request field. */
export function checkClientGrammar(format: CustomFormat, param: string | null = null): void {
  if (format.type !== 'grammar') return
  const { definition } = format
  if (definition.length > maxDefinition)
    throw new ApiError('invalid_request', `A grammar has more than ${maxDefinition} characters.`, param)
  // A NUL would end the text for engines written in C.
  if (definition.includes('\0') || /\p{Surrogate}/u.test(definition))
    throw new ApiError('invalid_request', 'A grammar holds a NUL or half a surrogate pair.', param)
  if (definition.trimStart().startsWith('%llguidance'))
    throw new ApiError('unsupported_parameter', 'A grammar begins with `%llguidance`; send plain Lark.', param)
  const rules = new Rules()
  const start =
    format.syntax === 'regex'
      ? regexOf(definition, { what: 'a custom tool', param })
      : larkOf(definition, rules, { param, quoted: false })
  const root = rules.reserve('start')
  rules.set(root, start)
  const sizes = new Sizes(rules)
  for (const name of rules.names())
    if (sizes.of(rules.get(name)) > maxWritten)
      throw new ApiError(
        'invalid_request',
        `A grammar's repetitions come to more than ${maxWritten} characters in one rule.`,
        param,
      )
  // No rule without end, none that only U+0000 would fit, no left recursion that engines cannot follow.
  try {
    normalised(rules, root)
  } catch (e) {
    throw e instanceof ApiError ? new ApiError('invalid_request', e.message, param) : e
  }
}

/** Characters of an expression with all repetitions written out. Other rules count 1, terminals with all that they hold. */
class Sizes {
  readonly #rules: Rules
  readonly #terminals = new Map<string, number>()
  constructor(rules: Rules) {
    this.#rules = rules
  }
  of(e: Expression): number {
    if (e.type === 'text') return e.text.length
    if (e.type === 'repeat') return this.of(e.part) * Math.max(1, e.min, e.max ?? 0)
    if (e.type === 'rule') return this.#rule(e.name)
    return inside(e).reduce((sum, part) => sum + this.of(part), 1)
  }
  #rule(name: string): number {
    if (!/^lark-[A-Z]/.test(name)) return 1
    const known = this.#terminals.get(name)
    if (known !== undefined) return known
    // Terminals do not name themselves.
    const size = this.of(this.#rules.get(name))
    this.#terminals.set(name, size)
    return size
  }
}

/**
 * Throws ApiError for a schema that must not reach an engine: too large or deep, references that lead outside of it or
 * nowhere, patterns outside the dialect, counts out of reason. Which keywords an engine knows is the engine's affair.
 */
export function checkClientSchema(schema: unknown, param: string | null = null): void {
  const wrong = (why: string): ApiError => new ApiError('invalid_request', `A JSON schema ${why}.`, param)
  const json = JSON.stringify(schema, (key, value: unknown) => {
    // Names and values are written as they stand in some formats.
    if (key.includes('\0') || (typeof value === 'string' && value.includes('\0'))) throw wrong('holds a U+0000')
    return value
  })
  if ((json ?? '').length > maxSchema) throw wrong(`has more than ${maxSchema} characters`)
  visit(schema, 1, '', 0)

  function visit(at: unknown, times: number, path: string, depth: number): void {
    if (!isFields(at)) return
    if (depth > maxSchemaDepth) throw wrong(`is nested past ${maxSchemaDepth} levels`)
    const count = (key: string, limit: number): number => {
      const value = at[key]
      if (value === undefined) return 0
      if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0 || value > limit)
        throw wrong(`has a \`${key}\` at '${path || '#'}' that is no count up to ${limit}`)
      return value
    }
    for (const key of ['minLength', 'maxLength']) count(key, maxLength)
    for (const key of ['minProperties', 'maxProperties']) count(key, maxCount)
    const items = times * Math.max(1, count('minItems', maxCount), count('maxItems', maxCount))
    if (items > maxCount * 100) throw wrong(`asks for more than ${maxCount * 100} items in all at '${path || '#'}'`)
    const ref = at['$ref']
    if (ref !== undefined && locate(schema, ref) === undefined)
      throw wrong(`has a \`$ref\` at '${path || '#'}' that leads to nothing inside of it`)
    const patterns = [at['pattern'], ...Object.keys(isFields(at['patternProperties']) ? at['patternProperties'] : {})]
    for (const pattern of patterns) if (typeof pattern === 'string') checkPattern(pattern, path, param)
    for (const [name, value] of schemasIn(at)) visit(value, items, child(path, ...name), depth + 1)
  }
}

function checkPattern(pattern: string, path: string, param: string | null): void {
  const wrong = (why: string): ApiError =>
    new ApiError('invalid_request', `A pattern of a JSON schema at '${path || '#'}' ${why}.`, param)
  if (pattern.length > maxPattern) throw wrong(`has more than ${maxPattern} characters`)
  const e = regexOf(pattern, { what: `a JSON schema, at '${path || '#'}',`, param }, 'search')
  if (new Sizes(new Rules()).of(e) > maxWritten) throw wrong(`comes to more than ${maxWritten} characters`)
}

const byName = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']
const plain = ['items', 'additionalItems', 'prefixItems', 'additionalProperties', 'propertyNames', 'contains', 'anyOf']
const others = ['oneOf', 'allOf', 'not', 'if', 'then', 'else', 'unevaluatedProperties', 'unevaluatedItems']

/** The schemas that a schema holds: values, not what stands in `enum`, `const`, `default` or `examples`. */
function* schemasIn(schema: Fields): Generator<[(string | number)[], unknown]> {
  for (const key of [...byName, ...plain, ...others]) {
    const value = schema[key]
    if (Array.isArray(value)) for (const [n, one] of value.entries()) yield [[key, n], one]
    else if (!isFields(value)) continue
    else if (byName.includes(key)) for (const [name, one] of Object.entries(value)) yield [[key, name], one]
    else yield [[key], value]
  }
}
