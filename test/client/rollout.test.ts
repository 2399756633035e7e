// The client's side of a rollout, against the real server: one call, answered on its way, and what follows it.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { connect, type Connection, type ServerEvent } from '../../src/client/index.ts'
import type { ClientCall, Item } from '../../src/protocol/items.ts'
import { probeOf, readTool, simulated, startWith } from '../session/started.ts'
import { eventually, type TestServer } from '../wire/server.ts'

let server: TestServer
let connection: Connection
beforeAll(async () => {
  server = await startWith({ ...simulated({ rounds: 2 }), rollouts: { enabled: true } })
  connection = connect({ url: `${server.url}/v1`, reconnect: false })
})
afterAll(async () => {
  connection.close()
  await server.close()
})
const body = { model: 'm', store: false, tools: [readTool], input: 'read' }
const answered = (calls: readonly ClientCall[]): Item[] =>
  calls.map(({ call_id }) => ({ type: 'function_call_output', call_id, output: 'text' }))

test('a rollout asks for what its calls return until the response ends', async () => {
  const asked: (readonly ClientCall[])[] = []
  const call = connection.rollout(body, async (calls) => {
    asked.push(calls)
    return answered(calls)
  })
  const events: ServerEvent[] = []
  for await (const event of call) events.push(event)
  const response = await call.finished
  expect(response.status).toBe('completed')
  expect(response.output.map((item) => item.type)).toEqual(['function_call', 'function_call', 'message'])
  expect(asked).toEqual(response.output.slice(0, 2).map((item) => [item]))
  expect(events.filter((event) => event.type === 'response.done')).toHaveLength(2)
})

test('the conversation goes on from a rollout as a delta, with the outputs where they were given', async () => {
  const history: Item[] = []
  const call = connection.rollout(body, (calls) => {
    const outputs = answered(calls)
    history.push(...calls, ...outputs)
    return outputs
  })
  const { output } = await call.finished
  const said = output.slice(2)
  const input = [{ role: 'user', content: 'read' }, ...history, ...said, { role: 'user', content: 'thanks' }]
  const next = connection.create({ ...body, input })
  expect((await next.finished).status).toBe('completed')
  expect(next.delta).toBe(true)
  const swapped = connection.create({ ...body, input: [input[0], ...output, ...history.slice(1, 2), input.at(-1)] })
  await swapped.finished
  expect(swapped.delta).toBe(false)
})

test.each([
  [
    'cannot be had',
    (): never => {
      throw new Error('the tool broke')
    },
    /could not be answered/,
  ],
  ['are refused', (): Item[] => [], /at least one call/],
])('a rollout whose outputs %s fails for the caller and ends at the server', async (_, answer, message) => {
  const call = connection.rollout(body, answer)
  await expect(call.finished).rejects.toThrow(message)
  await eventually(() => expect(connection.busy).toBe(0))
  await server.quiet()
  expect((await connection.rollout(body, answered).finished).status).toBe('completed')
})

test('a rollout that is cancelled while its calls are answered ends, and what comes late is dropped', async () => {
  let late: (items: Item[]) => void = () => {}
  const call = connection.rollout(body, () => new Promise((resolve) => (late = resolve)))
  const events = call[Symbol.asyncIterator]()
  for (;;) if ((await events.next()).value?.type === 'response.done') break
  call.cancel()
  await eventually(() => expect(connection.busy).toBe(0))
  late([])
  expect((await connection.create({ ...body, tools: [], input: 'hello' }).finished).status).toBe('completed')
})

test('outputs that the server may not have taken are no part of the conversation: they are sent again', async () => {
  const read = (path: string): object => ({ call: { name: 'read_file', arguments: JSON.stringify({ path }) } })
  const turns = [{ when: { contains: 'two calls' }, steps: [read('a'), read('b')], times: 1 }]
  const impatient = await startWith({
    ...simulated({ scenario: { turns } }),
    rollouts: { enabled: true, waitMs: 50 },
  })
  const own = connect({ url: `${impatient.url}/v1`, reconnect: false })
  const asked = { ...body, input: [{ role: 'user', content: 'two calls' }] }
  const call = own.rollout(asked, (calls) => answered(calls).slice(0, 1))
  const { incomplete_details, output } = await call.finished
  expect(incomplete_details).toEqual({ reason: 'append_timeout' })
  const outputs = answered(output as ClientCall[])
  const next = own.create({ ...asked, input: [...asked.input, ...output, ...outputs] })
  expect((await next.finished).status).toBe('completed')
  const tools = probeOf(impatient).got.at(-1)?.prompt.match(/text/g)
  expect(tools).toHaveLength(2)
  own.close()
  await impatient.close()
})
