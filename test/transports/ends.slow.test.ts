// Every way in which a connection ends, and what becomes of the turns on it.
import { connect } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { begin, compileSchemas, endOf, probeOf, type Settings, simulated, startWith } from '../session/started.ts'
import { encodeFrame, rawConnect, text } from '../wire/raw-socket.ts'
import { eventually, pause, type TestServer } from '../wire/server.ts'

compileSchemas()
let server: TestServer | undefined
afterEach(async () => {
  await server?.close()
  server = undefined
})
async function start(limits: Settings = {}, engine: Settings = {}): Promise<TestServer> {
  return (server = await startWith({ ...simulated(engine), limits }))
}
const hang = { input: 'x [fault:hang]' }

describe('an age limit', () => {
  test('closes an idle socket with 1001', async () => {
    const running = await start({ websocket: { maxAgeMs: 150 } })
    expect(await (await running.socket()).closed).toMatchObject({ code: 1001, reason: expect.stringContaining('age') })
  })
  test('never cuts a response: it answers the next create, and closes when nothing runs', async () => {
    const running = await start({ websocket: { maxAgeMs: 150 } })
    const socket = await running.socket()
    const { id } = await begin(socket, hang)
    await pause(300)
    const late = await socket.turn({ model: 'm', store: false, input: 'hi', stream_id: 'b' })
    expect(late.error).toMatchObject({ code: 'websocket_connection_limit_reached', status: 400 })
    socket.send({ type: 'response.interrupt', response_id: id })
    await endOf(socket, id)
    expect((await socket.closed).code).toBe(1001)
  })
})

test('draining lets what runs and waits finish, then closes; nothing new starts', async () => {
  const running = await start()
  const socket = await running.socket()
  const { id } = await begin(socket, hang)
  socket.send({ type: 'response.create', model: 'm', store: false, input: 'second', metadata: { n: '2' } })
  await pause(30)
  const drained = running.app.drain()
  expect((await socket.turn({ model: 'm', input: 'hi', stream_id: 'c' })).error?.code).toBe(
    'websocket_connection_limit_reached',
  )
  expect(await running.http().post('/v1/responses', { model: 'm', input: 'hi' })).toMatchObject({ status: 503 })
  expect((await fetch(`${running.url}/readyz`)).status).toBe(503)
  socket.send({ type: 'response.interrupt', response_id: id })
  await endOf(socket, id)
  expect(await socket.next('response.completed')).toMatchObject({ response: { metadata: { n: '2' } } })
  expect((await socket.closed).code).toBe(1012)
  await drained
})
test('closing cuts what runs, but writes what it was', async () => {
  const running = await start()
  const socket = await running.socket()
  await begin(socket, { ...hang, store: true })
  await running.app.close()
  expect(running.app.counts()).toMatchObject({ running: 0, unsettled: 0 })
  expect(running.app.ledger.open).toBe(0)
  expect(running.log.filter((line) => line.includes('"ending":"cancelled"'))).toHaveLength(1)
})

