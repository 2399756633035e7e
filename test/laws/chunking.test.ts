// Law 3: however an engine's output is cut into pieces, the client gets the same events, once neighbouring deltas of one
// part are joined and numbers are left out. Law 4 is checked on every frame by the test client.
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ChatServer, type Step } from '../engines/chat-server.ts'
import { startTestServer, type TestServer } from '../wire/server.ts'
import type { Frame } from '../wire/socket.ts'
import { conversations, tools } from './conversations.ts'

const numRuns = Number(process.env['RUNS'] ?? 60)
let upstream: ChatServer
let server: TestServer
beforeAll(async () => {
  upstream = await ChatServer.start()
  server = await startTestServer({
    engines: { up: { type: 'chat', url: upstream.url } },
    models: { '*': { engine: 'up' } },
  })
})
afterAll(async () => {
  await server.close()
  await upstream.close()
})

/** Ids, times and sealed bytes are new each time; everything else must be equal. */
function plain(events: readonly Frame[]): unknown[] {
  const names = new Map<string, string>()
  const out: Record<string, unknown>[] = []
  for (const frame of events) {
    const { sequence_number: _, ...event } = JSON.parse(
      JSON.stringify(frame, (key, value: unknown) => {
        if (key === 'encrypted_content' || key === 'created_at' || key === 'completed_at' || key === 'usage')
          return null
        if (typeof value !== 'string' || !/^(resp|msg|rs|fc|ctc)_[0-9a-f]{40}$/.test(value)) return value
        if (!names.has(value)) names.set(value, `id-${names.size}`)
        return names.get(value)
      }),
    ) as Record<string, unknown>
    const last = out.at(-1)
    const joins =
      last && 'delta' in event && ['type', 'item_id', 'content_index'].every((key) => last[key] === event[key])
    if (joins) last['delta'] = `${String(last['delta'])}${String(event['delta'])}`
    else out.push(event)
  }
  return out
}

test('law 3: any re-chunking of an engine’s bytes, down to single ones inside UTF-8, gives the same events', async () => {
  const cuts = fc.record({ piece: fc.integer({ min: 1, max: 9 }), bytes: fc.integer({ min: 1, max: 300 }) })
  await fc.assert(
    fc.asyncProperty(
      conversations.map((c) => c[0]?.said),
      cuts,
      async (said, cut) => {
        const step: Step = {
          ...(said?.reasoning === undefined ? {} : { reasoning: said.reasoning }),
          ...(said?.text === undefined ? {} : { text: said.text }),
          calls: (said?.calls ?? []).map((c, n) => ({
            name: c.name,
            id: `call_${n}`,
            arguments: c.name === 'raw' ? JSON.stringify({ input: c.arguments }) : c.arguments,
          })),
        }
        const socket = await server.socket()
        const run = async (how: object): Promise<unknown[]> => {
          upstream.script = () => ({ ...step, ...how })
          const { events } = await socket.turn({ model: 'm', store: false, tools, input: 'x' })
          return plain(events)
        }
        const whole = await run({ piece: 100_000 })
        expect(await run(cut)).toEqual(whole)
        await socket.close()
      },
    ),
    { numRuns },
  )
}, 120_000)
