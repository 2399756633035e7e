// Turns that broke off, at every token of them: what stands in the conversation then is as well-formed as a whole turn.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { familyCodec } from '../../src/codecs/codec.ts'
import { deepseekV31 } from '../../src/codecs/deepseek.ts'
import { deepseekV32 } from '../../src/codecs/deepseek-dsml.ts'
import type { Family } from '../../src/codecs/family.ts'
import { glm46, glm47 } from '../../src/codecs/glm.ts'
import { qwen25, qwen3 } from '../../src/codecs/hermes.ts'
import { kimiK2Thinking } from '../../src/codecs/kimi.ts'
import { ministral } from '../../src/codecs/mistral.ts'
import { qwen35, qwen3Coder } from '../../src/codecs/qwen-xml.ts'
import type { Item } from '../../src/protocol/items.ts'
import { Chain } from '../../src/turn/chain.ts'
import type { Codec } from '../../src/turn/ports.ts'
import { encodeChain } from '../../src/turn/voice.ts'
import { rows } from './families.ts'
import {
  bare,
  bytesFor,
  decoded,
  fromScratch,
  idsOf,
  itemsOf,
  now,
  settingsOf,
  smallBpe,
  speakInto,
  spelt,
  writtenIds,
} from './talks.ts'

const numRuns = Math.max(3, Math.ceil(Number(process.env['RUNS'] ?? 40) / 10))
const began = Date.parse('2026-07-26')
const settings = settingsOf({
  reasoning: { effort: 'high' },
  tools: [
    {
      type: 'function',
      name: 'ls',
      description: 'Lists.',
      parameters: { type: 'object', properties: { path: { type: 'string' }, n: { type: 'integer' } } },
      strict: false,
    },
    { type: 'custom', name: 'raw', description: 'Takes text.' },
  ],
})
const words = fc.constantFrom('the thing', 'ä中🙂', 'a\n\nb', '{"a": 1}', ' x ')
const said = fc.record({
  reasoning: fc.option(words, { nil: undefined }),
  text: fc.option(words, { nil: undefined }),
  calls: fc.array(
    fc.oneof(fc.record({ path: words, n: fc.integer({ min: 0, max: 99 }) }, { requiredKeys: [] }), words),
    { maxLength: 2 },
  ),
})
type Said = typeof said extends fc.Arbitrary<infer T> ? T : never
let calls = 0
const user = (text: string): Item => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] })
function itemsSaid({ reasoning, text, calls: made }: Said, family: Family): Item[] {
  const items: Item[] = []
  if (reasoning !== undefined && reasons(family))
    items.push({ type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: reasoning }] })
  if (text !== undefined || made.length === 0)
    items.push({
      type: 'message',
      role: 'assistant',
      content: [{ type: 'output_text', text: text ?? 'ok', annotations: [] }],
    })
  for (const given of made)
    items.push(
      typeof given === 'string'
        ? { type: 'custom_tool_call', call_id: `call_${calls++}`, name: 'raw', input: given }
        : { type: 'function_call', call_id: `call_${calls++}`, name: 'ls', arguments: JSON.stringify(given) },
    )
  return items
}
/** V3.1 reasons only without tools. */
const reasons = ({ name }: Family): boolean =>
  !/^(llama|hermes|qwen2|qwen3-coder|mistral|devstral|deepseek-v3(.1)?$|kimi-k2($|-instruct))/.test(name)
const input = (chain: Chain, items: Item[]): Chain => chain.add({ response: 'r', from: 'input', items })
const asked = input(Chain.root('o', began), [user('begin')])
/** Outputs of the calls that were made, or the user's next words. */
function goOn(chain: Chain): Chain {
  const outputs = chain.items.flatMap((item): Item[] => {
    if (item.type === 'function_call') return [{ type: 'function_call_output', call_id: item.call_id, output: 'out' }]
    return item.type === 'custom_tool_call'
      ? [{ type: 'custom_tool_call_output', call_id: item.call_id, output: 'out' }]
      : []
  })
  return input(chain, outputs.length > 0 ? outputs : [user('go on')])
}

