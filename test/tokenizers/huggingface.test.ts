import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { huggingFaceTokenizer } from '../../src/tokenizers/huggingface.ts'
import { bpeTokenizer } from '../../src/tokenizers/bpe.ts'
import { corpus } from './corpus.ts'
import { smallJson } from './small.ts'

const runs = { numRuns: Number(process.env['RUNS'] ?? 40) }
const byteTokens = Array.from({ length: 256 }, (_, b) => `<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`)
const added = ['<unk>', '<s>', '</s>', '<start>', 'dog'].map((content, id) => ({ id, content, special: true }))
const words = [
  ...added.map(({ content }) => content),
  ...byteTokens,
  ...Array.from('▁abcdefghijklmnopqrstuvwxyz<>/'),
  'do',
  'th',
  'the',
  '▁the',
  '▁t',
  'he',
  '日',
]
const decoder = {
  type: 'Sequence',
  decoders: [
    { type: 'Replace', pattern: { String: '▁' }, content: ' ' },
    { type: 'ByteFallback' },
    { type: 'Fuse' },
    { type: 'Strip', content: ' ', start: 1, stop: 0 },
  ],
}
const sentencePiece = {
  added_tokens: added,
  normalizer: {
    type: 'Sequence',
    normalizers: [
      { type: 'Prepend', prepend: '▁' },
      { type: 'Replace', pattern: { String: ' ' }, content: '▁' },
    ],
  },
  pre_tokenizer: null,
  post_processor: null,
  decoder,
  model: {
    type: 'BPE',
    unk_token: '<unk>',
    fuse_unk: true,
    byte_fallback: true,
    vocab: Object.fromEntries(words.map((word, id) => [word, id])),
    merges: ['t h', 'th e', '▁ the', 'd o', 'do g', '▁ t', 'h e'],
  },
}
const unigram = {
  ...sentencePiece,
  normalizer: null,
  pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: false },
  decoder: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: false },
  model: { type: 'Unigram', unk_id: 0, byte_fallback: true, vocab: words.map((word) => [word, -word.length]) },
}
const wellFormed = (text: string): string => text.replaceAll(/\p{Surrogate}/gu, '\ufffd')

describe.each([
  ['SentencePiece BPE', sentencePiece],
  ['Unigram', unigram],
  ['byte-level BPE', smallJson(added.map(({ content }) => content))],
])('%s over the library', (name, json) => {
  const tokenizer = huggingFaceTokenizer(json)
  it('gives every text back as it was, and no control id', () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 60 }),
      fc
        .array(fc.constantFrom(...corpus().slice(1, 150), ...words, ' the dog'), { maxLength: 12 })
        .map((p) => p.join('')),
    )
    fc.assert(
      fc.property(text, (input) => {
        // A space that the text begins with cannot be told from the one that such a vocabulary puts in front.
        const whole = name === 'Unigram' ? wellFormed(input).replace(/^[ ▁]+/, '') : wellFormed(input)
        const ids = tokenizer.encode(whole)
        if (ids instanceof Promise) throw new Error('not at once')
        expect(Array.from(ids).filter((id) => tokenizer.nameOf(id) !== undefined)).toEqual([])
        const expected = name === 'byte-level BPE' ? whole : whole.replaceAll('▁', ' ')
        expect(tokenizer.decode(ids)).toBe(expected)
        const stream = tokenizer.stream()
        expect(Array.from(ids, (id) => stream.push(id)).join('') + stream.end()).toBe(expected)
      }),
      runs,
    )
  })
  it('knows its control tokens', () => {
    const id = tokenizer.control('<s>')
    expect(tokenizer.nameOf(id ?? -1)).toBe('<s>')
    expect(id).toBeLessThan(tokenizer.size)
  })
  it('answers in slices for a long text', async () => {
    const long = 'the dog and the file of the day\n'.repeat(3000)
    const ids = tokenizer.encode(long)
    expect(ids).toBeInstanceOf(Promise)
    expect(tokenizer.decode(await ids)).toBe(long)
  })
})

describe('the library', () => {
  it('merges as the file says', () => {
    expect(huggingFaceTokenizer(sentencePiece).encode('the')).toEqual([words.indexOf('▁the')])
  })
  it('gives the ids of our own encoder where both can', () => {
    const [ours, theirs] = [bpeTokenizer(smallJson()), huggingFaceTokenizer(smallJson())]
    for (const text of corpus()) expect(theirs.encode(text)).toEqual(ours.encode(text))
  })
  it('cuts a long text where nothing else becomes of it', async () => {
    const [ours, theirs] = [bpeTokenizer(smallJson()), huggingFaceTokenizer(smallJson())]
    const lines = [
      'if (name) {\n\t\treturn "the dog", 12345 ;;;;\n\n}  // déjà vu\n',
      '      name: value, dog: file }),\n',
      "日本語中文字符。's the",
    ]
    for (const line of lines)
      for (let shift = 0; shift < 12; shift++) {
        const long = 'x'.repeat(shift) + line.repeat(Math.ceil(10_000 / line.length))
        expect(Array.from(await theirs.encode(long))).toEqual(Array.from(await ours.encode(long)))
      }
  })
  it('is not asked where an unknown character could only be a control token', () => {
    const model = { ...unigram.model, byte_fallback: false }
    expect(() => huggingFaceTokenizer({ ...unigram, model })).toThrow('no tokens but a control token')
  })
  it.each([
    ['WordPiece', { ...sentencePiece, model: { type: 'WordPiece', vocab: {} } }, '"WordPiece"'],
    ['a decoder that is not known', { ...sentencePiece, decoder: { type: 'CTC' } }, '"CTC"'],
    ['no decoder', { ...sentencePiece, decoder: null }, 'decoder'],
    ['no model', {}, 'no model'],
  ])('is not asked for %s', (_, json, sentence) => {
    expect(() => huggingFaceTokenizer(json)).toThrow(sentence)
  })
})
