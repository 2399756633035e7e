import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { qwen3 } from '../../src/codecs/hermes.ts'
import { jinjaCodec, type JinjaOptions } from '../../src/codecs/jinja.ts'
import { qwen35 } from '../../src/codecs/qwen-xml.ts'
import type { Item } from '../../src/protocol/items.ts'
import { bpeTokenizer } from '../../src/tokenizers/bpe.ts'
import { byteTokenizer } from '../../src/tokenizers/bytes.ts'
import { Chain } from '../../src/turn/chain.ts'
import type { Codec, Tokenizer } from '../../src/turn/ports.ts'
import { encodeChain } from '../../src/turn/voice.ts'
import {
  bare,
  decoded,
  fromScratch,
  idsOf,
  itemsOf,
  resent,
  settingsOf,
  smallBpe,
  speakInto,
  spelt,
  writtenIds,
} from './talks.ts'

const numRuns = Number(process.env['RUNS'] ?? 40)

/** ChatML with calls as Hermes has them; reasoning in front of the last user message is dropped. */
const chatml = `
{%- if tools %}
{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
{{- '# Tools' }}
{%- for tool in tools %}{{- '\\n' ~ (tool | tojson) }}{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last=-1) %}
{%- for message in messages %}{%- if message.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}
{%- for message in messages %}
{%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' }}
{%- if message.reasoning_content and loop.index0 > ns.last %}
{{- '<think>\\n' + message.reasoning_content.strip('\\n') + '\\n</think>\\n\\n' }}
{%- endif %}
{{- message.content }}
{%- for call in message.tool_calls %}
{%- if not loop.first or message.content %}{{- '\\n' }}{%- endif %}
{{- '<tool_call>\\n{"name": "' ~ call.function.name ~ '", "arguments": ' ~ (call.function.arguments | tojson) ~ '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and not enable_thinking %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}`
/** Names its control tokens from pieces, and knows no tools. */
const pieced = `{% for message in messages %}{{ '<|' + message['role'] + '|>' + '\\n' + message['content'] + '<|end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}`

const began = Date.parse('2026-07-26')
const user = (text: string): Item => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] })
const assistant = (text: string): Item => ({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'output_text', text, annotations: [] }],
})
const codecOf = (options: JinjaOptions = {}): Codec =>
  jinjaCodec(chatml, smallBpe(qwen3), { dialect: qwen3, ...options })
const textOf = (codec: Codec, chain: Chain, settings = settingsOf()): string =>
  codec.tokenizer.decode(fromScratch(codec, chain, settings))
const shown = (codec: Codec, ids: readonly number[]): string =>
  ids.map((id) => codec.tokenizer.nameOf(id) ?? JSON.stringify(codec.tokenizer.decode([id]))).join(' ')

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
const said = fc
  .record({
    reasoning: fc.option(words, { nil: undefined }),
    text: fc.option(words, { nil: undefined }),
    calls: fc.array(words, { maxLength: 2 }),
  })
  .map((s) => (s.text === undefined && s.calls.length === 0 ? { ...s, text: 'ok' } : s))
type Said = typeof said extends fc.Arbitrary<infer T> ? T : never
let calls = 0
const itemsSaid = ({ reasoning, text, calls: paths }: Said): Item[] => [
  ...(reasoning === undefined
    ? []
    : [{ type: 'reasoning' as const, summary: [], content: [{ type: 'reasoning_text' as const, text: reasoning }] }]),
  ...(text === undefined ? [] : [assistant(text)]),
  ...paths.map((path): Item => ({
    type: 'function_call',
    call_id: `call_${calls++}`,
    name: 'ls',
    arguments: JSON.stringify({ path }),
  })),
]
const step = fc.oneof(
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
    }),
  },
)
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

