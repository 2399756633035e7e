// ChatML with calls as tagged values in <tool_call> tags: Qwen3-Coder, Qwen3.5 and Qwen3.6.
import { templateTool } from '../protocol/functions.ts'
import type { Callable } from '../protocol/tools.ts'
import type { Content, Tag } from '../turn/ports.ts'
import { constraintOf } from './constrain.ts'
import type { Family, Owed, Parser, Part, Pen, Turn } from './family.ts'
import { fieldsOf } from './json-fields.ts'
import { settle } from './owed.ts'
import { pythonJson } from './python-json.ts'
import { pythonText, stripped } from './python-text.ts'
import { bareCalls, TagParser } from './tag-parser.ts'
import { textOfParts } from './turns.ts'
import { XmlCall } from './xml-call.ts'

const chatml = ['<|im_start|>', '<|im_end|>'] as const
const think = ['<think>', '</think>'] as const
const calls = ['<tool_call>', '</tool_call>'] as const
const outputs = ['<tool_response>', '</tool_response>'] as const
const vision = ['<|vision_start|>', '<|image_pad|>', '<|vision_end|>'] as const
const stops = ['<|im_end|>', '<|endoftext|>'] as const
const coderSystem = 'You are Qwen, a helpful AI assistant that can interact with a computer to solve tasks.'
const shape = '<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n'

/** Qwen3-Coder: knows no reasoning; tools are described in tags too. */
export const qwen3Coder: Family = {
  name: 'qwen3-coder',
  retention: 'all',
  needs: [...chatml, ...calls],
  stops,
  markers: outputs,
  pairs: [calls],
  head(pen, { system, tools }) {
    if (system === undefined && tools.length === 0) return
    pen.markup('<|im_start|>system\n')
    pen.text(system ?? coderSystem)
    if (tools.length > 0) {
      pen.markup('\n\n# Tools\n\nYou have access to the following tools:\n\n<tools>')
      for (const tool of tools) pen.text(coderTool(tool))
      pen.markup(
        `\n</tools>\n\nIf you choose to call a tool ONLY reply in the following format with NO suffix:\n\n${shape}<parameter=example_parameter_2>\nvalue_2\n</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n- Function calls MUST follow the specified format: the tool calling block MUST begin with an opening <tool_call> tag and end with a closing </tool_call> tag.\n- Required parameters MUST be specified\n- You may provide optional reasoning for your function call in natural language BEFORE the function call, but NOT after\n- If there is no function call available, answer the question like normal with your current knowledge and do not tell the user about function calls\n</IMPORTANT>`,
      )
    }
    pen.markup('<|im_end|>\n')
  },
  segment(pen, segment, before) {
    if (segment.kind === 'tool') {
      if (before !== 'tool') pen.markup('<|im_start|>user\n')
      pen.markup('<tool_response>\n')
      pen.text(textOfParts(segment.parts))
      pen.markup('\n</tool_response>\n')
      return
    }
    pen.markup(`<|im_start|>${segment.kind}\n`)
    if (segment.kind === 'assistant') {
      const { turn } = segment
      said(pen, turn, turn.calls.length > 0 ? stripped(turn.text) : turn.text)
    } else pen.text(segment.kind === 'system' ? segment.text : textOfParts(segment.parts))
    pen.markup('<|im_end|>\n')
  },
  leave,
  opening: (pen) => pen.markup('<|im_start|>assistant\n'),
  spoken(pen, turn) {
    said(pen, turn, turn.text)
    pen.control('<|im_end|>')
  },
  closed(pen, _turn, end) {
    settle(pen, end, (closer) => (closer === '</think>' ? '\n</think>\n\n' : callEnd(end)))
    pen.control(typeof end === 'string' ? end : '<|im_end|>')
    pen.text('\n')
  },
  changes: () => false,
  parser: ({ tools }) => parser(tools, false),
  constrain: (want) => constraintOf(want, want.tools.map(callTag), undefined),
}

/** Qwen3.5 and Qwen3.6: the prompt opens the reasoning; every turn of the newest tool loop has some, be it empty. */
export const qwen35: Family = {
  name: 'qwen3.5',
  retention: 'tool_cycle',
  needs: [...chatml, ...think, ...calls],
  stops,
  markers: [...outputs, ...vision],
  pairs: [think, calls],
  pictures: ['user', 'tool'],
  head(pen, { system, tools }) {
    const text = stripped(system ?? '')
    if (system === undefined && tools.length === 0) return
    pen.markup('<|im_start|>system\n')
    if (tools.length > 0) {
      pen.markup('# Tools\n\nYou have access to the following functions:\n\n<tools>')
      for (const tool of tools) pen.text(`\n${pythonJson(templateTool(tool))}`)
      pen.markup(
        `\n</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:\n\n${shape}<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple lines\n</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n- Function calls MUST follow the specified format: an inner <function=...></function> block must be nested within <tool_call></tool_call> XML tags\n- Required parameters MUST be specified\n- You may provide optional reasoning for your function call in natural language BEFORE the function call, but NOT after\n- If there is no function call available, answer the question like normal with your current knowledge and do not tell the user about function calls\n</IMPORTANT>`,
      )
      if (text !== '') pen.text('\n\n')
    }
    pen.text(text)
    pen.markup('<|im_end|>\n')
  },
  segment(pen, segment, before, kept) {
    switch (segment.kind) {
      case 'tool':
        if (before !== 'tool') pen.markup('<|im_start|>user')
        pen.markup('\n<tool_response>\n')
        parts(pen, segment.parts)
        return pen.markup('\n</tool_response>')
      case 'assistant':
        pen.markup('<|im_start|>assistant\n')
        if (kept) {
          pen.markup('<think>\n')
          thought(pen, stripped(segment.turn.reasoning))
        }
        said(pen, segment.turn, stripped(segment.turn.text))
        break
      default:
        // The template refuses a system message that does not lead; a user's is what comes nearest.
        pen.markup('<|im_start|>user\n')
        parts(pen, segment.kind === 'system' ? [segment.text] : segment.parts)
    }
    pen.markup('<|im_end|>\n')
  },
  leave,
  opening(pen, _before, { thinking }) {
    pen.markup('<|im_start|>assistant\n<think>\n')
    if (!thinking) thought(pen, '')
  },
  spoken(pen, turn, { thinking }) {
    if (thinking) thought(pen, turn.reasoning)
    said(pen, turn, turn.text)
    pen.control('<|im_end|>')
  },
  closed: qwen3Coder.closed,
  changes: () => true,
  parser: ({ tools, thinking }) => parser(tools, thinking),
  constrain: (want, { thinking }) => constraintOf(want, want.tools.map(callTag), thinking ? '</think>' : undefined),
}

