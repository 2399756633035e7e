// Whether a tool's `parameters` are a JSON schema of an object. Looks at the keywords that say how a value is built;
// all others, known or not, pass. Engines may still know fewer keywords than JSON Schema has.
import { ApiError } from './errors.ts'

type Fields = Record<string, unknown>

const types = new Set(['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'])
const bySchema = ['items', 'additionalProperties', 'not', 'if', 'then', 'else', 'contains', 'propertyNames']
const byName = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']
const byList = ['anyOf', 'oneOf', 'allOf', 'prefixItems']
const maxDepth = 128

const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isWords = (value: unknown): boolean => Array.isArray(value) && value.every((word) => typeof word === 'string')

/** The schema, or null for none. Throws ApiError `invalid_tool_schema` with `param` and a sentence that names the place. */
export function parseParameters(value: unknown, param: string): Fields | null {
  if (value === null || value === undefined) return null
  const wrong = !isObject(value)
    ? 'it is no object'
    : value['type'] !== undefined && value['type'] !== 'object'
      ? "its `type` is not 'object'"
      : fault(value, '', 0)
  if (wrong !== undefined)
    throw new ApiError('invalid_tool_schema', `'${param}' is no JSON schema of an object: ${wrong}.`, param)
  // Checked above.
  return value as Fields
}

/** What is wrong with a schema, in words; undefined where nothing is. `at` is the path to it. */
function fault(schema: unknown, at: string, depth: number): string | undefined {
  if (typeof schema === 'boolean') return undefined
  if (!isObject(schema)) return `\`${at}\` must be a schema`
  if (depth > maxDepth) return `it is nested past ${maxDepth} levels`
  const within = (key: string | number): string => (at === '' ? `${key}` : `${at}.${key}`)

  const type = schema['type']
  if (type !== undefined && !(Array.isArray(type) ? type : [type]).every((t) => types.has(t as string)))
    return `\`${within('type')}\` must name JSON types`
  if (schema['required'] !== undefined && !isWords(schema['required']))
    return `\`${within('required')}\` must be an array of strings`
  if (schema['enum'] !== undefined && !Array.isArray(schema['enum'])) return `\`${within('enum')}\` must be an array`
  for (const key of ['$ref', 'pattern', 'format', 'description', 'title'])
    if (schema[key] !== undefined && schema[key] !== null && typeof schema[key] !== 'string')
      return `\`${within(key)}\` must be a string`

  for (const key of byName) {
    const inner = schema[key]
    if (inner === undefined) continue
    if (!isObject(inner)) return `\`${within(key)}\` must be an object`
    for (const [name, value] of Object.entries(inner)) {
      const wrong = fault(value, `${within(key)}.${name}`, depth + 1)
      if (wrong !== undefined) return wrong
    }
  }
  for (const key of byList) {
    const inner = schema[key]
    if (inner === undefined) continue
    if (!Array.isArray(inner)) return `\`${within(key)}\` must be an array of schemas`
    const wrong = faultOfAny(inner, within(key), depth)
    if (wrong !== undefined) return wrong
  }
  for (const key of bySchema) {
    const inner = schema[key]
    if (inner === undefined) continue
    // `items` as a list is how drafts before 2020-12 wrote tuples.
    const wrong =
      key === 'items' && Array.isArray(inner)
        ? faultOfAny(inner, within(key), depth)
        : fault(inner, within(key), depth + 1)
    if (wrong !== undefined) return wrong
  }
  return undefined
}

function faultOfAny(schemas: readonly unknown[], at: string, depth: number): string | undefined {
  for (const [i, value] of schemas.entries()) {
    const wrong = fault(value, `${at}.${i}`, depth + 1)
    if (wrong !== undefined) return wrong
  }
  return undefined
}
