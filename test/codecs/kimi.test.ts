// What Kimi K2 writes, and its ids: they come back as they were written, and other clients' ids become such.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { familyCodec } from '../../src/codecs/codec.ts'
import type { Family } from '../../src/codecs/family.ts'
import { kimiK2, kimiK2Instruct, kimiK2Thinking } from '../../src/codecs/kimi.ts'
import type { Item } from '../../src/protocol/items.ts'
import { Chain } from '../../src/turn/chain.ts'
import { encodeChain } from '../../src/turn/voice.ts'
import { ends, type Read, reader, short } from './spoken.ts'
import { bytesFor, fromScratch, idsOf, resent, settingsOf, speakInto, writtenIds } from './talks.ts'

const numRuns = Number(process.env['RUNS'] ?? 40) * 5
const ls = {
  type: 'function',
  name: 'ls',
  description: 'Lists.',
  parameters: { type: 'object', properties: { path: { type: 'string' } } },
  strict: false,
}
const tools = [ls, { ...ls, name: 'read_file' }, { type: 'custom', name: 'raw', description: 'Takes text.' }]
const settings = settingsOf({ tools })
const user = (text: string): Item => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] })
const said = (text: string): Item => ({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'output_text', text, annotations: [] }],
})
const thought = (text: string): Item => ({
  type: 'reasoning',
  summary: [],
  content: [{ type: 'reasoning_text', text }],
})
const made = (call_id: string, name = 'ls'): Item => ({ type: 'function_call', call_id, name, arguments: '{}' })
const output = (call_id: string, text = 'out'): Item => ({ type: 'function_call_output', call_id, output: text })
const call = (id: string, json: string): string =>
  `<|tool_call_begin|>${id}<|tool_call_argument_begin|>${json}<|tool_call_end|>`
const list = (...calls: string[]): string => `<|tool_calls_section_begin|>${calls.join('')}<|tool_calls_section_end|>`
const slash = call('functions.ls:0', '{"path": "/"}')

const think = reader(kimiK2Thinking, tools)
const instruct = reader(kimiK2Instruct, tools)
const read = (text: string): string[] => short(think.ids(text, 1, 'stop').deltas)
const callIds = ({ deltas }: Read): (string | undefined)[] =>
  deltas.flatMap((delta) => (delta.type === 'call' ? [delta.callId] : []))