/** What a call that broke off still lacks. */
function callEnd(end: string | Owed): string {
  const text = typeof end === 'string' ? '' : end.text
  const value = text.lastIndexOf('<parameter=') > text.lastIndexOf('</parameter>') ? '\n</parameter>' : ''
  return `${value}${text.includes('</function>') ? '' : '\n</function>'}\n</tool_call>`
}
function leave(pen: Pen, before: string, next: string): void {
  if (before === 'tool' && next !== 'tool') pen.markup('<|im_end|>\n')
}
function picture(pen: Pen): void {
  pen.markup('<|vision_start|><|image_pad|><|vision_end|>')
}
/** Without white space at both ends of the whole. */
function parts(pen: Pen, all: readonly Part[]): void {
  for (const [n, part] of all.entries()) {
    if (typeof part !== 'string') picture(pen)
    else if (all.length === 1) pen.text(stripped(part))
    else if (n === 0) pen.text(stripped(`${part}.`).slice(0, -1))
    else pen.text(n === all.length - 1 ? stripped(`.${part}`).slice(1) : part)
  }
}
function thought(pen: Pen, reasoning: string): void {
  pen.text(reasoning)
  pen.markup('\n</think>\n\n')
}
function said(pen: Pen, turn: Turn, text: string): void {
  pen.text(text)
  for (const [n, call] of turn.calls.entries()) {
    if (n > 0) pen.text('\n')
    else if (text !== '') pen.text('\n\n')
    pen.markup('<tool_call>\n')
    pen.text(`<function=${call.name}>\n`)
    const fields = fieldsOf(call.arguments)
    // Arguments that were cut are no object: they stay as they are.
    if (!fields) pen.text(`${call.arguments}\n`)
    for (const { name, value } of fields ?? []) pen.text(`<parameter=${name}>\n${plain(value)}\n</parameter>\n`)
    pen.text('</function>')
    pen.markup('\n</tool_call>')
  }
}
/** Strings as they are, all else as JSON: the template would print true, false and null as Python does. */
const plain = (json: string): string => (json.startsWith('"') ? String(JSON.parse(json)) : json)

type Fields = Readonly<Record<string, unknown>>
const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function coderTool(tool: Callable): string {
  const { name, description, parameters } = templateTool(tool).function
  let text = `\n<function>\n<name>${name}</name>\n<description>${stripped(description)}</description>\n<parameters>`
  const { properties } = parameters
  for (const [key, schema] of Object.entries(isFields(properties) ? properties : {})) {
    const fields = isFields(schema) ? schema : {}
    text += `\n<parameter>\n<name>${key}</name>`
    if (fields['type'] !== undefined) text += `\n<type>${pythonText(fields['type'])}</type>`
    if (fields['description'] !== undefined)
      text += `\n<description>${stripped(pythonText(fields['description']))}</description>`
    text += `${others(fields, ['name', 'type', 'description'])}\n</parameter>`
  }
  return `${text}${others(parameters, ['type', 'properties'])}\n</parameters>\n</function>`
}
/** Further fields of a schema, in a tag each. */
function others(schema: Fields, handled: readonly string[]): string {
  const rest = Object.entries(schema).filter(([key]) => !handled.includes(key))
  const print = (value: unknown): string =>
    typeof value === 'object' && value !== null ? pythonJson(value) : pythonText(value)
  return rest.map(([key, value]) => `\n<${key}>${print(value)}</${key}>`).join('')
}

function parser(tools: readonly Callable[], thinking: boolean): Parser {
  const byName = new Map(tools.map((tool) => [tool.flat, tool]))
  return new TagParser({
    thinking,
    breaks: 2,
    stops,
    call: (out, options) => new XmlCall(out, byName, options),
    bare: bareCalls(tools),
  })
}
const lineEnd: Content = { type: 'regex', definition: '\\n?', quoted: false }
function callTag(tool: Callable): Tag {
  return {
    begin: `<tool_call>\n<function=${tool.flat}>\n`,
    // Behind the last argument; where there is none, there is none of these either.
    content: { type: 'sequence', parts: [contentOf(tool), lineEnd] },
    end: '</function>\n</tool_call>',
  }
}
function contentOf({ kind, format, strict, parameters }: Callable): Content {
  if (kind === 'custom' && format?.type === 'grammar') {
    const inner: Content = { type: format.syntax, definition: format.definition, quoted: false }
    return { type: 'sequence', parts: ['<parameter=input>\n', inner, '\n</parameter>'] }
  }
  const schema = kind === 'custom' || strict ? parameters : { type: 'object' }
  return { type: 'xml', style: 'qwen', schema }
}
