// The real Codex shortens its conversation, in both of its ways: a provider called OpenAI is asked for a sealed item, any
// other for a summary in plain text. node codex-compaction.mjs [BASE_URL], against a server as for codex-app.mjs.
import { appServer } from './app-server.mjs'
import { baseUrl, check, end, expect, model } from './report.mjs'
import { relay } from './relay.mjs'

const lite = !model.startsWith('gpt-5.5')
const types = ({ input }) => input.map(({ type, role }) => (role ? `${type} of ${role}` : type))

async function conversation(provider) {
  const wire = await relay(baseUrl)
  const codex = await appServer({ url: wire.url, model, provider })
  /** Runs one turn to its end; returns the frames and the events it took, whatever the socket. */
  async function run(start) {
    const before = wire.sockets().map(({ sent, got }) => ({ sent: sent.length, got: got.length }))
    const { status, error } = await codex.ended(await start())
    expect(status === 'completed', 'a completed turn', { status, error, trouble: codex.trouble() })
    const after = (key) => wire.sockets().flatMap((socket, n) => socket[key].slice(before[n]?.[key] ?? 0))
    const responses = after('got').flatMap(({ type, response }) => (type === 'response.completed' ? [response] : []))
    return { sent: after('sent'), responses }
  }
  return { wire, codex, run }
}

for (const provider of ['Continuo', 'OpenAI']) {
  const { wire, codex, run } = await conversation(provider)
  const sealed = provider === 'OpenAI'
  let made
  await check(`${provider}: a conversation before it`, async () => {
    await run(() => codex.start('first words'))
    const { sent } = await run(() => codex.start('second words'))
    expect(
      sent.every((frame) => frame.previous_response_id),
      'deltas',
      sent.map(types),
    )
  })
  await check(`${provider}: the compaction ends well`, async () => {
    const { sent, responses } = await run(() => codex.compact())
    expect(sent.length === 1 && responses.length === 1, 'one response', [sent.length, responses.length])
    made = responses[0]
    expect(codex.items('contextCompaction').length === 1, 'an item that says so', codex.items('contextCompaction'))
    if (!sealed) {
      expect(made.output.length === 1 && made.output[0].type === 'message', 'a summary', made.output)
      // Its request has no tools, so it goes on from the last response only where requests never have any.
      expect((sent[0].previous_response_id !== undefined) === lite, 'what is needed', types(sent[0]))
      return { items: sent[0].input.length }
    }
    expect(types(sent[0]).join() === 'compaction_trigger', 'a trigger alone', types(sent[0]))
    expect(sent[0].previous_response_id !== undefined, 'a delta', sent[0].previous_response_id)
    expect(made.output.map(({ type }) => type).join() === 'compaction', 'one item', made.output)
    expect(made.output[0].encrypted_content.length > 100, 'sealed content', made.output[0])
    return { sealed: made.output[0].encrypted_content.length }
  })
  await check(`${provider}: the thread goes on from what the compaction left`, async () => {
    const { sent } = await run(() => codex.start('third words'))
    const [full, ...deltas] = sent
    expect(full.previous_response_id === undefined, 'the shortened conversation in full', types(full))
    const words = JSON.stringify(full.input)
    expect(words.includes('third words'), 'what the user says now', types(full))
    const old = types(full).filter((type) => /assistant|call/.test(type))
    expect(old.length === 0, 'nothing of what the model did before', old)
    if (sealed) {
      const item = full.input.find(({ type }) => type === 'compaction')
      expect(item?.encrypted_content === made.output[0].encrypted_content, 'the sealed item as it was made', item)
    } else
      expect(words.includes(JSON.stringify(made.output[0].content[0].text).slice(1, -1)), 'the summary', types(full))
    expect(deltas.length > 0 && deltas.every((frame) => frame.previous_response_id), 'then deltas', deltas.map(types))
    const later = await run(() => codex.start('fourth words'))
    expect(
      later.sent.every((frame) => frame.previous_response_id),
      'deltas',
      later.sent.map(types),
    )
    return types(full)
  })
  await check(`${provider}: no trouble, no HTTP, at most one more socket`, () => {
    expect(codex.trouble().length === 0, 'no trouble', codex.trouble())
    const others = wire.connections.filter(({ status }) => status !== 101)
    expect(
      others.length === 0,
      'sockets only',
      others.map(({ request, status }) => [request, status]),
    )
    expect(wire.sockets().length <= 2, 'two sockets', wire.sockets().length)
    return { sockets: wire.sockets().length }
  })
  await codex.stop()
}
end()