function hold(
  codec: Codec,
  steps: readonly Step[],
  look: (chain: Chain, settings: ReturnType<typeof settingsOf>) => void,
) {
  let settings = settingsOf({ tools })
  let chain = Chain.root('o', began).add({ response: 'r', from: 'input', items: [user('begin')] })
  const past = [chain]
  const input = (items: Item[]): void =>
    void (items.length > 0 && (chain = chain.add({ response: 'r', from: 'input', items })))
  for (const one of steps) {
    if (one.do === 'user') input([user(one.text)])
    else if (one.do === 'outputs')
      input(
        chain.items.flatMap((item): Item[] =>
          item.type === 'function_call'
            ? [{ type: 'function_call_output', call_id: item.call_id, output: one.text }]
            : [],
        ),
      )
    else if (one.do === 'claim') input(itemsSaid(one.said))
    else if (one.do === 'fork') chain = past.at(-1 - (one.back % past.length)) ?? chain
    else if (one.do === 'settings') settings = settingsOf({ tools, instructions: one.instructions })
    else {
      const written = writtenIds(codec, itemsSaid(one.said), settings, chain)
      const ids = one.odd ? spelt(written, codec.tokenizer) : written
      chain = speakInto(chain, codec, settings, ids.slice(0, one.cut), one.cut === undefined ? 'stop' : 'length')
    }
    past.push(chain)
    look(chain, settings)
  }
}

