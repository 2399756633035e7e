// Law 6: the same items sent as deltas, in full or to a rollout reach the engine as the same prompt. The engine is asked
// what it got.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { SimulatedProbe } from '../../src/engines/simulated.ts'
import { ChatServer } from '../engines/chat-server.ts'
import { startTestServer, type TestServer } from '../wire/server.ts'
import { conversations, hold, roll, type Said, settled, type Step, turnsOf } from './conversations.ts'

const numRuns = Number(process.env['RUNS'] ?? 40)

type Started<T> = { readonly server: TestServer; got(): T; end(): Promise<void> }
type Way = 'delta' | 'full' | 'rollout'
/** Two ways through servers of their own, so that neither profits from the other. */
async function bothWays<T>(
  steps: readonly Step[],
  start: (said: readonly Said[]) => Promise<Started<T>>,
  other: Exclude<Way, 'delta'>,
): Promise<{ delta: T; other: T }> {
  const run = async (how: Way): Promise<T> => {
    const { server, got, end } = await start(steps.map((s) => s.said))
    try {
      const socket = await server.socket()
      await (how === 'rollout' ? roll(socket, steps) : hold(socket, steps, how))
      await socket.close()
      return got()
    } finally {
      await end()
    }
  }
  return { delta: await run('delta'), other: await run(other) }
}

const toSimulated = async (said: readonly Said[]): Promise<Started<string[]>> => {
  const turns = turnsOf(said)
  const engines = { sim: { type: 'simulated', record: true, scenario: { by: 'requests', turns } } }
  const server = await startTestServer({ engines, models: { '*': { engine: 'sim' } }, rollouts: { enabled: true } })
  const probe = server.app.models.engines.get('sim') as unknown as SimulatedProbe
  return { server, got: () => probe.got.map((g) => g.prompt), end: () => server.close() }
}

const toChat = async (said: readonly Said[]): Promise<Started<string[]>> => {
  let n = 0
  const upstream = await ChatServer.start((_, at) => {
    const { reasoning, text, calls } = said[at - 1] ?? { reasoning: undefined, text: 'none left', calls: [] }
    return {
      ...(reasoning === undefined ? {} : { reasoning }),
      ...(text === undefined ? {} : { text }),
      calls: calls.map((c) => ({
        name: c.name,
        id: `call_${n++}`,
        arguments: c.name === 'raw' ? JSON.stringify({ input: c.arguments }) : c.arguments,
      })),
    }
  })
  const engines = { up: { type: 'chat', url: upstream.url } }
  const server = await startTestServer({ engines, models: { '*': { engine: 'up' } }, rollouts: { enabled: true } })
  return {
    server,
    got: () => upstream.requests.map((r) => r.raw),
    end: async () => {
      await server.close()
      await upstream.close()
    },
  }
}

const engines = [
  ['the simulated engine gets the same prompts', toSimulated],
  ['a chat-completions server gets byte-identical requests', toChat],
] as const

test.each(engines)(
  'law 6: %s for deltas and for full histories',
  async (_, start) => {
    await fc.assert(
      fc.asyncProperty(conversations, async (steps) => {
        const { delta, other } = await bothWays(steps, start, 'full')
        expect(delta).toHaveLength(steps.length)
        expect(other).toEqual(delta)
      }),
      { numRuns },
    )
  },
  120_000,
)

test.each(engines)(
  'law 6: %s in rollouts and in single responses',
  async (_, start) => {
    await fc.assert(
      fc.asyncProperty(conversations, async (steps) => {
        const { delta, other } = await bothWays(settled(steps), start, 'rollout')
        expect(delta).toHaveLength(steps.length)
        expect(other).toEqual(delta)
      }),
      { numRuns: Math.ceil(numRuns / 4) },
    )
  },
  120_000,
)
