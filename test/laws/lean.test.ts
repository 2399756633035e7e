// A lean turn is the turn with everything sent: the engine gets the same request, and the stored response says the same.
// Settings change from turn to turn at random; what stayed is inherited, what changed is given, null where it went.
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Inheritable } from '../../src/protocol/lean.ts'
import { ChatServer } from '../engines/chat-server.ts'
import { startTestServer, type TestServer } from '../wire/server.ts'
import type { WireResponse } from '../wire/socket.ts'
import { tools } from './conversations.ts'

const numRuns = Number(process.env['RUNS'] ?? 12)
let upstream: ChatServer
let server: TestServer
beforeAll(async () => {
  upstream = await ChatServer.start()
  upstream.script = (body) => ({ text: `Heard ${body.messages.length}.` })
  const engines = { up: { type: 'chat', url: upstream.url } }
  server = await startTestServer({ engines, models: { '*': { engine: 'up' } } })
})
afterAll(async () => {
  await server.close()
  await upstream.close()
})

type Some = Partial<Record<Inheritable, unknown>>
const or = <T>(...values: T[]): fc.Arbitrary<T | undefined> => fc.constantFrom(undefined, ...values)
const settings: fc.Arbitrary<Some> = fc.record({
  instructions: or('Be brief.', 'Be long.', ''),
  tools: or<unknown>(tools, tools.slice(0, 1), []),
  tool_choice: or('auto', 'none'),
  parallel_tool_calls: or(true, false),
  max_output_tokens: or(5000, 6000),
  temperature: or(0, 1),
  top_p: or(0.5),
  presence_penalty: or(0.5),
  frequency_penalty: or(0.5),
  reasoning: or<unknown>({ effort: 'low' }, {}),
  text: or<unknown>({ format: { type: 'json_object' } }, { verbosity: 'low' }),
  truncation: or('auto'),
  service_tier: or('flex'),
  prompt_cache_key: or('k'),
  safety_identifier: or('s'),
  user: or('u'),
  metadata: or<unknown>({ who: 'me' }),
  include: or<unknown>(['reasoning.encrypted_content']),
})
const steps = fc.array(fc.record({ settings, same: fc.boolean(), echo: fc.boolean() }), { minLength: 1, maxLength: 6 })
type Step = { readonly settings: Some; readonly same: boolean; readonly echo: boolean }

/** What a lean request sends of its settings, where those of the turn before are known. */
function leanly(now: Some, before: Some | undefined, echo: boolean): object {
  if (!before) return { ...now, continuo: { echo } }
  const names = [...new Set([...Object.keys(now), ...Object.keys(before)])] as Inheritable[]
  const inherit = names.filter((name) => JSON.stringify(now[name]) === JSON.stringify(before[name]))
  const given = names.filter((name) => !inherit.includes(name)).map((name) => [name, now[name] ?? null])
  return { ...Object.fromEntries(given), continuo: { inherit, echo } }
}
async function hold(all: readonly Step[], lean: boolean): Promise<{ asked: string[]; stored: unknown[] }> {
  const socket = await server.socket()
  const from = upstream.requests.length
  const stored: unknown[] = []
  let before: Some | undefined
  let previous: string | undefined
  for (const [n, step] of all.entries()) {
    const now = step.same ? (before ?? step.settings) : step.settings
    const { response, error } = await socket.turn({
      model: 'm',
      input: `step ${n}`,
      ...(lean ? leanly(now, before, step.echo) : now),
      ...(previous === undefined ? {} : { previous_response_id: previous }),
    })
    if (response?.status !== 'completed') throw new Error(`turn failed: ${JSON.stringify(error ?? response)}`)
    previous = response.id
    before = now
    const { json } = await server.http().get(`/v1/responses/${previous}`)
    stored.push(plain(json as WireResponse))
  }
  await socket.close()
  return { asked: upstream.requests.slice(from).map((r) => r.raw), stored }
}
const plain = (response: WireResponse): unknown =>
  JSON.parse(
    JSON.stringify(response)
      .replace(/"(resp|msg)_[0-9a-f]+"/g, '"$1"')
      .replace(/_at":\d+/g, '_at":0'),
  )

test('the engine is asked the same, and the response is the same, whether settings are inherited or sent', async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (all) => {
      const full = await hold(all, false)
      expect(full.asked).toHaveLength(all.length)
      expect(await hold(all, true)).toEqual(full)
    }),
    { numRuns },
  )
}, 120_000)
