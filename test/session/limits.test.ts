// How much may run and wait on one connection, with the numbers that stand in the documentation.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually, pause, type TestServer } from '../wire/server.ts'
import { begin, probeOf, responseIn, simulated, startWith } from './started.ts'

let server: TestServer
beforeAll(async () => {
  server = await startWith(simulated())
})
afterAll(() => server.close())
const base = { model: 'm', store: false } as const

test('16 responses run at once, the 17th waits for one of them, 32 lanes can be named, and 64 requests wait', async () => {
  const socket = await server.socket()
  const running = []
  for (let n = 0; n < 16; n++) running.push(await begin(socket, { input: 'x [fault:hang]', stream_id: `lane${n}` }))
  // 16 more lanes, four requests each: all 64 places of the queue.
  for (let n = 0; n < 64; n++)
    socket.send({
      type: 'response.create',
      ...base,
      input: 'hi',
      stream_id: `lane${16 + (n % 16)}`,
      metadata: { n: String(n) },
    })
  await pause(50)
  expect(probeOf(server).running).toBe(16)
  expect(socket.frames.filter((f) => f.type === 'response.created')).toHaveLength(16)
  const refused = await socket.turn({ ...base, input: 'hi', stream_id: 'lane0' })
  expect(refused.error).toMatchObject({ status: 429, code: 'rate_limit_exceeded' })
  const ended = running[0]
  socket.send({ type: 'response.interrupt', response_id: ended?.id })
  const order: string[] = []
  for (let n = 0; n < 64; n++)
    order.push(String((responseIn(await socket.next('response.completed'))['metadata'] as { n: string }).n))
  for (let lane = 0; lane < 16; lane++)
    expect(order.filter((n) => Number(n) % 16 === lane)).toEqual([0, 1, 2, 3].map((k) => String(lane + 16 * k)))
  expect((await socket.turn({ ...base, input: 'hi', stream_id: 'lane32' })).error?.code).toBe(
    'websocket_stream_limit_reached',
  )
  expect((await socket.turn({ ...base, input: 'hi' })).response?.status).toBe('completed')
  expect((await socket.turn({ ...base, input: 'hi', stream_id: 'lane0' })).response?.status).toBe('completed')
  await socket.close()
  await eventually(() => expect(probeOf(server).running).toBe(0))
})
test('with no place to wait, what can start at once still does', async () => {
  const tight = await startWith({ ...simulated(), limits: { websocket: { queued: 0, inFlight: 2 } } })
  const socket = await tight.socket()
  expect((await socket.turn({ ...base, input: 'hi' })).response?.status).toBe('completed')
  const { id } = await begin(socket, { input: 'x [fault:hang]' })
  expect((await socket.turn({ ...base, input: 'hi', stream_id: 'b' })).response?.status).toBe('completed')
  socket.send({ type: 'response.create', ...base, input: 'behind the first' })
  expect(await socket.next('error')).toMatchObject({ status: 429 })
  socket.send({ type: 'response.interrupt', response_id: id })
  await socket.next('response.incomplete')
  expect((await socket.turn({ ...base, input: 'hi' })).response?.status).toBe('completed')
  await tight.close()
})
test('a turn that takes too long is failed, and the lane goes on', async () => {
  const short = await startWith({ ...simulated(), limits: { turnMs: 200 } })
  const socket = await short.socket()
  const late = await socket.turn({ ...base, input: 'x [fault:hang]' })
  expect(late.response).toMatchObject({
    status: 'failed',
    error: { code: 'server_error' },
    output: [{ status: 'incomplete' }],
  })
  expect((await socket.turn({ ...base, input: 'hi' })).response?.status).toBe('completed')
  expect(probeOf(short).running).toBe(0)
  await short.close()
})
test('a model that never ends is cut at the limit of output', async () => {
  const small = await startWith({ ...simulated({ batch: 50 }), limits: { outputBytes: 2048 } })
  const socket = await small.socket()
  const { response } = await socket.turn({ ...base, input: 'x [fault:endless]' })
  expect(response).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } })
  await eventually(() => expect(probeOf(small).running).toBe(0))
  await small.close()
})
