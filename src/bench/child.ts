// The process of a server that is measured: starts it from a configuration, watches it through the trace channels, and
// answers the benchmark's questions. Started by served.ts; ends with its parent.
import { createHash } from 'node:crypto'
import { subscribe } from 'node:diagnostics_channel'
import { startApp, type App } from '../app.ts'
import { loadConfig } from '../config.ts'
import { createLog } from '../observe/log.ts'
import { encodedChannel, type Mark, promptChannel, type PromptNote, turnChannel } from '../turn/trace.ts'

export type Question =
  | { readonly ask: 'start'; readonly set: Readonly<Record<string, unknown>>; readonly digests: boolean }
  | { readonly ask: 'digests'; readonly on: boolean }
  | { readonly ask: 'take' }
  | { readonly ask: 'memory' }
  | { readonly ask: 'stop' }
/** `stages`: milliseconds on the process's own clock, by stage. A rollout has one of these for each time the model spoke. */
export type TurnMarks = {
  readonly id: string
  readonly stages: Readonly<Record<string, number>>
  /** Ids of the prompt, and those that the engine had from the turn before; undefined for engines that take items. */
  readonly tokens?: number
  readonly common?: number
  /** Of the prompt's ids, where digests were asked for. */
  readonly digest?: string
}
/** Since the last time it was taken. */
export type Taken = {
  readonly turns: readonly TurnMarks[]
  /** Ids that codecs have made of text. */
  readonly encoded: number
  /** Processor time of the process, µs. */
  readonly cpuUs: number
  /** Bytes of the heap now: what was allocated since, as long as nothing is collected. */
  readonly heap: number
}
export type Answer =
  | { readonly port: number }
  | { readonly failed: string }
  | { readonly digests: boolean }
  | Taken
  | { readonly rss: number; readonly heap: number; readonly external: number }
  | { readonly stopped: true }

/** Turns that are remembered until they are taken; more are forgotten, the oldest first. */
const mostTurns = 50_000

type Kept = { stages: Record<string, number>; tokens?: number; common?: number; digest?: string }
/** By response; of a rollout once for each time the model spoke. */
const turns = new Map<string, Kept[]>()
let count = 0
let digests = false
let encoded = 0
let cpu = process.cpuUsage()
let app: App | undefined

/** The newest of this response; another one where the newest has come this far before. */
const kept = (id: string, has: (turn: Kept) => boolean): Kept => {
  const legs = turns.get(id) ?? []
  const last = legs.at(-1)
  if (last && !has(last)) return last
  const turn: Kept = { stages: {} }
  legs.push(turn)
  turns.set(id, legs)
  if (++count > mostTurns)
    for (const [oldest, gone] of turns) {
      turns.delete(oldest)
      count -= gone.length
      break
    }
  return turn
}
// What is published on these channels is typed where it is published.
function watch(): void {
  subscribe(turnChannel, (message) => {
    const { id, stage, at } = message as Mark
    kept(id, ({ stages }) => stage in stages).stages[stage] = at
  })
  subscribe(encodedChannel, (message) => {
    encoded += message as number
  })
  subscribe(promptChannel, (message) => {
    const { id, tokens, common, run } = message as PromptNote
    const turn = kept(id, (known) => known.tokens !== undefined)
    Object.assign(turn, { tokens, common })
    if (digests) turn.digest = createHash('sha1').update(Uint32Array.from(run.view())).digest('hex')
  })
}

async function answer(question: Question): Promise<Answer> {
  switch (question.ask) {
    case 'start': {
      const { config } = loadConfig({ flags: { set: question.set }, env: {} })
      app = await startApp(config, createLog({ level: 'silent', pretty: false }))
      digests = question.digests
      watch()
      return { port: app.port }
    }
    case 'digests':
      digests = question.on
      return { digests }
    case 'take': {
      const { user, system } = process.cpuUsage(cpu)
      cpu = process.cpuUsage()
      const all = [...turns].flatMap(([id, legs]) => legs.map((turn) => ({ id, ...turn })))
      turns.clear()
      count = 0
      const made = encoded
      encoded = 0
      return { turns: all, encoded: made, cpuUs: user + system, heap: process.memoryUsage().heapUsed }
    }
    case 'memory': {
      for (let n = 0; n < 3; n++) globalThis.gc?.()
      const { rss, heapUsed, external } = process.memoryUsage()
      return { rss, heap: heapUsed, external }
    }
    case 'stop':
      await app?.close()
      return { stopped: true }
  }
}

process.on('message', (message) => {
  const question = message as Question
  void answer(question)
    .catch((e: unknown) => ({ failed: e instanceof Error ? e.message : String(e) }))
    .then((said) => process.send?.(said))
    .then(() => question.ask === 'stop' && process.disconnect?.())
})
// A server that nobody asks any more is of no use.
process.on('disconnect', () => process.exit(0))
