// What Llama 3 writes: calls without markers, and everything that only looks like one.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { familyCodec } from '../../src/codecs/codec.ts'
import { controlsOf, encodeAll, Ink } from '../../src/codecs/ink.ts'
import { llama3 } from '../../src/codecs/llama3.ts'
import type { Item } from '../../src/protocol/items.ts'
import { Chain } from '../../src/turn/chain.ts'
import type { Decoder } from '../../src/turn/ports.ts'
import { bare, bytesFor, decoded, fromScratch, itemsOf, now, resent, settingsOf, speakInto } from './talks.ts'

const codec = familyCodec(llama3, bytesFor(llama3))
const began = Date.parse('2026-07-05')
const parameters = { type: 'object', properties: { path: { type: 'string' } } }
const tools = [
  { type: 'function', name: 'ls', parameters, strict: true },
  { type: 'function', name: 'lsof', parameters, strict: false },
]
const settings = settingsOf({ tools })
const user = (text: string): Item => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] })
const begin = Chain.root('o', began).add({ response: 'r', from: 'input', items: [user(' hi ')] })

/** Ids of a text in which markers stand by name. */
function ids(markup: string): number[] {
  const ink = new Ink(codec.tokenizer, controlsOf(llama3))
  ink.markup(markup)
  ink.flush()
  return now(encodeAll(ink.pieces, codec.tokenizer))
}
const decoder = (): Decoder => codec.decoder(settings, begin)
const read = (markup: string): object[] => bare(itemsOf(decoded(decoder(), ids(markup))))
const shown = (items: readonly Item[]): string =>
  codec.tokenizer.decode(fromScratch(codec, resent(items, began), settings))
const ls = (path: string): object => ({ name: 'ls', arguments: { path } })

describe('what Llama 3 writes', () => {
  test('is a call where it begins as one and names an offered tool', () => {
    const one = [ls('/')]
    expect(read('{"name": "ls", "parameters": {"path": "/"}}<|eot_id|>')).toEqual(one)
    expect(read('<|python_tag|>{"name": "ls", "parameters": {"path": "/"}}<|eom_id|>')).toEqual(one)
    expect(read('\n{ "name" : "ls" , "arguments" : {"path": "/"} }\n<|eot_id|>')).toEqual(one)
    expect(read('{"type": "function", "name": "ls", "parameters": {"path": "/"}}<|eot_id|>')).toEqual(one)
    expect(read('{"name": "ls", "parameters": {"path": "/"}, "type": "function"}<|eot_id|>')).toEqual(one)
    expect(read('{"name": "lsof", "parameters": {}}<|eot_id|>')).toEqual([{ name: 'lsof', arguments: {} }])
  })
  test('is a call also with odd parameters, or none', () => {
    expect(read('{"name": "ls"}<|eot_id|>')).toEqual([{ name: 'ls', arguments: {} }])
    expect(read('{"name": "ls", "parameters": null}<|eot_id|>')).toEqual([{ name: 'ls', arguments: {} }])
    expect(read('{"name": "ls", "parameters": "{\\"path\\": \\"/\\"}"}<|eot_id|>')).toEqual([ls('/')])
    expect(read('{"name": "ls", "id": 1, "parameters": {"path": "/"}}<|eot_id|>')).toEqual([ls('/')])
  })
  test('is several calls, whatever stands between them', () => {
    const two = [ls('a'), ls('b')]
    const [a, b] = ['{"name": "ls", "parameters": {"path": "a"}}', '{"name": "ls", "parameters": {"path": "b"}}']
    for (const between of ['; ', ';', '\n', '', ' ;\n']) expect(read(`${a}${between}${b}<|eot_id|>`)).toEqual(two)
    // A brace too few.
    expect(read(`${a.slice(0, -1)}; ${b}<|eot_id|>`)).toEqual(two)
    expect(read(`${a}<|python_tag|>${b}<|eom_id|>`)).toEqual(two)
  })
  test('is text behind a call, and a call behind text only where <|python_tag|> says so', () => {
    const made = '{"name": "ls", "parameters": {"path": "/"}}'
    expect(read(`${made}\nDone; really.<|eot_id|>`)).toEqual([ls('/'), { text: 'Done; really.' }])
    expect(read(`Sure: ${made}<|eot_id|>`)).toEqual([{ text: `Sure: ${made}` }])
    expect(read(`Sure: <|python_tag|>${made}<|eom_id|>`)).toEqual([{ text: 'Sure: ' }, ls('/')])
    expect(read('<|python_tag|>print(1)<|eom_id|>')).toEqual([{ text: 'print(1)' }])
  })
  test('is text where JSON is an answer', () => {
    for (const text of [
      '{"name": "Bob", "age": 3}',
      '{"name": "l", "parameters": {}}',
      '{"name": "l\\u0073", "parameters": {}}',
      '{"names": []}',
      '{"parameters": {}, "name": "ls"}',
      '{"name": 1}',
      '{"name": "ls", oops',
      '{"na me": "ls", "parameters": {}}',
      '[{"name": "ls", "parameters": {}}]',
      '{}',
      '{',
      '; {',
    ])
      expect(read(`${text}<|eot_id|>`)).toEqual([{ text }])
  })
  test('is heard as soon as it can be no call, and a call as soon as its arguments begin', () => {
    const heardAt = (text: string): number => {
      const one = decoder()
      return ids(text).findIndex((id) => one.push({ tokens: [id] }).length > 0)
    }
    expect(heardAt('Hello')).toBe(0)
    expect(heardAt('{"name": "lst')).toBe('{"name": "lst'.length - 1)
    expect(heardAt('{"age": 1}')).toBe('{"a'.length - 1)
    expect(heardAt('{"name": "ls", "parameters": {"path": 1}}')).toBe('{"name": "ls", "parameters": {'.length - 1)
  })
  test('quotes markers without meaning them', () => {
    const quoted = 'say <|eot_id|> and <|python_tag|>{"name": "ls"}'
    const all = [...now(encodeAll([quoted], codec.tokenizer)), ...ids('<|eot_id|>')]
    expect(bare(itemsOf(decoded(decoder(), all)))).toEqual([{ text: quoted }])
  })
  test('drops a header that it opens itself', () => {
    const header = '<|start_header_id|>assistant<|end_header_id|>\n\n'
    expect(read(`${header}{"name": "ls", "parameters": {"path": "/"}}<|eot_id|>`)).toEqual([ls('/')])
  })
  test('cut anywhere keeps what was said, and the ids of exactly that', () => {
    const all =
      'So.<|python_tag|>{"name": "ls", "parameters": {"path": "a"}}; {"name": "ls", "parameters": {"path": "b"}}'
    const head = shown([user('hi')]).length
    for (let cut = 1; cut <= ids(all).length; cut++) {
      const chain = speakInto(begin, codec, settings, ids(all).slice(0, cut), 'length')
      const text = codec.tokenizer.decode(
        fromScratch(codec, chain.add({ response: 'n', from: 'input', items: [user('on')] }), settings),
      )
      const model = text.slice(head).split('<|eot_id|><|start_header_id|>user')[0] ?? ''
      expect(all.startsWith(model)).toBe(true)
      const calls = chain.items.filter((item) => item.type === 'function_call')
      expect(calls).toHaveLength(model.split('"ls"').length - 1)
    }
  })
  test('says the same however it is cut into pieces', () => {
    const part = fc.constantFrom(
      '{"name": "ls"',
      ', "parameters": ',
      '{"path": "a"}',
      '}',
      '; ',
      '\n',
      'null',
      ' ',
      'x',
      '"',
    )
    fc.assert(
      fc.property(
        fc.array(part, { maxLength: 12 }),
        fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1 }),
        (parts, sizes) => {
          const all = ids(`${parts.join('')}<|eot_id|>`)
          const whole = itemsOf(decoded(decoder(), all, [all.length]))
          expect(itemsOf(decoded(decoder(), all, sizes))).toEqual(whole)
          const typed = decoder()
          const spoken = Array.from(parts.join('')).flatMap((text) => [...typed.push({ text })])
          expect(itemsOf([...spoken, ...typed.push({ text: '<|eot_id|>' }), ...typed.end('stop')])).toEqual(whole)
        },
      ),
      { numRuns: Number(process.env['RUNS'] ?? 40) * 5 },
    )
  })
})

