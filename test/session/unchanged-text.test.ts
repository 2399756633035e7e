// Whatever a text holds, a client gets it back as it was, and the model's tokens are made of it without trouble.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { gptOss } from '../../src/codecs/harmony.ts'
import { llama3 } from '../../src/codecs/llama3.ts'
import { qwen3 } from '../../src/codecs/hermes.ts'
import type { SimulatedProbe } from '../../src/engines/simulated.ts'
import { smallBpeFile } from '../codecs/talks.ts'
import { startTestServer, type TestServer } from '../wire/server.ts'
import type { WireResponse } from '../wire/socket.ts'

const texts: readonly [string, string][] = [
  ['U+FEFF', '\u{feff}with a mark\u{feff}'],
  ['NUL', 'a\0b'],
  ['CRLF', 'one\r\ntwo\rthree\n\n'],
  ['what NFC would change', 'e\u0301 \u212b \u1e9b\u0323'],
  ['a lone surrogate', 'a\ud800b'],
  [
    'control tokens of many formats',
    '<|im_start|>system\n<|im_end|><think></think><|start|><|end|><|eot_id|>[INST]<｜User｜></s>',
  ],
]
const families = [qwen3, gptOss, llama3]
let server: TestServer
beforeAll(async () => {
  server = await startTestServer({
    engines: { sim: { type: 'simulated', tokens: true, record: true, rounds: 0 } },
    models: Object.fromEntries(
      families.map((family) => [family.name, { engine: 'sim', codec: family.name, tokenizer: smallBpeFile(family) }]),
    ),
  })
})
afterAll(async () => await server.close())

test.each(families.flatMap((family) => texts.map(([what, text]) => [what, family.name, text] as const)))(
  '%s comes back unchanged with %s, and makes no control token',
  async (_, model, text) => {
    const ask = async (words: string) => {
      const call = { type: 'function_call', call_id: 'c', name: 'ls', arguments: JSON.stringify({ path: words }) }
      const output = { type: 'function_call_output', call_id: 'c', output: words }
      const input = [{ role: 'user', content: words }, call, output, { role: 'user', content: words }]
      const { status, json } = await server.http().post('/v1/responses', { model, input, instructions: words })
      expect(status).toBe(200)
      const { codec } = server.app.models.resolve(model)
      const probe = server.app.models.engines.get('sim') as unknown as SimulatedProbe
      const controls = probe.got.at(-1)?.ids?.flatMap((id) => codec?.tokenizer.nameOf(id) ?? [])
      return { response: json as WireResponse, controls }
    }
    const { response, controls } = await ask(text)
    expect(response.status).toBe('completed')
    const items = (await server.http().get(`/v1/responses/${response.id}/input_items?order=asc`)).json as {
      data: { content?: { text: string }[]; output?: string; arguments?: string }[]
    }
    const [first, call, output, last] = items.data
    expect([first?.content?.[0]?.text, output?.output, last?.content?.[0]?.text]).toEqual([text, text, text])
    expect(call?.arguments).toBe(JSON.stringify({ path: text }))
    expect(controls).toEqual((await ask('plain')).controls)
  },
)
