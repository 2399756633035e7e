// Arguments as tagged values, in the shapes of Qwen3-Coder and GLM: strings stand as they are, all else as JSON.
import { choice, isNothing, nothing, optional, repeat, sequence, set, text } from './grammar-expression.ts'
import type { Expression, Rules } from './grammar-expression.ts'
import { complement, of } from './grammar-ranges.ts'
import { child, fieldsOf, isFields, listOf, unsupported } from './grammar-schema.ts'
import type { Fields } from './grammar-schema.ts'
import { JsonSchema, typesOf } from './gbnf-json.ts'
import { rawStringOf } from './gbnf-string.ts'
import { exactly, newline, unitsOf, until } from './gbnf-text.ts'
import type { Unit } from './gbnf-text.ts'

const maxVariants = 500
type Pieces = {
  readonly before: (name: Expression) => Expression
  readonly end: readonly Unit[]
  readonly behind: Expression
}

/** The arguments that a schema allows, in the order of its properties; those that need not be may be left out. */
export function taggedOf(
  style: 'qwen' | 'glm',
  schema: Fields,
  rules: Rules,
  control: ((name: string) => number | undefined) | undefined,
): Expression {
  const of_ = (value: string): readonly Unit[] => unitsOf(value, control)
  const pieces: Pieces =
    style === 'qwen'
      ? {
          before: (name) => sequence(exactly(of_('<parameter=')), name, exactly(of_('>\n'))),
          end: of_('\n</parameter>'),
          behind: newline,
        }
      : {
          before: (name) =>
            sequence(exactly(of_('<arg_key>')), name, exactly(of_('</arg_key>')), newline, exactly(of_('<arg_value>'))),
          end: of_('</arg_value>'),
          behind: newline,
        }
  const tagged = new Tagged(schema, rules, pieces)
  const all = tagged.all(schema)
  return style === 'glm' ? sequence(newline, all) : all
}

class Tagged {
  readonly #json: JsonSchema
  readonly #rules: Rules
  readonly #pieces: Pieces
  #variants = 0

  constructor(root: Fields, rules: Rules, pieces: Pieces) {
    this.#json = new JsonSchema(rules, root)
    this.#rules = rules
    this.#pieces = pieces
  }
  all(schema: Fields): Expression {
    const out = choice(...this.#variantsOf(schema, '').map((one) => this.#object(one)))
    this.#json.finish()
    return out
  }
  #object(schema: Fields): Expression {
    for (const key of ['minProperties', 'maxProperties', 'patternProperties', 'propertyNames', 'enum', 'const'])
      if (schema[key] !== undefined) throw unsupported(key, '', ' in tagged arguments')
    if (!typesOf(schema, '').includes('object') && Object.keys(schema).length > 0) return nothing
    const required = new Set(listOf(schema['required']))
    const properties = Object.entries(fieldsOf(schema['properties']))
    const listed = new Set<unknown>(properties.map(([name]) => name))
    const rest = schema['additionalProperties']
    if ([...required].some((name) => !listed.has(name)))
      throw unsupported('required', '', ' for a member that is not listed')
    if (properties.length === 0) {
      if (rest === false) return text('')
      const name = repeat(set(complement(of('<>\n'))), 1, 64)
      return repeat(this.#pair(name, rest ?? true, 'additionalProperties'))
    }
    return sequence(
      ...properties.map(([name, one]) => {
        const pair = this.#pair(text(name), one, child('properties', name))
        return required.has(name) ? pair : optional(pair)
      }),
    )
  }
  #pair(name: Expression, schema: unknown, path: string): Expression {
    const { before, end, behind } = this.#pieces
    const value = this.#value(schema, path)
    if (value !== undefined && isNothing(value)) return nothing
    const rest = value === undefined ? until(end, this.#rules) : sequence(value, exactly(end))
    return sequence(before(name), this.#rules.add('argument', rest), behind)
  }
  /** Undefined where any text fits. */
  #value(schema: unknown, path: string): Expression | undefined {
    const parts: Expression[] = []
    for (const variant of this.#variantsOf(schema, path)) {
      const listed = variant['const'] !== undefined ? [variant['const']] : variant['enum']
      if (Array.isArray(listed)) {
        parts.push(...listed.filter((one) => typeof one === 'string').map((one) => text(one)))
        parts.push(
          this.#json.value({ ...variant, type: typesOf(variant, path).filter((type) => type !== 'string') }, path, 1),
        )
        continue
      }
      const types = typesOf(variant, path)
      if (types.length === 0 && variant['type'] === undefined) return undefined
      if (types.includes('string')) {
        const raw = rawStringOf(variant, path)
        if (raw === undefined) return undefined
        parts.push(raw)
      }
      const others = types.filter((type) => type !== 'string')
      if (others.length > 0) parts.push(this.#json.value({ ...variant, type: others }, path, 1))
    }
    return choice(...parts)
  }
  /** A schema as ones without references and combinations, of which any may fit. */
  #variantsOf(schema: unknown, path: string): Fields[] {
    if (++this.#variants > maxVariants) throw unsupported('anyOf', path, ' in so many combinations')
    const flat = this.#json.flat(schema, path)
    if (flat === false) return []
    const { anyOf, oneOf, allOf, nullable, ...rest } = flat
    const again = (others: Fields, one: unknown): Fields[] => {
      const both = this.#json.merge(others, one, path)
      return both === false ? [] : this.#variantsOf(both, path)
    }
    if (nullable === true) return [{ type: 'null' }, ...this.#variantsOf({ ...flat, nullable: undefined }, path)]
    for (const [key, list] of Object.entries({ anyOf, oneOf })) {
      if (!Array.isArray(list)) continue
      const { [key]: _, ...others } = flat
      return list.flatMap((one) => again(others, one))
    }
    if (!Array.isArray(allOf)) return [isFields(rest) ? rest : {}]
    const whole = allOf.reduce((sum: Fields | false, one) => this.#json.merge(sum, one, path), rest)
    return whole === false ? [] : this.#variantsOf(whole, path)
  }
}
