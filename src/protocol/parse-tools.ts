// The door for tool definitions, in a request and in the items that bring tools along.
import { z } from 'zod'
import { complain } from './complaint.ts'
import { ApiError } from './errors.ts'
import { parseParameters } from './tool-schema.ts'
import type { CustomTool, FunctionTool, NamespaceTool, Tool } from './tools.ts'

type Fields = Record<string, unknown>

/** Tools in one list, those inside namespaces counted. */
const maxTools = 4096

const name = z.string().regex(/^[A-Za-z0-9_.-]{1,128}$/, 'must match ^[A-Za-z0-9_.-]{1,128}$')
const description = z.string().nullish()
const flags = {
  async: z.boolean().nullish(),
  defer_loading: z.boolean().nullish(),
  allowed_callers: z.array(z.enum(['direct', 'programmatic'])).nullish(),
}
const functionShape = z.looseObject({
  type: z.literal('function'),
  name,
  description,
  parameters: z.unknown().optional(),
  strict: z.boolean().nullish(),
  output_schema: z.record(z.string(), z.unknown()).nullish(),
  ...flags,
})
const customShape = z.looseObject({
  type: z.literal('custom'),
  name,
  description,
  format: z
    .discriminatedUnion('type', [
      z.looseObject({ type: z.literal('text') }),
      z.looseObject({ type: z.literal('grammar'), syntax: z.enum(['lark', 'regex']), definition: z.string() }),
    ])
    .nullish(),
  ...flags,
})
const namespaceShape = z.looseObject({ type: z.literal('namespace'), name, description, tools: z.array(z.unknown()) })
const mcpShape = z.looseObject({ type: z.literal('mcp'), server_label: z.string().min(1) })

/**
 * Tools as they are kept and echoed: `parameters` and `strict` of a function always present, an older client's nested
 * `function` raised, hosted and unknown kinds as they came. Null and undefined are no tools. Throws ApiError
 * `invalid_request` or `invalid_tool_schema`, `param` beneath the given one.
 */
export function parseTools(value: unknown, param = 'tools'): Tool[] {
  if (value === null || value === undefined) return []
  if (!Array.isArray(value)) throw wrong(`'${param}' must be an array.`, param)
  let count = 0
  const parse = (tool: unknown, at: string, nested: boolean): Tool => {
    if (++count > maxTools) throw wrong(`'${param}' has more than ${maxTools} tools.`, param)
    if (!isObject(tool) || typeof tool['type'] !== 'string')
      throw wrong(`'${at}' must be an object with a \`type\`.`, at)
    switch (tool['type']) {
      case 'function':
        return parseFunction(raise(tool), at)
      case 'custom':
        return parseCustom(tool, at)
      case 'namespace': {
        if (nested) throw wrong(`'${at}': a namespace holds functions and custom tools only.`, at)
        const found = check(namespaceShape, tool, at)
        const tools = found.tools.map((inner, i) => parse(inner, `${at}.tools.${i}`, true))
        // Inner kinds of newer clients are kept too; readers look at `type`.
        return { ...found, description: found.description ?? '', tools: tools as NamespaceTool['tools'] }
      }
      case 'mcp':
        check(mcpShape, tool, at)
        // What the tools of this server need of an mcp tool has just been checked.
        return tool as Tool
      default:
        // Hosted kinds, and those of newer clients: kept as they came, never offered to a model.
        return tool as Tool
    }
  }
  return value.map((tool: unknown, i) => parse(tool, `${param}.${i}`, false))
}

function parseFunction(tool: Fields, at: string): FunctionTool {
  const { parameters, strict, ...rest } = check(functionShape, tool, at)
  // Nulls of the optional flags are dropped below; the rest of the shape has just been checked.
  return withoutNulls({
    ...rest,
    parameters: parseParameters(parameters, `${at}.parameters`),
    strict: strict ?? null,
  }) as FunctionTool
}

const parseCustom = (tool: Fields, at: string): CustomTool => {
  const { description: text, format, ...rest } = check(customShape, tool, at)
  const custom = { ...rest, ...(text == null ? {} : { description: text }), ...(format == null ? {} : { format }) }
  return withoutNulls(custom) as CustomTool
}

/** Chat clients nest a function's fields: `{type: 'function', function: {name, parameters}}`. */
function raise(tool: Fields): Fields {
  const { function: nested, ...rest } = tool
  return isObject(nested) && rest['name'] === undefined ? { ...rest, ...nested, type: 'function' } : tool
}

function check<T>(shape: z.ZodType<T>, value: unknown, at: string): T {
  const parsed = shape.safeParse(value)
  if (!parsed.success) throw complain(parsed.error, at)
  return parsed.data
}

function withoutNulls(tool: Fields): Fields {
  const { async, defer_loading: deferred, ...rest } = tool
  return { ...rest, ...(async == null ? {} : { async }), ...(deferred == null ? {} : { defer_loading: deferred }) }
}

const wrong = (message: string, param: string): ApiError => new ApiError('invalid_request', message, param)
const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
