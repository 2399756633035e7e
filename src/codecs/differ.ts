// Why the front of a prompt is not what it was, in words that say what the client could do about it and quote nothing of
// its: they go to the log.
import { toolsJson } from '../protocol/known-tools.ts'
import type { Tool } from '../protocol/tools.ts'

/** What a prompt depends on beside its items. */
export type Base = {
  readonly instructions: string | null
  readonly tools: readonly Tool[]
  /** Tools that items of the conversation brought along. */
  readonly brought: readonly Tool[]
  readonly thinking: boolean
  readonly effort: string | null
  readonly date: string
}

/** Undefined where both make the same head. */
export function difference(a: Base, b: Base): string | undefined {
  if (a.date !== b.date) return 'the conversation began on another day'
  if (a.instructions !== b.instructions) return instructions(a.instructions ?? '', b.instructions ?? '')
  const brought = tools(a.brought, b.brought)
  const own = tools(a.tools, b.tools)
  if (own ?? brought) return own ?? brought
  if (a.effort !== b.effort)
    return `reasoning.effort changed from ${a.effort ?? 'none given'} to ${b.effort ?? 'none given'}`
  return undefined
}

function instructions(a: string, b: string): string {
  let at = 0
  while (at < a.length && at < b.length && a[at] === b[at]) at++
  if (timeless(a) === timeless(b)) return `a date, a time or a number in the instructions changed, at character ${at}`
  return `the instructions changed at character ${at}`
}
const names =
  /\b(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\b|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b|\b[ap]m\b/gi
/** What a clock or a counter does not change. */
const timeless = (text: string): string => text.replaceAll(/\d+/g, '0').replaceAll(names, 'D')

function tools(a: readonly Tool[], b: readonly Tool[]): string | undefined {
  if (a === b || toolsJson(a) === toolsJson(b)) return undefined
  const left = a.map((tool) => JSON.stringify(tool))
  const right = b.map((tool) => JSON.stringify(tool))
  if (left.toSorted().join() === right.toSorted().join()) return 'the tools are the same in another order'
  const differs = left.findIndex((tool, n) => tool !== right[n])
  const at = differs < 0 ? left.length : differs
  if (left.length === right.length) return `the definition of tool number ${at} changed`
  return left.length < right.length ? `a tool was added as number ${at}` : `tool number ${at} was taken away`
}
