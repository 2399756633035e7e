// One agent loop in one mode, as its client runs it: asks, waits for the tool, answers, until the model is done.
import { setTimeout as pause } from 'node:timers/promises'
import type { Asked, Driver, Fields, Seen } from './driver.ts'
import { httpDriver } from './http-driver.ts'
import type { Mode } from './loop-modes.ts'
import { answersTo, marker, type Step, type Task } from './loop-task.ts'
import type { TurnMarks } from './served.ts'
import { wsDriver } from './ws-driver.ts'

export type Turned = {
  readonly id: string
  readonly calls: readonly Pick<Asked, 'name' | 'arguments'>[]
  readonly text: string
  readonly usage: Seen['usage']
  /** From the request to its last event, and to the first sign of the model. */
  readonly ms: number
  readonly firstMs: number
  readonly bytesUp: number
  readonly bytesDown: number
  /** The server's own; none of servers that are not ours. */
  readonly marks?: TurnMarks
}
export type Loop = {
  readonly mode: Mode
  /** From the first connection to the last event. */
  readonly ms: number
  readonly turns: readonly Turned[]
}
export type Where = {
  readonly url: string
  readonly model: string
  readonly ca?: string | undefined
  readonly key?: string | undefined
}

/** `number`: which loop of the run it is; it begins with it. Rejects with the first thing that goes wrong. */
export async function drive(mode: Mode, task: Task, where: Where, number: number): Promise<Loop> {
  const began = performance.now()
  const client = await open(mode, where)
  try {
    const turns = mode.rollout
      ? await rolledOut(client, task, where, number)
      : await turnByTurn(client, mode, task, where, number)
    return { mode, ms: performance.now() - began, turns: turns.map(turned) }
  } finally {
    await client.close()
  }
}
export function open({ door }: Pick<Mode, 'door'>, { url, ca, key }: Omit<Where, 'model'>): Driver | Promise<Driver> {
  return door === 'socket' ? wsDriver({ url, ca, key }) : httpDriver({ url, ca, key, keepAlive: door === 'kept' })
}

async function turnByTurn(client: Driver, mode: Mode, task: Task, { model }: Where, number: number): Promise<Seen[]> {
  const settings = { instructions: task.instructions, tools: task.tools }
  const history: Fields[] = [marker(number), ...task.opening]
  const turns: Seen[] = []
  let fresh: readonly Fields[] = history
  for (const step of task.steps) {
    const last = turns.at(-1)
    const seen = await client.turn(
      mode.sends === 'all'
        ? { model, ...settings, input: history, store: false }
        : {
            model,
            ...(mode.lean && last ? {} : settings),
            ...(mode.lean ? { continuo: { ...(last ? { inherit: Object.keys(settings) } : {}), echo: false } } : {}),
            ...(last ? { previous_response_id: last.id } : {}),
            input: fresh,
          },
    )
    turns.push(seen)
    fresh = answersTo(step, seen.calls, turns.length)
    // Items go back as they came.
    if (mode.sends === 'all') history.push(...seen.items, ...fresh)
    if (step.toolMs > 0) await pause(step.toolMs)
  }
  return turns
}
/** One response for as long as the model calls something; where the user speaks again, another behind it. */
async function rolledOut(client: Driver, task: Task, { model }: Where, number: number): Promise<Seen[]> {
  const turns: Seen[] = []
  const settings = { model, instructions: task.instructions, tools: task.tools }
  let at = 0
  const next = (): Step => {
    const step = task.steps[at++]
    if (!step) throw new Error(`The model went on behind turn ${task.steps.length}, the last one.`)
    return step
  }
  let fresh: readonly Fields[] = [marker(number), ...task.opening]
  while (at < task.steps.length) {
    if (!client.rollout) throw new Error('This client cannot do rollouts.')
    const last = turns.at(-1)
    const legs = await client.rollout(
      { ...settings, ...(last ? { previous_response_id: last.id } : {}), input: fresh },
      async (calls) => {
        const step = next()
        if (step.toolMs > 0) await pause(step.toolMs)
        return answersTo(step, calls, at)
      },
    )
    turns.push(...legs.map((leg, n) => ({ ...leg, usage: since(leg.usage, legs[n - 1]?.usage) })))
    fresh = answersTo(next(), legs.at(-1)?.calls ?? [], at)
  }
  return turns
}

/** A rollout counts from its beginning. */
const since = (usage: Seen['usage'], before: Seen['usage'] | undefined): Seen['usage'] =>
  before
    ? { input: usage.input - before.input, cached: usage.cached - before.cached, output: usage.output - before.output }
    : usage

const turned = ({ id, calls, text, usage, ms, firstMs, bytesUp, bytesDown }: Seen): Turned => ({
  id,
  calls: calls.map(({ name, arguments: args }) => ({ name, arguments: args })),
  text,
  usage,
  ms,
  firstMs,
  bytesUp,
  bytesDown,
})
/** With the server's marks: turns of one response are met in their order. */
export function withMarks(loop: Loop, marks: readonly TurnMarks[]): Loop {
  const byId = new Map<string, TurnMarks[]>()
  for (const one of marks) byId.set(one.id, [...(byId.get(one.id) ?? []), one])
  return {
    ...loop,
    turns: loop.turns.map((turn) => {
      const own = byId.get(turn.id)?.shift()
      return own ? { ...turn, marks: own } : turn
    }),
  }
}
