// What Qwen and Hermes models write: reasoning, text and JSON calls, well formed and not.
import { describe, expect, test } from 'vitest'
import { familyOf } from '../../src/codecs/detect.ts'
import { hermes3, qwen25, qwen3, qwen3Instruct } from '../../src/codecs/hermes.ts'
import { mismatch } from '../../src/codecs/match.ts'
import { ends, reader, short } from './spoken.ts'

const ls = {
  type: 'function',
  name: 'ls',
  description: 'Lists.',
  parameters: { type: 'object', properties: { path: { type: 'string' } } },
  strict: true,
}
const tools = [ls, { type: 'custom', name: 'raw', description: 'Takes text.' }]
const qwen = reader(qwen3, tools)
const call = (path: string): string =>
  `<tool_call>\n{"name": "ls", "arguments": {"path": ${JSON.stringify(path)}}}\n</tool_call>`
const usual = `<think>\nI must look.\n</think>\n\nLooking.\n${call('/')}\n${call('/tmp')}<|im_end|>`

describe('reasoning, text and calls', () => {
  test('are read in the order in which they come, without the line breaks of the format', () => {
    const read = qwen.ids(usual)
    expect(short(read.deltas)).toEqual(['think:I must look.', 'text:Looking.', 'ls{"path": "/"}', 'ls{"path": "/tmp"}'])
    expect(read.stop).toBe('<|im_end|>')
    expect(qwen.spell(read.ids)).toBe(usual.replace('<|im_end|>', ''))
  })
  test('end where the marker that opens the next one begins', () => {
    const first = '<think>\nI must look.\n</think>'
    const second = `${first}\n\nLooking.\n`
    expect(ends(qwen.ids(usual), qwen)).toEqual([
      first,
      second,
      `${second}${call('/')}`,
      `${second}${call('/')}\n${call('/tmp')}`,
    ])
  })
  test('are the same from engines that send text, in pieces of any size', () => {
    const whole = qwen.ids(usual)
    for (const size of [1, 2, 3, 7, 50, 1000]) {
      const text = qwen.text(usual, size)
      expect(short(text.deltas)).toEqual(short(whole.deltas))
      expect(ends(text, qwen)).toEqual(ends(whole, qwen))
    }
  })
  test('keep the line breaks that are the model’s own', () => {
    expect(short(qwen.ids('a\n\nb\n\n\n' + call('/') + '<|im_end|>').deltas)).toEqual([
      'text:a\n\nb\n\n',
      'ls{"path": "/"}',
    ])
  })
  test('stream: every piece of text and arguments is told with the id that completes it', () => {
    const told: number[] = []
    for (let n = 1; n <= usual.length; n++) told.push(short(qwen.text(usual.slice(0, n), n).deltas).join('').length)
    // Between the first and the last letter of the path nothing waits.
    const [from, to] = [usual.indexOf('"/tmp') + 1, usual.indexOf('/tmp"') + 4]
    for (let n = from; n < to; n++) expect((told[n] ?? 0) - (told[n - 1] ?? 0)).toBe(1)
  })
  test('end broken off wherever the engine is cut, and ids of what is kept are a prefix', () => {
    const whole = short(qwen.ids(usual).deltas).join('\n')
    for (let n = 0; n < usual.length; n++) {
      const cut = usual.slice(0, n)
      // A marker that is cut in the middle is none, as ids never cut one.
      const read = qwen.ids(cut)
      const kept = ends(read, qwen)
      expect(kept.every((text) => cut.startsWith(text))).toBe(true)
      if (/<[^>]*$/.test(cut)) continue
      const told = short(read.deltas).join('\n')
      expect(whole.startsWith(told.replaceAll(/~$/gm, ''))).toBe(true)
    }
  })
})