describe('what Kimi K2 writes', () => {
  test('is reasoning, text and calls in parallel, as ids and as text, in pieces of any size', () => {
    const made = `Look:${list(slash, call('functions.raw:1', '{"input": "a\\n<b>"}'))}<|im_end|>`
    const items = ['text:Look:', 'ls{"path": "/"}', 'rawa\n<b>']
    for (const size of [1, 2, 5, 1000])
      for (const one of [think.ids(`<think>Hm.</think>${made}`, size), think.text(`<think>Hm.</think>${made}`, size)]) {
        expect(short(one.deltas)).toEqual(['think:Hm.', ...items])
        expect(callIds(one)).toEqual(['functions.ls:0', 'functions.raw:1'])
        expect(one.stop).toBe('<|im_end|>')
      }
    expect(short(instruct.ids(made).deltas)).toEqual(items)
  })
  test('streams arguments as they are written', () => {
    const { deltas } = think.ids(list(slash), 1)
    const args = deltas.flatMap((d) => (d.type === 'arguments' ? [d.text] : []))
    expect(args.length).toBeGreaterThan(8)
    expect(args.join('')).toBe('{"path": "/"}')
  })
  test('names its function also in ids that clients have rewritten, which are not passed on', () => {
    for (const [id, name, callId] of [
      ['functions.ls:12', 'ls', 'functions.ls:12'],
      [' functions.ls:3\n', 'ls', 'functions.ls:3'],
      ['ls:0', 'ls', 'ls:0'],
      ['functions.unheard:1', 'unheard', 'functions.unheard:1'],
      ['functions_ls_0', 'ls', undefined],
      ['functionsls5', 'ls', undefined],
      ['functions_read_file_3', 'read_file', undefined],
      ['read_file', 'read_file', undefined],
      ['functions.other', 'other', undefined],
    ] as const) {
      const one = think.ids(list(call(id, '{}')))
      expect(short(one.deltas)).toEqual([`${name}{}`])
      expect(callIds(one)).toEqual([callId])
    }
    // A bare number can only be the one tool that there is.
    expect(short(reader(kimiK2Instruct, [ls]).ids(list(call('3', '{}'))).deltas)).toEqual(['ls{}'])
  })
  test('gives an id to one call of a turn only', () => {
    expect(callIds(think.ids(list(slash, slash)))).toEqual(['functions.ls:0', undefined])
  })
  test('calls out of the middle of its reasoning', () => {
    expect(read(`<think>So I${list(slash)}<|im_end|>`)).toEqual(['think:So I', 'ls{"path": "/"}'])
  })
  test('is read where markers are missing', () => {
    const bare = slash.replace('<|tool_call_end|>', '')
    expect(read(`<|tool_calls_section_begin|>${bare}${slash}<|im_end|>`)).toEqual([
      'ls{"path": "/"}',
      'ls{"path": "/"}',
    ])
    expect(read(`<|tool_calls_section_begin|>${bare}<|tool_calls_section_end|>So.<|im_end|>`)).toEqual([
      'ls{"path": "/"}',
      'text:So.',
    ])
    expect(read(`${slash}<|im_end|>`)).toEqual(['ls{"path": "/"}'])
    expect(read(`${list(slash.replace('<|tool_call_argument_begin|>', ''))}<|im_end|>`)).toEqual(['ls{"path": "/"}'])
    expect(read(`<|tool_calls_section_begin|>${slash}So.<|im_end|>`)).toEqual(['ls{"path": "/"}', 'text:So.'])
  })
  test('is a call also with odd arguments, or none', () => {
    expect(read(`${list(call('functions.ls:0', ''))}<|im_end|>`)).toEqual(['ls{}'])
    expect(read(`${list('<|tool_call_begin|>functions.ls:0<|tool_call_end|>')}<|im_end|>`)).toEqual(['ls{}'])
    expect(read(`${list(call('functions.ls:0', '\n{"path": "/"} \n'))}<|im_end|>`)).toEqual(['ls{"path": "/"}'])
    expect(read(`${list(call('functions.ls:0', '{"path": "/'))}<|im_end|>`)).toEqual(['ls{"path": "/~'])
    expect(read(`${list('<|tool_call_begin|><|tool_call_end|>')}So.<|im_end|>`)).toEqual(['text:So.'])
  })
  test('quotes markers without meaning them', () => {
    const text = '‹<|tool_calls_section_begin|>› and ‹<|im_end|>›, <|tool_call_end|>'
    expect(read(`<think></think>So ${text}<|im_end|>`)).toEqual([`text:So ${text.replaceAll(/[‹›]/g, '')}`])
    expect(read(`${list(call('functions.ls:0', '{"path": "‹<|tool_call_end|>›"}'))}<|im_end|>`)).toEqual([
      'ls{"path": "<|tool_call_end|>"}',
    ])
  })
  test('cut anywhere keeps what was said, and the ids of exactly that', () => {
    const all = `<think>Hm.</think>Look:${list(slash, call('functions.raw:1', '{"input": "b"}'))}`
    const whole = think.ids(all)
    const items = short(whole.deltas)
    for (let cut = 0; cut <= whole.ids.length; cut++) {
      const some = think.spell(Array.from(whole.ids).slice(0, cut))
      for (const one of [think.ids(some), think.text(some)]) {
        for (const end of ends(one, think)) expect(some.startsWith(end)).toBe(true)
        const [last = '', ...front] = short(one.deltas).reverse()
        expect(items.slice(0, front.length)).toEqual(front.reverse())
        expect(items[front.length]?.startsWith(last.replace(/~$/, '')) ?? last === '').toBe(true)
      }
    }
  })
  test('says the same in pieces of any size and as text, whatever it is', () => {
    const part = fc.constantFrom(
      ...['<think>', '</think>', '<|tool_calls_section_begin|>', '<|tool_calls_section_end|>', '<|tool_call_begin|>'],
      ...[
        '<|tool_call_argument_begin|>',
        '<|tool_call_end|>',
        '<|im_user|>',
        'functions.ls:0',
        'functions.',
        'ls',
        '3',
      ],
      ...['{', '}', '{"path": "', '"}', '"', '\n', ' ', 'ä🙂', slash],
    )
    const joined = ({ deltas }: Read): object[] => {
      const out: { type: string; text?: string }[] = []
      for (const delta of deltas) {
        const last = out.at(-1)
        if ('text' in delta && last?.type === delta.type && last.text !== undefined) last.text += delta.text
        else out.push({ ...delta })
      }
      return out
    }
    fc.assert(
      fc.property(
        fc.array(part, { maxLength: 20 }),
        fc.nat(8),
        fc.constantFrom('stop' as const, 'length' as const),
        fc.constantFrom('', '<|im_end|>', '[EOS]'),
        (parts, size, finish, stop) => {
          const all = parts.join('') + stop
          const whole = think.ids(all, 10_000, finish)
          expect(joined(think.ids(all, size + 1, finish))).toEqual(joined(whole))
          expect(joined(think.text(all, size + 1, finish))).toEqual(joined(whole))
          for (const end of ends(whole, think)) expect(all.startsWith(end)).toBe(true)
        },
      ),
      { numRuns },
    )
  })
})

