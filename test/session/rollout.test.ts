// Rollouts: one response over many generations, which waits for its client at each round of calls.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { eventually, pause, type TestServer } from '../wire/server.ts'
import type { Socket, WireResponse } from '../wire/socket.ts'
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

type Open = { readonly call_id: string; readonly type: string }
/** Each once, so that the answer follows. */
const twoCalls = ['early', 'twice', 'half', 'drain'].map((name) => ({
  when: { contains: `two calls ${name}` },
  steps: [
    { call: { name: 'read_file', arguments: '{"path":"a"}' } },
    { call: { name: 'read_file', arguments: '{"path":"b"}' } },
    { pause: 40 },
  ],
  times: 1,
}))
const turns = [...twoCalls, { when: { contains: 'for ever' }, steps: [{ call: { name: 'read_file' } }] }]
const asked = { tools: [readTool], rollout: true }
let server: TestServer
let socket: Socket
const on = (rollouts: object = {}): { rollouts: object } => ({ rollouts: { enabled: true, ...rollouts } })

beforeAll(async () => {
  compileSchemas()
  server = await startWith({ ...simulated({ rounds: 2, scenario: { turns } }), ...on() })
})
afterAll(() => server.close())
afterEach(async () => {
  await socket.close()
})
const open = async (): Promise<Socket> => (socket = await server.socket())

const outputsFor = (calls: readonly Open[], text = 'text'): unknown[] =>
  calls.map(({ call_id }) => ({ type: 'function_call_output', call_id, output: `${text} of ${call_id}` }))
const asks = async (id: string): Promise<readonly Open[]> => {
  const done = await socket.next((f) => f.type === 'response.done' && f['response_id'] === id)
  return done['required_input'] as Open[]
}
const append = (id: string, input: unknown, more: object = {}): void =>
  socket.send({ type: 'response.append', response_id: id, input, ...more })
/** Answers every round until the response ends. */
async function roll(id: string, text?: string): Promise<WireResponse> {
  for (;;) {
    const next = await socket.next((f) => f.type === 'response.done' || isEnd(f))
    if (isEnd(next)) return responseIn(next)
    append(id, outputsFor(next['required_input'] as Open[], text))
  }
}
const refusal = async (): Promise<unknown> => ((await socket.next('error'))['error'] as { code: unknown }).code

test('is one response: its output, numbers and usage go on over all generations', async () => {
  await open()
  const before = server.app.ledger.settled
  const { id } = await begin(socket, { ...asked, input: 'read', stream_id: 'lane' })
  const response = await roll(id)
  expect(response.status).toBe('completed')
  expect(response.output.map((item) => item.type)).toEqual(['function_call', 'function_call', 'message'])
  expect(new Set(response.output.map((item) => item['id'])).size).toBe(3)
  expect(socket.frames.map((f) => f['sequence_number'])).toEqual(socket.frames.map((_, n) => n))
  for (const frame of socket.frames) expect(frame['stream_id']).toBe('lane')
  const sums = socket.frames.flatMap((f) =>
    f.type === 'response.done' ? [f['usage'] as { input_tokens: number }] : [],
  )
  expect(sums).toHaveLength(2)
  expect(sums[0]?.input_tokens).toBeGreaterThan(0)
  expect(sums[1]?.input_tokens).toBeGreaterThan(2 * (sums[0]?.input_tokens ?? 0))
  expect(response.usage?.input_tokens).toBeGreaterThan(sums[1]?.input_tokens ?? 0)
  expect(server.app.ledger.settled).toBe(before + 1)
})

test('says to the engine what the same conversation in single responses says', async () => {
  await open()
  const { id } = await begin(socket, { ...asked, input: 'read' })
  const rolled = await roll(id, 'said')
  await socket.turn({ model: 'm', store: false, previous_response_id: id, tools: [readTool], input: 'thanks' })
  const inOne = lastPrompt(server)
  let last = (await socket.turn({ model: 'm', store: false, tools: [readTool], input: 'read' })).response
  const calls: string[] = []
  while (last?.output.at(-1)?.type === 'function_call') {
    calls.push(String(last.output.at(-1)?.['call_id']))
    const input = outputsFor([{ call_id: calls.at(-1) ?? '', type: '' }], 'said')
    last = (await socket.turn({ model: 'm', store: false, tools: [readTool], previous_response_id: last.id, input }))
      .response
  }
  await socket.turn({ model: 'm', store: false, previous_response_id: last?.id, tools: [readTool], input: 'thanks' })
  const named = (text: string, ids: readonly unknown[]): string =>
    ids.reduce<string>((t, call, n) => t.replaceAll(String(call), `CALL${n}`), text)
  const rolledCalls = rolled.output.flatMap((item) => (item.type === 'function_call' ? [item['call_id']] : []))
  expect(calls).toHaveLength(2)
  expect(named(inOne, rolledCalls)).toBe(named(lastPrompt(server), calls))
})

