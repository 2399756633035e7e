// Tool lists, which clients send again with every turn: one that came before is not parsed again, is held in memory once
// for all responses that echo it, and is written as JSON once. A memo, not state: forgetting costs time only.
import { parseTools } from './parse-tools.ts'
import type { Tool } from './tools.ts'

type Known = { readonly sent: unknown; readonly tools: readonly Tool[]; readonly length: number }
/** Lists that are remembered, newest use first: their number, and the characters of one and of all as JSON. */
const most = 32
const longest = 1024 * 1024
const longestAll = 8 * longest
let known: readonly Known[] = []

/** As parseTools, with the same result for the same list; it must not be changed. */
export function knownTools(sent: unknown): readonly Tool[] {
  if (!Array.isArray(sent) || sent.length === 0) return parseTools(sent)
  const found = known.find((k) => same(k.sent, sent))
  if (found) {
    if (known[0] !== found) known = [found, ...known.filter((k) => k !== found)]
    return found.tools
  }
  const tools = parseTools(sent)
  const { length } = toolsJson(tools)
  if (length > longest) return tools
  let room = longestAll - length
  known = [{ sent, tools, length }, ...known.slice(0, most - 1).filter((k) => (room -= k.length) >= 0)]
  return tools
}

const jsons = new WeakMap<readonly Tool[], string>()
/** JSON of a list, made once. */
export function toolsJson(tools: readonly Tool[]): string {
  let json = jsons.get(tools)
  if (json === undefined) jsons.set(tools, (json = JSON.stringify(tools)))
  return json
}

/** Are two values of JSON written alike, the order of keys included? */
function same(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a) || Array.isArray(b))
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((value, n) => same(value, b[n]))
  const keys = Object.keys(a)
  const others = Object.keys(b)
  // Both are records now; JSON has nothing else.
  const [left, right] = [a as Record<string, unknown>, b as Record<string, unknown>]
  return keys.length === others.length && keys.every((key, n) => key === others[n] && same(left[key], right[key]))
}
