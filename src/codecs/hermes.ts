// ChatML with calls as JSON in <tool_call> tags, as Hermes introduced them: Hermes 3, Qwen2.5, Qwen3.
import { templateTool } from '../protocol/functions.ts'
import type { Callable } from '../protocol/tools.ts'
import type { Family, Head, Pen, Segment, Turn } from './family.ts'
import { constraintOf, jsonTags } from './constrain.ts'
import { JsonCall } from './json-call.ts'
import { settle } from './owed.ts'
import { pythonJson } from './python-json.ts'
import { stripped } from './python-text.ts'
import { TagParser } from './tag-parser.ts'
import { textOfParts } from './turns.ts'

const calls = ['<tool_call>', '</tool_call>', '<tool_response>', '</tool_response>'] as const
const callPair = ['<tool_call>', '</tool_call>'] as const
const qwenStops = ['<|im_end|>', '<|endoftext|>'] as const
const qwenSystem = 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.'

/** Qwen2.5, Coder included: knows no reasoning, and a default system message. */
export const qwen25: Family = {
  name: 'qwen2.5',
  retention: 'all',
  needs: ['<|im_start|>', '<|im_end|>'],
  stops: qwenStops,
  markers: calls,
  pairs: [callPair],
  head: (pen, head) => qwenHead(pen, { ...head, system: head.system ?? qwenSystem }),
  segment(pen, segment, before) {
    if (segment.kind !== 'assistant') return message(pen, segment, before)
    pen.markup('<|im_start|>assistant\n')
    said(pen, segment.turn, segment.turn.text)
    pen.markup('<|im_end|>\n')
  },
  leave,
  opening: (pen) => pen.markup('<|im_start|>assistant\n'),
  spoken(pen, turn) {
    said(pen, turn, turn.text)
    pen.control('<|im_end|>')
  },
  closed(pen, _turn, end) {
    settle(pen, end, (closer) => (closer === '</think>' ? '\n</think>\n\n' : `\n${closer}`))
    pen.control(typeof end === 'string' ? end : '<|im_end|>')
    pen.text('\n')
  },
  changes: () => false,
  parser: () => new TagParser({ breaks: 1, stops: qwenStops, call: jsonCall }),
  constrain: (want) => constraintOf(want, callTags(want.tools), undefined),
}

/** Qwen3 in its versions without reasoning (Qwen3-Instruct-2507): as Qwen2.5, with no system message of its own. */
export const qwen3Instruct: Family = { ...qwen25, name: 'qwen3-instruct', head: qwenHead }

/** Qwen3: reasons in <think>, and drops old reasoning when the user speaks again. */
export const qwen3: Family = {
  name: 'qwen3',
  retention: 'tool_cycle',
  needs: ['<|im_start|>', '<|im_end|>', '<think>', '</think>', '<tool_call>', '</tool_call>'],
  stops: qwenStops,
  markers: ['<think>', '</think>', ...calls],
  pairs: [['<think>', '</think>'], callPair],
  head: qwenHead,
  segment(pen, segment, before, kept) {
    if (segment.kind !== 'assistant') return message(pen, segment, before)
    const { turn } = segment
    const thinks = kept && turn.reasoning !== ''
    pen.markup('<|im_start|>assistant\n')
    if (thinks) think(pen, turn)
    // Behind reasoning the template takes line breaks off the text.
    said(pen, turn, thinks ? turn.text.slice(leading(turn.text)) : turn.text)
    pen.markup('<|im_end|>\n')
  },
  leave,
  opening(pen, _before, { thinking }) {
    pen.markup('<|im_start|>assistant\n')
    if (!thinking) pen.markup('<think>\n\n</think>\n\n')
  },
  spoken(pen, turn, { thinking }) {
    if (thinking && turn.reasoning !== '') think(pen, turn)
    said(pen, turn, turn.text)
    pen.control('<|im_end|>')
  },
  closed: qwen25.closed,
  parser: () => new TagParser({ breaks: 1, stops: qwenStops, call: jsonCall }),
  constrain: (want, { thinking }) => constraintOf(want, callTags(want.tools), thinking ? '</think>' : undefined),
}

/** Hermes 3 on Llama 3.1: describes tools in Python's words, and has messages of the role `tool`. */
export const hermes3: Family = {
  name: 'hermes-3',
  retention: 'all',
  needs: ['<|begin_of_text|>', '<|im_start|>', '<|im_end|>'],
  stops: ['<|im_end|>', '<|end_of_text|>', '<|eot_id|>'],
  markers: calls,
  pairs: [callPair],
  head: hermesHead,
  segment(pen, segment, before) {
    if (segment.kind === 'assistant') {
      if (before === 'tool') pen.markup('\n<|im_end|>')
      return qwen25.segment(pen, segment, before, true, noHead)
    }
    if (segment.kind !== 'tool') return message(pen, segment, before)
    if (before !== 'tool') pen.markup('<|im_start|>tool\n')
    pen.markup('<tool_response>\n')
    pen.text(textOfParts(segment.parts))
    pen.markup('\n</tool_response>')
  },
  leave(pen, before, next) {
    // The line break behind an output stands only where something follows; the model's own turn is none yet.
    if (before !== 'tool' || next === 'assistant') return
    pen.markup(next === 'tool' ? '\n' : '\n<|im_end|>')
  },
  opening(pen, before) {
    pen.markup(`${before === 'tool' ? '<|im_end|>' : ''}<|im_start|>assistant\n`)
  },
  spoken: qwen25.spoken,
  closed: qwen25.closed,
  changes: () => false,
  parser: () => new TagParser({ breaks: 1, stops: hermes3.stops, call: jsonCall }),
  constrain: qwen25.constrain,
}
const noHead: Head = { system: undefined, tools: [], thinking: false, effort: null, date: '' }