test('takes answers before it waits, in parts, with messages of the user beside them', async () => {
  await open()
  const { id } = await begin(socket, { ...asked, input: 'two calls early' })
  const first = await socket.next('response.output_item.done')
  const early = (first['item'] as Open).call_id
  append(id, [
    { type: 'function_call_output', call_id: early, output: 'early' },
    { role: 'user', content: 'Hurry.' },
  ])
  const calls = await asks(id)
  expect(calls.map((call) => call.call_id)).toContain(early)
  expect(calls).toHaveLength(2)
  await pause(20)
  expect(socket.frames.at(-1)?.type).toBe('response.done')
  append(id, [{ type: 'function_call_output', call_id: calls[1]?.call_id, output: 'late' }])
  expect((await roll(id)).status).toBe('completed')
  const prompts = probeOf(server).got.filter((g) => g.id === id)
  expect(prompts[1]?.prompt).toMatch(/early[^]*Hurry\.[^]*late/)
})

test.each([
  ['nothing', (): unknown => [], 'invalid_request'],
  ['no item', (): unknown => [5], 'invalid_request'],
  ['messages alone', (): unknown => 'hello', 'invalid_request'],
  [
    'an item that is no answer',
    ([c]: Open[]): unknown => [...outputsFor(c ? [c] : []), { role: 'assistant', content: 'x' }],
    'invalid_request',
  ],
  ['an unknown call', (): unknown => outputsFor([{ call_id: 'call_none', type: '' }]), 'tool_call_not_found'],
  ['one call twice', ([c]: Open[]): unknown => (c ? outputsFor([c, c]) : []), 'tool_call_already_answered'],
])('refuses an append with %s and goes on with a right one', async (_, wrong, code) => {
  await open()
  const { id } = await begin(socket, { ...asked, input: 'read', stream_id: 'a' })
  const calls = await asks(id)
  append(id, wrong([...calls]), { stream_id: 'a' })
  expect(await refusal()).toBe(code)
  append(id, outputsFor(calls))
  await asks(id).then((more) => append(id, outputsFor(more)))
  expect((await endOf(socket, id)).status).toBe('completed')
})

test('refuses a second output for a call of this round and of rounds before', async () => {
  await open()
  const { id } = await begin(socket, { ...asked, input: 'two calls twice' })
  const calls = await asks(id)
  append(id, outputsFor(calls.slice(0, 1)))
  append(id, outputsFor(calls.slice(0, 1)))
  expect(await refusal()).toBe('tool_call_already_answered')
  append(id, outputsFor(calls.slice(1)))
  const next = await asks(id)
  append(id, outputsFor(calls))
  expect(await refusal()).toBe('tool_call_already_answered')
  append(id, outputsFor(next))
  expect((await roll(id)).status).toBe('completed')
})

test('refuses an append to a response that is unknown, no rollout, ended, or of another connection', async () => {
  await open()
  append('resp_none', outputsFor([{ call_id: 'c', type: '' }]))
  expect(await refusal()).toBe('response_not_found')
  const plain = await begin(socket, { input: 'hello [fault:hang]', stream_id: 'plain' })
  append(plain.id, outputsFor([{ call_id: 'c', type: '' }]))
  expect(await refusal()).toBe('not_a_rollout')
  const { id } = await begin(socket, { ...asked, input: 'read', stream_id: 'a' })
  const calls = await asks(id)
  const other = await server.socket()
  other.send({ type: 'response.append', response_id: id, input: outputsFor(calls) })
  expect((await other.next('error'))['error']).toMatchObject({ code: 'response_not_active' })
  await other.close()
  append(id, outputsFor(calls))
  const ended = await roll(id)
  expect(ended.status).toBe('completed')
  append(id, outputsFor(calls))
  expect(await refusal()).toBe('response_not_active')
})

