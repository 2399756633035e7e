// response.interrupt: a response ends where it is, with or without the item that was being written, and goes on by its id.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { pause, type TestServer } from '../wire/server.ts'
import { begin, compileSchemas, endOf, lastPrompt, probeOf, readTool, simulated, startWith } from './started.ts'

let server: TestServer
beforeAll(async () => {
  compileSchemas()
  const turns = [
    { when: { contains: 'two items' }, steps: [{ text: 'Whole.' }, { text: 'Half of it' }] },
    {
      when: { contains: 'a call' },
      steps: [{ text: 'I look.' }, { call: { name: 'read_file' } }, { pause: 5000 }],
      times: 1,
    },
  ]
  server = await startWith(simulated({ scenario: { turns } }))
})
afterAll(() => server.close())
const half = (f: { type: string; [key: string]: unknown }): boolean =>
  f.type === 'response.output_text.delta' && f['delta'] === 'Half'

test.each([undefined, 'keep_partial_items'])(
  'keeps the broken-off item, marked as incomplete, in the mode %s',
  async (mode) => {
    const socket = await server.socket()
    const { id } = await begin(socket, { input: 'two items [fault:hang:3]', stream_id: 'a' })
    await socket.next(half)
    socket.send({ type: 'response.interrupt', response_id: id, ...(mode === undefined ? {} : { mode }) })
    const ended = await endOf(socket, id)
    expect(ended).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'interrupted' },
      end_turn: false,
      completed_at: null,
      output: [{ status: 'completed' }, { status: 'incomplete', content: [{ text: 'Half' }] }],
    })
    const { response } = await socket.turn({
      model: 'm',
      store: false,
      previous_response_id: id,
      input: 'go on',
      stream_id: 'a',
    })
    expect(response?.status).toBe('completed')
    expect(lastPrompt(server)).toMatch(/assistant: Whole\.\nassistant: Half\nuser: go on\n$/)
    await socket.close()
  },
)
test('leaves the broken-off item out with discard_partial_items, for the client and for the model', async () => {
  const socket = await server.socket()
  const { id } = await begin(socket, { input: 'two items [fault:hang:3]' })
  await socket.next(half)
  socket.send({ type: 'response.interrupt', response_id: id, mode: 'discard_partial_items' })
  const ended = await endOf(socket, id)
  expect(ended).toMatchObject({ incomplete_details: { reason: 'interrupted' }, end_turn: false })
  expect(ended.output).toHaveLength(1)
  await socket.turn({ model: 'm', store: false, previous_response_id: id, input: 'go on' })
  expect(lastPrompt(server)).toMatch(/assistant: Whole\.\nuser: go on\n$/)
  await socket.close()
})
test('before the first word leaves an id that continues, too', async () => {
  const socket = await server.socket()
  const { id } = await begin(socket, { input: 'hello [fault:hang:0]' })
  socket.send({ type: 'response.interrupt', response_id: id })
  expect(await endOf(socket, id)).toMatchObject({ output: [], incomplete_details: { reason: 'interrupted' } })
  const { response } = await socket.turn({ model: 'm', store: false, previous_response_id: id, input: 'again' })
  expect(response?.status).toBe('completed')
  expect(lastPrompt(server)).toMatch(/user: hello \[fault:hang:0\]\nuser: again\n$/)
  await socket.close()
})
test('behind an open call leaves the call, which may be answered or left open', async () => {
  const socket = await server.socket()
  const { id } = await begin(socket, { input: 'a call', tools: [readTool] })
  await socket.next('response.output_item.done')
  await pause(30)
  socket.send({ type: 'response.interrupt', response_id: id })
  const ended = await endOf(socket, id)
  const { response } = await socket.turn({ model: 'm', store: false, previous_response_id: id, input: 'never mind' })
  expect(response?.status).toBe('completed')
  const call = ended.output.find((item) => item.type === 'function_call')
  const input = [{ type: 'function_call_output', call_id: call?.['call_id'], output: 'text' }]
  expect((await socket.turn({ model: 'm', store: false, previous_response_id: id, input })).response?.status).toBe(
    'completed',
  )
  await socket.close()
})
test('stops the engine at once, and touches no other lane', async () => {
  const socket = await server.socket()
  const before = probeOf(server).aborted
  const one = await begin(socket, { input: 'hello [fault:hang]', stream_id: 'one' })
  const two = await begin(socket, { input: 'two items [fault:hang:3]', stream_id: 'two' })
  await socket.next(half)
  socket.send({ type: 'response.interrupt', response_id: one.id, stream_id: 'three' })
  expect(await endOf(socket, one.id)).toMatchObject({ incomplete_details: { reason: 'interrupted' } })
  await pause(20)
  expect(probeOf(server).aborted).toBe(before + 1)
  expect(socket.frames.filter((f) => f['stream_id'] === 'two').at(-1)?.type).toBe('response.output_text.delta')
  socket.send({ type: 'response.interrupt', response_id: two.id })
  await endOf(socket, two.id)
  await socket.close()
})
test('of a response that has ended is ignored, of an unknown one an error frame, and the socket lives', async () => {
  const socket = await server.socket()
  const { response } = await socket.turn({ model: 'm', store: false, input: 'hello' })
  socket.send({ type: 'response.interrupt', response_id: response?.id })
  socket.send({ type: 'response.interrupt', response_id: 'resp_none', stream_id: 'x' })
  expect(await socket.next('error')).toMatchObject({
    stream_id: 'x',
    error: { code: 'response_not_found', param: 'response_id' },
  })
  expect(socket.frames.filter((f) => f.type === 'error')).toHaveLength(1)
  const again = await socket.turn({ model: 'm', store: false, previous_response_id: response?.id, input: 'again' })
  expect(again.response?.status).toBe('completed')
  await socket.close()
})
