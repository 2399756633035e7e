// Where a prompt leaves the one in front of it, the log says at which token, in which item and why; the words of clients are
// not in it.
import { afterEach, expect, test } from 'vitest'
import { qwen3 } from '../../src/codecs/hermes.ts'
import { smallBpeFile } from '../codecs/talks.ts'
import type { TestServer } from '../wire/server.ts'
import { startWith } from './started.ts'

let server: TestServer
afterEach(async () => await server.close())
const tool = (name: string) => ({
  type: 'function',
  name,
  parameters: { type: 'object', properties: {} },
  strict: false,
})
const tools = [tool('list_files'), tool('read_file')]
const start = async (retention?: string): Promise<void> => {
  server = await startWith({
    engines: { sim: { type: 'simulated', tokens: true, rounds: 2, reasoning: true } },
    models: {
      '*': { engine: 'sim', codec: 'qwen3', tokenizer: smallBpeFile(qwen3), ...(retention ? { retention } : {}) },
    },
  })
}
/** Two turns, the second with these changes; the fields of the lines that say where a prefix broke. */
async function broken(first: object, second: object): Promise<Record<string, unknown>[]> {
  const socket = await server.socket()
  const base = { model: 'm', store: false, instructions: 'It is 10:15. canary', tools }
  const one = await socket.turn({ ...base, input: 'hi canary', ...first })
  const id = one.response?.id
  const outputs = one.response?.output.flatMap((item) =>
    item.type === 'function_call' ? [{ type: 'function_call_output', call_id: item['call_id'], output: 'ok' }] : [],
  )
  const two = await socket.turn({ ...base, previous_response_id: id, input: outputs, ...second })
  expect(two.response?.status).toBe('completed')
  await socket.close()
  return server.log.flatMap((line) => {
    const fields = JSON.parse(line) as Record<string, unknown>
    expect(line).not.toContain('canary')
    return fields['msg'] === 'prefix broken' ? [fields] : []
  })
}

test('nothing is said while prompts only grow', async () => {
  await start()
  expect(await broken({}, {})).toEqual([])
  expect(server.app.counts().prefixBreaks).toBe(0)
})
test.each([
  [
    'a clock in the instructions',
    { instructions: 'It is 10:16. canary' },
    /a date, a time or a number in the instructions changed, at character \d+/,
  ],
  ['other instructions', { instructions: 'Be long.' }, /the instructions changed at character 0/],
  ['tools in another order', { tools: tools.toReversed() }, /the same in another order/],
  ['one more tool', { tools: [...tools, tool('rm')] }, /a tool was added as number 2/],
  [
    'another definition',
    { tools: [tool('list_files'), { ...tool('read_file'), description: 'x' }] },
    /the definition of tool number 1 changed/,
  ],
])('%s is named, with the token', async (_, second, why) => {
  await start()
  const lines = await broken({}, second)
  expect(lines).toHaveLength(1)
  expect(lines[0]).toMatchObject({ owner: expect.any(String), response: expect.stringMatching(/^resp_/) })
  expect(lines[0]?.['why']).toMatch(why)
  expect(lines[0]?.['token']).toBeGreaterThan(0)
  expect(server.app.counts().prefixBreaks).toBe(1)
})
test('reasoning that the format drops is named with its item, and retention all keeps it', async () => {
  const says = { input: [{ role: 'user', content: 'and now?' }] }
  await start()
  const [line] = await broken({ tools: [] }, { ...says, tools: [] })
  expect(line).toMatchObject({ why: 'a new user message drops the reasoning in front of it', item: 1 })
  await server.close()
  await start('all')
  expect(await broken({ tools: [] }, { ...says, tools: [] })).toEqual([])
})
