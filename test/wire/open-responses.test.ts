// The behaviours that the Open Responses compliance suite checks, under its names. Like there they all run at once.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { checkResponse } from './check.ts'
import { responseWith } from './good-stream.ts'
import type { Http } from './http.ts'
import { startTestServer, type TestServer } from './server.ts'
import type { Turned, WireResponse } from './socket.ts'

let server: TestServer
let http: Http
const running = new Map<string, Promise<void>>()
const model = 'gpt-5.5'
const say = (text: string): unknown[] => [{ type: 'message', role: 'user', content: text }]
/** A 32×32 PNG. */
const png =
  'iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAAKElEQVR4nO3NsQ0AAAzCMP5/un0CNkuZ41wybXsHAAAAAAAAAAAAxR4yw/wuPL6QkAAAAABJRU5ErkJggg=='

/** Fields the suite wants to be there and no null; then those that may be null but must be there. */
const present = [
  'id',
  'created_at',
  'status',
  'model',
  'output',
  'tools',
  'tool_choice',
  'truncation',
  'parallel_tool_calls',
  'text',
  'top_p',
].concat([
  'temperature',
  'presence_penalty',
  'frequency_penalty',
  'top_logprobs',
  'store',
  'background',
  'service_tier',
])
const nullable = [
  'completed_at',
  'error',
  'incomplete_details',
  'instructions',
  'max_output_tokens',
  'max_tool_calls',
].concat(['previous_response_id', 'prompt_cache_key', 'reasoning', 'safety_identifier', 'usage'])
function whole(value: unknown): WireResponse {
  const response = value as WireResponse
  for (const field of present) expect(response[field], field).not.toBeNull()
  for (const field of [...present, ...nullable]) expect(response, field).toHaveProperty(field)
  expect(response.status).toBe('completed')
  expect(response.output.length).toBeGreaterThan(0)
  expect(response['instructions'] === null || typeof response['instructions'] === 'string').toBe(true)
  return response
}
async function created(body: Record<string, unknown>): Promise<WireResponse> {
  const answer = await http.post('/v1/responses', { model, ...body })
  expect(answer.status).toBe(200)
  return whole(answer.json)
}
function done(turn: Turned): WireResponse {
  expect(turn.error).toBeUndefined()
  return whole(turn.response)
}

