// Warm-ups: an id at once, nothing generated, and a prompt that the engine takes in beside what the client does.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { eventually, type TestServer } from '../wire/server.ts'
import { compileSchemas, lastPrompt, probeOf, readTool, simulated, startWith } from './started.ts'

let server: TestServer
beforeAll(async () => {
  compileSchemas()
  server = await startWith(simulated({ prefillTokensPerSecond: 10_000 }))
})
afterAll(() => server.close())
beforeEach(() => eventually(() => expect(probeOf(server).running).toBe(0)))
const base = { model: 'm', store: false } as const
/** About 10,000 tokens: a second of prefill, different for each `n`. */
const long = (n: number): string => `${n} `.padEnd(40_000, 'all work and no play ')

test.each([
  ['generate: false', { generate: false }],
  ['prompt_cache_options.prewarm', { prompt_cache_options: { prewarm: true } }],
  ['prewarm against generate: true', { generate: true, prompt_cache_options: { prewarm: true } }],
])('with %s is created and completed at once, with nothing between and nothing said', async (_, how) => {
  const socket = await server.socket()
  const begun = performance.now()
  const { events, response } = await socket.turn({ ...base, input: long(1), ...how })
  expect(performance.now() - begun).toBeLessThan(600)
  expect(events.map((e) => e.type)).toEqual(['response.created', 'response.completed'])
  expect(response).toMatchObject({ status: 'completed', output: [], usage: { output_tokens: 0 } })
  await socket.close()
})
test('with empty input is a parent at once, with its own settings only', async () => {
  const socket = await server.socket()
  const warm = await socket.turn({ ...base, generate: false, input: [], instructions: 'Be brief.' })
  const { response } = await socket.turn({ ...base, previous_response_id: warm.response?.id, input: 'hello' })
  expect(response).toMatchObject({ status: 'completed', instructions: null, previous_response_id: warm.response?.id })
  expect(lastPrompt(server)).toBe('user: hello\n')
  await socket.close()
})
test('makes the engine take the prompt in, so that the next turn finds it', async () => {
  const socket = await server.socket()
  const warm = await socket.turn({ ...base, generate: false, input: long(2), instructions: 'Be brief.' })
  await eventually(() => expect(probeOf(server).got.at(-1)).toMatchObject({ generate: false }))
  await eventually(() => expect(probeOf(server).running).toBe(0))
  expect(lastPrompt(server, false)).toContain('instructions: Be brief.\n')
  const aborted = probeOf(server).aborted
  await socket.turn({ ...base, previous_response_id: warm.response?.id, input: 'hello', instructions: 'Be brief.' })
  expect(probeOf(server).got.at(-1)?.cached).toBeGreaterThan(9_000)
  expect(probeOf(server).aborted).toBe(aborted)
  await socket.close()
})
test('is cut short at the engine by the next turn of its chain, and by nothing else', async () => {
  const socket = await server.socket()
  const warm = await socket.turn({ ...base, generate: false, input: long(3) })
  const { aborted } = probeOf(server)
  await socket.turn({ ...base, input: 'another conversation', stream_id: 'b' })
  expect(probeOf(server).aborted).toBe(aborted)
  const turn = socket.turn({ ...base, previous_response_id: warm.response?.id, input: 'hello' })
  await eventually(() => expect(probeOf(server).aborted).toBe(aborted + 1), 300)
  expect((await turn).response?.status).toBe('completed')
  await socket.close()
})
test('is cut short at the engine when the client goes', async () => {
  const socket = await server.socket()
  await socket.turn({ ...base, generate: false, input: long(4) })
  const { aborted } = probeOf(server)
  socket.ws.terminate()
  await eventually(() => expect(probeOf(server).aborted).toBe(aborted + 1), 500)
})
test('may bring the tools of the whole conversation', async () => {
  const socket = await server.socket()
  const input = [{ type: 'additional_tools', role: 'developer', tools: [readTool] }]
  const warm = await socket.turn({ ...base, generate: false, input })
  const first = await socket.turn({ ...base, previous_response_id: warm.response?.id, input: 'hello' })
  expect(first.calls).toMatchObject([{ name: 'read_file' }])
  expect(probeOf(server).got.at(-1)?.tools).toEqual(['read_file'])
  const outputs = first.calls.map(({ call_id }) => ({ type: 'function_call_output', call_id, output: 'text' }))
  const second = await socket.turn({ ...base, previous_response_id: first.response?.id, input: outputs })
  expect(second.calls).toMatchObject([{ name: 'read_file' }])
  await socket.close()
})
test('can be the parent of several, and of another warm-up', async () => {
  const socket = await server.socket()
  const one = await socket.turn({ ...base, generate: false, input: 'one' })
  const two = await socket.turn({ ...base, generate: false, input: 'two', previous_response_id: one.response?.id })
  const turns = ['a', 'b'].map((stream_id) =>
    socket.turn({ ...base, previous_response_id: two.response?.id, input: stream_id, stream_id }),
  )
  for (const { response } of await Promise.all(turns)) expect(response?.status).toBe('completed')
  const prompts = probeOf(server)
    .got.slice(-4)
    .filter((g) => g.generate)
    .map((g) => g.prompt)
  expect(prompts.toSorted()).toEqual(['user: one\nuser: two\nuser: a\n', 'user: one\nuser: two\nuser: b\n'])
  await socket.close()
})
test('over HTTP is stored and continued like any response', async () => {
  const http = server.http()
  const { json } = await http.post('/v1/responses', { model: 'm', input: 'one', generate: false })
  expect(json).toMatchObject({ status: 'completed', output: [] })
  await http.post('/v1/responses', { model: 'm', input: 'two', previous_response_id: json['id'] })
  expect(lastPrompt(server)).toBe('user: one\nuser: two\n')
})
