// Many agents at once: each opens a socket, works through a tool loop by deltas, and closes. One call is one round.
import type { Seen } from '../src/bench/driver.ts'
import { wsDriver } from '../src/bench/ws-driver.ts'
import { outputOf, settings, userMessage } from './talk.ts'

export type RoundOptions = {
  readonly wsUrl: string
  readonly sockets: number
  /** Turns of each socket; the first brings the task, the others the output of the call before them. */
  readonly turns: number
  /** Called after every turn. */
  readonly onTurn?: () => void
}
export type Round = {
  /** Turns that ended completed, and those of them sent with `store: true`. */
  readonly completed: number
  readonly stored: number
  readonly events: number
  /** Milliseconds from the frame sent to the terminal event read, of each turn. */
  readonly ms: readonly number[]
  /** Milliseconds of the whole round, connecting and closing included. */
  readonly tookMs: number
  /** The first of them, in words; `failures` counts all. */
  readonly errors: readonly string[]
  readonly failures: number
}
/** Stands in whatever is sent with `store: false`, so that its absence from the data folder can be checked. */
export const unstoredMark = 'not-to-be-written'
const mostErrors = 10

/** Every second turn is stored. The engine must call a tool in all turns but the last: `rounds: turns - 1`. */
export async function round({ wsUrl, sockets, turns, onTurn }: RoundOptions): Promise<Round> {
  const ms: number[] = []
  const errors: string[] = []
  let [stored, events, failures] = [0, 0, 0]
  const begun = performance.now()

  const agent = async (n: number): Promise<void> => {
    const socket = await wsDriver({ url: wsUrl.replace(/\/responses$/, ''), strict: true })
    try {
      let before: Seen | undefined
      for (let t = 0; t < turns; t++) {
        const store = (n + t) % 2 === 0
        const turn = await socket.turn({
          ...settings,
          store,
          ...next(before, `agent ${n}, turn ${t}${store ? '' : `, ${unstoredMark}`}`),
        })
        if (turn.calls.length !== (t < turns - 1 ? 1 : 0))
          throw new Error(`turn ${t} ended with ${turn.calls.length} calls`)
        ms.push(turn.ms)
        events += turn.events
        if (store) stored++
        before = turn
        onTurn?.()
      }
    } finally {
      await socket.close()
    }
  }
  const failed = (e: unknown): void => {
    failures++
    if (errors.length < mostErrors) errors.push(e instanceof Error ? e.message : String(e))
  }
  await Promise.all(Array.from({ length: sockets }, (_, n) => agent(n).catch(failed)))
  return { completed: ms.length, stored, events, ms, tookMs: performance.now() - begun, errors, failures }
}

/** What is new in this turn: the task, or what the tool returned. */
function next(before: Seen | undefined, text: string): Readonly<Record<string, unknown>> {
  if (!before) return { input: [userMessage(`Look around and tell me what this is (${text}).`)] }
  const listing = `-rw-r--r-- 1 agent agent 4096 a-file-of-the-project.ts (${text})\n`.repeat(10)
  return { previous_response_id: before.id, input: before.calls.map((call) => outputOf(call, listing)) }
}
