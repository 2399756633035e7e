// Runs one turn around an engine of the test's own, with everything else real; each event goes through schema and grammar.
import { expect } from 'vitest'
import { countingLedger } from '../../src/access/ledger.ts'
import { memoryStore } from '../../src/stores/memory.ts'
import { parseCreate } from '../../src/protocol/request.ts'
import type { Response } from '../../src/protocol/response.ts'
import { Chain } from '../../src/turn/chain.ts'
import { Log } from '../../src/turn/log.ts'
import { Output } from '../../src/turn/output.ts'
import type { Call, Chunk, Classifier, Codec, Delta, Engine, EngineUsage, Seal } from '../../src/turn/ports.ts'
import { type Deps, type Outcome, runTurn } from '../../src/turn/run.ts'
import { Shadow } from '../../src/turn/shadow.ts'
import { Settle } from '../../src/turn/settle.ts'
import { checkEvent } from '../wire/check.ts'
import { Grammar } from '../wire/grammar.ts'

const principal = { tenant: 'a', key: '1', owner: 'a/1' }
const seal: Seal = { seal: (text) => `sealed:${text.length}`, open: () => undefined }
export type Ran = {
  outcome: Outcome
  response: Response
  text: string
  usage: EngineUsage | undefined
  reports: unknown[]
  kept: Chain | undefined
  problems: string[]
}
export type How = {
  readonly classifiers?: readonly Classifier[]
  readonly body?: object
  readonly stop?: AbortController
  readonly before?: (chain: Chain) => Chain
  readonly outputBytes?: number
  /** The engine then takes ids and gives some. */
  readonly codec?: Codec
}

let count = 0
/** Runs a turn whose engine says this; `problems` is what schema and grammar had to say. */
export async function run(generate: (call: Call) => AsyncIterable<Chunk>, how: How = {}): Promise<Ran> {
  const id = `resp_${(++count).toString(16).padStart(40, '0')}`
  const reports: unknown[] = []
  const report = (error: unknown): void => void reports.push(error)
  const engine: Engine = {
    id: 'own',
    takes: how.codec ? 'tokens' : 'items',
    admit: () => {},
    generate,
    probe: async () => [],
    close: async () => {},
  }
  const ledger = countingLedger()
  const deps: Deps = {
    model: (name) => ({ name, engine, codec: how.codec, context: undefined }),
    ledger,
    settle: new Settle(memoryStore(), 10, report),
    classifiers: how.classifiers ?? [],
    outputBytes: how.outputBytes ?? 1e6,
    conversationBytes: 1e9,
    report,
    shadow: new Shadow(0, () => {}),
    broke: () => {},
  }
  const request = parseCreate({ model: 'm', input: 'hello', store: false, ...how.body })
  const events = new Log(id, principal.owner, 1e7)
  const grammar = new Grammar()
  const problems: string[] = []
  let text = ''
  events.attach({
    send: ({ event }) => {
      problems.push(...checkEvent(JSON.parse(JSON.stringify(event)), { transport: 'socket' }), ...grammar.feed(event))
      if (event.type === 'response.output_text.delta') text += event.delta
    },
    flush: () => undefined,
    refuse: () => {},
    end: () => {},
  })
  const root = Chain.root(principal.owner)
  const named = how.before?.(root) ?? root
  let kept: Chain | undefined
  const outcome = await runTurn(
    {
      id,
      principal,
      request,
      events,
      output: new Output(id, request, events, principal, seal),
      stop: how.stop ?? new AbortController(),
      failsLate: true,
      resolve: () => ({ named, known: named, held: 0, fresh: request.input, seen: request.input }),
      steered: () => false,
      keep: (chain) => (kept = chain),
    },
    deps,
  )
  problems.push(...grammar.end())
  const { terminal } = events
  if (!terminal || !('response' in terminal)) throw new Error('no terminal event')
  expect(ledger).toMatchObject({ open: 0, settled: 1, repeated: 0 })
  return { outcome, response: terminal.response, text, usage: ledger.rows[0]?.usage, reports, kept, problems }
}
export async function* chunks(...all: Chunk[]): AsyncIterable<Chunk> {
  yield* all
}
export const says = (...deltas: Delta[]): Chunk => ({ deltas })
export const words = (text: string): Delta => ({ type: 'text', text })
export const end: Delta = { type: 'end', whole: true }
export const done: Chunk = { finish: 'stop', usage: { input: 5, cached: 0, output: 2, reasoning: 0 } }