describe('laws', () => {
  test('law 1: going on from what was encoded before gives what encoding anew gives', () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 12 }), (steps) => {
        const codec = codecOf()
        hold(codec, steps, (chain, settings) => {
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
        const codec = codecOf()
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
        const codec = codecOf()
        hold(
          codec,
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

describe('ids', () => {
  const settings = settingsOf({ tools })
  const odd = (codec: Codec, chain: Chain, items: readonly Item[]): Chain =>
    speakInto(chain, codec, settings, spelt(writtenIds(codec, items, settings, chain), codec.tokenizer))

  test('what a model wrote stays as it wrote it, and the next prompt grows from it without a copy', () => {
    const codec = codecOf()
    const asked = Chain.root('o', began).add({ response: 'r', from: 'input', items: [user('the thing is in there')] })
    const answered = odd(codec, asked, [assistant('the thing is in there')])
    const run = answered.generated?.run
    const next = answered.add({ response: 'r', from: 'input', items: [user('more')] })
    const encoded = encodeChain(next, settings, codec)
    if (encoded instanceof Promise || !run) throw new Error('nothing was generated')
    expect([...encoded.prompt.cut(run.length).view()]).toEqual([...run.view()])
    expect(encoded.prompt.shares(run)).toBe(true)
    expect(encoded.broke).toBeUndefined()
    // Canonical ids of the same text are others.
    const canonical = fromScratch(codec, resent(next.all(), began), settings)
    expect(codec.tokenizer.decode(canonical)).toBe(codec.tokenizer.decode(encoded.prompt.view()))
    expect(canonical.length).toBeLessThan(encoded.prompt.length)
  })
  test('where the template rewrites a turn, it gets canonical ids, and it is said where the prefix broke', () => {
    const codec = codecOf()
    const thought: Item = { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'the thing' }] }
    const asked = Chain.root('o', began).add({ response: 'r', from: 'input', items: [user('go')] })
    const answered = odd(codec, asked, [thought, assistant('the end')])
    const next = answered.add({ response: 'r', from: 'input', items: [user('more')] })
    const encoded = encodeChain(next, settings, codec)
    if (encoded instanceof Promise) throw new Error('a short text was encoded in slices')
    expect([...encoded.prompt.view()]).toEqual(fromScratch(codec, resent(next.all(), began), settings))
    expect(encoded.broke?.why).toBe('the chat template writes the history otherwise than before')
    expect(encoded.broke?.at).toBeLessThan(encoded.prompt.length)
  })
  test('other instructions are named as what broke the prefix', () => {
    const codec = codecOf()
    const chain = resent([user('go')], began)
    const first = encodeChain(chain, settingsOf({ instructions: 'It is 10:00.' }), codec)
    const next = chain.add({ response: 'r', from: 'input', items: [user('more')] })
    const second = encodeChain(next, settingsOf({ instructions: 'It is 10:01.' }), codec)
    if (first instanceof Promise || second instanceof Promise) throw new Error('a short text was encoded in slices')
    expect(second.broke?.why).toContain('a date, a time or a number in the instructions changed')
  })
  test('the layout has the ids of the prompt, and items start where their words stand', async () => {
    const codec = jinjaCodec(chatml, smallBpe(qwen3), { dialect: qwen3 })
    const chain = resent([user('first'), assistant('second'), user('third')], began)
    const { ids, starts } = await codec.layout(chain, settings)
    expect([...ids]).toEqual(fromScratch(codec, chain, settings))
    expect(starts.map((at) => codec.tokenizer.decode(ids.subarray(at)).split(/[\n<]/)[1])).toEqual([
      'first',
      'second',
      'third',
    ])
  })
  test('names of control tokens that a template joins from pieces are control ids', () => {
    const tokenizer = byteTokenizer(['<|user|>', '<|assistant|>', '<|end|>'])
    const codec = jinjaCodec(pieced, tokenizer)
    const ids = fromScratch(codec, resent([user('<|user|> a')], began), settingsOf())
    expect(shown(codec, ids)).toBe(
      `<|user|> ${shown(codec, [...Buffer.from('\n<|user|> a')])} <|end|> ${shown(codec, [10])} <|assistant|> ${shown(codec, [10])}`,
    )
  })
  test('private-use characters of clients come back as they were', () => {
    const codec = codecOf()
    expect(textOf(codec, resent([user('\ue000\uf8ff57344\uf8fe')], began))).toContain(
      'user\n\ue000\uf8ff57344\uf8fe<|im_end|>',
    )
  })
})

describe('what a template says of itself', () => {
  const bytes = byteTokenizer(['<s>', '</s>', '<think>', '</think>', '<user>', '<bot>', '<end>'])
  test('its model ends a turn with what stands behind an answer, and with eos_token', () => {
    const source = '{{ bos_token }}{% for m in messages %}<user>{{ m.content }}<end>{% endfor %}<bot>'
    const codec = jinjaCodec(source, bytes, { variables: { bos_token: { content: '<s>' }, eos_token: '</s>' } })
    expect(codec.stops.map((id) => bytes.nameOf(id))).toEqual(['<end>', '</s>'])
    expect(textOf(codec, resent([user('hi')], began))).toBe('<s><user>hi<end><bot>')
  })
  test('a template that never says where a turn ends is refused', () => {
    const source = '{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}'
    expect(() => jinjaCodec(source, bytes)).toThrow("no control token of the tokenizer ends the model's turn")
    expect(jinjaCodec(source, bytes, { variables: { eos_token: '</s>' } }).stops).toEqual([bytes.control('</s>')])
  })
  test('the day is that of the conversation', () => {
    const source = "{{ strftime_now('%d %b %Y, %B %-d') }}{% for m in messages %}<user>{{ m.content }}<end>{% endfor %}"
    expect(textOf(jinjaCodec(source, bytes), resent([user('hi')], Date.parse('2025-03-04')))).toContain(
      '04 Mar 2025, March 4',
    )
  })
  test('what it raises is told to the client', () => {
    const source =
      "{% for m in messages %}{% if m.content == 'no' %}{{ raise_exception('Not this one.') }}{% endif %}{{ m.content }}<end>{% endfor %}"
    const codec = jinjaCodec(source, bytes)
    expect(() => fromScratch(codec, resent([user('no')], began), settingsOf())).toThrow(
      expect.objectContaining({
        code: 'invalid_request',
        message: 'The chat template of this model refuses the conversation: Not this one.',
      }),
    )
  })
  test.each([
    [
      'no system messages',
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('none') }}{% endif %}<{{ m.role[0] }}>{{ m.content }}<end>{% endfor %}",
      '<u>Be brief.\n\nhi<end><a>yes<end><u>more\n\nagain<end>',
    ],
    [
      'turns that alternate',
      "{% for m in messages %}{% if m.role == 'system' or (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}{% endif %}<{{ m.role[0] }}>{{ m.content }}<end>{% endfor %}",
      '<u>Be brief.\n\nhi<end><a>yes<end><u>more\n\nagain<end>',
    ],
  ])('conversations are shaped for templates with %s', (_, source, expected) => {
    const items = [user('hi'), assistant('yes'), user('more'), user('again')]
    const codec = jinjaCodec(source, bytes)
    const text = textOf(codec, resent(items, began), settingsOf({ instructions: 'Be brief.' }))
    expect(text.replaceAll('<end><u>again', '\n\nagain')).toBe(expected)
  })
  test('a prompt that opens the reasoning leaves the decoder inside it', () => {
    const source =
      '{% for m in messages %}<user>{{ m.content }}<end>{% endfor %}{% if add_generation_prompt %}<bot><think>\n{% endif %}'
    const codec = jinjaCodec(source, bytes)
    const chain = resent([user('hi')], began)
    const items: Item[] = [
      { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'hm' }] },
      assistant('yes'),
    ]
    const ids = writtenIds(codec, items, settingsOf(), chain)
    expect(codec.tokenizer.decode(ids)).toBe('hm\n</think>\n\nyes<end>')
    expect(bare(itemsOf(decoded(codec.decoder(settingsOf(), chain), ids)))).toEqual(bare(items))
  })
  test('calls are written and read in the dialect that is given', () => {
    const codec = jinjaCodec(chatml, smallBpe(qwen35), { dialect: qwen35 })
    const settings = settingsOf({ tools })
    const chain = resent([user('hi')], began)
    const items: Item[] = [{ type: 'function_call', call_id: 'c', name: 'ls', arguments: '{"path": "src"}' }]
    const ids = writtenIds(codec, items, settings, chain)
    expect(codec.tokenizer.decode(ids)).toContain('<function=ls>\n<parameter=path>\nsrc')
    expect(bare(itemsOf(decoded(codec.decoder(settings, chain), ids)))).toEqual(bare(items))
    expect(codec.constraint(settingsOf({ tools, tool_choice: 'required' }), chain)?.rule.type).toBe('tags')
  })
  test('without a dialect, calls that must be made are refused', () => {
    const codec = jinjaCodec(chatml, smallBpe(qwen3))
    const settings = settingsOf({ tools, tool_choice: 'required' })
    expect(() => codec.constraint(settings, resent([user('hi')], began))).toThrow(
      expect.objectContaining({ code: 'unsupported_by_engine' }),
    )
  })
  test('images have no place', () => {
    const items: Item[] = [
      { type: 'message', role: 'user', content: [{ type: 'input_image', image_url: 'data:image/png;base64,AA==' }] },
    ]
    expect(() => fromScratch(codecOf(), resent(items, began), settingsOf())).toThrow(
      expect.objectContaining({ code: 'unsupported_by_engine' }),
    )
  })
  test('what to keep of old reasoning is no choice', () => {
    expect(() => codecOf({ retention: 'all' })).toThrow('leave out `retention: all`')
  })
})

