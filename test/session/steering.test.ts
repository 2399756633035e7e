// Steering: user input that reaches a running response, what becomes of it, and every way in which it comes back.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { pause, type TestServer } from '../wire/server.ts'
import type { Frame, Socket } from '../wire/socket.ts'
import {
  begin,
  compileSchemas,
  endOf,
  isEnd,
  lastPrompt,
  probeOf,
  readTool,
  responseIn,
  simulated,
  startWith,
} from './started.ts'

let server: TestServer
beforeAll(async () => {
  compileSchemas()
  const turns = [
    { when: { contains: 'replaced by a summary' }, steps: [{ pause: 200 }, { text: 'Nothing happened.' }] },
    { when: { contains: 'two items' }, steps: [{ text: 'First part.' }, { pause: 200 }, { text: 'Second part.' }] },
    { when: { contains: 'one item' }, steps: [{ text: 'Only' }, { pause: 150 }] },
    {
      when: { contains: 'a call' },
      steps: [{ pause: 150 }, { call: { name: 'read_file', arguments: { path: 'a' } } }],
    },
    {
      when: { contains: 'call early' },
      steps: [{ call: { name: 'read_file', arguments: { path: 'a' } } }, { pause: 200 }],
    },
    { when: { contains: 'then dies' }, steps: [{ text: 'Not yet.' }, { pause: 150 }, { fault: 'error' }] },
  ]
  server = await startWith({
    ...simulated({ scenario: { turns }, context: 4000 }),
    limits: { websocket: { pendingSteers: 2 } },
  })
})
afterAll(() => server.close())

const steer = (socket: Socket, id: string, input: unknown = 'in French, please'): void =>
  socket.send({ type: 'response.steer', previous_response_id: id, input })
const steerOf = (frame: Frame): { id: string; previous_response_id: string; input?: unknown } =>
  frame['steer'] as { id: string; previous_response_id: string; input?: unknown }
const failed = (socket: Socket): Promise<Frame> => socket.next('response.steer.failed')
const settings = { instructions: 'Be brief.', metadata: { who: 'me' }, max_output_tokens: 900, tools: [readTool] }

