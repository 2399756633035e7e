// Every turn of the golden conversations is rendered as the model's own template renders it, text for text.
import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { familyCodec } from '../../src/codecs/codec.ts'
import { rows } from './families.ts'
import { goldens } from './goldens.ts'
import { bytesFor, fromScratch, resent, settingsOf } from './talks.ts'

describe.each(rows)('$golden', ({ golden, family, but }) => {
  test('renders every turn of the golden conversations as the template does', () => {
    const { cases, today } = goldens(golden)
    const codec = familyCodec(family, bytesFor(family))
    const hash = (text: string): string => createHash('sha256').update(text).digest('hex')
    let turns = 0
    for (const one of cases) {
      if (but(one)) continue
      const { instructions, tools, effort } = one.settings
      const settings = settingsOf({ instructions, tools, reasoning: { effort } })
      for (const { upto, sha256 } of one.turns) {
        const chain = resent(one.items.slice(0, upto), Date.parse(today))
        const text = codec.tokenizer.decode(fromScratch(codec, chain, settings))
        if (upto === one.turns.at(-1)?.upto) expect(text).toBe(one.text)
        expect(hash(text)).toBe(sha256)
        turns++
      }
    }
    expect(turns).toBeGreaterThanOrEqual(1000)
  })
})