/** What opens something, and what may close it: markers within a turn, messages, and lists of the format's own. */
const pairs: Readonly<Record<string, readonly string[]>> = {
  '<think>': ['</think>'],
  '<tool_call>': ['</tool_call>'],
  '<tool_response>': ['</tool_response>'],
  '<arg_key>': ['</arg_key>'],
  '<arg_value>': ['</arg_value>'],
  '<|im_start|>': ['<|im_end|>'],
  '<|im_system|>': ['<|im_end|>'],
  '<|im_user|>': ['<|im_end|>'],
  '<|im_assistant|>': ['<|im_end|>'],
  '<|tool_calls_section_begin|>': ['<|tool_calls_section_end|>'],
  '<|tool_call_begin|>': ['<|tool_call_argument_begin|>'],
  '<|tool_call_argument_begin|>': ['<|tool_call_end|>'],
  '<｜Assistant｜>': ['<｜end▁of▁sentence｜>'],
  '<｜tool▁calls▁begin｜>': ['<｜tool▁calls▁end｜>'],
  '<｜tool▁call▁begin｜>': ['<｜tool▁call▁end｜>'],
  '<｜tool▁outputs▁begin｜>': ['<｜tool▁outputs▁end｜>'],
  '<｜tool▁output▁begin｜>': ['<｜tool▁output▁end｜>'],
  '[THINK]': ['[/THINK]'],
  '[INST]': ['[/INST]'],
  '[SYSTEM_PROMPT]': ['[/SYSTEM_PROMPT]'],
  '[AVAILABLE_TOOLS]': ['[/AVAILABLE_TOOLS]'],
  '[TOOL_RESULTS]': ['[/TOOL_RESULTS]'],
  '<|start|>': ['<|end|>', '<|call|>', '<|return|>'],
  '<|start_header_id|>': ['<|end_header_id|>'],
}
const closers = new Set(Object.values(pairs).flat())
/** Where nothing of a turn may be open: what ends turns without opening them, and the roles of GLM. */
const edges = new Set(['</s>', '<|eot_id|>', '<|user|>', '<|observation|>', '<|assistant|>', '<｜User｜>'])
/** Written alone where a turn has no reasoning; after the outputs of DeepSeek a turn has no opening of its own. */
const alone = new Set(['</think>', '<｜end▁of▁sentence｜>'])

const turnAlone = (open: readonly string[]): boolean => open.every((name) => name === '<｜Assistant｜>')
/** The first control token that stands where it cannot, and why; undefined for a history that is well-formed. */
function illFormed(codec: Codec, ids: readonly number[]): string | undefined {
  const open: string[] = []
  for (const id of ids) {
    const name = codec.tokenizer.nameOf(id)
    if (name === undefined) continue
    const fits = pairs[open.at(-1) ?? '']?.includes(name) === true
    if (fits) open.pop()
    else if (edges.has(name) ? open.length > 0 : closers.has(name) && !(alone.has(name) && turnAlone(open)))
      return `${name} while open: ${open.join(' ') || 'nothing'}`
    if (Object.hasOwn(pairs, name)) open.push(name)
  }
  if (open.length > 0) return `at the end: ${open.join(' ')}`
  return unclosedTags(codec.tokenizer.decode(ids))
}
/** Tags of DeepSeek V3.2 that a turn leaves open. */
function unclosedTags(text: string): string | undefined {
  for (const turn of text.split('<｜Assistant｜>').slice(1)) {
    const open: string[] = []
    for (const [tag, closes, name = ''] of turn.matchAll(/<(\/?)｜DSML｜(function_calls|invoke|parameter)[^>]*>?/g)) {
      if (!tag.endsWith('>')) return `a tag that is cut: ${tag}`
      if (closes === '') open.push(name)
      else if (open.pop() !== name) return `</${name}>`
    }
    if (open.length > 0) return `tags at the end of a turn: ${open.join(' ')}`
  }
  return undefined
}

describe.each(rows)('$golden', ({ family }) => {
  test('a turn cut at any token leaves a well-formed history, encoded alike from anywhere, and the next turn is read', () => {
    fc.assert(
      fc.property(said, said, fc.boolean(), fc.constantFrom('all', undefined), (first, second, odd, retention) => {
        const codec = familyCodec(family, smallBpe(family), { retention })
        const canonical = writtenIds(codec, itemsSaid(first, family), settings, asked)
        const written = odd ? spelt(canonical, codec.tokenizer) : canonical
        for (let cut = 0; cut <= written.length; cut++) {
          const told = speakInto(asked, codec, settings, written.slice(0, cut), 'length')
          const next = goOn(told)
          const ids = idsOf(encodeChain(next, settings, codec))
          expect(ids).toEqual(fromScratch(codec, next, settings))
          const answer = itemsSaid(second, family)
          const spoken = writtenIds(codec, answer, settings, next)
          const all = [...ids, ...spoken]
          const shown = codec.tokenizer.decode(all)
          expect([illFormed(codec, all), shown]).toEqual([undefined, shown])
          if (cut % 16 > 0) continue
          const read = itemsOf(decoded(codec.decoder(settings, next), spoken))
          expect(bare(read)).toEqual(bare(answer))
          const after = input(speakInto(next, codec, settings, spoken), [user('so')])
          const grown = idsOf(encodeChain(after, settings, codec))
          expect(grown).toEqual(fromScratch(codec, after, settings))
        }
      }),
      { numRuns },
    )
  })
})

