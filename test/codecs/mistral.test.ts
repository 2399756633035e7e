// What Mistral's models write, in three generations of calls, and the ids that they want.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { familyCodec } from '../../src/codecs/codec.ts'
import type { Family } from '../../src/codecs/family.ts'
import { devstral, ministral, mistralNemo, mistralSmall, nine } from '../../src/codecs/mistral.ts'
import type { Item } from '../../src/protocol/items.ts'
import { ends, reader, short } from './spoken.ts'
import { bytesFor, fromScratch, resent, settingsOf } from './talks.ts'

const ls = {
  type: 'function',
  name: 'ls',
  description: 'Lists.',
  parameters: { type: 'object', properties: { path: { type: 'string' } } },
  strict: false,
}
const tools = [ls, { type: 'custom', name: 'raw', description: 'Takes text.' }]
const small = reader(mistralSmall, tools)
const mini = reader(ministral, tools)
const nemo = reader(mistralNemo, tools)
const user = (text: string): Item => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] })
const said = (text: string): Item => ({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'output_text', text, annotations: [] }],
})
const rendered = (family: Family, items: Item[], more: object = {}): string => {
  const codec = familyCodec(family, bytesFor(family))
  return codec.tokenizer.decode(fromScratch(codec, resent(items, Date.parse('2026-07-26')), settingsOf(more)))
}
const withIds =
  'Looking.[TOOL_CALLS]ls[CALL_ID]a1b2c3d4e[ARGS]{"path": "/"}[TOOL_CALLS]ls[CALL_ID]a1b2c3d4f[ARGS]{"path": "/a"}</s>'
const withThought =
  '[THINK]I must look.\n[/THINK]Looking.[TOOL_CALLS]ls[ARGS]{"path": "/"}[TOOL_CALLS]ls[ARGS]{"path": "/a"}</s>'
const asList =
  'Looking.[TOOL_CALLS] [{"name": "ls", "arguments": {"path": "/"}, "id": "a1b2c3d4e"}, {"name": "ls", "arguments": {"path": "/a"}, "id": "a1b2c3d4f"}]</s>'

