// Server-sent events as bytes: whole events in every chunk, nothing but events, and replays that say the same again.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Grammar } from './grammar.ts'
import { parseSse } from './http.ts'
import { rawRequest } from './raw-socket.ts'
import { startTestServer, type TestServer } from './server.ts'

let server: TestServer
beforeAll(async () => {
  server = await startTestServer({ limits: { keepaliveMs: 150, turnMs: 1500 } })
})
afterAll(() => server.close())
const post = (body: unknown): ReturnType<typeof rawRequest> =>
  rawRequest(server.url, {
    method: 'POST',
    path: '/v1/responses',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

describe('a stream', () => {
  test('has whole events in every chunk', async () => {
    const answer = await post({ model: 'm', input: 'hello', stream: true })
    expect(answer).toMatchObject({ status: 200, headers: { 'content-type': 'text/event-stream; charset=utf-8' } })
    expect(answer.headers['cache-control']).toMatch(/no-cache/)
    expect(answer.chunks.length).toBeGreaterThan(2)
    for (const chunk of answer.chunks) expect(chunk.toString()).toMatch(/^(event: [^\n]+\ndata: [^\n]+\n\n)+$/)
    expect(
      parseSse(answer.body.toString())
        .map((event) => event.type)
        .at(-1),
    ).toBe('response.completed')
  })
  test('is kept alive in silence by an event that takes no number', async () => {
    const streamed = await server.http().stream({ model: 'm', input: 'tell me [fault:hang]' })
    const types = streamed.events.map((event) => event.type)
    expect(types.filter((type) => type === 'keepalive').length).toBeGreaterThan(2)
    expect(types.at(-1)).toBe('response.failed')
  })
  test('can be read again from any event on, the same to the byte', async () => {
    const { events, response } = await server.http().stream({ model: 'm', input: 'hello' })
    const path = `/v1/responses/${response?.id}?stream=true`
    const again = await server.http().events('GET', path)
    expect(again.events).toEqual(events)
    for (const after of [0, 1, 4, events.length - 2]) {
      const grammar = new Grammar()
      for (const event of events.slice(0, after + 1)) expect(grammar.feed(event)).toEqual([])
      const rest = await server.http().events('GET', `${path}&starting_after=${after}`, {}, grammar)
      expect(rest.events).toEqual(events.slice(after + 1))
    }
  })
  test('of a response that still runs can be joined from outside, and ends with it', async () => {
    const socket = await server.socket()
    socket.send({ type: 'response.create', model: 'm', input: 'tell me [fault:hang]' })
    const { response } = (await socket.next('response.created')) as unknown as { response: { id: string } }
    await socket.next('response.output_text.delta')
    const joined = server.http().events('GET', `/v1/responses/${response.id}?stream=true`)
    await socket.next('keepalive')
    socket.send({ type: 'response.interrupt', response_id: response.id })
    expect((await joined).response).toMatchObject({ id: response.id, incomplete_details: { reason: 'interrupted' } })
    await socket.close()
  })
  test('that is refused is a status and JSON', async () => {
    expect(await server.http().stream({ model: 'm', input: 'hi', previous_response_id: 'resp_none' })).toMatchObject({
      status: 400,
      json: { error: { code: 'previous_response_not_found' } },
    })
  })
})
