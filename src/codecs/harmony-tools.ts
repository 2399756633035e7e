// Tools as gpt-oss is told of them: a namespace in the manner of TypeScript, as the model's own template prints it, blanks
// and oddities included. Everything here is a client's text.
import { templateTool } from '../protocol/functions.ts'
import type { Callable } from '../protocol/tools.ts'
import { pythonJson } from './python-json.ts'
import { pythonText } from './python-text.ts'

type Schema = Readonly<Record<string, unknown>>
/** The template gives up on longer types of array elements. */
const maxElement = 50
/** Deeper schemas are `any`. */
const maxDepth = 32

export function namespaceText(tools: readonly Callable[]): string {
  return `## functions\n\nnamespace functions {\n\n${tools.map(declaration).join('')}} // namespace functions`
}
function declaration(tool: Callable): string {
  const { name, description, parameters } = templateTool(tool).function
  const fields = Object.entries(objectOf(parameters['properties']))
  const required = listOf(parameters['required'])
  const type =
    fields.length === 0 ? '()' : `(_: {\n${fields.map(([key, spec]) => field(key, spec, required)).join('')}})`
  return `// ${description}\ntype ${name} = ${type} => any;\n\n`
}
function field(name: string, value: unknown, required: readonly unknown[]): string {
  const spec = objectOf(value)
  const about = truthy(spec['description']) ? `// ${pythonText(spec['description'])}\n` : ''
  return `${about}${name}${required.includes(name) ? '' : '?'}: ${typeOf(spec, 0)}${standard(spec)},\n`
}
/** The comment about a default value, which stands before the comma of its own line. */
function standard(spec: Schema): string {
  const { default: value } = spec
  if (value === undefined) return ''
  if (truthy(spec['enum'])) return `, // default: ${pythonText(value)}`
  if (truthy(spec['oneOf'])) return `// default: ${pythonText(value)}`
  return `, // default: ${pythonJson(value)}`
}

function typeOf(spec: Schema, depth: number): string {
  const { type } = spec
  if (depth > maxDepth) return 'any'
  const orNull = truthy(spec['nullable']) ? ' | null' : ''
  if (type === 'array') return `${truthy(spec['items']) ? element(objectOf(spec['items']), depth) : 'any[]'}${orNull}`
  if (Array.isArray(type) && type.length > 0) return type.map(pythonText).join(' | ')
  if (truthy(spec['oneOf'])) return union(listOf(spec['oneOf']), depth)
  if (type === 'string')
    return truthy(spec['enum']) ? `"${listOf(spec['enum']).map(pythonText).join('" | "')}"` : `string${orNull}`
  if (type === 'number' || type === 'integer') return 'number'
  if (type === 'boolean') return 'boolean'
  if (type !== 'object') return 'any'
  const required = listOf(spec['required'])
  const fields = Object.entries(objectOf(spec['properties'])).map(
    ([name, inner]) =>
      `${name}${required.includes(name) ? '' : '?'}: \n${' '.repeat(16)}${typeOf(objectOf(inner), depth + 1)}`,
  )
  return fields.length === 0 ? 'object' : `{\n${fields.join(', ')}}`
}
function element(items: Schema, depth: number): string {
  const { type } = items
  if (type === 'string' || type === 'boolean') return `${type}[]`
  if (type === 'number' || type === 'integer') return 'number[]'
  const inner = typeOf(items, depth + 1)
  return inner === 'object | object' || Array.from(inner).length > maxElement ? 'any[]' : `${inner}[]`
}
function union(variants: readonly unknown[], depth: number): string {
  const one = (variant: unknown): string => {
    const spec = objectOf(variant)
    const about = truthy(spec['description']) ? `// ${pythonText(spec['description'])}` : ''
    const { default: value } = spec
    return `${typeOf(spec, depth + 1)}${about}${value === undefined ? '' : `${' '.repeat(20)}// default: ${pythonJson(value)}`}`
  }
  return variants.map(one).join(' | \n')
}

const objectOf = (value: unknown): Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Schema) : {}
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? (value as unknown[]) : [])
/** As templates ask: neither missing, null, false, zero nor empty. */
function truthy(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.keys(value).length > 0
  return Boolean(value)
}
