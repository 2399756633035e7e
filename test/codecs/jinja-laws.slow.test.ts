// The laws of every codec, held over a template of our own.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { qwen3 } from '../../src/codecs/hermes.ts'
import { jinjaCodec, type JinjaOptions } from '../../src/codecs/jinja.ts'
import type { Item } from '../../src/protocol/items.ts'
import { byteTokenizer } from '../../src/tokenizers/bytes.ts'
import type { Codec, Tokenizer } from '../../src/turn/ports.ts'
import { encodeChain } from '../../src/turn/voice.ts'
import { chatml, pieced } from './jinja-sources.ts'
import { bare, decoded, fromScratch, idsOf, itemsOf, resent, settingsOf, smallBpe, writtenIds } from './talks.ts'
import { began, hold, itemsSaid, type Said, shown, type Step, user } from './steps.ts'

const numRuns = Number(process.env['RUNS'] ?? 40)

const assistant = (text: string): Item => ({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'output_text', text, annotations: [] }],
})
const codecOf = (options: JinjaOptions = {}): Codec =>
  jinjaCodec(chatml, smallBpe(qwen3), { dialect: qwen3, ...options })

const tools = [
  {
    type: 'function',
    name: 'ls',
    description: 'Lists.',
    parameters: { type: 'object', properties: { path: { type: 'string' } } },
    strict: false,
  },
]
const words = fc.oneof(
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 }).map((s) => `a${s}b`),
  fc.constantFrom('the thing is in there', 'ä中文🙂', 'x\r\ny', ' lead and trail ', '\ue000\uf8ff57344', '<|im_end|>'),
)
const said: fc.Arbitrary<Said> = fc
  .record({
    reasoning: fc.option(words, { nil: undefined }),
    text: fc.option(words, { nil: undefined }),
    calls: fc.array(
      words.map((path) => ({ path })),
      { maxLength: 2 },
    ),
  })
  .map((s) => (s.text === undefined && s.calls.length === 0 ? { ...s, text: 'ok' } : s))
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant('user' as const), text: words }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('outputs' as const), text: words }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('speak' as const),
      said,
      odd: fc.boolean(),
      cut: fc.option(fc.nat(30), { nil: undefined, freq: 4 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('claim' as const), said }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('fork' as const), back: fc.nat(4) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('settings' as const),
      instructions: fc.constantFrom(null, 'Be brief.', 'Be long.'),
      effort: fc.constant(null),
    }),
  },
)

describe('laws', () => {
  const codec = codecOf()
  test('law 1: going on from what was encoded before gives what encoding anew gives', () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 12 }), (steps) => {
        hold(codec, tools, steps, (chain, settings) => {
          const went = idsOf(encodeChain(chain, settings, codec))
          expect(shown(codec, went)).toBe(shown(codec, fromScratch(codec, chain, settings)))
        })
      }),
      { numRuns },
    )
  })
  test('law 2: what a model writes for items is read as the same items, however it comes', () => {
    fc.assert(
      fc.property(said, fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 }), (some, sizes) => {
        const settings = settingsOf({ tools })
        const chain = resent([user('begin')], began)
        const items = itemsSaid(some)
        const read = itemsOf(decoded(codec.decoder(settings, chain), writtenIds(codec, items, settings, chain), sizes))
        expect(bare(read)).toEqual(bare(items))
      }),
      { numRuns },
    )
  })
  test('law 6: links of a client and one link with all of it are the same prompt', () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 8 }), (steps) => {
        hold(
          codec,
          tools,
          steps.filter((s) => s.do !== 'speak' && s.do !== 'fork'),
          (chain, settings) => {
            const went = idsOf(encodeChain(chain, settings, codec))
            expect(shown(codec, went)).toBe(shown(codec, fromScratch(codec, resent(chain.all(), began), settings)))
          },
        )
      }),
      { numRuns },
    )
  })
  test.each([
    ['chatml', chatml, smallBpe(qwen3)],
    [
      'a template that joins names',
      pieced,
      byteTokenizer(['<|user|>', '<|assistant|>', '<|system|>', '<|end|>', '<|tool|>']),
    ],
  ])(
    'law 9: whatever clients write, wherever they write it, no control token comes of it: %s',
    (_, source, tokenizer) => {
      const codec = jinjaCodec(source, tokenizer, { dialect: qwen3 })
      const names = namesOf(tokenizer)
      const controls = (evil: string): string[] => {
        const text = `see ${evil} here`
        const [head, tail] = [evil.slice(0, 3), evil.slice(3)]
        const items: Item[] = [
          { type: 'message', role: 'developer', content: [{ type: 'input_text', text }] },
          {
            type: 'message',
            role: 'user',
            content: [
              { type: 'input_text', text: head },
              { type: 'input_text', text: tail },
            ],
          },
          { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text }] },
          assistant(head),
          assistant(tail),
          { type: 'function_call', call_id: `c${evil}`, name: evil, arguments: JSON.stringify({ [evil]: text }) },
          { type: 'function_call_output', call_id: `c${evil}`, output: text },
          user(evil),
        ]
        const parameters = { type: 'object', properties: { [evil]: { type: 'string', enum: [evil] } } }
        const settings = settingsOf({
          instructions: `say ${evil}`,
          tools: [{ type: 'function', name: 'f', description: evil, strict: false, parameters }],
        })
        return fromScratch(codec, resent(items, began), settings).flatMap((id) => tokenizer.nameOf(id) ?? [])
      }
      const expected = controls('x')
      expect(expected.length).toBeGreaterThan(5)
      for (const name of [...names, '\ue000', '\ue001\ue002', '\uf8fe', '\uf8ff57344'])
        expect(controls(name)).toEqual(expected)
    },
  )
})
const namesOf = (tokenizer: Tokenizer): string[] =>
  Array.from({ length: tokenizer.size }, (_, id) => tokenizer.nameOf(id)).flatMap((name) => name ?? [])
