// DeepSeek V3 and V3.1: calls as JSON between tokens of their own. V3 (and R1) write the type, the name and a fence around
// the arguments, V3.1 the name alone. Neither template shows tools: they stand in the system text, as the model card of
// V3.1 says it.
import { templateTool } from '../protocol/functions.ts'
import type { Constraint } from '../turn/ports.ts'
import type { Family, Head, Kind, Owed, Pen, Turn, Want } from './family.ts'
import { constraintOf, jsonTags } from './constrain.ts'
import { DeepseekParser } from './deepseek-parser.ts'
import { settle } from './owed.ts'
import { pythonJson } from './python-json.ts'
import { textOfParts } from './turns.ts'

const bos = '<｜begin▁of▁sentence｜>'
const eos = '<｜end▁of▁sentence｜>'
const user = '<｜User｜>'
const assistant = '<｜Assistant｜>'
const [callsBegin, callsEnd] = ['<｜tool▁calls▁begin｜>', '<｜tool▁calls▁end｜>']
const [callBegin, sep, callEnd] = ['<｜tool▁call▁begin｜>', '<｜tool▁sep｜>', '<｜tool▁call▁end｜>']
const [outputsBegin, outputsEnd] = ['<｜tool▁outputs▁begin｜>', '<｜tool▁outputs▁end｜>']
const [outputBegin, outputEnd] = ['<｜tool▁output▁begin｜>', '<｜tool▁output▁end｜>']
const pairs = [
  ['<think>', '</think>'],
  [callsBegin, callsEnd],
  [callBegin, callEnd],
] as const
const calling = [callsBegin, callsEnd, callBegin, sep, callEnd, outputBegin, outputEnd]

/** How a generation of models writes a call: what stands around its name, and what ends it. */
type Form = { readonly front: string; readonly behind: string; readonly end: string; readonly between: string }
const fenced: Form = { front: `function${sep}`, behind: '\n```json\n', end: `\n\`\`\`${callEnd}`, between: '\n' }
const plain: Form = { front: '', behind: sep, end: callEnd, between: '' }

/**
 * V3 and V3-0324. Their template leaves calls unfinished where there is only one, and repeats what ends them behind every
 * further one: here they are written as the model writes them.
 */
export const deepseekV3: Family = {
  name: 'deepseek-v3',
  retention: 'all',
  needs: [bos, eos, user, assistant, ...calling, outputsBegin, outputsEnd],
  stops: [eos],
  markers: [],
  pairs,
  head: (pen, head) => begin(pen, head, fenced),
  segment(pen, segment, before, _kept, _head) {
    if (segment.kind === 'tool') {
      pen.markup(before === 'tool' ? `\n${outputBegin}` : `${outputsBegin}${outputBegin}`)
      pen.text(textOfParts(segment.parts))
      return pen.control(outputEnd)
    }
    if (segment.kind !== 'assistant') {
      pen.control(user)
      return pen.text(segment.kind === 'system' ? segment.text : textOfParts(segment.parts))
    }
    // The model goes on directly behind its outputs.
    if (before !== 'tool') pen.control(assistant)
    said(pen, segment.turn, fenced)
    pen.control(eos)
  },
  leave(pen, before, next) {
    if (before === 'tool' && next !== 'tool') pen.control(outputsEnd)
  },
  opening(pen, before) {
    if (before !== 'tool') pen.control(assistant)
  },
  spoken(pen, turn) {
    said(pen, turn, fenced)
    pen.control(eos)
  },
  closed: (pen, _turn, end) => close(pen, end, fenced),
  parser: () => new DeepseekParser(false),
  constrain: (want) => constrain(want, fenced, false),
}

/**
 * V3.1: reasons only where asked to, and never in a conversation with tools ("Toolcall is supported in non-thinking mode",
 * its model card). History never shows reasoning. Behind outputs it goes on at once, without an opening.
 */