describe('calls', () => {
  test('of custom tools give the free text', () => {
    const output = '<tool_call>\n{"name": "raw", "arguments": {"input": "a\\nb"}}\n</tool_call><|im_end|>'
    expect(short(qwen.ids(output).deltas)).toEqual(['rawa\nb'])
  })
  test('may have their keys in another order, arguments as a string, or none', () => {
    const read = (json: string): string[] => short(qwen.ids(`<tool_call>${json}</tool_call><|im_end|>`).deltas)
    expect(read('{"arguments": {"path": "/"}, "name": "ls"}')).toEqual(['ls{"path":"/"}'])
    expect(read('{"name": "ls", "arguments": "{\\"path\\": \\"/\\"}"}')).toEqual(['ls{"path": "/"}'])
    expect(read('{"name": "ls", "parameters": {"path": "/"}}')).toEqual(['ls{"path": "/"}'])
    expect(read('{"name": "ls"}')).toEqual(['ls{}'])
  })
  test('without the closing marker are whole where their arguments are', () => {
    const open = '<tool_call>\n{"name": "ls", "arguments": {"path": "/"}}'
    expect(short(qwen.ids(`${open}<|im_end|>`).deltas)).toEqual(['ls{"path": "/"}'])
    const two = `${open}\n${call('/tmp')}<|im_end|>`
    expect(short(qwen.ids(two).deltas)).toEqual(['ls{"path": "/"}', 'ls{"path": "/tmp"}'])
    // The marker that opens the second is none of the first's ids.
    expect(ends(qwen.ids(two), qwen)[0]).toBe(`${open}\n`)
    expect(short(qwen.ids('<tool_call>\n{"name": "ls", "arguments": {"pa<|im_end|>').deltas)).toEqual(['ls{"pa~'])
  })
  test('in the middle of reasoning are calls', () => {
    expect(short(qwen.ids(`<think>\nHm.\n${call('/')}<|im_end|>`).deltas)).toEqual(['think:Hm.', 'ls{"path": "/"}'])
  })
  test('that are none are text, in the message that they stand in', () => {
    expect(short(qwen.ids('Use <tool_call> to call, </tool_call> to end.<|im_end|>').deltas)).toEqual([
      'text:Use <tool_call> to call, </tool_call> to end.',
    ])
    expect(short(qwen.ids('<tool_call>{"a": 1}</tool_call><|im_end|>').deltas)).toEqual([
      'text:<tool_call>{"a": 1}</tool_call>',
    ])
  })
  test('that are empty are the markers alone, wherever they stand', () => {
    expect(short(qwen.ids('a <tool_call></tool_call> b<|im_end|>').deltas)).toEqual([
      'text:a <tool_call></tool_call> b',
    ])
    const thought = '<think>\nI could <tool_call></think>\n\nNo.<|im_end|>'
    expect(short(qwen.ids(thought).deltas)).toEqual(['think:I could <tool_call>', 'text:No.'])
  })
  test('of which only the beginning came leave nothing behind', () => {
    const read = qwen.ids('Looking.\n<tool_call>\n{"na')
    expect(short(read.deltas)).toEqual(['text:Looking.~'])
    expect(ends(read, qwen)).toEqual(['Looking.\n'])
  })
  test('that are not wanted are not heard of', () => {
    const mute = reader(qwen3, tools, { tool_choice: 'none' })
    expect(short(mute.ids(`Well.\n${call('/')}<|im_end|>`).deltas)).toEqual(['text:Well.'])
  })
})

describe('markers', () => {
  test('in letters are text, and arguments', () => {
    const output = `say ‹<tool_call>› and ‹<|im_end|>›\n<tool_call>\n{"name": "ls", "arguments": {"path": "‹</tool_call>›"}}\n</tool_call><|im_end|>`
    expect(short(qwen.ids(output).deltas)).toEqual([
      'text:say <tool_call> and <|im_end|>',
      'ls{"path": "</tool_call>"}',
    ])
  })
  test('as tokens inside a string of the arguments are part of it', () => {
    const evil = call('echo <tool_call>x</tool_call> <think>')
    for (const read of [qwen.ids(`${evil}<|im_end|>`), qwen.text(`${evil}<|im_end|>`)])
      expect(short(read.deltas)).toEqual(['ls{"path": "echo <tool_call>x</tool_call> <think>"}'])
  })
  test('behind a raw line break in a string close a call that lacks its end', () => {
    const output = `<tool_call>\n{"name": "ls", "arguments": {"path": "/}}\n</tool_call>\n${call('/')}<|im_end|>`
    expect(short(qwen.ids(output).deltas)).toEqual(['ls{"path": "/}}\n~', 'ls{"path": "/"}'])
  })
  test('of reasoning within an answer are text', () => {
    expect(short(qwen.ids('The <think> tag ends with </think>.<|im_end|>').deltas)).toEqual([
      'text:The <think> tag ends with </think>.',
    ])
  })
})

test('Qwen2.5 and Hermes find markers in text where their tokenizer has none', () => {
  for (const family of [qwen25, hermes3]) {
    const read = reader({ ...family, markers: [] }, tools)
    const plain = reader(family, tools)
    const output = `Looking.\n${call('/')}<|im_end|>`
    expect(short(plain.ids(output).deltas)).toEqual(['text:Looking.', 'ls{"path": "/"}'])
    // Without markers of its own a family hears of none.
    expect(short(read.ids(output).deltas)).toEqual([`text:Looking.\n${call('/')}`])
  }
})

describe('Qwen3 without reasoning', () => {
  // As its versions of July 2025 are written to: no <think>, and no system message of its own.
  const template = `{%- if tools %}{{- '<|im_start|>system\\n' }}{%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
{{- "# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\nYou are provided with function signatures within <tools></tools> XML tags:\\n<tools>" }}
{%- for tool in tools %}{{- "\\n" }}{{- tool | tojson }}{%- endfor %}
{{- "\\n</tools>\\n\\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\\n<tool_call>\\n{\\"name\\": <function-name>, \\"arguments\\": <args-json-object>}\\n</tool_call><|im_end|>\\n" }}
{%- elif messages[0].role == 'system' %}{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{%- endif %}
{%- for message in messages %}
{%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- elif message.role == 'assistant' %}{{- '<|im_start|>assistant\\n' + (message.content or '') }}
{%- for tool_call in message.tool_calls or [] %}{%- if (loop.first and message.content) or not loop.first %}{{- '\\n' }}{%- endif %}{{- '<tool_call>\\n{"name": "' + tool_call.function.name + '", "arguments": ' }}
{%- if tool_call.function.arguments is string %}{{- tool_call.function.arguments }}{%- else %}{{- tool_call.function.arguments | tojson }}{%- endif %}{{- '}\\n</tool_call>' }}{%- endfor %}{{- '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}`
  test('is found by its template, and writes what the template writes', () => {
    expect(familyOf(template)).toBe('qwen3-instruct')
    expect(mismatch(template, qwen3Instruct)).toBeUndefined()
    expect(mismatch(template, qwen25)).toMatch(/writes/)
    expect(familyOf(`${template}<think>`)).toBe('qwen3')
  })
})
