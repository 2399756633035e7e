// What GLM 4.6 and 4.7 write: tagged values of every type, calls that are cut or malformed, turns that end with the next one.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { familyCodec } from '../../src/codecs/codec.ts'
import { glm46, glm47 } from '../../src/codecs/glm.ts'
import type { Item } from '../../src/protocol/items.ts'
import { Chain } from '../../src/turn/chain.ts'
import type { Delta } from '../../src/turn/ports.ts'
import { ends, type Read, reader, short } from './spoken.ts'
import { bytesFor, fromScratch, resent, settingsOf, speakInto, writtenIds } from './talks.ts'

const numRuns = Number(process.env['RUNS'] ?? 40) * 3
const ls = {
  type: 'function',
  name: 'ls',
  description: 'Lists.',
  parameters: {
    type: 'object',
    properties: {
      path: { type: 'string' },
      n: { type: 'integer' },
      deep: { type: 'boolean' },
      of: { type: 'object' },
      maybe: { anyOf: [{ type: 'string' }, { type: 'null' }] },
    },
  },
  strict: false,
}
const now = { type: 'function', name: 'now', parameters: { type: 'object', properties: {} }, strict: true }
const raw = { type: 'custom', name: 'raw', description: 'Takes text.' }
const tools = [ls, now, raw]
const user = (text: string): Item => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] })

type Pair = readonly [string, string]
const styles = [
  {
    name: 'GLM 4.6',
    family: glm46,
    read: reader(glm46, tools),
    line: '\n',
    think: (t: string) => `\n<think>${t}</think>`,
  },
  { name: 'GLM 4.7', family: glm47, read: reader(glm47, tools), line: '', think: (t: string) => `${t}</think>` },
]
const callIn =
  (line: string) =>
  (name: string, ...pairs: readonly Pair[]): string =>
    `${line}<tool_call>${name}${line}${pairs.map(([key, value]) => `<arg_key>${key}</arg_key>${line}<arg_value>${value}</arg_value>${line}`).join('')}</tool_call>`