test('cannot be steered', async () => {
  await open()
  const { id } = await begin(socket, { ...asked, input: 'read' })
  const calls = await asks(id)
  socket.send({ type: 'response.steer', previous_response_id: id, input: 'stop that' })
  expect(await socket.next('response.steer.failed')).toMatchObject({ error: { code: 'steering_not_supported' } })
  append(id, outputsFor(calls))
  expect((await roll(id)).status).toBe('completed')
})

test('interrupted while it waits keeps what was done, half-answered or not, and can be continued', async () => {
  await open()
  const { id } = await begin(socket, { ...asked, input: 'two calls half' })
  const calls = await asks(id)
  append(id, outputsFor(calls.slice(0, 1), 'dropped'))
  socket.send({ type: 'response.interrupt', response_id: id })
  const ended = await endOf(socket, id)
  expect(ended).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'interrupted' } })
  expect(ended.output.map((item) => item.type)).toEqual(['function_call', 'function_call'])
  const input = outputsFor(calls, 'again')
  const { response } = await socket.turn({ model: 'm', store: false, previous_response_id: id, input })
  expect(response?.status).toBe('completed')
  expect(lastPrompt(server)).not.toContain('dropped')
  expect(lastPrompt(server)).toContain(`again of ${calls[0]?.call_id}`)
})

test('whose client goes away is cancelled and holds nothing', async () => {
  await open()
  const { id } = await begin(socket, { ...asked, input: 'read', store: true })
  await asks(id)
  await socket.close()
  await eventually(async () => {
    const { json } = await server.http().get(`/v1/responses/${id}`)
    expect(json).toMatchObject({ status: 'cancelled', output: [{ type: 'function_call' }] })
  })
  await server.quiet()
  expect(server.app.ledger.open).toBe(0)
})

test('that waits too long ends as incomplete, and is continued by its id', async () => {
  const short = await startWith({ ...simulated({ rounds: 1 }), ...on({ waitMs: 80 }), limits: { turnMs: 10_000 } })
  socket = await short.socket()
  const { id } = await begin(socket, { ...asked, input: 'read' })
  const calls = await asks(id)
  expect(await endOf(socket, id)).toMatchObject({
    status: 'incomplete',
    incomplete_details: { reason: 'append_timeout' },
    output: [{ type: 'function_call', status: 'completed' }],
  })
  append(id, outputsFor(calls))
  expect(await refusal()).toBe('response_not_active')
  const { response } = await socket.turn({
    model: 'm',
    store: false,
    previous_response_id: id,
    input: outputsFor(calls),
  })
  expect(response?.status).toBe('completed')
  await socket.close()
  await short.close()
})

test('may wait for longer than a turn may run', async () => {
  const short = await startWith({ ...simulated({ rounds: 1 }), ...on(), limits: { turnMs: 300 } })
  socket = await short.socket()
  const { id } = await begin(socket, { ...asked, input: 'read' })
  const calls = await asks(id)
  await pause(500)
  append(id, outputsFor(calls))
  expect((await roll(id)).status).toBe('completed')
  const hung = await begin(socket, { ...asked, input: 'read [fault:hang:3]' })
  expect((await endOf(socket, hung.id)).status).toBe('failed')
  await socket.close()
  await short.close()
})

test('has as many generations as it may, and as many tokens and characters as one response', async () => {
  const few = await startWith({ ...simulated({ scenario: { turns } }), ...on({ rounds: 3 }) })
  socket = await few.socket()
  const { id } = await begin(socket, { ...asked, input: 'for ever' })
  expect(await roll(id)).toMatchObject({ incomplete_details: { reason: 'max_rounds' } })
  expect(probeOf(few).got).toHaveLength(3)
  await socket.close()
  await few.close()

  const long = await startWith({ ...simulated({ scenario: { turns } }), ...on(), limits: { outputBytes: 1024 } })
  socket = await long.socket()
  const one = await begin(socket, { ...asked, input: 'for ever', max_output_tokens: 40 })
  const spent = await roll(one.id)
  expect(spent.incomplete_details).toEqual({ reason: 'max_output_tokens' })
  expect(spent.usage?.output_tokens).toBeLessThanOrEqual(40)
  expect(probeOf(long).got.length).toBeGreaterThan(1)
  const two = await begin(socket, { ...asked, input: 'for ever' })
  expect((await roll(two.id)).incomplete_details).toEqual({ reason: 'max_output_tokens' })
  await socket.close()
  await long.close()
})