export const deepseekV31: Family = {
  name: 'deepseek-v3.1',
  retention: 'tool_cycle',
  needs: [bos, eos, user, assistant, '<think>', '</think>', ...calling],
  stops: [eos],
  markers: [],
  pairs,
  head: (pen, head) => begin(pen, head, plain),
  segment(pen, segment, before, _kept, _head) {
    if (segment.kind === 'tool') {
      pen.control(outputBegin)
      pen.text(textOfParts(segment.parts))
      return pen.control(outputEnd)
    }
    if (segment.kind !== 'assistant') {
      pen.control(user)
      return pen.text(segment.kind === 'system' ? segment.text : textOfParts(segment.parts))
    }
    if (before === 'user' || before === 'system') pen.markup(`${assistant}<think></think>`)
    said(pen, segment.turn, plain)
    pen.control(eos)
  },
  opening(pen, before, head) {
    if (before !== 'tool') pen.markup(`${assistant}<think>${thinks(head, before) ? '' : '</think>'}`)
  },
  spoken(pen, turn, head, before) {
    const thinking = thinks(head, before)
    if (!thinking && turn.reasoning !== '') pen.control('<think>')
    if (thinking || turn.reasoning !== '') {
      pen.text(turn.reasoning)
      pen.control('</think>')
    }
    said(pen, turn, plain)
    pen.control(eos)
  },
  closed: (pen, _turn, end) => close(pen, end, plain),
  parser: (head, before) => new DeepseekParser(thinks(head, before)),
  constrain: (want, head, before) => constrain(want, plain, thinks(head, before)),
}
/** Has the opening begun the reasoning? */
const thinks = ({ effort, tools }: Head, before: Kind): boolean =>
  effort !== null && effort !== 'none' && tools.length === 0 && before !== 'tool'

function begin(pen: Pen, { system, tools }: Head, form: Form): void {
  pen.control(bos)
  pen.text(system ?? '')
  if (tools.length === 0) return
  pen.markup('\n\n## Tools\nYou have access to the following tools:\n')
  for (const tool of tools) {
    const { name, description, parameters } = templateTool(tool).function
    pen.text(`\n### ${name}\nDescription: ${description}\n\nParameters: ${pythonJson(parameters)}\n`)
  }
  const call = `${callBegin}${form.front}tool_call_name${form.behind}tool_call_arguments${form.end}`
  pen.markup(
    `\nIMPORTANT: ALWAYS adhere to this exact format for tool use:\n${callsBegin}${call}{additional_tool_calls}${callsEnd}\n\nWhere:\n\n- \`tool_call_name\` must be an exact match to one of the available tools\n- \`tool_call_arguments\` must be valid JSON that strictly follows the tool's Parameters Schema\n- For multiple tool calls, chain them directly ${form === plain ? 'without separators or spaces' : 'with a line break between them'}`,
  )
}
function said(pen: Pen, { text, calls }: Turn, form: Form): void {
  pen.text(text)
  if (calls.length === 0) return
  pen.control(callsBegin)
  for (const [n, call] of calls.entries()) {
    if (n > 0) pen.text(form.between)
    pen.markup(`${callBegin}${form.front}`)
    pen.text(call.name)
    pen.markup(form.behind)
    pen.text(call.arguments)
    pen.markup(form.end)
  }
  pen.control(callsEnd)
}
function close(pen: Pen, end: string | Owed, form: Form): void {
  settle(pen, end, (closer) => (closer === callEnd ? form.end : closer))
  pen.control(eos)
}
/** Several calls are then several lists of one call, which the parser reads alike. */
function constrain(want: Want, form: Form, thinking: boolean): Constraint {
  const tags = jsonTags(want.tools, (name) => ({
    begin: `${callsBegin}${callBegin}${form.front}${name}${form.behind}`,
    end: `${form.end}${callsEnd}`,
  }))
  return constraintOf(want, tags, thinking ? '</think>' : undefined)
}