describe.each(styles)('what $name writes', ({ read, line, think }) => {
  const call = callIn(line)
  const said = (output: string): string[] => short(read.ids(output, 1, 'stop').deltas)

  test('is reasoning, text and calls in parallel, as ids and as text, in pieces of any size', () => {
    const output = `${think('Hm.')}${line}Look:${call('ls', ['path', '/'])}${call('ls', ['path', 'a "b"\nä'])}<|observation|>`
    const items = ['think:Hm.', 'text:Look:', 'ls{"path":"/"}', 'ls{"path":"a \\"b\\"\\nä"}']
    for (const size of [1, 2, 3, 7, 1000]) {
      const ids = read.ids(output, size)
      expect(short(ids.deltas)).toEqual(items)
      expect(ids.stop).toBe('<|observation|>')
      expect(read.spell(ids.ids)).toBe(output.replace('<|observation|>', ''))
      expect(short(read.text(output, size).deltas)).toEqual(items)
    }
  })
  test('is JSON by the types of the schema', () => {
    const one = (key: string, value: string): string[] => said(`${call('ls', [key, value])}<|observation|>`)
    expect(one('path', '42')).toEqual(['ls{"path":"42"}'])
    expect(one('path', '')).toEqual(['ls{"path":""}'])
    expect(one('path', ' \n a\n')).toEqual(['ls{"path":" \\n a\\n"}'])
    expect(one('n', '42')).toEqual(['ls{"n":42}'])
    expect(one('n', 'many')).toEqual(['ls{"n":"many"}'])
    expect(one('deep', 'True')).toEqual(['ls{"deep":true}'])
    expect(one('of', '{"a": [1, 2.0]}')).toEqual(['ls{"of":{"a": [1, 2.0]}}'])
    expect(one('maybe', 'null')).toEqual(['ls{"maybe":null}'])
    expect(one('maybe', 'nullify')).toEqual(['ls{"maybe":"nullify"}'])
    expect(one('other', '[1]')).toEqual(['ls{"other":[1]}'])
    expect(said(`${call('ls', ['path', '/'], ['n', '1'], ['deep', 'false'])}<|observation|>`)).toEqual([
      'ls{"path":"/","n":1,"deep":false}',
    ])
    expect(said(`${call('unheard_of', ['a', '1'])}<|observation|>`)).toEqual(['unheard_of{"a":1}'])
  })
  test('is the free text of a custom tool', () => {
    expect(said(`${call('raw', ['input', '{"a":\n<b>'])}<|observation|>`)).toEqual(['raw{"a":\n<b>'])
  })
  test('may be a call without arguments', () => {
    expect(said(`${call('now')}<|observation|>`)).toEqual(['now{}'])
    expect(said('<tool_call>now</tool_call><|observation|>')).toEqual(['now{}'])
    expect(said('<tool_call>\nnow\n</tool_call><|observation|>')).toEqual(['now{}'])
  })
  test('goes on as it is written', () => {
    const { deltas } = read.ids(call('ls', ['path', 'abc'], ['n', '12']))
    const args = deltas.flatMap((d: Delta) => (d.type === 'arguments' ? [d.text] : []))
    expect(args).toEqual(['{"path":', '"a', 'b', 'c', '"', ',"n":', '12', '}'])
  })
  test('is read where closing tags are missing', () => {
    const [a, b] = [call('ls', ['path', 'a']), call('ls', ['path', 'b'])]
    const open = a.replace('</tool_call>', '')
    expect(said(`${open}${b}<|observation|>`)).toEqual(['ls{"path":"a"}', 'ls{"path":"b"}'])
    expect(said(`${open}<|observation|>`)).toEqual(['ls{"path":"a"}'])
    expect(said(`${a.replace('</arg_value>', '')}<|observation|>`)).toEqual([
      `ls{"path":"a${line === '' ? '' : '\\n'}"}`,
    ])
    expect(said(`${a.replace('</arg_key>', '')}<|observation|>`)).toEqual(['ls{"path":"a"}'])
    expect(said('<tool_call>now<|observation|>')).toEqual(['now{}'])
    expect(said('<tool_call>ls<arg_key>path<|observation|>')).toEqual(['ls~'])
    expect(said('<tool_call>ls<arg_key>path</arg_key><|observation|>')).toEqual(['ls~'])
  })
  test('quotes tags without meaning them', () => {
    expect(said(`${think('')}Write ‹<tool_call>›ls, then <arg_key> or /nothink.<|user|>`)).toEqual([
      'text:Write <tool_call>ls, then <arg_key> or /nothink.',
    ])
    const value = 'x‹</arg_value>›y</arg_value>z<arg_key>k</arg_key>\n<arg_value></tool_call> or <tool_call>'
    expect(said(`${call('ls', ['path', value], ['n', '1'])}<|observation|>`)).toEqual([
      `ls${JSON.stringify({ path: value.replaceAll(/[‹›]/g, ''), n: 1 })}`,
    ])
  })
  test('may be JSON in the place of tags', () => {
    expect(said('<tool_call>{"name": "ls", "arguments": {"path": "/"}}</tool_call><|observation|>')).toEqual([
      'ls{"path": "/"}',
    ])
    expect(said('<tool_call>ls\n{"path": "/"}\n</tool_call><|observation|>')).toEqual(['ls{"path": "/"}'])
    expect(said('<tool_call>ls{"path": "/"}</tool_call><|observation|>')).toEqual(['ls{"path": "/"}'])
  })
  test('is text where nothing is called', () => {
    expect(said(`${think('')}The <tool_call> tag and \`<tool_call>\`…</tool_call><|user|>`)).toEqual([
      'text:The <tool_call> tag and `<tool_call>`…</tool_call>',
    ])
  })
  test('cut anywhere keeps what was said, and the ids of exactly that', () => {
    const output = `${think('Hm.')}${line}Look:${call('ls', ['path', 'ab'], ['n', '12'])}${call('now')}`
    const whole = read.ids(output)
    for (let cut = 0; cut <= whole.ids.length; cut++) {
      const some = read.spell(Array.from(whole.ids).slice(0, cut))
      for (const one of [read.ids(some), read.text(some)]) {
        for (const end of ends(one, read)) expect(some.startsWith(end)).toBe(true)
        // What was cut is the beginning of what would have been said.
        const [last = '', ...front] = short(one.deltas).reverse()
        const all = short(whole.deltas)
        expect(all.slice(0, front.length)).toEqual(front.reverse())
        expect(all[front.length]?.startsWith(last.replace(/\n?~$/, '')) ?? last === '').toBe(true)
      }
    }
  })
  test('says the same in pieces of any size and as text, whatever it is', () => {
    const part = fc.constantFrom(
      ...[
        '<think>',
        '</think>',
        '<tool_call>',
        '</tool_call>',
        '<arg_key>',
        '</arg_key>',
        '<arg_value>',
        '</arg_value>',
      ],
      ...[
        'ls',
        'now',
        'raw',
        'path',
        'n',
        '\n',
        ' ',
        '1',
        'true',
        '{"a": 1}',
        '{"name": "ls", "arguments": {',
        '}',
        '"',
      ],
      ...['ä🙂', '/nothink', '<tool_response>', '[gMASK]'],
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
        fc.constantFrom('', '<|user|>', '<|endoftext|>'),
        (parts, size, finish, stop) => {
          const all = parts.join('') + stop
          const whole = read.ids(all, 10_000, finish)
          expect(joined(read.ids(all, size + 1, finish))).toEqual(joined(whole))
          expect(joined(read.text(all, size + 1, finish))).toEqual(joined(whole))
          for (const end of ends(whole, read)) expect(all.startsWith(end)).toBe(true)
        },
      ),
      { numRuns },
    )
  })
})

