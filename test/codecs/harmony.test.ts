// What gpt-oss writes, well formed and not, and what its history looks like behind it.
import { describe, expect, test } from 'vitest'
import { familyCodec } from '../../src/codecs/codec.ts'
import { gptOss } from '../../src/codecs/harmony.ts'
import { controlsOf, encodeAll, Ink } from '../../src/codecs/ink.ts'
import type { Item } from '../../src/protocol/items.ts'
import { Chain } from '../../src/turn/chain.ts'
import type { Delta } from '../../src/turn/ports.ts'
import { bare, bytesFor, decoded, fromScratch, itemsOf, now, resent, settingsOf, speakInto } from './talks.ts'

const codec = familyCodec(gptOss, bytesFor(gptOss))
const began = Date.parse('2026-07-26')
const tools = [
  {
    type: 'function',
    name: 'ls',
    description: 'Lists.',
    parameters: { type: 'object', properties: { path: { type: 'string' } } },
    strict: true,
  },
  { type: 'custom', name: 'patch', description: 'Patches.' },
]
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
const call = (id: string): Item => ({ type: 'function_call', call_id: id, name: 'ls', arguments: '{}' })
const output = (id: string): Item => ({ type: 'function_call_output', call_id: id, output: 'ok' })
const begin = Chain.root('o', began).add({ response: 'r', from: 'input', items: [user('hi')] })

/** Ids of a text in which markers stand by name. */
function ids(markup: string): number[] {
  const ink = new Ink(codec.tokenizer, controlsOf(gptOss))
  ink.markup(markup)
  ink.flush()
  return now(encodeAll(ink.pieces, codec.tokenizer))
}
const deltas = (markup: string): Delta[] => decoded(codec.decoder(settings, begin), ids(markup))
const read = (markup: string): object[] => bare(itemsOf(deltas(markup)))
const shown = (items: readonly Item[]): string =>
  codec.tokenizer.decode(fromScratch(codec, resent(items, began), settings))
/** What stands behind the head. */
const history = (items: readonly Item[]): string => shown(items).replace(/^.*?<\|start\|>user/s, '<|start|>user')

const whole =
  '<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>Looking.<|end|><|start|>assistant<|channel|>commentary to=functions.ls <|constrain|>json<|message|>{"path": "/"}<|call|>'