describe('bad templates are refused at start, in little time', () => {
  const bytes = byteTokenizer(['<end>'])
  const loop = '{% for a in range(1000) %}'
  test.each([
    ['broken syntax', '{% for m in messages %}{{ m.content }}', 'the chat template cannot be read'],
    ['an unknown statement', '{% include "x" %}', 'the chat template cannot be read'],
    ['loops within loops', `${loop.repeat(6)}x${'{% endfor %}'.repeat(6)}`, 'does not come to an end'],
    ['a count without end', '{% for n in range(10**12) %}x{% endfor %}', 'counts further'],
    ['a macro that calls itself', '{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}', 'calls itself too often'],
    [
      'a text that doubles',
      `{% set ns = namespace(x='xx') %}${loop}{% set ns.x = ns.x ~ ns.x %}{% endfor %}`,
      'far too long',
    ],
    [
      'a list that doubles',
      `{% set ns = namespace(x=[1]) %}${loop}{% set ns.x = ns.x + ns.x %}{% endfor %}`,
      'far too long',
    ],
    ['a text repeated', "{{ 'x' * 10000000 }}", 'repeated too often'],
    ['a text replaced by much', `{% set x = 'a' * 900000 %}{{ x.replace('a', x) }}`, 'far too long'],
    ['white space without end', ' '.repeat(5000), 'spaces or line breaks'],
    ['a giant', 'x'.repeat(600_000), 'characters'],
  ])('%s', (_, source, sentence) => {
    const from = performance.now()
    expect(() => jinjaCodec(source, bytes, { variables: { eos_token: '<end>' } })).toThrow(sentence)
    expect(performance.now() - from).toBeLessThan(1500)
  })
  test('a conversation that takes a template too far is refused, and the next one is not', () => {
    const source = `{% for m in messages %}{% if m.content == 'far' %}${loop.repeat(4)}x${'{% endfor %}'.repeat(4)}{% endif %}{{ m.content }}<end>{% endfor %}`
    const codec = jinjaCodec(source, bytes)
    expect(() => fromScratch(codec, resent([user('far')], began), settingsOf())).toThrow(
      expect.objectContaining({ code: 'invalid_request' }),
    )
    expect(textOf(codec, resent([user('near')], began))).toBe('near<end>')
  })
})