function qwenHead(pen: Pen, { system, tools }: Head): void {
  if (system === undefined && tools.length === 0) return
  pen.markup('<|im_start|>system\n')
  if (system !== undefined) pen.text(system)
  if (tools.length > 0) {
    if (system !== undefined) pen.text('\n\n')
    pen.markup(
      '# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>',
    )
    for (const tool of tools) pen.text(`\n${pythonJson(templateTool(tool))}`)
    pen.markup(
      '\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>',
    )
  }
  pen.markup('<|im_end|>\n')
}
/** The template cannot do without tools: then only what tells of them is left out. */
function hermesHead(pen: Pen, { system, tools }: Head): void {
  pen.markup('<|begin_of_text|>')
  if (tools.length > 0) {
    pen.markup(
      "<|im_start|>system\nYou are a function calling AI model. You are provided with function signatures within <tools></tools> XML tags. You may call one or more functions to assist with the user query. Don't make assumptions about what values to plug into functions. Here are the available tools: <tools> ",
    )
    pen.text(tools.map(hermesTool).join('\n'))
    pen.markup(
      ' </tools>Use the following pydantic model json schema for each tool call you will make: {"properties": {"name": {"title": "Name", "type": "string"}, "arguments": {"title": "Arguments", "type": "object"}}, "required": ["name", "arguments"], "title": "FunctionCall", "type": "object"}}\nFor each function call return a json object with function name and arguments within <tool_call></tool_call> XML tags as follows:\n<tool_call>\n{"name": <function-name>, "arguments": <args-dict>}\n</tool_call><|im_end|>\n',
    )
  }
  if (system !== undefined) message(pen, { kind: 'system', text: system }, 'head')
}
/** A signature and a docstring, in what looks like JSON: the template escapes nothing. */
function hermesTool(tool: Callable): string {
  const { name, description, parameters } = templateTool(tool).function
  const properties = Object.entries(fieldsOf(parameters['properties']))
  const signature = properties.map(([key, schema]) => `${key}: ${pythonType(schema)}`).join(', ')
  const docs = properties.map(
    ([key, schema]) => `        ${key}(${pythonType(schema)}): ${stripped(textOr(fieldsOf(schema)['description']))}`,
  )
  const args = docs.length > 0 ? `    Args:\n${docs.join('')}` : ''
  const shown = properties.length > 0 ? pythonJson(parameters) : '{}'
  return `{"type": "function", "function": {"name": "${name}", "description": "${name}(${signature}) - ${description}\n\n${args}", "parameters": ${shown}}`
}
const basic = new Map<unknown, string>([
  ['string', 'str'],
  ['number', 'float'],
  ['integer', 'int'],
  ['boolean', 'bool'],
  // The template does not end on this one.
  ['null', 'None'],
])
function pythonType(given: unknown): string {
  const schema = fieldsOf(given)
  const { type } = schema
  if (type === 'array') return 'list[Union[]]'
  if (type === 'object')
    return 'additionalProperties' in schema ? `dict[str, ${pythonType(schema['additionalProperties'])}]` : 'dict'
  if (Array.isArray(type)) return `Union[${type.map((one: unknown) => pythonType({ type: one })).join(',')}]`
  return basic.get(type) ?? 'Union[]'
}
const fieldsOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null ? { ...value } : {}
const textOr = (value: unknown): string => (typeof value === 'string' ? value : '')

function message(pen: Pen, segment: Exclude<Segment, { kind: 'assistant' }>, before: string): void {
  if (segment.kind === 'tool') {
    if (before !== 'tool') pen.markup('<|im_start|>user')
    pen.markup('\n<tool_response>\n')
    pen.text(textOfParts(segment.parts))
    pen.markup('\n</tool_response>')
    return
  }
  pen.markup(`<|im_start|>${segment.kind}\n`)
  pen.text(segment.kind === 'system' ? segment.text : textOfParts(segment.parts))
  pen.markup('<|im_end|>\n')
}
function leave(pen: Pen, before: string, next: string): void {
  if (before === 'tool' && next !== 'tool') pen.markup('<|im_end|>\n')
}
function think(pen: Pen, { reasoning }: Turn): void {
  pen.markup('<think>\n')
  pen.text(trimmed(reasoning))
  pen.markup('\n</think>\n\n')
}
function said(pen: Pen, turn: Turn, text: string): void {
  pen.text(text)
  for (const [n, call] of turn.calls.entries()) {
    if (n > 0 || turn.text !== '') pen.text('\n')
    pen.markup('<tool_call>\n')
    pen.text(`{"name": "${call.name}", "arguments": ${call.arguments}}`)
    pen.markup('\n</tool_call>')
  }
}
/** Line breaks at the start. */
function leading(text: string): number {
  let at = 0
  while (text[at] === '\n') at++
  return at
}
function trimmed(text: string): string {
  let end = text.length
  while (text[end - 1] === '\n') end--
  return text.slice(Math.min(leading(text), end), end)
}

const jsonCall = (...given: ConstructorParameters<typeof JsonCall>): JsonCall => new JsonCall(...given)
const callTags = (tools: readonly Callable[]): ReturnType<typeof jsonTags> =>
  jsonTags(tools, (name) => ({ begin: `<tool_call>\n{"name": "${name}", "arguments": `, end: '}\n</tool_call>' }))