describe.each(styles)('the history of $name', ({ family, line, think }) => {
  const codec = familyCodec(family, bytesFor(family))
  const settings = settingsOf({ tools })
  const off = settingsOf({ tools, reasoning: { effort: 'none' } })
  const begin = Chain.root('o', 0).add({ response: 'r', from: 'input', items: [user('hi')] })
  const shown = (chain: Chain, given = settings): string => {
    const text = codec.tokenizer.decode(fromScratch(codec, chain, given))
    return text.slice(text.indexOf('<|user|>'))
  }
  const ids = (items: readonly Item[]): number[] => writtenIds(codec, items, settings, begin)

  test('has the token that ended a turn once, whichever it was', () => {
    const made: Item = { type: 'function_call', call_id: 'c', name: 'ls', arguments: '{"path": "/"}' }
    const output: Item = { type: 'function_call_output', call_id: 'c', output: 'out' }
    const hi = `<|user|>${line}hi<|assistant|>${line === '' ? '<think>' : ''}`
    const called = `${think('')}${callIn(line)('ls', ['path', '/'])}`
    const answered = `<|observation|>${line}<tool_response>${line}out${line}</tool_response><|assistant|>`
    const spoken = ids([made])
    expect(codec.tokenizer.decode(spoken)).toBe(`${called}<|observation|>`)
    const observation = codec.tokenizer.control('<|observation|>') ?? -1
    const chain = speakInto(begin, codec, settings, spoken)
    const id = chain.items.find((item) => item.type === 'function_call')?.call_id ?? ''
    const next = chain.add({ response: 'n', from: 'input', items: [{ ...output, call_id: id } as Item] })
    expect(shown(next).startsWith(`${hi}${called}${answered}`)).toBe(true)
    // Cut, ended by another token, or answered by the user all the same.
    const eot = codec.tokenizer.control('<|endoftext|>') ?? -1
    for (const end of [[], [eot], [observation]]) {
      const other = speakInto(
        begin,
        codec,
        settings,
        [...spoken.slice(0, -1), ...end],
        end.length === 0 ? 'length' : 'stop',
      )
      expect(shown(other.add({ response: 'n', from: 'input', items: [user('on')] }))).toContain(
        `${hi}${called}<|user|>${line}on<|assistant|>`,
      )
    }
  })
  test('drops reasoning when the user speaks again', () => {
    const thought: Item = { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'Hm.' }] }
    const text: Item = {
      type: 'message',
      role: 'assistant',
      content: [{ type: 'output_text', text: 'Ok', annotations: [] }],
    }
    const chain = speakInto(begin, codec, settings, ids([thought, text]))
    const next = chain.add({ response: 'n', from: 'input', items: [user('on')] })
    const empty = line === '' ? '</think>' : '\n<think></think>\n'
    expect(shown(next)).toContain(`<|assistant|>${empty}Ok<|user|>`)
  })
  test('says that no reasoning is wanted, with a token of its own where it has one', () => {
    const word = line === '' ? '' : '/nothink'
    const empty = line === '' ? '</think>' : '\n<think></think>'
    expect(shown(begin, off)).toBe(`<|user|>${line}hi${word}<|assistant|>${empty}`)
    // The switch is not doubled, and is a token also where a client wrote it.
    const chain = resent([user('hi/nothink')], 0)
    expect(shown(chain, off)).toBe(`<|user|>${line}hi/nothink<|assistant|>${empty}`)
    const control = codec.tokenizer.control('/nothink')
    expect(control !== undefined && fromScratch(codec, chain, off).includes(control)).toBe(line !== '')
    expect(control !== undefined && fromScratch(codec, chain, settings).includes(control)).toBe(false)
  })
  test('keeps arguments that are no object as they are', () => {
    const made: Item = { type: 'function_call', call_id: 'c', name: 'ls', arguments: '{"path": "/' }
    expect(shown(resent([user('hi'), made], 0))).toContain(`<tool_call>ls${line}{"path": "/${line}</tool_call>`)
  })
})

test.each(styles)('$name is held to tagged values', ({ family, line }) => {
  const codec = familyCodec(family, bytesFor(family))
  const grammar = { type: 'grammar', syntax: 'regex', definition: 'a+' }
  const settings = settingsOf({ tools: [now, { ...raw, format: grammar }], tool_choice: 'required' })
  const begin = resent([user('hi')], 0)
  expect(codec.constraint(settings, begin)).toEqual({
    after: '</think>',
    rule: {
      type: 'tags',
      must: true,
      one: false,
      tags: [
        {
          begin: '<tool_call>now',
          content: { type: 'xml', style: 'glm', schema: now.parameters },
          end: '</tool_call>',
        },
        {
          begin: '<tool_call>raw',
          content: {
            type: 'sequence',
            parts: [
              `${line}<arg_key>input</arg_key>${line}<arg_value>`,
              { type: 'regex', definition: 'a+', quoted: false },
              `</arg_value>${line}`,
            ],
          },
          end: '</tool_call>',
        },
      ],
    },
  })
})
