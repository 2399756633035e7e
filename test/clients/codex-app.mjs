// The real Codex as programs drive it: turns that continue, are steered and are interrupted while the model speaks.
// node codex-app.mjs [BASE_URL], against a server that was started with slow.yaml. Environment: MODEL, API_KEY.
import { appServer, until } from './app-server.mjs'
import { apiKey, baseUrl, check, end, expect, model } from './report.mjs'
import { relay } from './relay.mjs'

/** Newer models are asked in another shape, and stop the model for what the user says in between; gpt-5.5 lets it end. */
const lite = !model.startsWith('gpt-5.5')
const wire = await relay(baseUrl)
const codex = await appServer({ url: wire.url, model })

const types = ({ input }) => input.map(({ type, role }) => (role ? `${type} of ${role}` : type))
const creates = (socket) => socket.sent.filter(({ type }) => type === 'response.create')
/** That all but the first of these are deltas, each on the response that ended before it. */
function expectDeltas(socket, from) {
  const ended = socket.got.filter(({ response }) => response && response.status !== 'in_progress')
  for (const [n, frame] of creates(socket).entries()) {
    if (n < from) continue
    const parent = ended[n - 1].response.id
    expect(frame.previous_response_id === parent, `frame ${n} on ${parent}`, frame.previous_response_id)
    const old = types(frame).filter((type) => type.startsWith('message of assistant') || type.endsWith('_call'))
    expect(old.length === 0, 'nothing that the server said itself', old)
  }
}
/** Starts a turn whose answer is long, and waits until the model is in the middle of its message. */
async function caught() {
  const sockets = wire.sockets()
  const before = sockets.at(-1).got.length
  const turn = await codex.start('tell me a long story')
  const deltas = () =>
    sockets
      .at(-1)
      .got.slice(before)
      .filter(({ type }) => type === 'response.output_text.delta')
  await until('the beginning of the story', () => deltas().length >= 5)
  const created = sockets.at(-1).got.findLast(({ type }) => type === 'response.created')
  return { turn, socket: sockets.at(-1), response: created.response.id }
}
/** Waits for the end of a turn. */
async function expectCompleted(turn, limit) {
  const { status, error } = await codex.ended(turn, limit)
  expect(status === 'completed', 'a completed turn', { status, error, trouble: codex.trouble() })
}

await check('a first turn: warmed up, then a tool loop of deltas', async () => {
  await expectCompleted(await codex.start('look around'))
  const [socket] = wire.sockets()
  const [warmup, ...rest] = creates(socket)
  expect(warmup.generate === false && rest.length >= 2, 'a warm-up and two frames', creates(socket).length)
  if (lite) {
    expect(warmup.input.length === 0, 'an empty warm-up', types(warmup))
    expect(rest[0].input[0].type === 'additional_tools', 'tools among the input', types(rest[0]))
  }
  expectDeltas(socket, 1)
  return rest.map((frame) => frame.input.length)
})

await check('a second turn goes on with deltas on the same socket', async () => {
  const before = creates(wire.sockets()[0]).length
  await expectCompleted(await codex.start('look again'))
  const [socket, more] = wire.sockets()
  expect(more === undefined, 'one socket', wire.sockets().length)
  expect(types(creates(socket)[before]).join() === 'message of user', 'the new message', types(creates(socket)[before]))
  expectDeltas(socket, 1)
})

const how = lite ? 'ends the response without its broken-off message' : 'waits for the end of the response'
await check(`steering a turn ${how}, and goes on with a delta`, async () => {
  const { turn, socket, response } = await caught()
  const sent = socket.sent.length
  const got = socket.got.length
  await codex.steer(turn, 'make it short')
  await expectCompleted(turn, 14_000)
  const terminal = socket.got.slice(got).find((event) => event.response?.id === response && event.response.usage)
  const frames = socket.sent.slice(sent)
  if (lite) {
    const { type, response_id, mode } = frames.shift()
    expect(
      type === 'response.interrupt' && response_id === response && mode === 'discard_partial_items',
      'an interrupt of it',
      { type, response_id, mode },
    )
    expect(terminal.type === 'response.incomplete', 'an incomplete response', terminal.type)
    const { incomplete_details, output, end_turn } = terminal.response
    expect(incomplete_details.reason === 'interrupted' && end_turn === false, 'interrupted', incomplete_details)
    expect(output.length === 0, 'no broken-off message', output)
  } else {
    expect(terminal.type === 'response.completed', 'a completed response', terminal.type)
    expect(terminal.response.output.length === 1, 'the whole story', terminal.response.output)
  }
  expect(frames[0].previous_response_id === response, 'a delta on it', frames[0])
  expect(types(frames[0]).join() === 'message of user', 'what the user added, and nothing else', types(frames[0]))
  expect(wire.sockets().length === 1, 'still one socket', wire.sockets().length)
  return { characters: codex.items('agentMessage').map(({ text }) => text.length) }
})

await check('interrupting a turn drops the connection, and the server cancels the response', async () => {
  const { turn, socket, response } = await caught()
  await codex.interrupt(turn)
  const { status } = await codex.ended(turn)
  expect(status === 'interrupted', 'an interrupted turn', status)
  await until('the end of the connection', () => socket.close)
  expect(socket.close.by === 'client', 'Codex to hang up', socket.close)
  const headers = { authorization: `Bearer ${apiKey}` }
  const read = async () => (await fetch(`${baseUrl}/responses/${response}`, { headers })).json()
  const body = await until(
    'the server to end it',
    async () => {
      const now = await read()
      return now.status !== 'in_progress' && now
    },
    1000,
  )
  expect(body.status === 'cancelled', 'a cancelled response', body)
  return { close: socket.close, tokens: body.usage?.output_tokens }
})

await check('the next turn works on a new socket, in full once and then by deltas', async () => {
  await expectCompleted(await codex.start('are you there'))
  const [, socket, more] = wire.sockets()
  expect(socket && !more, 'two sockets', wire.sockets().length)
  const [full] = creates(socket)
  expect(full.previous_response_id === undefined && full.generate !== false, 'a full resend', full.previous_response_id)
  expect(types(full).includes('message of assistant'), 'the whole conversation', types(full))
  expect(creates(socket).length >= 2, 'a tool loop', creates(socket).length)
  expectDeltas(socket, 1)
})

await check('Codex reported no trouble, and never used HTTP', () => {
  expect(codex.trouble().length === 0, 'no trouble', codex.trouble())
  const others = wire.connections.filter(({ status }) => status !== 101)
  expect(
    others.length === 0,
    'sockets only',
    others.map(({ request, status }) => [request, status]),
  )
})
await codex.stop()
end()
