// What DeepSeek V3 and V3.1 write, and how both are told of tools.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { familyCodec } from '../../src/codecs/codec.ts'
import { deepseekV3, deepseekV31 } from '../../src/codecs/deepseek.ts'
import type { Item } from '../../src/protocol/items.ts'
import { ends, reader, short } from './spoken.ts'
import { bytesFor, fromScratch, resent, settingsOf, writtenIds } from './talks.ts'

const ls = {
  type: 'function',
  name: 'ls',
  description: 'Lists.',
  parameters: { type: 'object', properties: { path: { type: 'string' } } },
  strict: false,
}
const raw = { type: 'custom', name: 'raw', description: 'Takes text.' }
const v3 = reader(deepseekV3, [ls, raw])
const v31 = reader(deepseekV31, [ls, raw])
const eos = '<｜end▁of▁sentence｜>'
const plain = (name: string, json: string): string =>
  `<｜tool▁call▁begin｜>${name}<｜tool▁sep｜>${json}<｜tool▁call▁end｜>`
const fenced = (name: string, json: string): string => plain('function', `${name}\n\`\`\`json\n${json}\n\`\`\``)
const list = (...calls: string[]): string => `<｜tool▁calls▁begin｜>${calls.join('')}<｜tool▁calls▁end｜>`
const user = (text: string): Item => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] })
const output = (call_id: string, text: string): Item => ({ type: 'function_call_output', call_id, output: text })
const call = (call_id: string, path: string): Item => ({
  type: 'function_call',
  call_id,
  name: 'ls',
  arguments: `{"path": "${path}"}`,
})
const rendered = (family: typeof deepseekV3, items: Item[], more: object = {}): string => {
  const codec = familyCodec(family, bytesFor(family))
  return codec.tokenizer.decode(fromScratch(codec, resent(items, 0), settingsOf(more)))
}

describe.each([
  ['V3, with type and fence', v3, fenced],
  ['V3.1, with the name alone', v31, plain],
])('calls of %s', (_, model, write) => {
  const usual = `Looking.${list(write('ls', '{"path": "/"}'), write('ls', '{"path": "/a"}'))}${eos}`
  test('are read in parallel, behind text', () => {
    const read = model.ids(usual)
    expect(short(read.deltas)).toEqual(['text:Looking.', 'ls{"path": "/"}', 'ls{"path": "/a"}'])
    expect(read.stop).toBe(eos)
    expect(ends(read, model)).toEqual([
      'Looking.',
      `Looking.<｜tool▁calls▁begin｜>${write('ls', '{"path": "/"}')}`,
      usual.slice(0, usual.indexOf('<｜tool▁calls▁end｜>')),
    ])
  })
  test('are the same from engines that send text, in pieces of any size', () => {
    for (const size of [1, 2, 3, 7, 50, 1000]) {
      expect(short(model.text(usual, size).deltas)).toEqual(short(model.ids(usual).deltas))
      expect(ends(model.text(usual, size), model)).toEqual(ends(model.ids(usual), model))
    }
  })
  test('end broken off wherever the engine is cut, and ids of what is kept are a prefix', () => {
    const whole = short(model.ids(usual).deltas)
    for (let n = 0; n < usual.length; n++) {
      const cut = usual.slice(0, n)
      if (/<[^>]*$/.test(cut)) continue
      const read = model.ids(cut)
      expect(ends(read, model).every((text) => cut.startsWith(text))).toBe(true)
      const told = short(read.deltas)
      // A name that is cut is no call, and stays as text.
      for (const [at, item] of told.entries())
        if (!item.startsWith('text:')) expect(whole[at]?.startsWith(item.replace(/~$/, ''))).toBe(true)
    }
  })
  test('stream their arguments', () => {
    const at = usual.indexOf('"/"') + 2
    const told = (n: number): string => short(model.ids(usual.slice(0, n)).deltas).at(-1) ?? ''
    expect(told(at)).toBe('ls{"path": "/~')
    expect(told(at - 1)).toBe('ls{"path": "~')
  })
})

describe('calls of custom tools', () => {
  test('give the free text', () => {
    expect(short(v31.ids(list(plain('raw', '{"input": "a\\nb"}'))).deltas)).toEqual(['rawa\nb'])
  })
})

describe('odd calls', () => {
  const read = (text: string): string[] => short(v31.ids(text, 1, 'stop').deltas)
  test('of either form are read by both', () => {
    expect(short(v3.ids(list(plain('ls', '{}'))).deltas)).toEqual(['ls{}'])
    expect(read(list(fenced('ls', '{}')))).toEqual(['ls{}'])
    expect(read(list(plain('function', '{}')))).toEqual(['function{}'])
  })
  test('may lack what ends them, and may have no arguments', () => {
    expect(read(`<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>ls<｜tool▁sep｜>{"path": "/"}${eos}`)).toEqual([
      'ls{"path": "/"}',
    ])
    expect(
      read(
        `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>ls<｜tool▁sep｜>{"a": 1}<｜tool▁call▁begin｜>ls<｜tool▁sep｜>{"a": 2}${eos}`,
      ),
    ).toEqual(['ls{"a": 1}', 'ls{"a": 2}'])
    expect(read(list(plain('ls', '')) + eos)).toEqual(['ls{}'])
    expect(read(list(plain('function', 'ls')) + eos)).toEqual(['ls{}'])
  })
  test('that are none are text', () => {
    expect(read(`${list('<｜tool▁call▁begin｜>just words<｜tool▁call▁end｜>')}${eos}`)).toEqual(['text:just words'])
    expect(read(`${list(plain('ls', 'no JSON at all'))}${eos}`)).toEqual(['text:lsno JSON at all'])
  })
  test('with JSON that is not closed are broken off', () => {
    expect(read(`${list(plain('ls', '{"path": "/'))}${eos}`)).toEqual(['ls{"path": "/~'])
  })
  test('quoted in text are text', () => {
    const quoted = plain('ls', '{}').replaceAll(/<｜[^｜]*｜>/g, '‹$&›')
    expect(read(`Write ${quoted}.${eos}`)).toEqual([`text:Write ${plain('ls', '{}')}.`])
  })
})

