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
  | { readonly ask: 'take' }
  | { readonly ask: 'memory' }
  | { readonly ask: 'stop' }
/** `stages`: milliseconds on the process's own clock, by stage. */
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
}
export type Answer =
  | { readonly port: number }
  | { readonly failed: string }
  | Taken
  | { readonly rss: number; readonly heap: number; readonly external: number }
  | { readonly stopped: true }

/** Turns that are remembered until they are taken; more are forgotten, the oldest first. */
const mostTurns = 50_000

type Kept = { stages: Record<string, number>; tokens?: number; common?: number; digest?: string }
const turns = new Map<string, Kept>()
let encoded = 0
let cpu = process.cpuUsage()
let app: App | undefined

const kept = (id: string): Kept => {
  let turn = turns.get(id)
  if (turn) return turn
  turns.set(id, (turn = { stages: {} }))
  if (turns.size > mostTurns) for (const oldest of turns.keys()) return (turns.delete(oldest), turn)
  return turn
}
// What is published on these channels is typed where it is published.
function watch(digests: boolean): void {
  subscribe(turnChannel, (message) => {
    const { id, stage, at } = message as Mark
    kept(id).stages[stage] = at
  })
  subscribe(encodedChannel, (message) => {
    encoded += message as number
  })
  subscribe(promptChannel, (message) => {
    const { id, tokens, common, run } = message as PromptNote
    Object.assign(kept(id), { tokens, common })
    if (digests) kept(id).digest = createHash('sha1').update(Uint32Array.from(run.view())).digest('hex')
  })
}

async function answer(question: Question): Promise<Answer> {
  switch (question.ask) {
    case 'start': {
      const { config } = loadConfig({ flags: { set: question.set }, env: {} })
      app = await startApp(config, createLog({ level: 'silent', pretty: false }))
      watch(question.digests)
      return { port: app.port }
    }
    case 'take': {
      const { user, system } = process.cpuUsage(cpu)
      cpu = process.cpuUsage()
      const all = [...turns].map(([id, turn]) => ({ id, ...turn }))
      turns.clear()
      const made = encoded
      encoded = 0
      return { turns: all, encoded: made, cpuUs: user + system }
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
