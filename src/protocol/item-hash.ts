// What an item says to a model, as a hash: clients send the same item with and without id and status, with keys in another
// order, sealed or open. Two items of one hash are rendered alike.
import { hash } from 'node:crypto'
import { type Item, textOf } from './items.ts'
import { dataHash } from './pictures.ts'

/** The hash of a conversation of which `before` is the hash so far ('' of none) and `item` the next item. */
export function extendHash(before: string, item: Item): string {
  hashed.items++
  return hash('sha256', before + contentOf(item), 'base64')
}
/** Items since the start, for tests: none twice in a plain loop. */
export const hashed = { items: 0 }

/** Fields of an item, or of a part, that no model sees. What is within them, schemas of tools above all, may have such names. */
const unseen = new Set(['id', 'status', 'encrypted_content', 'created_by'])

function contentOf(item: Item): string {
  switch (item.type) {
    case 'message': {
      const { role, phase, content } = item
      return field(item.type) + field(role) + field(phase) + partsOf(content)
    }
    case 'reasoning':
      return field(item.type) + field(textOf(item.content?.length ? item.content : item.summary))
    case 'function_call':
      return field(item.type) + field(item.call_id) + field(item.namespace) + field(item.name) + field(item.arguments)
    case 'custom_tool_call':
      return field(item.type) + field(item.call_id) + field(item.namespace) + field(item.name) + field(item.input)
    case 'function_call_output':
    case 'custom_tool_call_output': {
      const { output } = item
      return field(item.type) + field(item.call_id) + (typeof output === 'string' ? field(output) : partsOf(output))
    }
    default:
      return field(item.type) + rest(item)
  }
}
/** A text with its length in front, so that no two lists of fields are written alike. Escaped like JSON it would take longer. */
function field(text: string | null | undefined): string {
  if (text === null || text === undefined) return '-'
  // The hash is one of UTF-8, in which all lone surrogates are the same. Node has the method; ES2023 has not.
  if (!(text as unknown as { isWellFormed(): boolean }).isWellFormed()) return `!${field(JSON.stringify(text))}`
  return `${text.length}:${text}`
}
/** What is neither text nor often there. */
const rest = (value: object): string =>
  `{${field(JSON.stringify(ordered(Object.entries(value).filter(([key, v]) => !unseen.has(key) && v !== null))))}`

/** Text as it is; pictures and files by all that names them, their data by a hash that is made once. */
function partsOf(parts: readonly { readonly type: string }[]): string {
  let all = '['
  for (const part of parts) {
    const { prompt_cache_breakpoint: _, annotations: __, logprobs: ___, ...named } = part as Record<string, unknown>
    for (const key of ['image_url', 'file_data']) {
      const data = named[key]
      if (typeof data === 'string') named[key] = dataHash(part, data)
    }
    all += typeof named['text'] === 'string' ? field(named['text']) : rest(named)
  }
  return all
}
/** With keys in order: fields and elements each behind a mark, so that none are taken for the other. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return ['[', ...value.map(sorted)]
  return typeof value !== 'object' || value === null ? value : ordered(Object.entries(value))
}
const ordered = (fields: readonly [string, unknown][]): unknown => [
  '{',
  ...fields
    .filter(([, v]) => v !== undefined)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, v]) => [key, sorted(v)]),
]
