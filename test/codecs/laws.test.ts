// The laws of every codec, over random conversations: calls in parallel, reasoning, turns that were cut, ids that no
// tokenizer would give, forks, other instructions, histories sent again.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { familyCodec } from '../../src/codecs/codec.ts'
import type { Family } from '../../src/codecs/family.ts'
import type { Item } from '../../src/protocol/items.ts'
import { Chain } from '../../src/turn/chain.ts'
import { encodeChain } from '../../src/turn/voice.ts'
import { rows } from './families.ts'
import {
  bare,
  bytesFor,
  decoded,
  fromScratch,
  idsOf,
  itemsOf,
  resent,
  settingsOf,
  smallBpe,
  spelt,
  writtenIds,
} from './talks.ts'
import { began, hold, itemsSaid, type Said, shown, type Step, user } from './steps.ts'

const numRuns = Number(process.env['RUNS'] ?? 80)

const text = fc.oneof(
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 }).map((s) => `a${s}b`),
  fc.constantFrom(
    'the thing is in there',
    'ä中文🙂',
    '{"a": 1}',
    'x\r\ny',
    'one\n\ntwo',
    ' lead and trail ',
    '\u{feff}bom',
    'nul\0',
  ),
)
const tools = [
  {
    type: 'function',
    name: 'ls',
    description: 'Lists.',
    parameters: {
      type: 'object',
      properties: {
        path: { type: 'string' },
        deep: { type: 'boolean' },
        n: { type: 'integer' },
        of: { type: 'object' },
      },
    },
    strict: false,
  },
  { type: 'custom', name: 'raw', description: 'Takes text.' },
]
const args = fc.record(
  {
    path: text,
    deep: fc.boolean(),
    n: fc.integer(),
    of: fc.dictionary(fc.constantFrom('k', 'l'), text, { maxKeys: 2 }),
  },
  { requiredKeys: [] },
)
const said: fc.Arbitrary<Said> = fc
  .record({
    reasoning: fc.option(text, { nil: undefined }),
    text: fc.option(text, { nil: undefined }),
    calls: fc.array(fc.oneof(args, text), { maxLength: 3 }),
  })
  .map((s) => (s.text === undefined && s.calls.length === 0 ? { ...s, text: 'ok' } : s))
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant('user' as const), text }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('outputs' as const), text }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('system' as const), text }) },
  {
    weight: 8,
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
      effort: fc.constantFrom(null, 'none', 'high'),
    }),
  },
)
describe.each(rows)('$golden', ({ family }) => {
  test('law 1: going on from what was encoded before gives what encoding anew gives', () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 12 }), (steps) => {
        const codec = familyCodec(family, smallBpe(family))
        hold(codec, tools, steps, (chain, settings) => {
          const went = idsOf(encodeChain(chain, settings, codec))
          expect(shown(codec, went)).toBe(shown(codec, fromScratch(codec, chain, settings)))
        })
      }),
      { numRuns },
    )
  })
  test('law 1: retention "all" appends and never rewrites what was sent under the same settings', () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 12 }), (steps) => {
        const codec = familyCodec(family, smallBpe(family), { retention: 'all' })
        hold(
          codec,
          tools,
          steps.filter((s) => s.do !== 'settings'),
          (chain, settings) => {
            const went = idsOf(encodeChain(chain, settings, codec))
            expect(shown(codec, went)).toBe(shown(codec, fromScratch(codec, chain, settings)))
            for (let link = chain.parent; link; link = link.parent)
              if (link.encoded) {
                const known = [...link.encoded.tokens.view()]
                expect(went.slice(0, known.length)).toEqual(known)
              }
          },
        )
      }),
      { numRuns },
    )
  })
  test('law 2: what a model writes for items is read as the same items, however it comes', () => {
    fc.assert(
      fc.property(
        said,
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 }),
        fc.boolean(),
        (some, sizes, odd) => {
          const codec = familyCodec(family, smallBpe(family))
          const settings = settingsOf({ tools })
          const chain = Chain.root('o', began).add({ response: 'r', from: 'input', items: [user('begin')] })
          const items = itemsSaid({ ...some, reasoning: reasons(family) ? some.reasoning : undefined })
          const written = writtenIds(codec, items, settings, chain)
          const ids = odd ? spelt(written, codec.tokenizer) : written
          const read = itemsOf(decoded(codec.decoder(settings, chain), ids, sizes))
          expect(bare(read)).toEqual(bare(items))
          expect(read.every((item) => 'status' in item && item.status === 'completed')).toBe(true)
        },
      ),
      { numRuns },
    )
  })
  test('law 3: ids cut into chunks anywhere, and text in place of ids, say the same', () => {
    fc.assert(
      fc.property(
        said,
        fc.option(fc.nat(60), { nil: undefined }),
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 }),
        (some, cut, sizes) => {
          const codec = familyCodec(family, bytesFor(family))
          const settings = settingsOf({ tools })
          const chain = Chain.root('o', began).add({ response: 'r', from: 'input', items: [user('begin')] })
          const ids = writtenIds(codec, itemsSaid(some), settings, chain).slice(0, cut)
          const whole = loose(itemsOf(decoded(codec.decoder(settings, chain), ids, [ids.length])))
          expect(loose(itemsOf(decoded(codec.decoder(settings, chain), ids, sizes)))).toEqual(whole)
          const decoder = codec.decoder(settings, chain)
          const all = codec.tokenizer.decode(ids)
          if (all.includes('\ufffd')) return
          const spoken = Array.from(all).flatMap((char) => [...decoder.push({ text: char })])
          expect(loose(itemsOf([...spoken, ...decoder.end('stop')]))).toEqual(whole)
        },
      ),
      { numRuns },
    )
  })
  test('law 6: links of a client and one link with all of it are the same prompt', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.oneof(
            fc.record({ do: fc.constant('user' as const), text }),
            fc.record({ do: fc.constant('claim' as const), said }),
            fc.record({ do: fc.constant('outputs' as const), text }),
          ),
          { minLength: 1, maxLength: 8 },
        ),
        (steps) => {
          const codec = familyCodec(family, smallBpe(family))
          hold(codec, tools, steps, (chain, settings) => {
            expect(shown(codec, idsOf(encodeChain(chain, settings, codec)))).toBe(
              shown(codec, fromScratch(codec, resent(chain.all(), began), settings)),
            )
          })
        },
      ),
      { numRuns },
    )
  })
  test('law 9: whatever clients write, wherever they write it, no control token comes of it', () => {
    const codec = familyCodec(family, smallBpe(family))
    const names = [...new Set([...family.needs, ...family.stops, ...family.markers])]
    const made = (evil: string): Chain => {
      const words = `see ${evil} here`
      const items: Item[] = [
        { type: 'message', role: 'developer', content: [{ type: 'input_text', text: words }] },
        user(words),
        { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: words }] },
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: words, annotations: [] }] },
        { type: 'function_call', call_id: `c${evil}`, name: evil, arguments: JSON.stringify({ path: words }) },
        { type: 'custom_tool_call', call_id: 'd', name: 'raw', input: words },
        { type: 'function_call_output', call_id: `c${evil}`, output: words },
        { type: 'custom_tool_call_output', call_id: 'd', output: [{ type: 'input_text', text: words }] },
        { type: 'message', role: 'system', content: [{ type: 'input_text', text: words }] },
      ]
      return resent(items, began)
    }
    const controls = (evil: string): string[] => {
      const settings = settingsOf({
        instructions: `say ${evil}`,
        tools: [
          ...tools,
          {
            type: 'function',
            name: 'f',
            description: evil,
            strict: false,
            parameters: { type: 'object', description: evil, properties: { [evil]: { type: 'string', enum: [evil] } } },
          },
        ],
      })
      return fromScratch(codec, made(evil), settings).flatMap((id) => codec.tokenizer.nameOf(id) ?? [])
    }
    const plain = controls('x')
    for (const name of names) expect(controls(name)).toEqual(plain)
  })
})

const reasons = (family: Family): boolean =>
  !/^(llama|hermes|qwen2|qwen3-coder|mistral|devstral|deepseek-v3$|kimi-k2($|-instruct))/.test(family.name)
/** Items whose arguments may be broken off. */
const loose = (items: readonly Item[]): object[] =>
  items.map(({ id: _, ...item }) => ('call_id' in item ? { ...item, call_id: '' } : item))
