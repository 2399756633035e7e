import { describe, expect, test } from 'vitest'
import { qwen3 } from '../../src/codecs/hermes.ts'
import { jinjaCodec, type JinjaOptions } from '../../src/codecs/jinja.ts'
import { qwen35 } from '../../src/codecs/qwen-xml.ts'
import type { Item } from '../../src/protocol/items.ts'
import { byteTokenizer } from '../../src/tokenizers/bytes.ts'
import { Chain } from '../../src/turn/chain.ts'
import type { Codec } from '../../src/turn/ports.ts'
import { encodeChain } from '../../src/turn/voice.ts'
import { chatml, pieced } from './jinja-sources.ts'
import {
  bare,
  decoded,
  fromScratch,
  itemsOf,
  resent,
  settingsOf,
  smallBpe,
  speakInto,
  spelt,
  writtenIds,
} from './talks.ts'

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
    const from = process.cpuUsage().user
    expect(() => jinjaCodec(source, bytes, { variables: { eos_token: '<end>' } })).toThrow(sentence)
    expect(process.cpuUsage().user - from).toBeLessThan(1_500_000)
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