describe('a lost connection', () => {
  test('cancels at the engine at once, logs how it ended, and settles', async () => {
    const running = await start()
    const socket = await running.socket()
    const { id } = await begin(socket, { ...hang, store: true })
    await socket.next('response.output_text.delta')
    socket.send({ type: 'response.create', model: 'm', input: 'never starts' })
    await pause(20)
    socket.ws.terminate()
    await eventually(() => expect(probeOf(running).aborted).toBe(1), 1000)
    await running.quiet()
    expect(await running.http().get(`/v1/responses/${id}`)).toMatchObject({
      json: { status: 'cancelled', incomplete_details: { reason: 'cancelled' } },
    })
    const { events } = await running.http().events('GET', `/v1/responses/${id}?stream=true`)
    expect(events.at(-1)?.type).toBe('response.incomplete')
    expect(running.app.ledger).toMatchObject({ open: 0, settled: 1, repeated: 0 })
    expect(running.app.ledger.rows.at(-1)?.usage).toMatchObject({ output: 3, estimated: true })
    expect(probeOf(running).calls).toBe(1)
  })
  test('over HTTP cancels, too, streamed or not', async () => {
    const running = await start()
    for (const stream of [true, false]) {
      const abort = new AbortController()
      const before = probeOf(running).calls
      const asked = fetch(`${running.url}/v1/responses`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'm', stream, ...hang }),
        signal: abort.signal,
      }).then((reply) => reply.text())
      await eventually(() => expect(probeOf(running).calls).toBe(before + 1))
      abort.abort()
      await expect(asked).rejects.toThrow()
      await eventually(() => expect(probeOf(running)).toMatchObject({ running: 0, aborted: before + 1 }))
    }
    await running.quiet()
  })
  test('waits as long as it is told to: whoever resumes in time gets the rest, and the turn completes', async () => {
    const running = await start({ detachGraceMs: 400 }, { tokensPerSecond: 100 })
    const socket = await running.socket()
    const { id } = await begin(socket, { input: 'x'.repeat(190) })
    const seen = await socket.next((f) => f.type === 'response.output_text.delta' && Number(f['sequence_number']) > 6)
    socket.ws.terminate()
    await socket.closed
    const reply = await fetch(
      `${running.url}/v1/responses/${id}?stream=true&starting_after=${Number(seen['sequence_number'])}`,
    )
    const rest = await reply.text()
    expect(rest.match(/"sequence_number":(\d+)/)?.[1]).toBe(String(Number(seen['sequence_number']) + 1))
    expect(rest).toContain('event: response.completed')
    expect(probeOf(running).aborted).toBe(0)
  })
  test('is over when the time is up, and when the one who resumed leaves as well', async () => {
    const running = await start({ detachGraceMs: 200 })
    const [one, two] = [await running.socket(), await running.socket()]
    await begin(one, hang)
    const { id } = await begin(two, hang)
    const abort = new AbortController()
    await fetch(`${running.url}/v1/responses/${id}?stream=true`, { signal: abort.signal })
    one.ws.terminate()
    two.ws.terminate()
    await pause(100)
    expect(probeOf(running)).toMatchObject({ running: 2, aborted: 0 })
    await eventually(() => expect(probeOf(running)).toMatchObject({ running: 1, aborted: 1 }), 1000)
    await pause(200)
    expect(probeOf(running).running).toBe(1)
    abort.abort()
    await eventually(() => expect(probeOf(running)).toMatchObject({ running: 0, aborted: 2 }), 2000)
    await running.quiet()
  })
})

describe('after a failed response', () => {
  const aiSdk = { headers: { 'openai-beta': 'responses_websockets=2026-02-06' } }
  const codex = {
    headers: { 'openai-beta': 'responses_websockets=2026-02-06', originator: 'codex_cli_rs', 'user-agent': 'codex' },
  }
  const cases: [string, object, string, boolean][] = [
    ['auto', aiSdk, '[fault:cut]', true],
    ['auto', aiSdk, '[fault:incomplete]', true],
    ['auto', aiSdk, 'fine', false],
    ['auto', codex, '[fault:cut]', false],
    ['auto', {}, '[fault:cut]', false],
    ['always', codex, '[fault:cut]', true],
    ['never', aiSdk, '[fault:cut]', false],
  ]
  test.each(cases)(
    'with %s, a client with %j and %s: closed with 1000 is %s',
    async (closeAfterFailure, options, input, closes) => {
      const running = await start({ websocket: { closeAfterFailure } })
      const socket = await running.socket(options)
      await socket.turn({ model: 'm', store: false, input })
      const closed = Promise.race([socket.closed, pause(120).then(() => undefined)])
      if (closes) expect(await socket.closed).toMatchObject({ code: 1000 })
      else expect(await closed).toBeUndefined()
    },
  )
  test('other lanes are let finish first, and a refused request closes nothing', async () => {
    const running = await start({ websocket: { closeAfterFailure: 'always' } })
    const socket = await running.socket()
    await socket.turn({ model: 'm', input: 'x', previous_response_id: 'resp_none' })
    const { id } = await begin(socket, { ...hang, stream_id: 'a' })
    await socket.turn({ model: 'm', store: false, input: '[fault:cut]', stream_id: 'b' })
    expect((await socket.turn({ model: 'm', store: false, input: 'hi', stream_id: 'b' })).response?.status).toBe(
      'completed',
    )
    socket.send({ type: 'response.interrupt', response_id: id })
    await endOf(socket, id)
    expect((await socket.closed).code).toBe(1000)
  })
})