test.each([
  ['qwen3', qwen3, '<think>\nHm', '<think>\nHm\n</think>\n\n<|im_end|>\n'],
  ['qwen3', qwen3, '<think>\nHm\n', '<think>\nHm\n</think>\n\n<|im_end|>\n'],
  ['qwen3', qwen3, 'Yes', 'Yes<|im_end|>\n'],
  [
    'qwen2.5',
    qwen25,
    '<tool_call>\n{"name": "ls", "arguments": {"path": "/a',
    '<tool_call>\n{"name": "ls", "arguments": {"path": "/a\n</tool_call><|im_end|>\n',
  ],
  ['qwen2.5', qwen25, 'See <tool_call>\n{"name": "l', 'See <|im_end|>\n'],
  [
    'qwen3-coder',
    qwen3Coder,
    '<tool_call>\n<function=ls>\n<parameter=path>\n/a\n</para',
    '<tool_call>\n<function=ls>\n<parameter=path>\n/a\n</parameter>\n</function>\n</tool_call><|im_end|>\n',
  ],
  [
    'qwen3-coder',
    qwen3Coder,
    '<tool_call>\n<function=ls>\n<parameter=path>\n/a\n</parameter>\n',
    '<tool_call>\n<function=ls>\n<parameter=path>\n/a\n</parameter>\n</function>\n</tool_call><|im_end|>\n',
  ],
  // The prompt has opened the reasoning.
  ['qwen3.5', qwen35, 'Hm', 'Hm\n</think>\n\n<|im_end|>\n'],
  ['glm-4.6', glm46, '\n<think>Hm', '\n<think>Hm</think>'],
  [
    'glm-4.7-flash',
    glm47,
    '</think><tool_call>ls<arg_key>path</arg_key><arg_value>/a',
    '</think><tool_call>ls<arg_key>path</arg_key><arg_value>/a</arg_value></tool_call>',
  ],
  [
    'kimi-k2-thinking',
    kimiK2Thinking,
    '<think>Hm</think><|tool_calls_section_begin|><|tool_call_begin|>functions.ls:0<|tool_call_argument_begin|>{"p',
    '<think>Hm</think><|tool_calls_section_begin|><|tool_call_begin|>functions.ls:0<|tool_call_argument_begin|>{"p<|tool_call_end|><|tool_calls_section_end|><|im_end|>',
  ],
  [
    'deepseek-v3.1',
    deepseekV31,
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>ls<｜tool▁sep｜>{"p',
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>ls<｜tool▁sep｜>{"p<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>',
  ],
  [
    'deepseek-v3.2',
    deepseekV32,
    '</think>\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="ls">\n<｜DSML｜parameter name="path" string="true">/a</｜DS',
    '</think>\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="ls">\n<｜DSML｜parameter name="path" string="true">/a</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls><｜end▁of▁sentence｜>',
  ],
  [
    'deepseek-v3.2',
    deepseekV32,
    '</think>\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="ls">\n<｜DSML｜param',
    '</think>\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="ls">\n</｜DSML｜invoke>\n</｜DSML｜function_calls><｜end▁of▁sentence｜>',
  ],
  ['ministral-3', ministral, '[THINK]Hm', '[THINK]Hm[/THINK]</s>'],
] as const)('%s ends a turn that broke off as it ends a whole one: %#', (_, family: Family, output, expected) => {
  const codec = familyCodec(family, bytesFor(family), { retention: 'all' })
  const names = [...family.needs, ...family.stops, ...family.markers].toSorted((a, b) => b.length - a.length)
  const ids: number[] = []
  for (let rest: string = output; rest !== '';) {
    const name = names.find((n) => rest.startsWith(n))
    const part = name ?? rest.slice(0, 1)
    const control = name === undefined ? undefined : codec.tokenizer.control(name)
    ids.push(...(control === undefined ? Buffer.from(part) : [control]))
    rest = rest.slice(part.length)
  }
  const told = speakInto(asked, codec, settings, ids, 'length')
  const before = codec.tokenizer.decode(idsOf(encodeChain(asked, settings, codec)))
  const { tokens } = now(encodeChain(input(told, []), settings, codec))
  const all = codec.tokenizer.decode(tokens.view())
  expect(all.slice(before.length)).toBe(expected.replace(/\n$/, ''))
})
