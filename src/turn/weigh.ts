// An estimate of tokens for engines that do not count, and for prompts that nobody has encoded yet.
// Four UTF-16 units a token holds within some 20 % for English and code; an image is a flat number, because counting
// its base64 made a client compact without end.
import type { Item } from '../protocol/items.ts'

const image = 1100
const perItem = 4

/** Estimated tokens of items. */
export function weigh(items: readonly Item[]): number {
  let sum = 0
  for (const item of items) sum += perItem + weighValue(item, 0)
  return sum
}
/** Estimated tokens of a text. */
export const weighText = (text: string): number => Math.ceil(text.length / 4)

// Ids, statuses and sealed content are not rendered; data URLs weigh as one image.
const unseen = new Set(['id', 'status', 'encrypted_content', 'type', 'phase', 'prompt_cache_breakpoint', 'detail'])
function weighValue(value: unknown, depth: number): number {
  if (typeof value === 'string') return value.startsWith('data:') ? image : weighText(value)
  if (typeof value === 'number' || typeof value === 'boolean') return 1
  if (value === null || typeof value !== 'object' || depth > 130) return 0
  let sum = 0
  if (Array.isArray(value)) for (const v of value) sum += weighValue(v, depth + 1)
  else for (const [k, v] of Object.entries(value)) if (!unseen.has(k)) sum += weighValue(v, depth + 1)
  return sum
}

const perValue = 32
/** Bytes that a value takes in memory, estimated from above: two for each UTF-16 unit, which half of all texts need. */
export function sizeOf(value: unknown, depth = 0): number {
  if (typeof value === 'string') return perValue + value.length * 2
  if (value === null || typeof value !== 'object' || depth > 130) return 8
  let sum = perValue
  if (Array.isArray(value)) for (const v of value) sum += sizeOf(v, depth + 1)
  else for (const v of Object.values(value)) sum += 16 + sizeOf(v, depth + 1)
  return sum
}