test('a client that reads too slowly is closed with 1013, its turn ended, and others are served meanwhile', async () => {
  const running = await start({ slowReaderBytes: 65_536, slowReaderMs: 300 }, { batch: 100, context: 90_000_000 })
  const other = await running.socket()
  await other.turn({ model: 'm', store: false, input: 'hi' })
  const slow = await rawConnect(running.wsUrl)
  slow.tcp.pause()
  slow.json({ type: 'response.create', model: 'm', store: false, input: '[fault:endless]' })
  await eventually(() => expect(probeOf(running).running).toBe(1))
  for (let n = 0; n < 5; n++) {
    expect((await other.turn({ model: 'm', store: false, input: 'hi' })).response?.status).toBe('completed')
    await pause(20)
  }
  await eventually(() => expect(probeOf(running).running).toBe(0), 5000)
  expect(running.log.some((line) => line.includes('socket closed') && /"code":(1013|1006)/.test(line))).toBe(true)
  expect(running.app.counts().sockets).toBe(1)
  await running.quiet()
}, 15_000)
test('a client of a stream that has stopped reading is cut off, and its turn with it', async () => {
  const running = await start({ slowReaderMs: 300 }, { batch: 100, context: 90_000_000 })
  const tcp = connect(running.app.port, '127.0.0.1')
  tcp.pause()
  const body = JSON.stringify({ model: 'm', store: false, stream: true, input: '[fault:endless]' })
  tcp.write(`POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
  await eventually(() => expect(probeOf(running).running).toBe(1))
  await eventually(() => expect(probeOf(running).running).toBe(0), 8000)
  await running.quiet()
  expect(running.app.ledger.open).toBe(0)
  tcp.destroy()
}, 15_000)
test('a client that has its own words sent back and reads none of them is closed before they fill the memory', async () => {
  const running = await start({ websocket: { maxMessageBytes: 1024 * 1024 }, slowReaderMs: 60_000 })
  const socket = await running.socket()
  socket.ws.pause()
  const input = 'x'.repeat(500_000)
  for (let n = 0; n < 60; n++) socket.send({ type: 'response.steer', previous_response_id: 'resp_none', input })
  await eventually(() => expect(running.app.counts().sockets).toBe(0))
  expect(running.log.some((line) => line.includes('socket closed') && /"code":(1013|1006)/.test(line))).toBe(true)
  socket.ws.terminate()
})
const warm = { type: 'response.create', model: 'm', store: false, generate: false, input: 'hi', stream_id: 'b' }
test.each([
  // Each echoes half a megabyte twice, which its request does not say.
  ['inherit what they echo', 300, (previous_response_id: string) => ({ previous_response_id })],
  ['are refused', 14_000, () => ({ previous_response_id: 'n'.repeat(250), stream_id: 'n'.repeat(250) })],
])(
  'a client that reads nothing and goes on with requests that %s is closed, too',
  async (_, times, previous) => {
    const running = await start({ websocket: { maxMessageBytes: 1024 * 1024, queued: 100_000 }, slowReaderMs: 60_000 })
    const socket = await running.socket()
    const { response } = await socket.turn({ ...warm, stream_id: 'a', instructions: 'x'.repeat(500_000) })
    socket.ws.pause()
    const lean = { ...warm, ...previous(response?.id ?? ''), continuo: { inherit: ['instructions'] } }
    for (let n = 0; n < times; n++) socket.send(lean)
    await eventually(() => expect(running.app.counts().sockets).toBe(0), 10_000)
    expect(running.log.some((line) => line.includes('socket closed') && /"code":(1013|1006)/.test(line))).toBe(true)
    socket.ws.terminate()
  },
  20_000,
)
test('a message too many for the memory budget closes that socket with 1013, and no other', async () => {
  const running = await start({ websocket: { maxMessageBytes: 1_000_000, maxHeldBytes: 1_000_000 } })
  const other = await running.socket()
  const socket = await rawConnect(running.wsUrl)
  const half = { opcode: text, payload: '"'.padEnd(600_000, 'x'), length: 900_000 }
  const greedy = await rawConnect(running.wsUrl)
  socket.write(encodeFrame(half))
  await eventually(() => expect(running.app.counts().heldBytes).toBeGreaterThan(500_000))
  greedy.write(encodeFrame(half))
  expect((await greedy.closed).code).toBe(1013)
  expect((await other.turn({ model: 'm', store: false, input: 'hi' })).response?.status).toBe('completed')
  socket.destroy()
  await running.quiet()
})
