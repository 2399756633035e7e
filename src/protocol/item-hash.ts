// What an item says to a model, as a hash: clients send the same item with and without id and status, with keys in another
// order, sealed or open. Two items of one hash are rendered alike.
import { hash } from 'node:crypto'
import { type Item, textOf } from './items.ts'

/** The hash of a conversation of which `before` is the hash so far ('' of none) and `item` the next item. */
export const extendHash = (before: string, item: Item): string => hash('sha256', before + contentOf(item), 'base64')

/** Fields that no model sees. */
const unseen = new Set(['id', 'status', 'encrypted_content', 'created_by'])

function contentOf(item: Item): string {
  switch (item.type) {
    case 'message':
      return JSON.stringify(['message', item.role, item.phase ?? null, ...item.content.map(partOf)])
    case 'reasoning':
      return JSON.stringify(['reasoning', textOf(item.content?.length ? item.content : item.summary)])
    case 'function_call':
      return JSON.stringify(['function_call', item.call_id, item.namespace ?? null, item.name, item.arguments])
    case 'custom_tool_call':
      return JSON.stringify(['custom_tool_call', item.call_id, item.namespace ?? null, item.name, item.input])
    case 'function_call_output':
    case 'custom_tool_call_output': {
      const { output } = item
      return JSON.stringify([item.type, item.call_id, typeof output === 'string' ? output : output.map(partOf)])
    }
    default:
      return JSON.stringify([item.type, sorted(item)])
  }
}
/** Text as it is; pictures and files by all that names them. */
function partOf(part: { readonly type: string }): unknown {
  const { type, prompt_cache_breakpoint: _, annotations: __, logprobs: ___, ...rest } = part as Record<string, unknown>
  if (typeof rest['text'] === 'string') return rest['text']
  return [type, sorted(rest)]
}
/** With keys in order, and without what no model sees. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const fields = Object.entries(value).filter(([key, v]) => !unseen.has(key) && v !== undefined && v !== null)
  return fields.toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([key, v]) => [key, sorted(v)])
}
