// Lean turns, the client's side: a delta leaves out the settings that its parent has, the server does not echo them, and
// the caller gets its events with everything put back.
import { inheritable } from '../protocol/lean.ts'
import type { Response } from '../protocol/response.ts'
import type { ServerEvent } from './frame.ts'

/** All of a response that others under the same settings may share; what each has of its own stands in every envelope. */
export type Echo = Omit<Response, 'output' | 'end_turn'>
export function echoOf({ output: _, end_turn: __, ...echo }: Response): Echo {
  return echo
}

/** Takes the settings out of a frame whose parent has the same ones. */
export function leaveOut(frame: Record<string, unknown>): void {
  const inherit = inheritable.filter((name) => frame[name] != null)
  for (const name of inherit) delete frame[name]
  frame['continuo'] = { inherit, echo: false }
}

/** Whole again. Responses under the same settings share what was put back, such as their list of tools. */
export const putBack = (event: ServerEvent, echo: Echo): ServerEvent =>
  'response' in event ? { ...event, response: { ...echo, ...event.response } } : event
