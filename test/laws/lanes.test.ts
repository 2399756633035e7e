// Law 7: a session never runs two turns of one lane, never loses or reorders a queued one, whatever the interleaving of
// frames, interrupts, cancels and failures. That lanes do not overlap is checked on every frame by the test client.
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { pause, startTestServer, type TestServer } from '../wire/server.ts'
import type { Frame } from '../wire/socket.ts'

const numRuns = Number(process.env['RUNS'] ?? 60)
let server: TestServer
beforeAll(async () => {
  server = await startTestServer({
    engines: { sim: { type: 'simulated', ttftMs: 1, tokensPerSecond: 3000, faultMarkers: true } },
    models: { '*': { engine: 'sim' } },
    limits: { websocket: { inFlight: 3, queued: 1000 } },
  })
})
afterAll(() => server.close())

type Action =
  | { do: 'create'; lane: string | undefined; fault: string; warm: boolean; fork: boolean }
  | { do: 'interrupt' | 'cancel' | 'steer'; pick: number }
  | { do: 'wait'; ms: number }
  | { do: 'noise'; frame: string }
const lane = fc.constantFrom(undefined, 'a', 'b', 'c')
const action: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('create' as const),
      lane,
      fault: fc.constantFrom('', '', '', 'cut', 'error', 'vanish', 'incomplete'),
      warm: fc.boolean(),
      fork: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom('interrupt' as const, 'cancel' as const, 'steer' as const),
      pick: fc.nat(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 0, max: 8 }) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('noise' as const),
      frame: fc.constantFrom(
        '{',
        '[]',
        '{"type":"response.unknown"}',
        '{"type":1}',
        '{"type":"response.create","stream_id":""}',
      ),
    }),
  },
)
const isEnd = ({ type }: Frame): boolean =>
  ['response.completed', 'response.failed', 'response.incomplete'].includes(type)

test('law 7: whatever happens on a connection, every request has one end, in the order of its lane', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(action, { minLength: 1, maxLength: 25 }), async (actions) => {
      const socket = await server.socket()
      const http = server.url
      const sent: { n: string; lane: string }[] = []
      const ids = (): string[] =>
        socket.frames.filter((f) => f.type === 'response.created').map((f) => (f['response'] as { id: string }).id)
      for (const a of actions) {
        const known = ids()
        if (a.do === 'create') {
          const n = String(sent.length)
          const stream = a.lane === undefined ? {} : { stream_id: a.lane }
          const previous = a.fork && known.length > 0 ? { previous_response_id: known.at(-1) } : {}
          const input = a.fault === '' ? 'hello' : `hello [fault:${a.fault}]`
          socket.send({
            type: 'response.create',
            model: 'm',
            store: false,
            input,
            metadata: { n },
            generate: !a.warm,
            ...stream,
            ...previous,
          })
          sent.push({ n, lane: a.lane ?? '' })
        } else if (a.do === 'wait') await pause(a.ms)
        else if (a.do === 'noise') socket.send(a.frame)
        else {
          const id = known[a.pick % Math.max(1, known.length)]
          if (id === undefined) continue
          if (a.do === 'interrupt')
            socket.send({ type: 'response.interrupt', response_id: id, mode: 'discard_partial_items' })
          else if (a.do === 'steer') socket.send({ type: 'response.steer', previous_response_id: id, input: 'more' })
          else await fetch(`${http}/v1/responses/${id}/cancel`, { method: 'POST' })
        }
      }
      // A last request on each lane: when all of them have ended, so has everything before.
      for (const name of ['', 'a', 'b', 'c']) {
        const n = String(sent.length)
        sent.push({ n, lane: name })
        await socket.turn({
          model: 'm',
          store: false,
          input: 'last',
          metadata: { n },
          ...(name === '' ? {} : { stream_id: name }),
        })
      }
      await server.quiet()
      // A successor of steering repeats its parent's metadata: the first start of each number counts.
      for (const name of ['', 'a', 'b', 'c']) {
        const wanted = sent.filter((s) => s.lane === name).map((s) => s.n)
        const frames = socket.frames.filter((f) => (f['stream_id'] ?? '') === name)
        const started = frames
          .filter((f) => f.type === 'response.created')
          .map((f) => (f['response'] as { metadata: { n: string } }).metadata.n)
        const refused = frames.filter(
          (f) => f.type === 'error' && (f['error'] as { code: string }).code === 'previous_response_not_found',
        ).length
        const distinct = started.filter((n, at) => started.indexOf(n) === at)
        expect(distinct).toEqual(wanted.filter((n) => distinct.includes(n)))
        expect(distinct.length + refused).toBe(wanted.length)
        expect(frames.filter(isEnd)).toHaveLength(started.length)
      }
      await socket.close()
    }),
    { numRuns },
  )
  await server.quiet(true)
}, 120_000)
