import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { bpeTokenizer } from '../../src/tokenizers/bpe.ts'
import { readBpe } from '../../src/tokenizers/bpe-file.ts'
import { Pieces } from '../../src/tokenizers/bpe-pieces.ts'
import { Splitter } from '../../src/tokenizers/bpe-split.ts'
import { byteTokenizer } from '../../src/tokenizers/bytes.ts'
import { atOnce } from '../../src/tokenizers/slices.ts'
import type { Tokenizer } from '../../src/turn/ports.ts'
import { corpus } from './corpus.ts'
import type { TokenizerJson } from './fixtures.ts'
import { pattern, smallJson } from './small.ts'

const runs = { numRuns: Number(process.env['RUNS'] ?? 40) }
const controls = ['<|im_start|>', '<|im_end|>', '<think>', '</think>', 'the', ' dog']
const small = bpeTokenizer(smallJson(controls))
const wellFormed = (text: string): string => text.replaceAll(/\p{Surrogate}/gu, '\ufffd')
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 200 }),
  fc.array(fc.constantFrom(...corpus().slice(1, 150)), { maxLength: 30 }).map((parts) => parts.join('')),
)
const now = (tokenizer: Tokenizer, input: string): readonly number[] => {
  const ids = tokenizer.encode(input)
  if (ids instanceof Promise) throw new Error('not at once')
  return Array.from(ids)
}
function streamed(tokenizer: Tokenizer, ids: ArrayLike<number>): string {
  const stream = tokenizer.stream()
  return Array.from(ids, (id) => stream.push(id)).join('') + stream.end()
}
/** The file with something else at one place. */
const changed = (change: Record<string, unknown>): TokenizerJson => ({ ...smallJson(), ...change })

describe.each([
  ['byte-level BPE', small],
  ['byte-level BPE that looks whole pieces up', bpeTokenizer(smallJson(controls, { ignoreMerges: true }))],
  ['bytes', byteTokenizer(controls)],
] as const)('%s', (_, tokenizer) => {
  it('gives every text back as it was', () => {
    fc.assert(
      fc.property(text, (input) => {
        const ids = now(tokenizer, input)
        expect(tokenizer.decode(ids)).toBe(wellFormed(input))
        expect(streamed(tokenizer, ids)).toBe(wellFormed(input))
      }),
      runs,
    )
  })
  it('gives no control id for a text, whatever it looks like', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.constantFrom(...controls), text), { maxLength: 8 }), (parts) => {
        for (const id of now(tokenizer, parts.join(''))) {
          expect(tokenizer.nameOf(id)).toBeUndefined()
          expect(id).toBeLessThan(tokenizer.size)
        }
      }),
      runs,
    )
  })
  it('knows its control tokens by name and by id', () => {
    for (const name of controls) {
      const id = tokenizer.control(name)
      expect(tokenizer.nameOf(id ?? -1)).toBe(name)
      expect(tokenizer.decode([id ?? -1])).toBe(name)
      expect(streamed(tokenizer, [id ?? -1])).toBe('')
    }
    expect(tokenizer.control('<|nothing|>')).toBeUndefined()
    expect(streamed(tokenizer, [tokenizer.size + 5])).toBe('')
  })
  it('keeps U+FEFF and NUL in a stream', () => {
    const ids = now(tokenizer, '\ufeffa\0\ufeff')
    expect(streamed(tokenizer, ids)).toBe('\ufeffa\0\ufeff')
  })
  it('says what was incomplete at the end as one U+FFFD', () => {
    const ids = now(byteTokenizer([]), '€')
    expect(streamed(byteTokenizer([]), ids.slice(0, 2))).toBe('\ufffd')
    expect(byteTokenizer([]).decode([...ids.slice(0, 2), 97])).toBe('\ufffda')
  })
})

