// One round: a fresh server, the same work each time, and what it took. Only what clients of every revision can do.
import { httpDriver } from '../../src/bench/http-driver.ts'
import { median } from '../../src/bench/report.ts'
import type { Asked, Driver, Fields, Seen } from '../../src/bench/driver.ts'
import { wsDriver } from '../../src/bench/ws-driver.ts'
import { settings, userMessage } from '../talk.ts'
import type { Server } from './server.ts'

/** By name, less is better; `what` says what was measured. */
export const measures = {
  delta_ms_short: 'a delta over the socket, 1,000 tokens of history: median ms',
  delta_ms_long: 'the same with a long history',
  delta_cpu_us_long: 'the same: µs of processor a turn',
  resend_socket_ms_long: 'everything again over the socket, long history: median ms',
  resend_http_ms_long: 'everything again over HTTP, long history: median ms',
  event_cpu_us: 'a long answer at full speed: µs of processor an event',
  rss_mb: 'resident memory at the end, MB',
} as const
export type Measure = keyof typeof measures
export type Round = Readonly<Record<Measure, number>>
export type Work = {
  readonly model: string
  /** Tokens of the long history, estimated. */
  readonly tokens: number
  /** Turns of each measurement. */
  readonly turns: number
}
type Known = { readonly last: Seen; readonly history: readonly Fields[] }

const tellMore = 'Tell me more.'
/** The engine of every revision: calls as long as it is offered tools, and a long answer to one question. */
export const engine = {
  type: 'simulated',
  rounds: 10_000,
  scenario: { turns: [{ when: { contains: tellMore }, steps: [{ tokens: 4000 }] }] },
}

/** 500 tokens, as four characters make one. */
const listing = 'drwxr-xr-x 2 agent agent 4096 some-folder-of-the-project\n'.repeat(36).slice(0, 2000)
const shortTokens = 1000
const answers = 20

export async function measure(server: Server, work: Work): Promise<Round> {
  const body = { ...settings, model: work.model, store: false }
  const socket = await wsDriver({ url: server.url })
  const http = httpDriver({ url: server.url, keepAlive: true })
  try {
    const short = await grow(socket, body, shortTokens)
    const long = await grow(socket, body, work.tokens)
    const delta =
      ({ last }: Known) =>
      (): Promise<Seen> =>
        socket.turn({ ...body, previous_response_id: last.id, input: last.calls.map(outputOf) })
    const whole = ({ last, history }: Known): Fields => ({ ...body, input: [...history, ...last.calls.map(outputOf)] })
    const shortMs = await times(work.turns, delta(short))
    const before = server.spent()
    const longMs = await times(work.turns, delta(long))
    const turnCpu = server.spent().cpuMs - before.cpuMs
    const resent = await times(work.turns, () => socket.turn(whole(long)))
    const posted = await times(work.turns, () => http.turn(whole(long)))
    const events = await answer(socket, body, server)
    return {
      delta_ms_short: shortMs,
      delta_ms_long: longMs,
      delta_cpu_us_long: (turnCpu * 1000) / (work.turns + warm),
      resend_socket_ms_long: resent,
      resend_http_ms_long: posted,
      event_cpu_us: events,
      rss_mb: server.spent().rss / 1e6,
    }
  } finally {
    await Promise.all([socket.close(), http.close()])
  }
}
/** Grows a conversation as an agent does: call by call, all but the newest item known to the server. */
async function grow(driver: Driver, body: Fields, tokens: number): Promise<Known> {
  const task = userMessage('Look around and tell me what this is.')
  const history: Fields[] = [task]
  let last = await driver.turn({ ...body, input: [task] })
  history.push(...last.items)
  for (let n = 1; n < tokens / 500; n++) {
    const output = last.calls.map(outputOf)
    last = await driver.turn({ ...body, previous_response_id: last.id, input: output })
    history.push(...output, ...last.items)
  }
  return { last, history }
}
let made = 0
const outputOf = ({ call_id }: Asked): Fields => ({
  type: 'function_call_output',
  call_id,
  output: `${listing}${String(++made).padStart(8, '0')}`,
})
const warm = 5
/** Median milliseconds; the first turns warm up and are not counted. */
async function times(turns: number, turn: () => Promise<Seen>): Promise<number> {
  const ms: number[] = []
  for (let n = 0; n < turns + warm; n++) ms.push((await turn()).ms)
  return median(ms.slice(warm))
}
/** Answers with many events, one after the other; µs of the server's processor an event. */
async function answer(driver: Driver, body: Fields, server: Server): Promise<number> {
  const long = { ...body, tools: [], input: [userMessage(tellMore)] }
  await driver.turn(long)
  const before = server.spent()
  let events = 0
  for (let n = 0; n < answers; n++) events += (await driver.turn(long)).events
  return ((server.spent().cpuMs - before.cpuMs) * 1000) / events
}
