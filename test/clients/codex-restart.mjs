// The real Codex outlives a restart of the server: node codex-restart.mjs [BASE_URL]. It prints "restart the server now"
// and goes on when the server has gone and serves again on the same port. With --busy that is in the middle of a turn, and
// the server one as for codex-app.mjs. Environment: MODEL, API_KEY; LIMIT, seconds (60).
import { appServer, until } from './app-server.mjs'
import { baseUrl, check, end, expect, model } from './report.mjs'
import { relay } from './relay.mjs'

const limit = Number(process.env.LIMIT ?? 60) * 1000
const wire = await relay(baseUrl)
const codex = await appServer({ url: wire.url, model })
const ready = () =>
  fetch(new URL('/readyz', baseUrl)).then(
    ({ ok }) => ok,
    () => undefined,
  )

async function expectCompleted(turn, within) {
  const { status, error } = await codex.ended(turn, within)
  expect(status === 'completed', 'a completed turn', { status, error, trouble: codex.trouble() })
}

async function idle() {
  await check('a turn before the restart', async () => expectCompleted(await codex.start('look around')))
  console.log('restart the server now')
  const asked = performance.now()
  const since = () => Math.round(performance.now() - asked)
  await check(
    'the idle socket is closed with 1012, and the server ends',
    async () => {
      const [socket] = wire.sockets()
      await until('the end of the socket', () => socket.close, limit)
      expect(socket.close.by === 'server' && socket.close.code === 1012, '1012 by the server', socket.close)
      await until('the end of the server', async () => !(await ready()), limit)
      const down = since()
      await until('the new server', ready, limit)
      return { down, up: since() }
    },
    limit,
  )
  await check('the next turn reconnects once, with a full resend, and goes on with deltas', async () => {
    const connections = wire.connections.length
    await expectCompleted(await codex.start('are you still there'))
    const added = wire.connections.slice(connections)
    const seen = added.map(({ request, status }) => [request, status])
    expect(added.length === 1 && added[0].status === 101, 'one socket', seen)
    const [full, ...deltas] = added[0].sent
    expect(full.previous_response_id === undefined, 'a full resend', full.previous_response_id)
    expect(full.input.filter(({ role }) => role === 'assistant').length === 1, 'the answer before', full.input.length)
    expect(deltas.length > 0 && deltas.every((frame) => frame.previous_response_id), 'deltas', deltas.length)
    return { items: full.input.length, deltas: deltas.length }
  })
  await check('Codex reported no trouble', () => expect(codex.trouble().length === 0, 'no trouble', codex.trouble()))
}

/** What the user adds while the model speaks makes the turn go on after the response that the restart finds running. */
async function busy() {
  const speaking = () => wire.sockets()[0]?.got.some(({ type }) => type === 'response.output_text.delta')
  const turn = await codex.start('tell me a long story')
  await until('the beginning of the story', speaking)
  await codex.steer(turn, 'and then look around')
  console.log('restart the server now')
  const [socket] = wire.sockets()
  let story
  await check(
    'the running response is spoken to its end, and only then the socket is closed with 1012',
    async () => {
      await until('the end of the socket', () => socket.close, limit)
      expect(socket.close.by === 'server' && socket.close.code === 1012, '1012 by the server', socket.close)
      const last = socket.got.at(-1)
      expect(last.type === 'response.completed', 'a completed response', last.type)
      story = last.response.output[0].content[0].text
      return { characters: story.length }
    },
    limit,
  )
  await check(
    'the turn goes on with the new server: nothing is lost, and nothing is done twice',
    async () => {
      await expectCompleted(turn, limit)
      const said = codex.items('agentMessage').map(({ text }) => text)
      expect(said.length === 2 && said[0] === story, 'the story and an answer', said)
      const commands = codex.items('commandExecution').map(({ command, exitCode }) => [command, exitCode])
      expect(commands.length === 1 && commands[0][1] === 0, 'one command', commands)
      return { trouble: codex.trouble(), connections: wire.connections.length }
    },
    limit,
  )
  await check('a later turn works', async () => expectCompleted(await codex.start('and once more')))
}

await (process.argv.includes('--busy') ? busy() : idle())
await codex.stop()
end()
