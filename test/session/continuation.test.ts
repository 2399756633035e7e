// What may be continued, where, and for how long: the rules of `previous_response_id`, asked of the engine.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { TestServer } from '../wire/server.ts'
import type { Socket, Turned } from '../wire/socket.ts'
import { begin, endOf, lastPrompt, probeOf, readTool, simulated, startWith } from './started.ts'

let server: TestServer
beforeAll(async () => {
  server = await startWith(simulated())
})
afterAll(() => server.close())
const base = { model: 'm', store: false } as const
const say = async (socket: Socket, input: unknown, more: object = {}): Promise<string> => {
  const { response, error } = await socket.turn({ ...base, input, ...more })
  if (response?.status !== 'completed') throw new Error(`not completed: ${JSON.stringify(response?.error ?? error)}`)
  return response.id
}
const after = (previous_response_id: string, more: object = {}): object => ({ previous_response_id, ...more })
const users = (): string[] => [...lastPrompt(server).matchAll(/^user: (.*)$/gm)].map((m) => m[1] ?? '')
const gone = { code: 'previous_response_not_found', status: 400, param: 'previous_response_id' }

describe('on one connection', () => {
  test('the given parent is honoured, whatever came later', async () => {
    const socket = await server.socket()
    const one = await say(socket, 'one')
    const two = await say(socket, 'two', after(one))
    await say(socket, 'three', after(two))
    await say(socket, 'other')
    await say(socket, 'fork', after(one))
    expect(users()).toEqual(['one', 'fork'])
    await say(socket, 'late', after(two, { stream_id: 'b' }))
    expect(users()).toEqual(['one', 'two', 'late'])
    await socket.close()
  })
  test('the last 64 responses continue, the 65th oldest does not', async () => {
    const socket = await server.socket()
    const ids: string[] = []
    for (let n = 0; n < 65; n++) ids.push(await say(socket, `n${n}`, { generate: false }))
    const oldest = await socket.turn({ ...base, input: 'x', stream_id: 'b', ...after(ids[0] ?? '') })
    expect(oldest.error).toMatchObject(gone)
    await say(socket, 'x', after(ids[1] ?? '', { stream_id: 'b' }))
    expect(users()).toEqual(['n1', 'x'])
    await socket.close()
  })
  test('the latest response of a quiet lane outlives 64 of another', async () => {
    const socket = await server.socket()
    const kept = await say(socket, 'quiet', { stream_id: 'quiet' })
    for (let n = 0; n < 70; n++) await say(socket, `n${n}`, { generate: false })
    await say(socket, 'again', after(kept))
    expect(users()).toEqual(['quiet', 'again'])
    await socket.close()
  })
  const trouble: [string, object, (turn: Turned) => unknown, unknown][] = [
    [
      'refused',
      { input: [{ type: 'function_call_output', call_id: 'c', output: '' }] },
      (t) => t.error?.code,
      'tool_call_not_found',
    ],
    ['failing', { input: 'x [fault:cut]' }, (t) => t.response?.status, 'failed'],
    ['failing before a word', { input: 'x [fault:error]' }, (t) => t.response?.status, 'failed'],
  ]
  test.each(trouble)('a %s continuation evicts its parent on the same lane', async (_, body, look, wanted) => {
    const socket = await server.socket()
    const one = await say(socket, 'one')
    expect(look(await socket.turn({ ...base, ...body, ...after(one) }))).toBe(wanted)
    expect((await socket.turn({ ...base, input: 'again', ...after(one) })).error).toMatchObject(gone)
    await socket.close()
  })
  test.each(trouble)('a %s fork leaves the parent to its lane', async (_, body, look, wanted) => {
    const socket = await server.socket()
    const one = await say(socket, 'one')
    expect(look(await socket.turn({ ...base, ...body, ...after(one), stream_id: 'fork' }))).toBe(wanted)
    await say(socket, 'again', after(one))
    expect(users()).toEqual(['one', 'again'])
    await socket.close()
  })
  test('a failed or cancelled response does not continue', async () => {
    const socket = await server.socket()
    const failed = await socket.turn({ ...base, input: 'x [fault:cut]' })
    const running = await begin(socket, { input: 'x [fault:hang]' })
    await server.http().post(`/v1/responses/${running.id}/cancel`)
    expect(await endOf(socket, running.id)).toMatchObject({ status: 'cancelled' })
    for (const id of [String(failed.response?.id), running.id])
      expect((await socket.turn({ ...base, input: 'y', ...after(id) })).error).toMatchObject(gone)
    await socket.close()
  })
  test('a response that was cut by a limit continues', async () => {
    const socket = await server.socket()
    const cut = await socket.turn({ ...base, input: 'hello', max_output_tokens: 2 })
    expect(cut.response).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } })
    await say(socket, 'go on', after(String(cut.response?.id)))
    expect(users()).toEqual(['hello', 'go on'])
    await socket.close()
  })
  test('a parent is pinned while its lane moves on and fails', async () => {
    const socket = await server.socket()
    const one = await say(socket, 'one')
    const fork = await begin(socket, { ...after(one), input: 'fork [fault:slow]', stream_id: 'fork' })
    await socket.turn({ ...base, input: 'x [fault:error]', ...after(one) })
    expect((await socket.turn({ ...base, input: 'again', ...after(one) })).error).toMatchObject(gone)
    socket.send({ type: 'response.interrupt', response_id: fork.id })
    await endOf(socket, fork.id)
    await say(socket, 'on the fork', after(fork.id, { stream_id: 'fork' }))
    expect(users()).toEqual(['one', 'fork [fault:slow]', 'on the fork'])
    await socket.close()
  })
  test('a fork that waits for its turn is refused where its parent has gone by then', async () => {
    const socket = await server.socket()
    const one = await say(socket, 'one')
    const busy = await begin(socket, { input: 'x [fault:hang]', stream_id: 'fork' })
    const late = socket.turn({ ...base, ...after(one), input: 'late', stream_id: 'fork' })
    await socket.turn({ ...base, input: 'x [fault:cut]', ...after(one) })
    socket.send({ type: 'response.interrupt', response_id: busy.id })
    expect((await late).error).toMatchObject(gone)
    await socket.close()
  })
  test('settings are not inherited, nor are tools', async () => {
    const socket = await server.socket()
    const one = await say(socket, 'one', { instructions: 'Be brief.', metadata: { a: 'b' }, temperature: 0.5 })
    const { response } = await socket.turn({ ...base, input: 'two', ...after(one) })
    expect(response).toMatchObject({ instructions: null, metadata: {}, temperature: 1, tools: [] })
    expect(lastPrompt(server)).not.toContain('instructions')
    await socket.close()
  })
})

