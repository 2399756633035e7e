// Law 10: any bytes on any door end in one of our own error codes, and the process lives.
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { errorTable } from '../../src/protocol/errors.ts'
import { frames } from '../../src/transports/frames.ts'
import { routes } from '../../src/transports/http.ts'
import { startTestServer, type TestServer } from '../wire/server.ts'

// Never so few that no error is met.
const numRuns = Math.max(100, Number(process.env['RUNS'] ?? 300))
let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server.close())

const ours = new Set(Object.keys(errorTable))
const good = [
  { type: 'response.create', model: 'm', input: 'hi' },
  {
    type: 'response.create',
    model: 'm',
    input: [{ role: 'user', content: [{ type: 'input_text', text: 'hi' }] }],
    tools: [{ type: 'function', name: 'f', parameters: { type: 'object', properties: {} } }],
    stream_id: 'a',
  },
  {
    type: 'response.create',
    model: 'm',
    input: [
      { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c', output: 'x' },
    ],
  },
  {
    type: 'response.create',
    model: 'm',
    input: [{ type: 'reasoning', summary: [], encrypted_content: 'ctn1.x.y' }],
    previous_response_id: 'resp_1',
    text: { format: { type: 'json_object' } },
  },
  { type: 'response.steer', previous_response_id: 'resp_1', input: 'x' },
  { type: 'response.interrupt', response_id: 'resp_1' },
  { type: 'response.inject', response_id: 'resp_1', input: [] },
  { type: 'response.append', response_id: 'resp_1' },
]
/** A good frame with one value somewhere in it replaced by anything. */
const mutated = fc
  .tuple(fc.constantFrom(...good), fc.nat(), fc.jsonValue({ maxDepth: 3 }))
  .map(([frame, where, value]) => {
    const copy = structuredClone(frame) as Record<string, unknown>
    const places: [Record<string, unknown>, string][] = []
    const walk = (o: Record<string, unknown>): void => {
      for (const key of Object.keys(o)) {
        places.push([o, key])
        const inner = o[key]
        if (typeof inner === 'object' && inner !== null) walk(inner as Record<string, unknown>)
      }
    }
    walk(copy)
    const place = places[where % places.length]
    if (place) place[0][place[1]] = value
    return JSON.stringify(copy)
  })
const anything = fc.oneof(
  mutated,
  fc.json(),
  fc.string(),
  fc.constantFrom(
    '',
    '{}',
    'null',
    '{"__proto__":{"x":1},"type":"response.create"}',
    `{"type":"response.create","model":"m","input":${'['.repeat(200)}${']'.repeat(200)}}`,
  ),
)

test('law 10: any text frame is answered by events or by one of our error codes, and the socket lives on', async () => {
  const socket = await server.socket()
  const seen = new Set<string>()
  await fc.assert(
    fc.asyncProperty(anything, async (frame) => {
      socket.send(frame)
      const { response } = await socket.turn({ model: 'm', store: false, input: 'still there?', stream_id: 'check' })
      expect(response?.status).toBe('completed')
      for (const f of socket.frames.splice(0)) if (f.type === 'error') seen.add((f['error'] as { code: string }).code)
    }),
    { numRuns },
  )
  for (const code of seen) expect(ours).toContain(code)
  expect(seen.size).toBeGreaterThan(1)
  expect(({} as { x?: unknown }).x).toBeUndefined()
  await socket.close()
  await server.quiet(true)
}, 120_000)

test('law 10: any body on any path is answered by a result or by one of our error codes', async () => {
  const path = fc.constantFrom(
    ...routes.map((r) => ({ method: r.method, path: `/v1/responses${r.path.replace(':id', 'resp_x')}` })),
  )
  const type = fc.constantFrom('application/json', 'text/plain', 'application/octet-stream', '')
  const encoding = fc.constantFrom(undefined, undefined, 'gzip', 'br', 'zstd', 'deflate', 'nonsense')
  const query = fc.constantFrom('', '?stream=true', '?stream=maybe', '?limit=0', '?after=%00', '?order=up&limit=x')
  await fc.assert(
    fc.asyncProperty(
      path,
      anything,
      type,
      encoding,
      query,
      async (route, body, contentType, contentEncoding, search) => {
        const answer = await fetch(server.url + route.path + search, {
          method: route.method,
          headers: {
            ...(contentType === '' ? {} : { 'content-type': contentType }),
            ...(contentEncoding === undefined ? {} : { 'content-encoding': contentEncoding }),
          },
          ...(route.method === 'POST' ? { body } : {}),
        })
        const text = await answer.text()
        if (answer.status === 200) return
        const { error } = JSON.parse(text) as {
          error: { code: string; message: string; type: string; param: string | null }
        }
        expect(ours).toContain(error.code)
        expect(answer.status).toBe(errorTable[error.code as keyof typeof errorTable].status)
        expect(answer.status).not.toBe(500)
      },
    ),
    { numRuns },
  )
  expect((await fetch(`${server.url}/healthz`)).status).toBe(200)
}, 120_000)

test('the frames that are mutated are all there are', () => {
  expect([...frames.keys()].sort()).toEqual([...new Set(good.map((f) => f.type))].sort())
})