describe('what gpt-oss writes', () => {
  test('is reasoning, a preamble and a call', () => {
    expect(read(whole)).toEqual([{ reasoning: 'Hm.' }, { text: 'Looking.' }, { name: 'ls', arguments: { path: '/' } }])
  })
  test('may name the recipient behind the role, with or without <|constrain|>', () => {
    const one = [{ name: 'ls', arguments: {} }]
    expect(read(' to=functions.ls<|channel|>commentary json<|message|>{}<|call|>')).toEqual(one)
    expect(read(' to=functions.ls<|channel|>commentary <|constrain|>json<|message|>{}<|call|>')).toEqual(one)
    expect(read('<|channel|>commentary to=functions.ls<|message|>{}<|call|>')).toEqual(one)
    expect(read('<|channel|>analysis to=functions.ls <|constrain|>json<|message|>{}<|call|>')).toEqual(one)
    expect(read('<|channel|>commentary to=ls <|constrain|>json<|message|>{}<|call|>')).toEqual(one)
  })
  test('gives a custom tool its free text, in JSON or not', () => {
    const to = '<|channel|>commentary to=functions.patch <|constrain|>json<|message|>'
    expect(read(`${to}{"input": "a\\nb"}<|call|>`)).toEqual([{ name: 'patch', input: 'a\nb' }])
    expect(read(`${to}*** Begin<|call|>`)).toEqual([{ name: 'patch', input: '*** Begin' }])
  })
  test('may be several calls, all but the last one ended by <|end|>', () => {
    const to = '<|channel|>commentary to=functions.ls <|constrain|>json<|message|>{}'
    expect(read(`${to}<|end|><|start|>assistant${to}<|call|>`)).toHaveLength(2)
  })
  test('is text where no header stands, and nothing of it is lost', () => {
    expect(read('Hello there<|return|>')).toEqual([{ text: 'Hello there' }])
    expect(read('assist<|return|>')).toEqual([{ text: 'assist' }])
    expect(read('<|message|>Hello<|return|>')).toEqual([{ text: 'Hello' }])
    expect(read('<|channel|>final Hello, this is it.<|return|>')).toEqual([{ text: 'final Hello, this is it.' }])
    expect(read(`<|channel|>${'x'.repeat(2000)}<|return|>`)).toEqual([{ text: 'x'.repeat(2000) }])
  })
  test('may lack what ends a message or opens the next one', () => {
    const two = [{ reasoning: 'a' }, { text: 'b' }]
    expect(read('<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>b<|return|>')).toEqual(two)
    expect(read('<|channel|>analysis<|message|>a<|end|><|channel|>final<|message|>b<|return|>')).toEqual(two)
    expect(read('<|channel|>analysis<|message|>a<|channel|>final<|message|>b<|return|>')).toEqual(two)
    expect(read('<|channel|>analysis<|message|>a<|end|>assistant<|channel|>final<|message|>b<|return|>')).toEqual(two)
  })
  test('quotes markers without ending anything', () => {
    const quoted = 'say <|end|> and <|channel|>final<|message|> so'
    const all = [
      ...ids('<|channel|>final<|message|>'),
      ...now(encodeAll([quoted], codec.tokenizer)),
      ...ids('<|return|>'),
    ]
    expect(bare(itemsOf(decoded(codec.decoder(settings, begin), all)))).toEqual([{ text: quoted }])
  })
  test('streams: every character is heard at once, arguments included', () => {
    const decoder = codec.decoder(settings, begin)
    const heard = ids(whole).map((id) => decoder.push({ tokens: [id] }).some((d) => 'text' in d && d.text !== ''))
    expect(heard.filter(Boolean)).toHaveLength('Hm.Looking.{"path": "/"}'.length)
  })
  test('counts the ids of reasoning', () => {
    const decoder = codec.decoder(settings, begin)
    decoder.push({ tokens: ids(whole) })
    expect(decoder.reasoning).toBe('Hm.'.length)
    expect(decoder.stop).toBe('<|call|>')
  })
  test('cut anywhere leaves a history that is well formed, of the ids that the model wrote', () => {
    const all = ids(whole)
    const prompt = history([user('hi')])
    for (let cut = 0; cut <= all.length; cut++) {
      const chain = speakInto(begin, codec, settings, all.slice(0, cut), 'length')
      const next = chain.add({ response: 'n', from: 'input', items: [{ ...user('on'), role: 'developer' } as Item] })
      const text = codec.tokenizer
        .decode(fromScratch(codec, next, settings))
        .slice(shown([user('hi')]).length - prompt.length)
      expect(text).toMatch(
        /^(?:<\|start\|>(?:(?!<\|(?:end|start)\|>).)*<\|message\|>(?:(?!<\|).)*<\|(?:end|call)\|>)+<\|start\|>assistant$/s,
      )
      const model = text.slice(text.indexOf('hi<|end|>') + 9, text.indexOf('<|start|>user<|message|>on'))
      if (chain === begin) expect(model).toBe('')
      else {
        const kept = model.slice('<|start|>assistant'.length).replace(/<\|(?:end|call)\|>$/, '')
        expect(whole.startsWith(kept)).toBe(true)
      }
    }
  })
})