test('refuses an append over the size of a conversation, and goes on', async () => {
  const small = await startWith({ ...simulated({ rounds: 1 }), ...on(), limits: { conversationBytes: 20_000 } })
  socket = await small.socket()
  const { id } = await begin(socket, { ...asked, input: 'read' })
  const calls = await asks(id)
  append(id, outputsFor(calls, 'x'.repeat(20_000)))
  expect(await refusal()).toBe('context_length_exceeded')
  append(id, outputsFor(calls))
  expect((await roll(id)).status).toBe('completed')
  await socket.close()
  await small.close()
})

test('does not hold up a drain: one that waits ends at once, one that speaks at its next calls', async () => {
  const stopping = await startWith({ ...simulated({ rounds: 1, scenario: { turns } }), ...on() })
  socket = await stopping.socket()
  const waits = await begin(socket, { ...asked, input: 'read', stream_id: 'a' })
  await asks(waits.id)
  const speaks = await begin(socket, { ...asked, input: 'two calls drain', stream_id: 'b' })
  const drained = stopping.app.drain()
  for (const { id } of [waits, speaks])
    expect(await endOf(socket, id)).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'draining' } })
  expect(await socket.closed).toMatchObject({ code: 1012 })
  await drained
})

test.each(['memory', 'sqlite'])(
  'stored (%s) lists all it was sent, and goes on from the store in the true order',
  async (kind) => {
    const settings = { ...simulated({ rounds: 2 }), ...on(), store: { kind }, limits: { prefixes: { keepBytes: 0 } } }
    const first = await startWith(settings)
    socket = await first.socket()
    const { id } = await begin(socket, { ...asked, input: 'read', store: true })
    const { output } = await roll(id)
    await first.quiet()
    const { json } = await first.http().get(`/v1/responses/${id}/input_items?order=asc`)
    expect((json['data'] as { type: string }[]).map((item) => item.type)).toEqual([
      'message',
      'function_call_output',
      'function_call_output',
    ])
    expect((await first.http().get(`/v1/responses/${id}`)).json).toMatchObject({ status: 'completed', output })
    const here = await socket.turn({ model: 'm', previous_response_id: id, input: 'thanks' })
    expect(here.response?.status).toBe('completed')
    const remembered = lastPrompt(first)
    await socket.close()
    await first.quiet()
    const again = kind === 'sqlite' ? (await first.close(), await startWith({ ...settings, data: first.data })) : first
    socket = await again.socket()
    const there = await socket.turn({ model: 'm', previous_response_id: id, input: 'thanks' })
    expect(there.response?.status).toBe('completed')
    expect(lastPrompt(again)).toBe(remembered)
    expect(remembered).toMatch(/user: read\n[^]*call[^]*text of[^]*call[^]*text of[^]*user: thanks/)
    await socket.close()
    await again.close()
  },
)

test('is left out of a replay over HTTP, whose other events are there', async () => {
  await open()
  const { id } = await begin(socket, { ...asked, input: 'read' })
  const ended = await roll(id)
  const text = await (await fetch(`${server.url}/v1/responses/${id}?stream=true`)).text()
  expect(text).not.toContain('event: response.done\n')
  expect(text).toContain(`"id":"${String(ended.output[2]?.['id'])}"`)
  const replayed = text.split('\n').filter((line) => line.startsWith('event: '))
  expect(replayed).toHaveLength(socket.frames.filter((f) => f.type !== 'response.done').length)
})

test('is refused over HTTP, and where it is switched off, with what to do instead', async () => {
  const { status, json } = await server.http().post('/v1/responses', { model: 'm', input: 'x', rollout: true })
  expect(status).toBe(400)
  expect(json['error']).toMatchObject({ code: 'unsupported_parameter', param: 'rollout' })
  const off = await startWith(simulated())
  socket = await off.socket()
  const { error } = await socket.turn({ model: 'm', input: 'x', rollout: true })
  expect(error).toMatchObject({ code: 'unsupported_parameter', param: 'rollout', status: 400 })
  expect(error?.message).toContain('rollouts.enabled')
  socket.skip()
  append('resp_none', [])
  const answer = await socket.next('error')
  expect(answer['error']).toMatchObject({ code: 'invalid_request', param: 'type' })
  await socket.close()
  await off.close()
})
