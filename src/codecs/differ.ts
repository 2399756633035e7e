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

/** `clock`: a date, a time or a number in the instructions; `order`: the same tools in another one. */
export type Cause = 'date' | 'clock' | 'instructions' | 'tools' | 'order' | 'effort'
export type Difference = { readonly cause: Cause; readonly why: string }

/** Undefined where both make the same head. */
export const difference = (a: Base, b: Base): string | undefined => headDifference(a, b)?.why

/** As `difference`, with what kind it is. */
export function headDifference(a: Base, b: Base): Difference | undefined {
  if (a.date !== b.date) return { cause: 'date', why: 'the conversation began on another day' }
  if (a.instructions !== b.instructions) {
    const { clock, why } = textDifference('the instructions', a.instructions ?? '', b.instructions ?? '')
    return { cause: clock ? 'clock' : 'instructions', why }
  }
  const brought = tools(a.brought, b.brought)
  const own = tools(a.tools, b.tools)
  if (own ?? brought) return own ?? brought
  if (a.effort === b.effort) return undefined
  return {
    cause: 'effort',
    why: `reasoning.effort changed from ${a.effort ?? 'none given'} to ${b.effort ?? 'none given'}`,
  }
}

/** How one text became the other. `what` names it in a sentence; `clock`: only what a clock or a counter changes. */
export function textDifference(what: string, a: string, b: string): { readonly clock: boolean; readonly why: string } {
  let at = 0
  while (at < a.length && at < b.length && a[at] === b[at]) at++
  if (timeless(a) === timeless(b))
    return { clock: true, why: `a date, a time or a number in ${what} changed, at character ${at}` }
  return { clock: false, why: `${what} changed at character ${at}` }
}
const names =
  /\b(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\b|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b|\b[ap]m\b/gi
/** What a clock or a counter does not change. */
const timeless = (text: string): string => text.replaceAll(/\d+/g, '0').replaceAll(names, 'D')

function tools(a: readonly Tool[], b: readonly Tool[]): Difference | undefined {
  if (a === b || toolsJson(a) === toolsJson(b)) return undefined
  const left = a.map((tool) => JSON.stringify(tool))
  const right = b.map((tool) => JSON.stringify(tool))
  if (left.toSorted().join() === right.toSorted().join())
    return { cause: 'order', why: 'the tools are the same in another order' }
  const differs = left.findIndex((tool, n) => tool !== right[n])
  const at = differs < 0 ? left.length : differs
  const why =
    left.length === right.length
      ? `the definition of tool number ${at} changed`
      : left.length < right.length
        ? `a tool was added as number ${at}`
        : `tool number ${at} was taken away`
  return { cause: 'tools', why }
}