const scenarios: Record<string, () => Promise<void>> = {
  'basic-response': async () => {
    await created({ input: say('Say hello in exactly 3 words.') })
  },
  'streaming-response': async () => {
    const streamed = await http.stream({ model, input: say('Count from 1 to 5.') })
    expect(streamed.status).toBe(200)
    expect(streamed.events[0]?.type).toBe('response.created')
    expect(streamed.events.some((event) => event.type === 'response.output_text.delta')).toBe(true)
    done(streamed)
  },
  'system-prompt': async () => {
    await created({ input: [{ type: 'message', role: 'system', content: 'You are a pirate.' }, ...say('Say hello.')] })
  },
  'tool-calling': async () => {
    const parameters = {
      type: 'object',
      properties: { location: { type: 'string', description: 'a city' } },
      required: ['location'],
    }
    const tools = [{ type: 'function', name: 'get_weather', description: 'Weather of a place', parameters }]
    const { output } = await created({ input: say("What's the weather like in San Francisco?"), tools })
    const call = output.find((item) => item.type === 'function_call')
    expect(call).toMatchObject({ name: 'get_weather', call_id: expect.stringMatching(/./) })
    expect(JSON.parse(String(call?.['arguments']))).toEqual({ location: expect.any(String) })
  },
  'image-input': async () => {
    const content = [
      { type: 'input_text', text: 'What is this?' },
      { type: 'input_image', image_url: `data:image/png;base64,${png}` },
    ]
    await created({ input: [{ type: 'message', role: 'user', content }] })
  },
  'multi-turn': async () => {
    await created({
      input: [
        ...say('My name is Alice.'),
        { type: 'message', role: 'assistant', content: 'Hello Alice!' },
        ...say('What is my name?'),
      ],
    })
  },
  'assistant-phase': async () => {
    const history = { type: 'message', role: 'assistant', phase: 'commentary', content: 'Looking at it.' }
    await created({ input: [...say('Go on.'), history, ...say('And?')] })
  },
  'response-output-phase-schema': async () => {
    const content = [{ type: 'output_text', text: 'a', annotations: [], logprobs: [] }]
    const output = ['commentary', 'final_answer'].map((phase) => ({
      type: 'message',
      id: phase,
      role: 'assistant',
      status: 'completed',
      phase,
      content,
    }))
    expect(checkResponse(responseWith({ output }))).toEqual([])
    expect(checkResponse(responseWith({ output: [{ ...output[0], phase: 'thinking' }] }))).not.toEqual([])
  },
  'compact-response': async () => {
    const { status, json } = await http.post('/v1/responses/compact', {
      model,
      input: say('Remember the word blue.'),
      prompt_cache_key: 'k',
    })
    expect(status).toBe(200)
    expect(json).toMatchObject({ object: 'response.compaction', usage: expect.anything() })
    expect((json['output'] as { type: string }[]).map((item) => item.type)).toContain('compaction')
  },
  'compact-missing-model': async () => {
    const { status, json } = await http.post('/v1/responses/compact', { input: say('hi') })
    expect(status).toBe(400)
    expect(json).toMatchObject({ error: { param: 'model' } })
  },
  'websocket-response': async () => {
    const socket = await server.socket()
    done(await socket.turn({ model, input: say('Say hello.') }))
    await socket.close()
  },
  'websocket-sequential-responses': async () => {
    const socket = await server.socket()
    const one = done(await socket.turn({ model, store: false, input: say('One.') }))
    const two = done(await socket.turn({ model, store: false, input: say('Two.') }))
    expect(two.id).not.toBe(one.id)
    await socket.close()
  },
  'websocket-continuation': async () => {
    const socket = await server.socket()
    const one = done(await socket.turn({ model, store: false, input: say('The code word is plum.') }))
    const two = done(
      await socket.turn({ model, store: false, previous_response_id: one.id, input: say('What is it?') }),
    )
    expect(two['previous_response_id']).toBe(one.id)
    await socket.close()
  },
  'websocket-reconnect-store-false-recovery': async () => {
    const first = await server.socket()
    const one = done(await first.turn({ model, store: false, input: say('One.') }))
    await first.close()
    const second = await server.socket()
    const lost = await second.turn({ model, store: false, previous_response_id: one.id, input: say('Two.') })
    expect(lost.error).toMatchObject({
      status: 400,
      code: 'previous_response_not_found',
      param: 'previous_response_id',
    })
    done(await second.turn({ model, store: false, input: [...say('One.'), ...say('Two.')] }))
    await second.close()
  },
  'websocket-previous-response-not-found': async () => {
    const socket = await server.socket()
    const lost = await socket.turn({
      model,
      previous_response_id: 'resp_00000000000000000000000000000000',
      input: say('Hi.'),
    })
    expect(lost.error).toMatchObject({
      status: 400,
      code: 'previous_response_not_found',
      param: 'previous_response_id',
    })
    await socket.close()
  },
  'websocket-failed-continuation-evicts-cache': async () => {
    const socket = await server.socket()
    const one = done(await socket.turn({ model, store: false, input: say('One.') }))
    const output = { type: 'function_call_output', call_id: 'call_that_never_was', output: '42' }
    const failed = await socket.turn({ model, store: false, previous_response_id: one.id, input: [output] })
    expect(failed.error ?? failed.response?.error).toMatchObject({ code: expect.any(String) })
    const lost = await socket.turn({ model, store: false, previous_response_id: one.id, input: say('Two.') })
    expect(lost.error?.code).toBe('previous_response_not_found')
    await socket.close()
  },
  'websocket-compact-new-chain': async () => {
    const { json } = await http.post('/v1/responses/compact', { model, input: say('The code word is plum.') })
    const socket = await server.socket()
    done(await socket.turn({ model, store: false, input: [...(json['output'] as unknown[]), ...say('What is it?')] }))
    await socket.close()
  },
}

describe('open responses', () => {
  beforeAll(async () => {
    server = await startTestServer()
    http = server.http()
    for (const [name, run] of Object.entries(scenarios)) {
      const result = run()
      // Each test below looks at its own.
      result.catch(() => {})
      running.set(name, result)
    }
  })
  afterAll(() => server.close())

  test('are seventeen', () => expect(running.size).toBe(17))
  test.each(Object.keys(scenarios))('%s', async (name) => {
    await running.get(name)
  })
})