describe('a steer', () => {
  test('cuts a response between items, and its successor starts by itself with the same settings', async () => {
    const socket = await server.socket()
    const first = await begin(socket, { ...settings, input: 'two items' })
    await socket.next('response.output_text.delta')
    steer(socket, first.id)
    expect(steerOf(await socket.next('response.steer.accepted'))).toMatchObject({ previous_response_id: first.id })
    const cut = await endOf(socket, first.id)
    expect(cut).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'steered' } })
    expect(cut.output).toHaveLength(1)
    const next = responseIn(await socket.next('response.created'))
    expect(next).toMatchObject({
      previous_response_id: first.id,
      instructions: settings.instructions,
      metadata: settings.metadata,
      max_output_tokens: 900,
      store: false,
      tools: first['tools'],
    })
    expect(await endOf(socket, next.id)).toMatchObject({ status: 'completed' })
    expect(lastPrompt(server)).toMatch(/user: two items\nassistant: First part\.\nuser: in French, please\n$/)
    await socket.close()
  })
  test('of the last item lets it end, and the successor starts by itself', async () => {
    const socket = await server.socket()
    const first = await begin(socket, { input: 'one item', stream_id: 'a' })
    steer(socket, first.id, [{ role: 'user', content: 'one more thing' }])
    expect(await socket.next('response.steer.accepted')).toMatchObject({ stream_id: 'a' })
    expect(await endOf(socket, first.id)).toMatchObject({ status: 'completed' })
    expect(await socket.next('response.created')).toMatchObject({
      stream_id: 'a',
      response: { previous_response_id: first.id },
    })
    await socket.next('response.completed')
    expect(lastPrompt(server)).toMatch(/assistant: Only\nuser: one more thing\n$/)
    await socket.close()
  })
  test('goes in front of requests that wait on the lane', async () => {
    const socket = await server.socket()
    const first = await begin(socket, { input: 'one item' })
    socket.send({ type: 'response.create', model: 'm', store: false, input: 'waiting', metadata: { n: '2' } })
    steer(socket, first.id)
    expect(responseIn(await socket.next('response.created'))['previous_response_id']).toBe(first.id)
    expect(await socket.next('response.created')).toMatchObject({ response: { metadata: { n: '2' } } })
    await socket.close()
  })
  test('waits while a call is open, and stands in front of the outputs that the client sends', async () => {
    const socket = await server.socket()
    const first = await begin(socket, { input: 'a call', tools: [readTool] })
    steer(socket, first.id, 'mind the spaces')
    steer(socket, first.id, 'and the tabs')
    const accepted = [await socket.next('response.steer.accepted'), await socket.next('response.steer.accepted')]
    const done = await endOf(socket, first.id)
    expect(done).toMatchObject({ status: 'completed', output: [{ type: 'function_call' }] })
    const call_id = done.output[0]?.['call_id']
    const pending = [await socket.next('response.steer.pending'), await socket.next('response.steer.pending')]
    expect(pending.map((f) => steerOf(f).id)).toEqual(accepted.map((f) => steerOf(f).id))
    expect(pending[0]).toMatchObject({
      reason: 'waiting_for_required_input',
      required_input: [{ type: 'function_call_output', call_id, name: 'read_file' }],
    })
    const input = [{ type: 'function_call_output', call_id, output: 'text of a' }]
    const { response } = await socket.turn({ model: 'm', store: false, previous_response_id: first.id, input })
    expect(response?.status).toBe('completed')
    expect(lastPrompt(server)).toMatch(
      /call 1: read_file\(.*\)\nuser: mind the spaces\nuser: and the tabs\n.*text of a\n$/,
    )
    await socket.close()
  })
  test('that waits for outputs leaves its response readable, and its replay ends', async () => {
    const socket = await server.socket()
    const { id } = await begin(socket, { input: 'a call', tools: [readTool] })
    steer(socket, id)
    const ended = await endOf(socket, id)
    await socket.next('response.steer.pending')
    const last = socket.frames.find((f) => isEnd(f))?.['sequence_number'] as number
    expect((await server.http().get(`/v1/responses/${id}`)).json).toEqual(ended)
    for (const after of [last - 1, last, last + 1]) {
      const replay = await fetch(`${server.url}/v1/responses/${id}?stream=true&starting_after=${after}`, {
        signal: AbortSignal.timeout(2000),
      })
      expect(replay.headers.get('content-type')).toContain('text/event-stream')
      expect((await replay.text()).includes('response.completed')).toBe(after < last)
    }
    await socket.close()
  })
  test('is not announced as pending where the request that answers the calls waits already', async () => {
    const socket = await server.socket()
    const first = await begin(socket, { input: 'call early', tools: [readTool] })
    const item = (await socket.next('response.output_item.done'))['item'] as { call_id: string }
    steer(socket, first.id, 'mind the spaces')
    await socket.next('response.steer.accepted')
    const input = [{ type: 'function_call_output', call_id: item.call_id, output: 'text of a' }]
    await socket.turn({ model: 'm', store: false, previous_response_id: first.id, input })
    await socket.next((f) => f.type === 'response.completed' && responseIn(f)['previous_response_id'] === first.id)
    expect(socket.frames.filter((f) => f.type === 'response.steer.pending')).toEqual([])
    expect(lastPrompt(server)).toMatch(/user: mind the spaces\n.*text of a\n$/)
    await socket.close()
  })
})

describe('a steer is refused', () => {
  test('as response_not_found for a response that nobody made, or that belongs to nobody here', async () => {
    const socket = await server.socket()
    steer(socket, 'resp_none', 'x')
    expect(await failed(socket)).toMatchObject({
      steer: { previous_response_id: 'resp_none', input: 'x' },
      error: { code: 'response_not_found' },
    })
    await socket.close()
  })
  test('as response_already_completed for one that has ended', async () => {
    const socket = await server.socket()
    const { response } = await socket.turn({ model: 'm', store: false, input: 'hello' })
    steer(socket, String(response?.id))
    expect(await failed(socket)).toMatchObject({ error: { code: 'response_already_completed' } })
    const warm = await socket.turn({ model: 'm', store: false, generate: false, input: [] })
    steer(socket, String(warm.response?.id))
    expect(await failed(socket)).toMatchObject({ error: { code: 'response_already_completed' } })
    await socket.close()
  })
  test('as response_not_active for one of another connection', async () => {
    const [one, other] = [await server.socket(), await server.socket()]
    const first = await begin(one, { input: 'two items' })
    steer(other, first.id)
    expect(await failed(other)).toMatchObject({ error: { code: 'response_not_active' } })
    expect(await endOf(one, first.id)).toMatchObject({ status: 'completed' })
    await Promise.all([one.close(), other.close()])
  })
  test('as steering_not_supported for a compaction', async () => {
    const socket = await server.socket()
    const first = await begin(socket, { input: [{ role: 'user', content: 'hello' }, { type: 'compaction_trigger' }] })
    await socket.next('response.compaction.compacting')
    steer(socket, first.id)
    expect(await failed(socket)).toMatchObject({ error: { code: 'steering_not_supported' } })
    socket.send({ type: 'response.interrupt', response_id: first.id })
    await endOf(socket, first.id)
    await socket.close()
  })
  test('as invalid_input for what is no user message, and as too_many_pending_steers beyond the limit', async () => {
    const socket = await server.socket()
    const first = await begin(socket, { input: 'two items' })
    steer(socket, first.id, [{ type: 'function_call_output', call_id: 'c', output: 'o' }])
    expect(await failed(socket)).toMatchObject({ error: { code: 'invalid_input' } })
    for (const n of [1, 2, 3]) steer(socket, first.id, `steer ${n}`)
    expect(await failed(socket)).toMatchObject({
      steer: { input: 'steer 3' },
      error: { code: 'too_many_pending_steers' },
    })
    await endOf(socket, first.id)
    await socket.next('response.completed')
    expect(lastPrompt(server)).toMatch(/user: steer 1\nuser: steer 2\n$/)
    await socket.close()
  })
})