describe('a byte-level BPE tokenizer', () => {
  it('merges by rank', () => {
    expect(now(small, 'quick').length).toBeLessThan(5)
    expect(now(bpeTokenizer(smallJson([], { merges: 0 })), 'quick')).toHaveLength(5)
  })
  it('leaves out the merges whose token the file has added', () => {
    const json = smallJson()
    const id = json.model.vocab['Ġthe'] ?? -1
    expect(now(bpeTokenizer(json), ' the')).toEqual([id])
    for (const ignore_merges of [true, false]) {
      const model = { ...json.model, ignore_merges }
      const added = bpeTokenizer({ ...json, model, added_tokens: [{ id, content: 'Ġthe', special: false }] })
      expect(now(added, ' the')).not.toContain(id)
      expect(added.decode(now(added, ' the'))).toBe(' the')
    }
  })
  it('normalises to form C where the file says so', () => {
    const nfc = bpeTokenizer(smallJson([], { nfc: true }))
    expect(nfc.decode(now(nfc, 'e\u0301'))).toBe('é')
    expect(small.decode(now(small, 'e\u0301'))).toBe('e\u0301')
  })
  it('has an id that names its vocabulary', () => {
    expect(bpeTokenizer(smallJson(controls)).id).toBe(small.id)
    expect(bpeTokenizer(smallJson(['<|im_start|>'])).id).not.toBe(small.id)
    expect(bpeTokenizer(smallJson(controls, { merges: 100 })).id).not.toBe(small.id)
  })
  it('gives the same ids however few pieces it remembers', () => {
    const forgetful = bpeTokenizer(smallJson(controls), { cacheSize: 4 })
    for (const input of corpus()) expect(now(forgetful, input)).toEqual(now(small, input))
  })

  it.each([pattern, `\\p{N}{1,3}|[^\\p{N}]+`, '\\s+'])(
    'gives in slices the ids it gives at once, split by %s',
    (one) => {
      const file = readBpe(smallJson([], { pattern: one }))
      const splitter = new Splitter(file.splits, new Pieces(file, 1000))
      const part = fc.tuple(fc.constantFrom(...corpus().slice(1, 200)), fc.integer({ min: 1, max: 3000 }))
      fc.assert(
        fc.property(fc.array(part, { minLength: 3, maxLength: 12 }), (parts) => {
          const input = wellFormed(parts.map(([piece, times]) => piece.repeat(times)).join('')).slice(0, 60_000)
          const out: number[] = []
          splitter.encode(wellFormed(input), out)
          expect(Array.from(atOnce(splitter.encodeLong(wellFormed(input))))).toEqual(out)
        }),
        { numRuns: Math.min(15, runs.numRuns) },
      )
    },
  )
  it('answers at once for a text, and later for one that would hold the loop', async () => {
    expect(small.encode('the quick fox\n'.repeat(1000))).not.toBeInstanceOf(Promise)
    const input = 'a'.repeat(1_000_000)
    const long = small.encode(input)
    expect(long).toBeInstanceOf(Promise)
    expect(small.decode(await long) === input).toBe(true)
  })

  const refused: readonly (readonly [string, Record<string, unknown>, string])[] = [
    ['no model', { model: undefined }, 'no model'],
    ['another model', { model: { type: 'Unigram' } }, '"Unigram"'],
    ['byte fallback', { model: { ...smallJson().model, byte_fallback: true } }, 'byte_fallback'],
    ['another normalizer', { normalizer: { type: 'Lowercase' } }, '"Lowercase"'],
    ['no byte level', { pre_tokenizer: { type: 'Whitespace' } }, 'ByteLevel'],
    ['a prefix space', { pre_tokenizer: { type: 'ByteLevel', add_prefix_space: true } }, 'add_prefix_space'],
    ['a vocabulary without a byte', { model: { type: 'BPE', vocab: { a: 0 }, merges: [] } }, 'the byte 0'],
    ['an added byte', { added_tokens: [{ id: smallJson().model.vocab['a'], content: 'a' }] }, 'an added token'],
    ['a merge of nothing', { model: { ...smallJson().model, merges: ['zz qq'] } }, '"zz qq"'],
    ['an id that is none', { model: { ...smallJson().model, vocab: { a: -1 } } }, '-1'],
  ]
  it.each(refused)('refuses a file with %s and says so', (_, change, words) => {
    expect(() => bpeTokenizer(changed(change))).toThrow(words)
  })
  it('refuses what is no object', () => {
    for (const json of [undefined, null, 1, 'x', []]) expect(() => bpeTokenizer(json)).toThrow('no model')
  })
  it('takes digits, punctuation and the pattern that is built in', () => {
    const steps = [
      { type: 'Digits', individual_digits: true },
      { type: 'Punctuation', behavior: 'Contiguous' },
      { type: 'ByteLevel', add_prefix_space: false },
    ]
    const tokenizer = bpeTokenizer(changed({ pre_tokenizer: { type: 'Sequence', pretokenizers: steps } }))
    for (const input of corpus()) expect(tokenizer.decode(now(tokenizer, input))).toBe(wellFormed(input))
  })
})
