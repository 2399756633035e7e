// A turn that is interrupted while something is held back that may become a call: the ids that stay are those of its items.
import { expect, test } from 'vitest'
import { familyCodec } from '../../src/codecs/codec.ts'
import { qwen3 } from '../../src/codecs/hermes.ts'
import { textOf } from '../../src/protocol/items.ts'
import type { Call, Chunk } from '../../src/turn/ports.ts'
import { Halt } from '../../src/turn/run.ts'
import { bytesFor, fromScratch, settingsOf } from '../codecs/talks.ts'
import { run } from './ran.ts'

const codec = familyCodec(qwen3, bytesFor(qwen3))
const control = (name: string): number => codec.tokenizer.control(name) ?? -1

test.each([
  ['a call', [...Buffer.from('See'), control('<tool_call>'), ...Buffer.from('\n{"na')], 'See', 'See<|im_end|>\n'],
  ['nothing', [...Buffer.from('See')], 'See', 'See<|im_end|>\n'],
  ['reasoning', [control('<think>'), ...Buffer.from('\nHm')], undefined, '<think>\nHm\n</think>\n\n<|im_end|>\n'],
])('with the beginning of %s behind it', async (_, tokens, text, written) => {
  const stop = new AbortController()
  async function* says({ signal }: Call): AsyncIterable<Chunk> {
    yield { tokens }
    setTimeout(() => stop.abort(new Halt('interrupted')), 5)
    await new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))
  }
  const { outcome, kept, problems } = await run(says, { stop, codec })
  expect([outcome, problems]).toEqual(['interrupted', []])
  const item = kept?.items.at(-1)
  expect(item?.type === 'message' ? textOf(item.content) : undefined).toBe(text)
  const next = kept?.add({ response: 'r', from: 'input', items: [] })
  const prompt = next ? codec.tokenizer.decode(fromScratch(codec, next, settingsOf())) : ''
  expect(prompt.split('<|im_start|>assistant\n')[1]?.replace('<|im_start|>', '')).toBe(written)
})
