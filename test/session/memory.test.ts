// Conversations take memory, and have a limit in bytes: one by itself, those of a connection, and those that are only known.
import { afterEach, expect, test } from 'vitest'
import { startTestServer, type TestServer } from '../wire/server.ts'

let server: TestServer
afterEach(async () => await server.close())
const start = async (limits: object): Promise<void> => {
  server = await startTestServer({
    engines: { simulated: { type: 'simulated', context: 100_000_000 } },
    limits,
  })
}
/** An item of this length that models are not shown, so that no context limit speaks first. */
const sealed = (length: number) => ({ type: 'reasoning', summary: [], encrypted_content: 'x'.repeat(length) })
const ask = (length: number, words: string) => [sealed(length), { role: 'user', content: words }]

test('a conversation that would take more than its limit is refused before it starts, and the lane goes on', async () => {
  await start({ conversationBytes: 100_000 })
  const socket = await server.socket()
  const refused = await socket.turn({ model: 'm', store: false, input: ask(60_000, 'hi') })
  expect(refused.error).toMatchObject({ code: 'context_length_exceeded' })
  const first = await socket.turn({ model: 'm', store: false, input: ask(30_000, 'hi') })
  expect(first.response?.status).toBe('completed')
  const more = { model: 'm', store: false, previous_response_id: first.response?.id, input: ask(30_000, 'more') }
  expect((await socket.turn(more)).error).toMatchObject({ code: 'context_length_exceeded' })
  await socket.close()
})
test('a connection keeps as many conversations as it has memory for, and the newest of each lane in any case', async () => {
  await start({ websocket: { continuableBytes: 250_000 }, prefixes: { keepBytes: 0 } })
  const socket = await server.socket()
  const ids: (string | undefined)[] = []
  for (let n = 0; n < 4; n++)
    ids.push((await socket.turn({ model: 'm', store: false, input: ask(50_000, `hi ${n}`) })).response?.id)
  const large = await socket.turn({ model: 'm', store: false, stream_id: 'other', input: ask(500_000, 'large') })
  const goesOn = async (id: string | undefined, lane?: string): Promise<boolean> => {
    const next = {
      model: 'm',
      store: false,
      previous_response_id: id,
      input: 'on',
      ...(lane ? { stream_id: lane } : {}),
    }
    return (await socket.turn(next)).error === undefined
  }
  expect(await goesOn(large.response?.id, 'other')).toBe(true)
  expect(await goesOn(ids[0])).toBe(false)
  expect(await goesOn(ids[3])).toBe(true)
  await socket.close()
})
test('forks of one conversation are counted once', async () => {
  await start({ websocket: { continuableBytes: 300_000 }, prefixes: { keepBytes: 0 } })
  const socket = await server.socket()
  const root = await socket.turn({ model: 'm', store: false, input: ask(100_000, 'hi') })
  const fork = (n: number) => ({
    model: 'm',
    store: false,
    previous_response_id: root.response?.id,
    input: `fork ${n}`,
  })
  for (let n = 0; n < 20; n++) expect((await socket.turn(fork(n))).response?.status).toBe('completed')
  await socket.close()
})
test('what is remembered for full resends keeps to its bytes', async () => {
  await start({ prefixes: { keepBytes: 300_000 } })
  for (let n = 0; n < 10; n++) {
    await server.http().post('/v1/responses', { model: 'm', store: false, input: ask(50_000, `hi ${n}`) })
    expect(server.app.counts().prefixBytes).toBeLessThanOrEqual(300_000)
  }
  expect(server.app.counts().prefixBytes).toBeGreaterThan(100_000)
})
