// What bad engines do to a turn: one terminal event, a code that clients retry, no other lane touched, the socket alive.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { badWays } from './bad-engine.ts'
import { pause, type TestServer } from './server.ts'
import { alive, hello, startTrouble, type Trouble } from './trouble.ts'

let trouble: Trouble
let server: TestServer
beforeAll(async () => {
  trouble = await startTrouble()
  server = trouble.server
})
afterAll(() => trouble.close())
afterEach(() => trouble.over())

/** How a turn with that engine ends, and the codes that fit. */
const failing = (codes: string[]) => ({ type: 'response.failed', codes })
const engines: [name: string, body: Record<string, unknown>, expected: { type: string; codes: string[] }][] = [
  ['is full', { ...hello, model: 'full' }, failing(['server_error', 'rate_limit_exceeded'])],
  ['is down', { ...hello, model: 'gone' }, failing(['server_error', 'rate_limit_exceeded'])],
  ...badWays
    .filter((way) => way !== 'endless')
    .map((way): [string, Record<string, unknown>, { type: string; codes: string[] }] => [
      `is one that "${way}"`,
      { ...hello, model: way },
      failing(['server_error', 'rate_limit_exceeded']),
    ]),
  ['never ends', { ...hello, model: 'endless' }, { type: 'response.incomplete', codes: ['max_output_tokens'] }],
  ...['error', 'cut', 'failed', 'vanish', 'hang', 'overlap'].map(
    (fault): [string, Record<string, unknown>, { type: string; codes: string[] }] => [
      `is simulated and has the fault "${fault}"`,
      { ...hello, input: `tell me [fault:${fault}]` },
      failing(['server_error']),
    ],
  ),
  [
    'is simulated and endless',
    { ...hello, input: 'tell me [fault:endless]' },
    { type: 'response.incomplete', codes: ['max_output_tokens'] },
  ],
  [
    'is simulated and stops at a limit',
    { ...hello, input: 'tell me [fault:incomplete]' },
    { type: 'response.incomplete', codes: ['max_output_tokens'] },
  ],
  [
    'is simulated and filters',
    { ...hello, input: 'tell me [fault:filter]' },
    { type: 'response.incomplete', codes: ['content_filter'] },
  ],
]
describe('an engine that', () => {
  test.each(engines)('%s ends the turn once, and touches no other', async (_, body, { type, codes }) => {
    const socket = await server.socket()
    const [bad, good, next] = await Promise.all([
      socket.turn({ ...body, stream_id: 'bad' }),
      socket.turn({ ...hello, stream_id: 'good' }),
      socket.turn({ ...hello, stream_id: 'bad' }),
    ])
    expect(bad.events.at(-1)?.type).toBe(type)
    expect(codes).toContain(bad.response?.error?.code ?? bad.response?.incomplete_details?.reason)
    expect(JSON.stringify(bad.response?.error ?? '')).not.toMatch(/0x7f|\/opt|secret/)
    expect(good.response?.status).toBe('completed')
    expect(next.response?.status).toBe('completed')
    await pause(30)
    expect(socket.frames.filter((frame) => frame.type === 'error')).toEqual([])
    await alive(socket)
  })
  test.each(engines)('%s is one answer over HTTP, streamed or not', async (_, body, { type, codes }) => {
    const streamed = await server.http().stream(body)
    if (streamed.status === 200) expect(streamed.events.at(-1)?.type).toBe(type)
    else expect(streamed.status).toBeGreaterThanOrEqual(429)
    const { status, json } = await server.http().post('/v1/responses', body)
    if (type === 'response.incomplete')
      expect(json).toMatchObject({ status: 'incomplete', incomplete_details: { reason: codes[0] } })
    else {
      expect(status).toBeGreaterThanOrEqual(429)
      expect(json).toMatchObject({ error: { code: expect.any(String) } })
    }
  })
})
