// Pictures from a client's request to an SGLang server, and what engines that take none say.
import { afterEach, expect, test } from 'vitest'
import { qwen35 } from '../../src/codecs/qwen-xml.ts'
import { llamaServer } from '../../src/engines/llama-server.ts'
import { ollama } from '../../src/engines/ollama.ts'
import { vllm } from '../../src/engines/vllm.ts'
import type { Engine } from '../../src/turn/ports.ts'
import { smallBpe, smallBpeFile } from '../codecs/talks.ts'
import { startTestServer, type TestServer } from '../wire/server.ts'
import { embedded, llama } from './llama-embedded-turns.ts'
import { SglangModel } from './sglang-server.ts'
import { chainOf, settings } from './simulated-generations.ts'
import { TokenServer } from './token-server.ts'

let server: TestServer | undefined
let far: TokenServer | undefined
afterEach(async () => {
  await server?.close()
  await far?.close()
})
const png = (fill: number): string =>
  `data:image/png;base64,${Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), Buffer.alloc(64, fill)]).toString('base64')}`
const sees = (words: string, ...urls: string[]): object => ({
  type: 'message',
  role: 'user',
  content: [
    { type: 'input_text', text: words },
    ...urls.map((image_url) => ({ type: 'input_image', image_url, detail: 'auto' })),
  ],
})

test('a conversation with pictures is continued and sent again, each time with its pictures', async () => {
  const tokenizer = smallBpe(qwen35)
  const control = (name: string): number => tokenizer.control(name) ?? -1
  const model = new SglangModel()
  model.placeholder = control('<|image_pad|>')
  model.stop = control('<|im_end|>')
  model.say = () => [...Buffer.from('Hm.\n'), control('</think>'), ...Buffer.from('\n\nA cat.'), model.stop]
  // Its own tokenizer is another, and is not asked.
  far = await TokenServer.start((asked) =>
    asked.path === '/tokenize' ? { status: 404, json: { detail: 'Not Found' } } : model.answer(asked),
  )
  server = await startTestServer({
    engines: { sg: { type: 'sglang', url: far.url } },
    models: { '*': { engine: 'sg', codec: 'qwen3.5', tokenizer: smallBpeFile(qwen35) } },
  })
  const ask = async (body: object): Promise<{ id: string; output: object[]; status: string }> =>
    (await server?.http().post('/v1/responses', { model: 'm', ...body }))?.json as never
  const last = (): { ids: number[]; images: unknown } => {
    const { body } = far?.last('/generate') ?? {}
    return { ids: body?.['input_ids'] as number[], images: body?.['image_data'] }
  }
  const places = (): number => last().ids.filter((id) => id === model.placeholder).length

  const one = await ask({ input: [sees('look', png(1))] })
  expect(one.status).toBe('completed')
  expect([places(), last().images]).toEqual([1, [png(1)]])
  const two = await ask({ previous_response_id: one.id, input: [sees('and these', png(2), png(1))] })
  expect(two.status).toBe('completed')
  expect([places(), last().images]).toEqual([3, [png(1), png(2), png(1)]])
  const { ids } = last()
  const all = [sees('look', png(1)), ...one.output, sees('and these', png(2), png(1))]
  await ask({ input: all })
  expect(last()).toEqual({ ids, images: [png(1), png(2), png(1)] })
  await ask({ input: [sees('no picture')] })
  expect([places(), last().images]).toEqual([0, undefined])
})

const engines: readonly Engine[] = [
  vllm({ url: 'http://127.0.0.1:9' }, 'e'),
  llamaServer({ url: 'http://127.0.0.1:9' }, 'e'),
  ollama({ url: 'http://127.0.0.1:9', model: 'm' }, 'e'),
]
async function takesNone(engine: Engine): Promise<void> {
  const chain = chainOf([sees('look', png(1)) as never])
  expect(() => engine.admit(settings(), chain)).toThrow(/cannot do 'input_image'.*engine of type chat/)
  expect(() => engine.admit(settings(), chainOf([sees('look') as never]))).not.toThrow()
  await engine.close()
}
test.each(engines.map((engine) => [engine.constructor.name, engine] as const))(
  '%s takes none, and names what does',
  async (_, engine) => await takesNone(engine),
)
llama('LlamaEmbedded takes none, and names what does', async () => await takesNone(embedded()))
