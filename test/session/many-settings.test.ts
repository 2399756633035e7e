// Turns that go on from one place under different settings do not end up in each other's prompts, nor in false alarms.
import { afterEach, expect, test } from 'vitest'
import type { FamilyCodec } from '../../src/codecs/codec.ts'
import { qwen3 } from '../../src/codecs/hermes.ts'
import type { SimulatedProbe } from '../../src/engines/simulated.ts'
import { smallBpeFile } from '../codecs/talks.ts'
import { eventually, startTestServer, type TestServer } from '../wire/server.ts'
import type { WireResponse } from '../wire/socket.ts'
import { readTool } from './started.ts'

let server: TestServer
// Fails where the shadow check has found something.
afterEach(async () => await server.close())

async function start(
  options: object = {},
): Promise<{ post: (body: object) => Promise<WireResponse>; sent: () => string }> {
  server = await startTestServer({
    engines: { sim: { type: 'simulated', tokens: true, record: true, ...options } },
    models: { '*': { engine: 'sim', codec: 'qwen3', tokenizer: smallBpeFile(qwen3) } },
  })
  const codec = server.app.models.resolve('m').codec as FamilyCodec
  const probe = server.app.models.engines.get('sim') as unknown as SimulatedProbe
  return {
    post: async (body) => (await server.http().post('/v1/responses', { model: 'm', ...body })).json as WireResponse,
    sent: () => codec.tokenizer.decode(probe.got.at(-1)?.ids ?? []),
  }
}
const user = (content: string) => ({ role: 'user', content })
const checked = async (turns: number): Promise<void> =>
  await eventually(() => expect(server.app.counts().shadowChecks).toBeGreaterThanOrEqual(turns))

test('an answer goes on under the instructions of its request, whatever the same question was asked under since', async () => {
  const { post, sent } = await start()
  const first = await post({ instructions: 'Say A.', input: [user('go')] })
  await post({ instructions: 'Say B.', input: [user('go')] })
  await post({ instructions: 'Say B.', previous_response_id: first.id, input: [user('on')] })
  expect(sent()).toMatch(/^<\|im_start\|>system\nSay B\.<\|im_end\|>/)
  await post({ instructions: 'Say A.', previous_response_id: first.id, input: [user('on')] })
  expect(sent()).toMatch(/^<\|im_start\|>system\nSay A\.<\|im_end\|>/)
  await checked(4)
})
test('two turns that go on from one place at once, under different instructions', async () => {
  const { post } = await start({ tokensPerSecond: 300 })
  await post({ input: [user('go')] })
  const both = ['Say A.', 'Say B.'].map((instructions) => post({ instructions, input: [user('go')] }))
  for (const { status } of await Promise.all(both)) expect(status).toBe('completed')
  await checked(2)
})
test('calls that were made before are no mismatch for a request that wants none', async () => {
  const { post } = await start()
  const tools = [readTool]
  const first = await post({ tools, input: [user('go')] })
  const call = (first.output as unknown as { type: string; call_id: string }[]).find((i) => i.type === 'function_call')
  expect(call).toBeDefined()
  const input = [{ type: 'function_call_output', call_id: call?.call_id, output: 'x' }]
  await post({ tools, tool_choice: 'none', previous_response_id: first.id, input })
  await checked(2)
})
test('tools that a conversation brings along differ where their schemas do', async () => {
  const { post, sent } = await start()
  const brings = (description: string) => ({
    type: 'additional_tools',
    role: 'developer',
    tools: [{ ...readTool, name: 'look', parameters: { type: 'object', properties: { id: { description } } } }],
  })
  await post({ input: [brings('first'), user('go')] })
  await post({ input: [brings('second'), user('go')] })
  expect(sent()).toContain('second')
  expect(sent()).not.toContain('first')
})
