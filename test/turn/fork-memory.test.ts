// Forks that are short are copies, each with memory of its own: a budget that does not see it is none.
import { expect, test } from 'vitest'
import { familyCodec } from '../../src/codecs/codec.ts'
import { qwen3 } from '../../src/codecs/hermes.ts'
import type { Item } from '../../src/protocol/items.ts'
import { Chain } from '../../src/turn/chain.ts'
import { PrefixIndex } from '../../src/turn/prefix-index.ts'
import { settingsOf, smallBpe, speakInto, writtenIds } from '../codecs/talks.ts'

test('many answers to one question are counted with the tokens of each', () => {
  const codec = familyCodec(qwen3, smallBpe(qwen3))
  const settings = settingsOf()
  const index = new PrefixIndex({ keepBytes: 1e9, keepMs: 1e9 })
  const question: Item = { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'abc '.repeat(900) }] }
  const asked = Chain.root('o').add({ response: 'q', from: 'input', items: [question] })
  let real = 0
  for (let n = 0; n < 50; n++) {
    const answer: Item = {
      type: 'message',
      role: 'assistant',
      content: [{ type: 'output_text', text: `${n}`, annotations: [] }],
    }
    const said = speakInto(asked, codec, settings, writtenIds(codec, [answer], settings, asked))
    real += said.generated?.run?.bytes ?? 0
    index.add(said, false)
  }
  expect(real).toBeGreaterThan(500_000)
  expect(index.bytes).toBeGreaterThan(real)
  expect(index.bytes).toBeLessThan(real * 2)
  index.close()
})