describe('reasoning of V3.1', () => {
  test('is opened by the prompt where it is asked for and there are no tools', () => {
    const effort = { reasoning: { effort: 'high' } }
    expect(rendered(deepseekV31, [user('go')], effort)).toMatch(/<｜Assistant｜><think>$/)
    expect(rendered(deepseekV31, [user('go')])).toMatch(/<｜Assistant｜><think><\/think>$/)
    expect(rendered(deepseekV31, [user('go')], { ...effort, tools: [ls] })).toMatch(/<think><\/think>$/)
    const thinking = reader(deepseekV31, [], effort)
    expect(short(thinking.ids(`Hm.</think>Yes.${eos}`).deltas)).toEqual(['think:Hm.', 'text:Yes.'])
    expect(short(v31.ids(`<think>Hm.</think>Yes.${eos}`).deltas)).toEqual(['think:Hm.', 'text:Yes.'])
  })
  test('is not expected behind outputs, where nothing opens it', () => {
    const settings = settingsOf({ reasoning: { effort: 'high' } })
    const codec = familyCodec(deepseekV31, bytesFor(deepseekV31))
    const chain = resent([user('go'), call('c', '/'), output('c', 'a')], 0)
    expect(codec.tokenizer.decode(fromScratch(codec, chain, settings))).toMatch(/a<｜tool▁output▁end｜>$/)
    const said: Item[] = [
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Done.', annotations: [] }] },
    ]
    const decoder = codec.decoder(settings, chain)
    const deltas = [...decoder.push({ tokens: writtenIds(codec, said, settings, chain) })]
    expect(short(deltas)).toEqual(['text:Done.'])
  })
})

describe('tools', () => {
  test('stand in the system text, with the form in which the model calls', () => {
    const shown = rendered(deepseekV31, [user('go')], { tools: [ls], instructions: 'Be brief.' })
    expect(shown).toContain(
      'sentence｜>Be brief.\n\n## Tools\nYou have access to the following tools:\n\n### ls\nDescription: Lists.\n\nParameters: {"type": "object", "properties": {"path": {"type": "string"}}}\n\nIMPORTANT',
    )
    expect(shown).toContain(plain('tool_call_name', 'tool_call_arguments'))
    expect(rendered(deepseekV3, [user('go')], { tools: [ls] })).toContain(
      fenced('tool_call_name', 'tool_call_arguments'),
    )
  })
  test('of V3 have their outputs in one list, behind which the model goes on', () => {
    const shown = rendered(deepseekV3, [
      user('go'),
      call('c', '/'),
      call('d', '/a'),
      output('c', '1'),
      output('d', '2'),
    ])
    expect(shown.slice(shown.indexOf('<｜Assistant｜>'))).toBe(
      `<｜Assistant｜><｜tool▁calls▁begin｜>${fenced('ls', '{"path": "/"}')}\n${fenced('ls', '{"path": "/a"}')}<｜tool▁calls▁end｜>${eos}<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>1<｜tool▁output▁end｜>\n<｜tool▁output▁begin｜>2<｜tool▁output▁end｜><｜tool▁outputs▁end｜>`,
    )
  })
  test('that must be called are a constraint of whole lists', () => {
    const codec = familyCodec(deepseekV31, bytesFor(deepseekV31))
    const settings = settingsOf({ tools: [ls], tool_choice: 'required' })
    expect(codec.constraint(settings, resent([user('go')], 0))).toMatchObject({
      after: undefined,
      rule: {
        must: true,
        tags: [
          {
            begin: '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>ls<｜tool▁sep｜>',
            end: '<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
          },
        ],
      },
    })
  })
})

test('whatever a model writes, nothing throws, and it is read alike however it comes', () => {
  const pieces = fc.array(
    fc.constantFrom(
      ...deepseekV31.needs,
      'ls',
      'function',
      ' ',
      'some words',
      '\n```json\n',
      '\n```',
      '{',
      '{"path": "/"}',
      '}',
      '\n',
    ),
    { maxLength: 14 },
  )
  fc.assert(
    fc.property(
      pieces,
      fc.integer({ min: 1, max: 9 }),
      fc.constantFrom('stop' as const, 'length' as const),
      (all, size, finish) => {
        const output = all.join('')
        for (const model of [v3, v31]) {
          const whole = model.ids(output, 1000, finish)
          expect(short(model.ids(output, size, finish).deltas)).toEqual(short(whole.deltas))
          expect(short(model.text(output, size, finish).deltas)).toEqual(short(whole.deltas))
          expect(ends(whole, model).every((text) => output.startsWith(text))).toBe(true)
        }
      },
    ),
    { numRuns: Number(process.env['RUNS'] ?? 40) * 3 },
  )
})