describe('an accepted steer comes back', () => {
  const comesBack = async (socket: Socket, id: string, code: string): Promise<Frame> => {
    const accepted = await socket.next('response.steer.accepted')
    const back = await failed(socket)
    expect(back).toMatchObject({
      steer: { id: steerOf(accepted).id, previous_response_id: id, input: 'in French, please' },
      error: { type: 'invalid_request_error', code },
    })
    return back
  }
  test('when the response fails', async () => {
    const socket = await server.socket()
    const first = await begin(socket, { input: 'then dies', stream_id: 'b' })
    steer(socket, first.id)
    expect(await endOf(socket, first.id)).toMatchObject({ status: 'failed' })
    expect(await comesBack(socket, first.id, 'response_not_active')).toMatchObject({ stream_id: 'b' })
    await socket.close()
  })
  test('when the response is interrupted', async () => {
    const socket = await server.socket()
    const first = await begin(socket, { input: 'two items' })
    steer(socket, first.id)
    socket.send({ type: 'response.interrupt', response_id: first.id })
    expect(await endOf(socket, first.id)).toMatchObject({ incomplete_details: { reason: 'interrupted' } })
    await comesBack(socket, first.id, 'response_not_active')
    await pause(50)
    expect(socket.frames.filter((f) => f.type === 'response.created')).toHaveLength(1)
    await socket.close()
  })
  test('when the conversation goes on without it', async () => {
    const socket = await server.socket()
    const first = await begin(socket, { input: 'a call', tools: [readTool] })
    steer(socket, first.id)
    await socket.next('response.steer.pending')
    await socket.turn({ model: 'm', store: false, input: 'something else' })
    await comesBack(socket, first.id, 'response_not_active')
    expect(lastPrompt(server)).not.toContain('in French')
    await socket.close()
  })
  test('when the request that should carry it is refused', async () => {
    const socket = await server.socket()
    const first = await begin(socket, { input: 'a call', tools: [readTool] })
    steer(socket, first.id)
    await socket.next('response.steer.pending')
    const input = [{ type: 'function_call_output', call_id: 'call_none', output: 'x' }]
    const { error } = await socket.turn({ model: 'm', store: false, previous_response_id: first.id, input })
    expect(error?.code).toBe('tool_call_not_found')
    await comesBack(socket, first.id, 'successor_creation_failed')
    await socket.close()
  })
  test('when its successor cannot be made, and the conversation stays where it was', async () => {
    const socket = await server.socket()
    const first = await begin(socket, { input: 'one item' })
    const long = 'x'.repeat(20_000)
    steer(socket, first.id, long)
    expect(await endOf(socket, first.id)).toMatchObject({ status: 'completed' })
    expect(await failed(socket)).toMatchObject({ steer: { input: long }, error: { code: 'successor_creation_failed' } })
    expect(socket.frames.filter((f) => f.type === 'error')).toEqual([])
    const { response } = await socket.turn({ model: 'm', store: false, previous_response_id: first.id, input: 'short' })
    expect(response?.status).toBe('completed')
    await socket.close()
  })
})

test('a steered response lets the engine go', async () => {
  const socket = await server.socket()
  const before = probeOf(server).running
  const first = await begin(socket, { input: 'two items' })
  await socket.next('response.output_text.delta')
  steer(socket, first.id)
  await endOf(socket, first.id)
  await socket.next('response.completed')
  expect(probeOf(server).running).toBe(before)
  await socket.close()
})
