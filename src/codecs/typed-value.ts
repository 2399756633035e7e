// Values that a model writes as bare text, as JSON by the types that a tool's schema allows.

export type JsonType = 'string' | 'number' | 'integer' | 'boolean' | 'null' | 'object' | 'array'
/** Undefined where anything goes. */
export type Types = ReadonlySet<JsonType> | undefined

type Fields = Readonly<Record<string, unknown>>
const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const names: ReadonlySet<unknown> = new Set(['string', 'number', 'integer', 'boolean', 'null', 'object', 'array'])
const isType = (name: unknown): name is JsonType => names.has(name)
/** References and alternatives are followed so far. */
const maxDepth = 8
/** Python's words for literals, which models write too. */
const literals: Readonly<Record<string, string>> = { True: 'true', False: 'false', None: 'null' }

/** The types of one property of an object schema. */
export function typesOfProperty(schema: Fields, name: string): Types {
  const properties = resolved(schema, schema, 0)['properties']
  if (isFields(properties) && Object.hasOwn(properties, name)) return typesOf(properties[name], schema, 0)
  const others = schema['additionalProperties']
  return isFields(others) ? typesOf(others, schema, 0) : undefined
}
function typesOf(given: unknown, root: Fields, depth: number): Types {
  if (!isFields(given) || depth > maxDepth) return undefined
  const schema = resolved(given, root, depth)
  const found = typesIn(schema, root, depth)
  return found && schema['nullable'] === true ? new Set([...found, 'null']) : found
}
function typesIn(schema: Fields, root: Fields, depth: number): Types {
  const { type } = schema
  const said = (Array.isArray(type) ? type : [type]).filter(isType)
  if (said.length > 0) return new Set(said)
  if (Array.isArray(schema['enum'])) return new Set(schema['enum'].map(typeOf))
  if ('const' in schema) return new Set([typeOf(schema['const'])])
  const either = schema['anyOf'] ?? schema['oneOf']
  if (Array.isArray(either)) {
    const all = new Set<JsonType>()
    for (const one of either) {
      const types = typesOf(one, root, depth + 1)
      if (!types) return undefined
      for (const name of types) all.add(name)
    }
    return all
  }
  if (Array.isArray(schema['allOf']))
    for (const one of schema['allOf']) {
      const types = typesOf(one, root, depth + 1)
      if (types) return types
    }
  if ('properties' in schema) return new Set(['object'])
  return 'items' in schema ? new Set(['array']) : undefined
}
/** A schema, or what its `$ref` within the same document names. */
function resolved(schema: Fields, root: Fields, depth: number): Fields {
  const { $ref } = schema
  if (typeof $ref !== 'string' || !$ref.startsWith('#/') || depth > maxDepth) return schema
  let at: unknown = root
  for (const key of $ref.slice(2).split('/')) {
    const name = key.replaceAll('~1', '/').replaceAll('~0', '~')
    at = isFields(at) && Object.hasOwn(at, name) ? at[name] : undefined
  }
  return isFields(at) ? resolved(at, root, depth + 1) : schema
}
function typeOf(value: unknown): JsonType {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  const type = typeof value
  return type === 'number' || type === 'boolean' || type === 'string' ? type : 'object'
}

export const onlyString = (types: Types): boolean => types?.size === 1 && types.has('string')

/**
 * JSON text of a value. A string stays as it is; where strings are allowed beside others, only what is one of those in
 * JSON becomes it. What is no JSON at all is a string, whatever was asked for: the client knows best what to answer.
 */
export function jsonOfText(text: string, types: Types): string {
  if (!onlyString(types)) {
    const bare = text.trim()
    const json = Object.hasOwn(literals, bare) ? literals[bare] : bare
    const type = json === undefined ? undefined : typeOfJson(json)
    const wanted = types === undefined || types.has('string') ? type !== 'string' && allows(types, type) : true
    if (json !== undefined && type !== undefined && wanted) return json
  }
  return JSON.stringify(text)
}
/** Could text that goes on like this still become anything but a string? For types that allow strings. */
export function undecided(text: string, types: Types): boolean {
  const bare = text.trim()
  if (bare === '') return true
  if (bare.startsWith('{')) return allows(types, 'object')
  if (bare.startsWith('[')) return allows(types, 'array')
  if (allows(types, 'number') && /^-?[\d.eE+-]*$/.test(bare)) return true
  const open = !/\s$/.test(text)
  const begins = (word: string): boolean => (open ? word.startsWith(bare) : word === bare)
  return (
    (allows(types, 'null') && ['null', 'None'].some(begins)) ||
    (allows(types, 'boolean') && ['true', 'false', 'True', 'False'].some(begins))
  )
}
function allows(types: Types, type: JsonType | undefined): boolean {
  if (types === undefined) return true
  return type !== undefined && (types.has(type) || (type === 'number' && types.has('integer')))
}
function typeOfJson(text: string): JsonType | undefined {
  try {
    return typeOf(JSON.parse(text))
  } catch {
    return undefined
  }
}