const begin = Chain.root('o', 0).add({ response: 'r', from: 'input', items: [user('hi')] })
const shown = (family: Family, chain: Chain): string => {
  const codec = familyCodec(family, bytesFor(family))
  const text = codec.tokenizer.decode(fromScratch(codec, chain, settings))
  const went = codec.tokenizer.decode(idsOf(encodeChain(chain, settings, codec)))
  expect(went).toBe(text)
  return text.slice(text.indexOf('<|im_user|>'))
}
const speak = (family: Family, chain: Chain, text: string, finish: 'stop' | 'length' = 'stop'): Chain => {
  const codec = familyCodec(family, bytesFor(family))
  return speakInto(
    chain,
    codec,
    settings,
    Array.from(reader(family, tools).ids(text).ids).concat(endOf(family, text)),
    finish,
  )
}
const endOf = (family: Family, text: string): number[] => {
  const { tokenizer } = familyCodec(family, bytesFor(family))
  return ['<|im_end|>', '[EOS]'].flatMap((name) => (text.endsWith(name) ? [tokenizer.control(name) ?? -1] : []))
}
const idsIn = (text: string): string[] =>
  [...text.matchAll(/<\|tool_call_begin\|>(.*?)<\||## Return of (.*?)(?:\n|\\n)/g)].map((m) => m[1] ?? `→ ${m[2]}`)

describe('the ids of Kimi K2', () => {
  test('come back as the model wrote them, to it and from clients that send everything again', () => {
    const first = speak(
      kimiK2Instruct,
      begin,
      `${list(call('functions.ls:7', '{}'), call('functions.ls:9', '{}'))}<|im_end|>`,
    )
    const ids = ['functions.ls:7', 'functions.ls:9', '→ functions.ls:9', '→ functions.ls:7']
    const chain = first.add({
      response: 'n',
      from: 'input',
      items: [output('functions.ls:9'), output('functions.ls:7')],
    })
    expect(idsIn(shown(kimiK2Instruct, chain))).toEqual(ids)
    expect(idsIn(shown(kimiK2Instruct, resent(chain.all(), 0)))).toEqual(ids)
  })
  test('are made of the ids of other clients, counted as the template counts', () => {
    const items = [
      ...[user('hi'), made('call_a'), made('call_b', 'read_file'), output('call_b'), output('call_a')],
      ...[made('call_c'), output('call_c'), user('on')],
    ]
    const chain = resent(items, 0)
    const [a, b] = ['functions.ls:0', 'functions.read_file:1']
    for (const family of [kimiK2Instruct, kimiK2Thinking])
      expect(idsIn(shown(family, chain))).toEqual([a, b, `→ ${b}`, `→ ${a}`, 'functions.ls:2', '→ functions.ls:2'])
    expect(idsIn(shown(kimiK2, chain))).toEqual([a, b, `→ ${b}`, `→ ${a}`, a, `→ ${a}`])
    expect(shown(kimiK2Instruct, chain)).toContain('<|im_system|>read_file<|im_middle|>## Return of')
    expect(shown(kimiK2, chain)).toContain('<|im_system|>tool<|im_middle|>## Return of')
  })
  test('are the same however the conversation came, also where an id is used again', () => {
    const turns = [
      [made('call_a'), made('call_b')],
      [output('call_a', 'one'), output('call_b', 'two')],
      [made('call_a'), made('functions.ls:9')],
      [output('functions.ls:9'), output('call_a', 'three')],
      [user('on')],
      [made('call_a')],
      [user('never mind')],
      [made('call_c'), output('call_c')],
    ]
    for (const family of [kimiK2, kimiK2Instruct, kimiK2Thinking]) {
      let chain = begin
      for (const items of turns) {
        chain = chain.add({ response: 'n', from: 'input', items })
        expect(shown(family, chain)).toBe(shown(family, resent(chain.all(), 0)))
      }
    }
    const chain = resent([user('hi'), ...turns.flat()], 0)
    const numbers = idsIn(shown(kimiK2Instruct, chain)).map((id) => id.replace('functions.ls:', ''))
    expect(numbers).toEqual(['0', '1', '→ 0', '→ 1', '2', '9', '→ 9', '→ 2', '4', '5', '→ 5'])
  })
  test('go on counting when a scripted model calls', () => {
    for (const [family, id] of [
      [kimiK2, 'functions.ls:0'],
      [kimiK2Instruct, 'functions.ls:2'],
    ] as const) {
      const codec = familyCodec(family, bytesFor(family))
      const chain = resent([user('hi'), made('a'), made('b'), output('a'), output('b')], 0)
      const written = (): string => codec.tokenizer.decode(writtenIds(codec, [made('c')], settings, chain))
      expect(idsIn(written())).toEqual([id])
      void encodeChain(chain, settings, codec)
      expect(idsIn(written())).toEqual([id])
    }
  })
  test('of a call that nobody knows are shown as they are', () => {
    expect(idsIn(shown(kimiK2Instruct, resent([user('hi'), output('call_x')], 0)))).toEqual(['→ call_x'])
  })
})

describe('the history of Kimi K2', () => {
  const next = (chain: Chain): Chain => chain.add({ response: 'n', from: 'input', items: [user('on')] })

  test('keeps reasoning while a tool loop runs, and drops it once it has led to an answer', () => {
    const loop = [user('hi'), thought('A'), made('call_a'), output('call_a')]
    const asked = shown(kimiK2Thinking, resent([...loop, user('faster')], 0))
    expect(asked).toContain('<think>A</think>')
    const answered = shown(kimiK2Thinking, resent([...loop, thought('B'), said('So.'), user('on')], 0))
    expect(answered).not.toContain('<think>A')
    expect(answered).toContain('<think></think>So.')
    expect(shown(kimiK2Instruct, resent([user('hi'), thought('A'), said('So.')], 0))).not.toContain('A')
  })
  test('closes a turn that broke off', () => {
    const end = '<|tool_calls_section_end|><|im_end|><|im_user|>user'
    const cut = (text: string): string => shown(kimiK2Instruct, next(speak(kimiK2Instruct, begin, text, 'length')))
    const open = `<|tool_calls_section_begin|>${slash}`
    expect(cut(open)).toContain(`${open}${end}`)
    expect(cut(`${open}${slash}`)).toContain(`${open}${slash}${end}`)
    expect(cut(open.slice(0, open.indexOf('/"}')))).toContain(`{"path": "<|tool_call_end|>${end}`)
    expect(cut('So')).toContain('<|im_middle|>So<|im_end|><|im_user|>user')
    expect(shown(kimiK2Instruct, next(speak(kimiK2Instruct, begin, `${list(slash)}[EOS]`)))).toContain(
      `${list(slash)}<|im_end|><|im_user|>`,
    )
  })
  test('introduces the model where nobody else does', () => {
    const codec = familyCodec(kimiK2, bytesFor(kimiK2))
    const head = (given: object): string => codec.tokenizer.decode(fromScratch(codec, begin, settingsOf(given)))
    expect(head({})).toMatch(
      /^<\|im_system\|>system<\|im_middle\|>You are a helpful assistant<\|im_end\|><\|im_user\|>/,
    )
    expect(head({ instructions: 'Be.', tools })).toMatch(
      /^<\|im_system\|>tool_declare<\|im_middle\|>\[.*\]<\|im_end\|><\|im_system\|>system<\|im_middle\|>Be\.<\|im_end\|>/,
    )
  })
})

test('Kimi K2 is held to calls under numbers of its own', () => {
  const codec = familyCodec(kimiK2Thinking, bytesFor(kimiK2Thinking))
  const strict = { ...ls, strict: true }
  const constraint = codec.constraint(settingsOf({ tools: [strict], tool_choice: 'required' }), begin)
  expect(constraint).toEqual({
    after: '</think>',
    rule: {
      type: 'tags',
      must: true,
      one: false,
      tags: [
        {
          begin: '<|tool_calls_section_begin|><|tool_call_begin|>functions.ls:',
          content: {
            type: 'sequence',
            parts: [
              { type: 'regex', definition: '[0-9]{1,6}', quoted: false },
              '<|tool_call_argument_begin|>',
              { type: 'json', schema: ls.parameters },
            ],
          },
          end: '<|tool_call_end|><|tool_calls_section_end|>',
        },
      ],
    },
  })
})