describe('the history of gpt-oss', () => {
  test('ends an answer with <|end|>, whatever the model ended it with', () => {
    for (const stop of ['<|return|>', '<|endoftext|>']) {
      const chain = speakInto(begin, codec, settings, ids(`<|channel|>final<|message|>Yes.${stop}`))
      const next = chain.add({ response: 'n', from: 'input', items: [user('on')] })
      expect(codec.tokenizer.decode(fromScratch(codec, next, settings))).toBe(
        shown([user('hi'), said('Yes.'), user('on')]),
      )
    }
  })
  test('shows preambles as commentary, and phases as they were given', () => {
    expect(history([user('hi'), said('Looking.'), call('a'), output('a')])).toBe(
      '<|start|>user<|message|>hi<|end|><|start|>assistant<|channel|>commentary<|message|>Looking.<|end|><|start|>assistant to=functions.ls<|channel|>commentary json<|message|>{}<|call|><|start|>functions.ls to=assistant<|channel|>commentary<|message|>"ok"<|end|><|start|>assistant',
    )
    const phased = [{ ...said('Wait.'), phase: 'commentary' }, said('Done.')] as Item[]
    expect(history([user('hi'), ...phased])).toContain(
      '<|channel|>commentary<|message|>Wait.<|end|><|start|>assistant<|channel|>final<|message|>Done.<|end|>',
    )
  })
  test('keeps reasoning while tools are called, through words of the user, and drops it behind an answer', () => {
    const loop = [user('hi'), thought('first'), call('a'), output('a'), user('faster')]
    expect(history(loop)).toContain('first')
    const more = [...loop, thought('second'), call('b'), output('b')]
    expect(history(more)).toMatch(/first.*second/s)
    const answered = [...more, thought('third'), said('Done.')]
    expect(history([...answered, user('thanks')])).not.toMatch(/first|second|third/)
  })
  test('names each output after its own call', () => {
    const items: Item[] = [
      user('hi'),
      call('a'),
      { type: 'custom_tool_call', call_id: 'b', name: 'patch', input: 'x' },
      output('a'),
      { type: 'custom_tool_call_output', call_id: 'b', output: 'ok' },
    ]
    expect(history(items)).toMatch(/<\|start\|>functions\.ls to=.*<\|start\|>functions\.patch to=/s)
  })
  test('tells the reasoning effort, the day and the tools', () => {
    const head = codec.tokenizer.decode(
      fromScratch(codec, begin, settingsOf({ tools, instructions: 'Be brief.', reasoning: { effort: 'high' } })),
    )
    expect(head).toContain('Current date: 2026-07-26\n\nReasoning: high\n\n')
    expect(head).toContain(
      '<|start|>developer<|message|># Instructions\n\nBe brief.\n\n# Tools\n\n## functions\n\nnamespace functions {\n\n// Lists.\ntype ls = (_: {\npath?: string,\n}) => any;\n\n',
    )
    expect(head).toContain('type patch = (_: {\ninput: string,\n}) => any;\n\n} // namespace functions<|end|>')
  })
})

describe('what gpt-oss is held to', () => {
  const rule = (some: object): ReturnType<typeof codec.constraint> =>
    codec.constraint(settingsOf({ tools, ...some }), begin)
  const begins = (some: object): string[] | undefined => {
    const made = rule(some)?.rule
    return made?.type === 'tags' ? made.tags.map((tag) => tag.begin) : undefined
  }
  test('is messages and nothing else, an answer among them unless a call is asked for', () => {
    const answer = '<|channel|>final<|message|>'
    expect(begins({})).toContain(answer)
    expect(begins({ tool_choice: 'required' })).not.toContain(answer)
    expect(begins({ tool_choice: 'required' })).toContain(
      '<|channel|>commentary to=functions.ls <|constrain|>json<|message|>',
    )
  })
  test('is a schema on the final channel, behind free reasoning', () => {
    const schema = { type: 'object', properties: { a: { type: 'string' } } }
    const made = rule({ tools: [], text: { format: { type: 'json_schema', name: 'x', schema } } })
    expect(made?.rule).toMatchObject({
      type: 'tags',
      must: true,
      tags: [
        { begin: '<|channel|>analysis<|message|>', content: { type: 'text' } },
        { begin: '<|channel|>final<|message|>', content: { type: 'json', schema }, end: '<|return|>' },
      ],
    })
  })
})