describe('tool outputs', () => {
  const called = async (socket: Socket): Promise<{ id: string; call_id: string; items: readonly object[] }> => {
    const { response, calls } = await socket.turn({ ...base, input: 'read', tools: [readTool] })
    return { id: String(response?.id), call_id: calls[0]?.call_id ?? '', items: response?.output ?? [] }
  }
  const output = (call_id: string): object => ({ type: 'function_call_output', call_id, output: 'text' })
  test('need their call in the conversation or in front of them, where a parent is given', async () => {
    const socket = await server.socket()
    const { id, call_id } = await called(socket)
    const own = { type: 'function_call', call_id: 'call_own', name: 'read_file', arguments: '{}' }
    await say(socket, [output(call_id), own, output('call_own')], after(id, { stream_id: 'b' }))
    const refused = await socket.turn({ ...base, input: [output('call_own'), own], ...after(id) })
    expect(refused.error).toMatchObject({ code: 'tool_call_not_found', status: 400, param: 'input' })
    expect(refused.error?.message).toContain('call_own')
    await socket.close()
  })
  test('stand alone in a full history, and calls may be open there', async () => {
    const socket = await server.socket()
    const { items, call_id } = await called(socket)
    const user = { role: 'user', content: 'read' }
    await say(socket, [user, output('call_from_long_ago'), { role: 'user', content: 'go on' }])
    await say(socket, [user, ...items, { role: 'user', content: 'never mind' }])
    await say(socket, [user, ...items, output(call_id)])
    // The same items, with the same ids, once more.
    await say(socket, [user, ...items, output(call_id)])
    await socket.close()
  })
  test('may leave calls of the parent open', async () => {
    const socket = await server.socket()
    const { id } = await called(socket)
    await say(socket, 'never mind', after(id))
    expect(users()).toEqual(['read', 'never mind'])
    await socket.close()
  })
})

