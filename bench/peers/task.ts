// The task of `continuo bench loop`, as a client of any server works through it: the same bytes for every server and way.
// What the model says is the paced engine's script.
import type { Driver, Fields, Seen } from '../../src/bench/driver.ts'
import { httpDriver } from '../../src/bench/http-driver.ts'
import { wsDriver } from '../../src/bench/ws-driver.ts'
import { answersTo, type Task } from '../../src/bench/loop-task.ts'
import type { Started, Way } from './peer.ts'

export type Done = {
  /** End to end, connecting included. */
  readonly ms: number
  /** Of each turn: from the request to its end, and to the first sign of the model. */
  readonly turns: readonly number[]
  readonly firsts: readonly number[]
  readonly bytesUp: number
  readonly bytesDown: number
  /** Calls and final text, to compare. */
  readonly said: Said
  /** Characters that the engine must have been sent over all turns, in every way. */
  readonly shownChars: number
}
export type Said = { readonly calls: readonly string[]; readonly text: string }

/** Throws for whatever an agent would stumble over, a call that is missing or one too many among it. */
export async function work(way: Way, server: Started, task: Task, model: string): Promise<Done> {
  const begun = performance.now()
  const { url, key, headers } = server
  const driver = way.startsWith('ws')
    ? await wsDriver({ url, key, headers })
    : httpDriver({ url, key, headers, keepAlive: true })
  try {
    const seen = await turns(way, driver, task, model)
    const ms = performance.now() - begun
    const calls = seen.flatMap((turn) => turn.calls)
    const sum = (of: (turn: Seen) => number): number => seen.reduce((total, turn) => total + of(turn), 0)
    return {
      ms,
      turns: seen.map((turn) => turn.ms),
      firsts: seen.map((turn) => turn.firstMs),
      bytesUp: sum((turn) => turn.bytesUp),
      bytesDown: sum((turn) => turn.bytesDown),
      said: { calls: calls.map(callText), text: seen.at(-1)?.text ?? '' },
      shownChars: shown(task, seen.length),
    }
  } finally {
    await driver.close()
  }
}
export const callText = (call: { readonly name: string; readonly arguments: string }): string =>
  `${call.name} ${call.arguments}`

async function turns(way: Way, driver: Driver, task: Task, model: string): Promise<Seen[]> {
  const chained = way.endsWith('previous')
  const settings = {
    model,
    instructions: task.instructions,
    tools: task.tools,
    // What is chained over HTTP must be stored; a socket remembers.
    store: way === 'http-previous',
  }
  const history: Fields[] = [...task.opening]
  const out: Seen[] = []
  let fresh: readonly Fields[] = history
  for (const step of task.steps) {
    const before = out.at(-1)
    const turn = await driver.turn({
      ...settings,
      input: chained ? fresh : history,
      ...(chained && before ? { previous_response_id: before.id } : {}),
    })
    out.push(turn)
    fresh = answersTo(step, turn.calls, out.length)
    // Items go back as they came.
    history.push(...turn.items, ...fresh)
  }
  return out
}
/** Of the texts that the client has sent when it asks for turn n, in all turns: no JSON around them, nothing escaped. */
function shown({ instructions, opening, steps }: Task, turns: number): number {
  let now = instructions.length + opening.reduce((sum, item) => sum + textOf(item).length, 0)
  let all = 0
  for (const { answers } of steps.slice(0, turns)) {
    all += now
    for (const answer of answers) now += 'item' in answer ? textOf(answer.item).length : answer.output.length
  }
  return all
}
const textOf = ({ output }: Fields): string => (typeof output === 'string' ? output : '')

/** What the script says, asked of the engine itself. `model` and the first tool stand in its answers. */
export async function expected(chatUrl: string, { earlier, steps, tools }: Task, model: string): Promise<Said> {
  const said: string[] = []
  for (let n = 0; n < steps.length; n++) {
    const answer = await fetch(`${chatUrl}/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        model,
        messages: Array.from({ length: earlier + n }, () => ({ role: 'tool', content: '' })),
        tools: [{ type: 'function', function: { name: tools[0]?.['name'] } }],
      }),
    })
    // What our own engine answers.
    const { choices } = (await answer.json()) as { readonly choices: readonly { readonly message: Message }[] }
    const message = choices[0]?.message
    const call = message?.tool_calls?.[0]?.function
    if (!call) return { calls: said, text: message?.content ?? '' }
    said.push(callText(call))
  }
  throw new Error('The engine does not come to an end.')
}
type Message = {
  readonly content: string | null
  readonly tool_calls?: readonly { readonly function: { readonly name: string; readonly arguments: string } }[]
}
