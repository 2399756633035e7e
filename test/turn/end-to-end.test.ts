// The turn behind real doors: stages from the first byte on, the gate before a socket, a process that outlives its engine.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { afterEach, expect, test } from 'vitest'
import { type Mark, turnChannel } from '../../src/turn/trace.ts'
import { readTool, simulated, startWith } from '../session/started.ts'
import { parseSse } from '../wire/http.ts'
import type { TestServer } from '../wire/server.ts'

let server: TestServer | undefined
afterEach(async () => {
  await server?.close()
})
const base = { model: 'm', store: false } as const

test.each(['socket', 'http'])('every stage of a turn is timed on the channel: %s', async (door) => {
  const running = (server = await startWith(simulated()))
  const socket = await running.socket()
  const marks: Mark[] = []
  const note = (mark: unknown): void => void marks.push(mark as Mark)
  subscribe(turnChannel, note)
  const body = { model: 'm', input: 'hello', store: true }
  const id =
    door === 'socket'
      ? (await socket.turn(body)).response?.id
      : (await running.http().post('/v1/responses', body)).json['id']
  await running.quiet()
  const refused = await socket.turn({ ...base, input: 'x', previous_response_id: 'resp_none' })
  unsubscribe(turnChannel, note)
  expect(refused.error).toBeDefined()
  const own = marks.filter((m) => m.id === id)
  const stages = [
    'received',
    'parsed',
    'dequeued',
    'resolved',
    'admitted',
    'created',
    'called',
    'first',
    'generated',
    'kept',
    'finished',
    'settled',
  ]
  expect(own.map((m) => m.stage)).toEqual(stages)
  expect(own.map((m) => m.at)).toEqual(own.map((m) => m.at).toSorted((a, b) => a - b))
  expect(marks.filter((m) => m.id !== id).map((m) => m.stage)).toEqual(['received', 'parsed', 'dequeued', 'refused'])
})
test('a flagged input reaches no client as words, on any door, and a warm-up is no way around', async () => {
  const check = async (text: string): Promise<{ ok: boolean; context: string }> => ({
    ok: !text.includes('forbidden'),
    context: '',
  })
  server = await startWith(simulated(), { classifiers: [{ name: 'own', looksAt: 'input', check }] })
  const socket = await server.socket()
  const flagged = await socket.turn({ ...base, input: 'something forbidden' })
  expect(flagged.events.map((e) => e.type)).toEqual(['response.created', 'response.in_progress', 'response.failed'])
  expect(flagged.response?.error?.code).toBe('invalid_prompt')
  expect(await server.http().post('/v1/responses', { ...base, input: 'something forbidden' })).toMatchObject({
    status: 400,
    json: { error: { code: 'invalid_prompt' } },
  })
  const warm = await socket.turn({ ...base, generate: false, input: 'something forbidden' })
  const next = await socket.turn({ ...base, previous_response_id: warm.response?.id, input: 'go on' })
  expect(next.response).toMatchObject({ status: 'failed', error: { code: 'invalid_prompt' } })
  expect((await socket.turn({ ...base, input: 'fine' })).response?.status).toBe('completed')
})
test('a rollout is let in once, and what is appended to it is checked as it comes, alone', async () => {
  const asked: string[] = []
  const check = async (text: string): Promise<{ ok: boolean; context: string }> => {
    asked.push(text)
    return { ok: !text.includes('forbidden'), context: '' }
  }
  server = await startWith(
    { ...simulated({ rounds: 2 }), rollouts: { enabled: true } },
    { classifiers: [{ name: 'own', looksAt: 'input', check }] },
  )
  const socket = await server.socket()
  socket.send({ type: 'response.create', ...base, tools: [readTool], rollout: true, input: 'read' })
  for (const output of ['fine', 'forbidden']) {
    const waits = await socket.next('response.done')
    const input = (waits['required_input'] as { call_id: string }[]).map(({ call_id }) => ({
      type: 'function_call_output',
      call_id,
      output,
    }))
    socket.send({ type: 'response.append', response_id: waits['response_id'], input })
  }
  expect(await socket.next('response.failed')).toMatchObject({ response: { error: { code: 'invalid_prompt' } } })
  expect(asked).toEqual(['read', 'fine', 'forbidden'])
  expect(server.app.ledger).toMatchObject({ open: 0, settled: 1 })
})
test('all kinds of engine trouble at once leave a server that works', async () => {
  server = await startWith(simulated())
  const socket = await server.socket()
  const kinds = [
    'error',
    'cut',
    'failed',
    'vanish',
    'overlap',
    'no-end',
    'incomplete',
    'filter',
    'usage-missing',
    'usage-double',
    'usage-negative',
  ]
  const turns = kinds.map((kind) => socket.turn({ ...base, input: `x [fault:${kind}]`, stream_id: kind }))
  const ends = Object.fromEntries((await Promise.all(turns)).map(({ response }, n) => [kinds[n], response]))
  for (const kind of ['error', 'cut', 'failed', 'vanish', 'overlap'])
    expect(ends[kind]).toMatchObject({ status: 'failed', error: { code: 'server_error' } })
  expect(ends['incomplete']).toMatchObject({ incomplete_details: { reason: 'max_output_tokens' } })
  expect(ends['filter']).toMatchObject({ incomplete_details: { reason: 'content_filter' } })
  for (const kind of ['no-end', 'usage-missing', 'usage-double', 'usage-negative'])
    expect(ends[kind]).toMatchObject({ status: 'completed' })
  for (const kind of ['usage-missing', 'usage-negative']) expect(ends[kind]?.usage).toMatchObject({ estimated: true })
  expect(ends['usage-double']?.usage).not.toHaveProperty('estimated')
  await server.quiet()
  expect(server.app.ledger).toMatchObject({ open: 0, settled: kinds.length, repeated: 0 })
  expect((await socket.turn({ ...base, input: 'hello' })).response?.status).toBe('completed')
})
test('a steered response can be read again over SSE, without the events that only sockets know', async () => {
  const turns = [{ when: { contains: 'two items' }, steps: [{ text: 'One.' }, { pause: 150 }, { text: 'Two.' }] }]
  server = await startWith(simulated({ scenario: { turns } }))
  const socket = await server.socket()
  socket.send({ type: 'response.create', ...base, input: 'two items' })
  const { id } = (await socket.next('response.created'))['response'] as { id: string }
  await socket.next('response.output_text.delta')
  socket.send({ type: 'response.steer', previous_response_id: id, input: 'stop' })
  await socket.next('response.completed')
  const reply = await fetch(`${server.url}/v1/responses/${id}?stream=true`)
  const events = parseSse(await reply.text())
  const sent = socket.frames.filter(
    (f, at) =>
      at <= socket.frames.findIndex((g) => g.type === 'response.incomplete') && !f.type.startsWith('response.steer'),
  )
  expect(events).toEqual(sent)
})