describe('elsewhere', () => {
  test('a response that was not stored does not continue', async () => {
    const socket = await server.socket()
    const other = await server.socket()
    const id = await say(socket, 'one')
    expect((await other.turn({ ...base, input: 'two', ...after(id) })).error).toMatchObject(gone)
    expect(await server.http().post('/v1/responses', { ...base, input: 'two', ...after(id) })).toMatchObject({
      status: 400,
      json: { error: { code: gone.code } },
    })
    await Promise.all([socket.close(), other.close()])
  })
  test('a stored one continues on another socket and over HTTP, back and forth', async () => {
    const socket = await server.socket()
    const one = await say(socket, 'one', { store: true })
    const other = await server.socket()
    const two = await say(other, 'two', after(one, { store: true }))
    const three = await server.http().post('/v1/responses', { model: 'm', input: 'three', ...after(two) })
    await say(socket, 'four', after(String(three.json['id'])))
    expect(users()).toEqual(['one', 'two', 'three', 'four'])
    await Promise.all([socket.close(), other.close()])
  })
  test('an evicted parent still continues where it was stored', async () => {
    const socket = await server.socket()
    const one = await say(socket, 'one', { store: true })
    await socket.turn({ ...base, input: 'x [fault:cut]', ...after(one) })
    await say(socket, 'again', after(one))
    expect(users()).toEqual(['one', 'again'])
    await socket.close()
  })
  test('item_reference finds stored items of any connection, input and output, and no others', async () => {
    const socket = await server.socket()
    const input = [{ type: 'message', id: 'msg_given', role: 'user', content: 'a message with an id' }]
    const { response, text } = await socket.turn({ model: 'm', store: true, input })
    const hidden = await socket.turn({ ...base, input: 'not stored' })
    const other = await server.socket()
    const reference = (id: unknown): object => ({ type: 'item_reference', id })
    await say(other, [reference('msg_given'), reference(response?.output[0]?.['id']), { role: 'user', content: 'so?' }])
    expect(lastPrompt(server)).toBe(`user: a message with an id\nassistant: ${text}\nuser: so?\n`)
    const refused = await other.turn({ ...base, input: [reference(hidden.response?.output[0]?.['id'])] })
    expect(refused.error).toMatchObject({ code: 'item_not_found', status: 400, param: 'input.0.id' })
    await Promise.all([socket.close(), other.close()])
  })
})

test('after a restart on the same folder stored conversations go on, with calls and reasoning; others are gone', async () => {
  const data = await mkdtemp(join(tmpdir(), 'continuo-restart-'))
  const settings = { ...simulated({ reasoning: true, rounds: 1 }), data, store: { kind: 'sqlite' } }
  let running = await startWith(settings)
  let socket = await running.socket()
  const tools = [readTool]
  const first = await socket.turn({ model: 'm', input: 'read', tools })
  const output = first.calls.map(({ call_id }) => ({ type: 'function_call_output', call_id, output: 'text' }))
  const second = await socket.turn({ model: 'm', input: output, tools, ...after(String(first.response?.id)) })
  const unstored = await say(socket, 'not stored', after(String(second.response?.id)))
  const child = await say(socket, 'on something not stored', after(unstored, { store: true }))
  await say(socket, 'go on', after(String(second.response?.id)))
  const before = lastPrompt(running)
  await running.close()

  running = await startWith(settings)
  socket = await running.socket()
  await say(socket, 'go on', after(String(second.response?.id)))
  expect(lastPrompt(running)).toBe(before)
  expect(before).toMatch(/^tool.*|reasoning: /)
  const over = await running
    .http()
    .post('/v1/responses', { model: 'm', input: 'go on', ...after(String(second.response?.id)) })
  expect(over.status).toBe(200)
  for (const id of [unstored, child])
    expect((await socket.turn({ ...base, input: 'x', ...after(id) })).error).toMatchObject(gone)
  expect(probeOf(running).got.every((g) => !g.prompt.includes('not stored'))).toBe(true)
  await running.close()
  await rm(data, { recursive: true })
})
