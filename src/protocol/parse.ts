// The door for input items: parsed once, trusted inside. One schema per known type, looked up by `type`; what is unknown
// is kept as it came, so that conversations of newer clients and other servers pass through whole.
import { complain } from './complaint.ts'
import { ApiError } from './errors.ts'
import { itemShapes } from './item-shapes.ts'
import type { Item, Role } from './items.ts'
import { checkPicture, parseContent, parseOutput } from './parse-content.ts'
import { parseTools } from './parse-tools.ts'

export { parseTools }

type Fields = Record<string, unknown>

/** Items in one request. */
const maxItems = 100_000

/**
 * The items of an `input`; a string is one user message. Throws ApiError with `param` beneath the given one:
 * invalid_request, and what parseTools and images.ts throw.
 */
export function parseItems(value: unknown, param: string): Item[] {
  if (typeof value === 'string') return [{ type: 'message', role: 'user', content: parseContent(value, 'user', param) }]
  if (!Array.isArray(value)) throw wrong(`'${param}' must be a string or an array of items.`, param)
  if (value.length > maxItems) throw wrong(`'${param}' has more than ${maxItems} items.`, param)
  return value.map((item: unknown, i) => parseItem(item, `${param}.${i}`))
}

function parseItem(value: unknown, param: string): Item {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw wrong(`'${param}' must be an object.`, param)
  // An object that is no array; JSON has no others.
  const sent = value as Fields
  const type = typeOf(sent, param)
  const shape = itemShapes.get(type)
  // A type of a newer client or another server. Typed as an item we know: every switch over items has a default.
  if (shape === undefined) return sent as unknown as Item
  const parsed = shape.safeParse(sent['type'] === type ? sent : { ...sent, type })
  if (!parsed.success) throw complain(parsed.error, param)
  const item = tidy(parsed.data)
  switch (type) {
    case 'message':
      item['content'] = parseContent(item['content'], item['role'] as Role, `${param}.content`)
      break
    case 'function_call_output':
    case 'custom_tool_call_output':
      item['output'] = parseOutput(item['output'], `${param}.output`)
      break
    case 'reasoning':
      item['summary'] ??= []
      break
    case 'computer_call_output':
      checkPicture(item['output'] as Fields, `${param}.output`)
      break
    case 'additional_tools':
      item['role'] ??= 'developer'
      item['tools'] = parseTools(item['tools'], `${param}.tools`)
      break
    case 'tool_search_output':
      item['tools'] = parseTools(item['tools'], `${param}.tools`)
      break
  }
  // The shape of this type has just been checked.
  return item as unknown as Item
}

/** Messages and references may come without a `type`. */
function typeOf(item: Fields, param: string): string {
  const type = item['type']
  if (typeof type === 'string') return type
  if (type === undefined || type === null) {
    if (item['role'] !== undefined) return 'message'
    if (typeof item['id'] === 'string') return 'item_reference'
  }
  throw wrong(`'${param}.type' must be a string.`, `${param}.type`)
}

const optional = ['id', 'call_id', 'status', 'name', 'namespace', 'async', 'content']
const statuses = new Set(['in_progress', 'completed', 'incomplete'])
const hostedStatuses = new Set([...statuses, 'failed', 'searching', 'interpreting', 'generating', 'calling'])
const core = new Set([
  'message',
  'function_call',
  'function_call_output',
  'custom_tool_call',
  'custom_tool_call_output',
  'reasoning',
])

/** Null in an optional field is the same as none; a status nobody knows says nothing, and no item is refused for it. */
function tidy(item: Fields): Fields {
  for (const key of optional)
    if (item[key] === null && !(key === 'content' && item['type'] === 'message')) delete item[key]
  const status = item['status']
  if (status !== undefined && !(core.has(item['type'] as string) ? statuses : hostedStatuses).has(status as string))
    delete item['status']
  return item
}

const wrong = (message: string, param: string): ApiError => new ApiError('invalid_request', message, param)
