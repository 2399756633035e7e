// The golden conversations token for token, over the models' real tokenizers: a codec that encodes piece by piece gives the
// ids that the official library gives for the whole text of the template, control tokens in it recognised.
import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { familyCodec } from '../../src/codecs/codec.ts'
import { bpeTokenizer } from '../../src/tokenizers/bpe.ts'
import { ci, type Family as Fixture, installed, tokenizerJson } from '../tokenizers/fixtures.ts'
import { nativeEncoder } from '../tokenizers/native.ts'
import { rows } from './families.ts'
import { type Family, goldens } from './goldens.ts'
import { bytesFor, fromScratch, resent, settingsOf } from './talks.ts'

const fixtures: Partial<Record<Family, Fixture>> = {
  qwen3: 'qwen3',
  'llama3.1': 'llama3',
  'llama3.2': 'llama3',
  'llama3.3': 'llama3',
  'gpt-oss': 'gpt-oss',
  'deepseek-v3': 'deepseek-v3',
}
const real = rows.flatMap((row) => {
  const fixture = fixtures[row.golden]
  return fixture ? [{ ...row, fixture }] : []
})

describe.skipIf(!installed && !ci).each(real)('$golden', ({ golden, family, but, fixture }) => {
  test('encodes every turn of the golden conversations as the official tokenizer does', async () => {
    const json = tokenizerJson(fixture)
    const official = json && nativeEncoder(json, true)
    if (!official) throw new Error('run npm ci in test/tokenizers')
    const codec = familyCodec(family, bpeTokenizer(json))
    // Tokenizers that normalise do not give their text back: bytes do.
    const bytes = familyCodec(family, bytesFor(family))
    const { cases, today } = goldens(golden)
    let turns = 0
    for (const one of cases) {
      // What only looks like a control token is text for the codec and is not for the library.
      if (one.flags.lookalike || but(one)) continue
      const { instructions, tools, effort } = one.settings
      const settings = settingsOf({ instructions, tools, reasoning: { effort } })
      for (const { upto, sha256 } of one.turns) {
        const chain = resent(one.items.slice(0, upto), Date.parse(today))
        const ids = fromScratch(codec, chain, settings)
        const text = bytes.tokenizer.decode(fromScratch(bytes, chain, settings))
        expect(createHash('sha256').update(text).digest('hex')).toBe(sha256)
        expect(ids).toEqual(await official(text))
        turns++
      }
    }
    expect(turns).toBeGreaterThanOrEqual(1000)
  }, 120_000)
})
