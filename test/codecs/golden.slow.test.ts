// Every turn of the golden conversations is rendered as the model's own template renders it: text for text, and token for
// token over a tokenizer of bytes that has the format's control tokens.
import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { familyCodec } from '../../src/codecs/codec.ts'
import { controlsOf } from '../../src/codecs/ink.ts'
import { rows } from './families.ts'
import { goldens } from './goldens.ts'
import { bytesFor, fromScratch, resent, settingsOf } from './talks.ts'

describe.each(rows)('$golden', ({ golden, family, but }) => {
  test('renders every turn of the golden conversations as the template does', () => {
    const { cases, today } = goldens(golden)
    const codec = familyCodec(family, bytesFor(family))
    const hash = (text: string): string => createHash('sha256').update(text).digest('hex')
    // What a tokenizer makes of the template's text: every control token's name in it is one.
    const controls = controlsOf(family)
    const tokenised = (text: string): number[] =>
      text
        .split(controls)
        .flatMap((part, n) => (n % 2 === 1 ? [codec.tokenizer.control(part) ?? -1] : [...Buffer.from(part)]))
    let turns = 0
    for (const one of cases) {
      if (but(one)) continue
      const { instructions, tools, effort } = one.settings
      const settings = settingsOf({ instructions, tools, reasoning: { effort } })
      for (const { upto, sha256 } of one.turns) {
        const chain = resent(one.items.slice(0, upto), Date.parse(today))
        const ids = fromScratch(codec, chain, settings)
        const text = codec.tokenizer.decode(ids)
        const tokens = tokenised(text)
        if (upto === one.turns.at(-1)?.upto) expect(text).toBe(one.text)
        expect(hash(text)).toBe(sha256)
        // There clients wrote what looks like one, and it is text.
        if (!one.flags.lookalike)
          expect(ids.every((id, at) => id === tokens[at]) && ids.length === tokens.length).toBe(true)
        turns++
      }
    }
    expect(turns).toBeGreaterThanOrEqual(1000)
  })
})
