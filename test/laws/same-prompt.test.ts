// Law 6: the same items sent as deltas or in full reach the engine as the same prompt. The engine is asked what it got.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { SimulatedProbe } from '../../src/engines/simulated.ts'
import { ChatServer } from '../engines/chat-server.ts'
import { startTestServer, type TestServer } from '../wire/server.ts'
import { conversations, hold, type Said, type Step } from './conversations.ts'

const numRuns = Number(process.env['RUNS'] ?? 40)

/** Both ways through servers of their own, so that neither profits from the other. */
async function bothWays<T>(
  steps: readonly Step[],
  start: (said: readonly Said[]) => Promise<{ server: TestServer; got: () => T; end: () => Promise<void> }>,
): Promise<{ delta: T; full: T }> {
  const run = async (how: 'delta' | 'full'): Promise<T> => {
    const { server, got, end } = await start(steps.map((s) => s.said))
    try {
      const socket = await server.socket()
      await hold(socket, steps, how)
      await socket.close()
      return got()
    } finally {
      await end()
    }
  }
  return { delta: await run('delta'), full: await run('full') }
}

test('law 6: the simulated engine gets the same prompts for deltas and for full histories', async () => {
  const start = async (said: readonly Said[]): ReturnType<Parameters<typeof bothWays<string[]>>[1]> => {
    const turns = said.map(({ reasoning, text, calls }) => ({
      steps: [
        ...(reasoning === undefined ? [] : [{ reasoning }]),
        ...(text === undefined ? [] : [{ text }]),
        ...calls.map((c) => ({
          call: c.name === 'raw' ? { name: c.name, input: c.arguments } : { name: c.name, arguments: c.arguments },
        })),
      ],
    }))
    const engines = { sim: { type: 'simulated', record: true, scenario: { by: 'requests', turns } } }
    const server = await startTestServer({ engines, models: { '*': { engine: 'sim' } } })
    const probe = server.app.models.engines.get('sim') as unknown as SimulatedProbe
    return { server, got: () => probe.got.map((g) => g.prompt), end: () => server.close() }
  }
  await fc.assert(
    fc.asyncProperty(conversations, async (steps) => {
      const { delta, full } = await bothWays(steps, start)
      expect(delta).toHaveLength(steps.length)
      expect(full).toEqual(delta)
    }),
    { numRuns },
  )
}, 120_000)

test('law 6: a chat-completions server gets byte-identical requests for deltas and for full histories', async () => {
  const start = async (said: readonly Said[]): ReturnType<Parameters<typeof bothWays<string[]>>[1]> => {
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
    const server = await startTestServer({ engines, models: { '*': { engine: 'up' } } })
    return {
      server,
      got: () => upstream.requests.map((r) => r.raw),
      end: async () => {
        await server.close()
        await upstream.close()
      },
    }
  }
  await fc.assert(
    fc.asyncProperty(conversations, async (steps) => {
      const { delta, full } = await bothWays(steps, start)
      expect(delta).toHaveLength(steps.length)
      expect(full).toEqual(delta)
    }),
    { numRuns },
  )
}, 120_000)