describe.each([
  ['names with ids', small, withIds, []],
  ['names, behind reasoning', mini, withThought, ['think:I must look.\n']],
  ['a list', nemo, asList, []],
] as const)('calls as %s', (_, model, usual, thought) => {
  const told = [...thought, 'text:Looking.', 'ls{"path": "/"}', 'ls{"path": "/a"}']
  test('are read in parallel, behind text', () => {
    const read = model.ids(usual)
    expect(short(read.deltas)).toEqual(told)
    expect(read.stop).toBe('</s>')
    const kept = ends(read, model)
    expect(kept.at(-3)).toBe(usual.slice(0, usual.indexOf('[TOOL_CALLS]')))
    expect(kept.every((text) => usual.startsWith(text))).toBe(true)
  })
  test('are the same from engines that send text, in pieces of any size', () => {
    for (const size of [1, 2, 3, 7, 50, 1000]) {
      expect(short(model.text(usual, size).deltas)).toEqual(told)
      expect(ends(model.text(usual, 1), model)).toEqual(ends(model.ids(usual), model))
    }
  })
  test('end broken off wherever the engine is cut, and ids of what is kept are a prefix', () => {
    for (let n = 0; n < usual.length; n++) {
      const cut = usual.slice(0, n)
      if (/\[[A-Z_/]*$/.test(cut)) continue
      const read = model.ids(cut)
      expect(ends(read, model).every((text) => cut.startsWith(text))).toBe(true)
      for (const [at, item] of short(read.deltas).entries())
        if (!item.startsWith('text:')) expect(told[at]?.startsWith(item.replace(/~$/, ''))).toBe(true)
    }
  })
})

describe('ids of calls', () => {
  const idsIn = (text: string, model: typeof small): (string | undefined)[] =>
    model.ids(text).deltas.flatMap((d) => (d.type === 'call' ? [d.callId] : []))
  test('are the model’s own where it writes them', () => {
    expect(idsIn(withIds, small)).toEqual(['a1b2c3d4e', 'a1b2c3d4f'])
    expect(idsIn(asList, nemo)).toEqual(['a1b2c3d4e', 'a1b2c3d4f'])
    expect(idsIn(withThought, mini)).toEqual([undefined, undefined])
  })
  test('are always nine letters and digits, the same for the same id', () => {
    fc.assert(
      fc.property(fc.string(), (id) => {
        expect(nine(id)).toMatch(/^[A-Za-z0-9]{9}$/)
        expect(nine(nine(id))).toBe(nine(id))
        expect(nine(id)).toBe(nine(id))
      }),
      { numRuns: Number(process.env['RUNS'] ?? 40) },
    )
    expect(nine('call_1')).not.toBe(nine('call_2'))
  })
  test('join outputs to their calls', () => {
    const items: Item[] = [
      user('go'),
      { type: 'function_call', call_id: 'call_1', name: 'ls', arguments: '{}' },
      { type: 'function_call_output', call_id: 'call_1', output: 'a' },
    ]
    const id = nine('call_1')
    expect(rendered(mistralSmall, items)).toMatch(
      new RegExp(
        String.raw`\[TOOL_CALLS\]ls\[CALL_ID\]${id}\[ARGS\]{}</s>\[TOOL_RESULTS\]${id}\[TOOL_CONTENT\]a\[/TOOL_RESULTS\]$`,
      ),
    )
    expect(rendered(mistralNemo, items)).toMatch(new RegExp(`"id": "${id}"}.*"call_id": "${id}"}`))
  })
})

describe('calls of custom tools', () => {
  test('give the free text', () => {
    expect(short(mini.ids('[TOOL_CALLS]raw[ARGS]{"input": "a\\nb"}</s>').deltas)).toEqual(['rawa\nb'])
    expect(short(nemo.ids('[TOOL_CALLS][{"name": "raw", "arguments": {"input": "a"}}]</s>').deltas)).toEqual(['rawa'])
  })
})

describe('odd calls', () => {
  const read = (text: string): string[] => short(mini.ids(text, 1, 'stop').deltas)
  test('of other generations are read too', () => {
    expect(read('[TOOL_CALLS][{"name": "ls", "arguments": {"path": "/"}}]</s>')).toEqual(['ls{"path": "/"}'])
    expect(read('[TOOL_CALLS]ls{"path": "/"}</s>')).toEqual(['ls{"path": "/"}'])
    expect(read('[TOOL_CALLS]{"arguments": "{\\"path\\": 1}", "name": "ls"}</s>')).toEqual(['ls{"path": 1}'])
    expect(short(nemo.ids('[TOOL_CALLS]ls{"path": "/"}</s>').deltas)).toEqual(['ls{"path": "/"}'])
  })
  test('without arguments have none, also where the engine tells no token that ends the turn', () => {
    expect(read('[TOOL_CALLS]ls[ARGS]</s>')).toEqual(['ls{}'])
    expect(read('[TOOL_CALLS]ls[ARGS]')).toEqual(['ls{}'])
    expect(short(mini.ids('[TOOL_CALLS]ls[ARGS]').deltas)).toEqual(['ls~'])
  })
  test('that are none are text', () => {
    expect(read('[TOOL_CALLS]just words</s>')).toEqual(['text:just words'])
    expect(read('[TOOL_CALLS][{"title": "no call"}]</s>')).toEqual(['text:{"title": "no call"}'])
  })
  test('with JSON that is not closed are broken off', () => {
    expect(read('[TOOL_CALLS]ls[ARGS]{"path": "/</s>')).toEqual(['ls{"path": "/~'])
    expect(read('[TOOL_CALLS][{"name": "ls", "arguments": {"path": "/</s>')).toEqual(['ls{"path": "/~'])
  })
  test('quoted in text are text, and text behind calls is kept', () => {
    expect(read('Write ‹[TOOL_CALLS]›ls‹[ARGS]›{}.</s>')).toEqual(['text:Write [TOOL_CALLS]ls[ARGS]{}.'])
    expect(read('[TOOL_CALLS]ls[ARGS]{}\n Done.</s>')).toEqual(['ls{}', 'text:Done.'])
  })
  test('stream their arguments', () => {
    expect(short(mini.ids('[TOOL_CALLS]ls[ARGS]{"path": "/a').deltas)).toEqual(['ls{"path": "/a~'])
  })
})

describe('prompts', () => {
  test('keep tools and system text where the conversation began', () => {
    for (const family of [mistralNemo, mistralSmall]) {
      const more = { tools, instructions: 'Be brief.' }
      const first = rendered(family, [user('one')], more)
      expect(rendered(family, [user('one'), said('1'), user('two')], more)).toBe(`${first}1</s>[INST]two[/INST]`)
    }
    expect(rendered(mistralNemo, [user('one')], { instructions: 'Be brief.' })).toBe('<s>[INST]Be brief.\n\none[/INST]')
  })
  test('close the system text where no user message follows it', () => {
    expect(rendered(mistralNemo, [], { instructions: 'Be brief.' })).toBe('<s>[INST]Be brief.[/INST]')
    expect(rendered(mistralNemo, [said('1')], { instructions: 'Be brief.' })).toBe('<s>[INST]Be brief.[/INST]1</s>')
  })
  test('have user messages that touch as one, but for Devstral', () => {
    const items = [user('one'), user('two')]
    expect(rendered(ministral, items, { instructions: 'x' })).toMatch(/\[INST\]one\n\ntwo\[\/INST\]$/)
    expect(rendered(devstral, items)).toBe('<s>[INST]one[/INST][INST]two[/INST]')
  })
  test('show pictures where the model sees them', () => {
    const image_url = 'data:image/png;base64,AAAA'
    const seen: Item = {
      type: 'message',
      role: 'user',
      content: [
        { type: 'input_text', text: 'see' },
        { type: 'input_image', image_url, detail: 'auto' },
      ],
    }
    expect(rendered(mistralSmall, [seen])).toMatch(/\[INST\]see\[IMG\]\[\/INST\]$/)
    const codec = familyCodec(devstral, bytesFor(devstral))
    expect(() => codec.constraint(settingsOf(), resent([seen], 0))).toThrow(/images/)
  })
  test('tell Ministral how to reason unless no reasoning is wanted', () => {
    expect(rendered(ministral, [user('go')])).toContain('[THINK]')
    expect(rendered(ministral, [user('go')], { reasoning: { effort: 'none' } })).toBe('<s>[INST]go[/INST]')
  })
  test('of Small name the day on which the conversation began', () => {
    expect(rendered(mistralSmall, [user('go')])).toContain('The current date is 2026-07-26.')
  })
})

test('whatever a model writes, nothing throws, and it is read alike however it comes', () => {
  const pieces = fc.array(
    fc.constantFrom(
      '[TOOL_CALLS]',
      '[ARGS]',
      '[CALL_ID]',
      '[THINK]',
      '[/THINK]',
      '</s>',
      'ls',
      ' ',
      'some words',
      '[',
      ']',
      ', ',
      '{',
      '{"path": "/"}',
      '{"name": "ls", "arguments": {}}',
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
        for (const model of [small, mini, nemo]) {
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
