// What an engine is told of a conversation's right to be written down: one response with `store: false` takes it away, from
// everything behind it and from nothing else.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Call, Engine } from '../../src/turn/ports.ts'
import { eventually, type TestServer } from '../wire/server.ts'
import type { Socket } from '../wire/socket.ts'
import { simulated, startWith } from './started.ts'

let server: TestServer
const calls: Call[] = []
beforeAll(async () => {
  server = await startWith(simulated())
  const engine = server.app.models.engines.get('sim') as Engine
  const generate = engine.generate.bind(engine)
  engine.generate = (call) => {
    calls.push(call)
    return generate(call)
  }
})
afterAll(() => server.close())
beforeEach(() => void (calls.length = 0))
const told = (): boolean[] => calls.map((call) => call.mayStore)
const turn = async (socket: Socket, store: boolean, more: object): Promise<{ id: string; output: object[] }> => {
  const { response } = await socket.turn({ model: 'm', store, ...more })
  expect(response?.status).toBe('completed')
  return { id: response?.id ?? '', output: (response?.output ?? []) as object[] }
}
const user = (content: string): object => ({ type: 'message', role: 'user', content })

test('a conversation may be stored as long as all of its responses may', async () => {
  const socket = await server.socket()
  const one = await turn(socket, true, { input: 'one' })
  const two = await turn(socket, true, { input: 'two', previous_response_id: one.id })
  const three = await turn(socket, false, { input: 'three', previous_response_id: two.id })
  await turn(socket, true, { input: 'four', previous_response_id: three.id })
  await turn(socket, true, { input: 'fork', previous_response_id: two.id })
  expect(told()).toEqual([true, true, false, false, true])
  await socket.close()
})
test('a turn without input of its own that must not be stored says so', async () => {
  const socket = await server.socket()
  const one = await turn(socket, true, { input: 'go on by yourself' })
  await turn(socket, false, { input: [], previous_response_id: one.id })
  await turn(socket, true, { input: 'again', previous_response_id: one.id })
  expect(told()).toEqual([true, false, true])
  await socket.close()
})
test('whoever sends a conversation again goes on behind the links that are known, with what those may', async () => {
  const socket = await server.socket()
  const one = await turn(socket, false, { input: [user('a secret')] })
  await turn(socket, true, { input: [user('a secret'), ...one.output, user('more')] })
  const open = await turn(socket, true, { input: [user('no secret')] })
  await turn(socket, false, { input: [user('no secret'), ...open.output, user('but this')] })
  await turn(socket, true, { input: [user('no secret'), ...open.output, user('nor this')] })
  expect(calls.at(-1)?.chain.since(undefined)?.length).toBe(4)
  expect(told()).toEqual([false, false, true, false, true])
  await socket.close()
})
test('a warm-up is a turn like any other', async () => {
  const socket = await server.socket()
  for (const store of [true, false]) {
    calls.length = 0
    const warm = await turn(socket, store, { input: `warm ${store}`, generate: false })
    await eventually(() => expect(calls.map((c) => c.generate)).toEqual([false]))
    await turn(socket, true, { input: 'go', previous_response_id: warm.id })
    expect(told()).toEqual([store, store])
  }
  await socket.close()
})
test('a summary may be stored where all that it sums up may', async () => {
  const socket = await server.socket()
  for (const store of [true, false]) {
    const before = await turn(socket, store, { input: `something ${store}` })
    const summary = await turn(socket, true, {
      input: [{ type: 'compaction_trigger' }],
      previous_response_id: before.id,
    })
    calls.length = 0
    await turn(socket, true, { input: 'on', previous_response_id: summary.id })
    expect(told()).toEqual([store])
  }
  await socket.close()
})
