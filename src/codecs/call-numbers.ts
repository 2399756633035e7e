// The number of each call in its turn and in the conversation, for formats that name a call and its output by it.
import type { CallNumber, Turn } from './family.ts'

/** Calls so far, and those of them without an output, oldest first. */
export type Calls = {
  readonly made: number
  readonly open: readonly (CallNumber & { readonly callId: string })[]
}
export const noCalls: Calls = { made: 0, open: [] }

/** Calls that were never answered are remembered so far back. */
const maxOpen = 256

export function callsBehind({ made, open }: Calls, { calls }: Turn): Calls {
  if (calls.length === 0) return { made, open }
  const more = calls.map(({ callId }, n) => ({ callId, inTurn: n, inAll: made + n }))
  return { made: made + calls.length, open: [...open, ...more].slice(-maxOpen) }
}
/** The newest call with this id, which has its output now. */
export function answered({ made, open }: Calls, callId: string): { number: CallNumber | undefined; calls: Calls } {
  const at = open.findLastIndex((call) => call.callId === callId)
  return { number: open[at], calls: at < 0 ? { made, open } : { made, open: open.toSpliced(at, 1) } }
}