describe('the history of Llama 3', () => {
  test('names the day on which the conversation began', () => {
    expect(shown([user('hi')])).toContain('\nToday Date: 05 Jul 2026\n')
  })
  test('shows the tools in the first user message, or in one of their own', () => {
    const offer = /<\|start_header_id\|>user<\|end_header_id\|>\n\nGiven the following functions/
    expect(shown([user('hi')])).toMatch(new RegExp(`${offer.source}.*\\n\\nhi<\\|eot_id\\|>`, 's'))
    const said: Item = {
      type: 'message',
      role: 'assistant',
      content: [{ type: 'output_text', text: 'Hello.', annotations: [] }],
    }
    expect(shown([said, user('hi')])).toMatch(
      new RegExp(`${offer.source}.*\\n\\n<\\|eot_id\\|>.*Hello.*\\n\\nhi<\\|eot_id\\|>`, 's'),
    )
    expect(shown([])).toMatch(
      new RegExp(`${offer.source}.*<\\|start_header_id\\|>assistant<\\|end_header_id\\|>\n\n$`, 's'),
    )
  })
  test('ends a turn as the model ended it', () => {
    for (const [stop, end] of [
      ['<|eom_id|>', '<|eom_id|>'],
      ['<|end_of_text|>', '<|eot_id|>'],
    ] as const) {
      const chain = speakInto(begin, codec, settings, ids(`So.${stop}`))
      const next = chain.add({ response: 'n', from: 'input', items: [user('on')] })
      expect(codec.tokenizer.decode(fromScratch(codec, next, settings))).toContain(`So.${end}<|start_header_id|>user`)
    }
  })
})

describe('what Llama 3 is held to', () => {
  test('is calls, or words that do not begin as one', () => {
    const made = codec.constraint(settings, begin)?.rule
    expect(made).toMatchObject({ type: 'tags', must: false, otherwise: { type: 'regex' } })
    const text = made?.type === 'tags' && made.otherwise?.type === 'regex' ? made.otherwise.definition : ''
    expect(new RegExp(`^(?:${text})$`).test('Hello\nthere {')).toBe(true)
    expect(new RegExp(`^(?:${text})$`).test('{"name": "ls"}')).toBe(false)
    expect(codec.constraint(settingsOf({ tools, tool_choice: 'required' }), begin)?.rule).toMatchObject({
      must: true,
      tags: [{ begin: '{"name": "ls", "parameters": ', end: '}' }, { begin: '{"name": "lsof", "parameters": ' }],
    })
  })
})
