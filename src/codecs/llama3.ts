// Llama 3.1, 3.2 and 3.3: one format, for without built-in tools their templates write the same. Calls are bare JSON at the
// start of a turn. The built-in tools (search, code in an ipython environment) are not offered.
import { templateTool } from '../protocol/functions.ts'
import type { Constraint } from '../turn/ports.ts'
import { jsonTags } from './constrain.ts'
import type { Family, Head, Kind, Pen, Segment, Turn, Want } from './family.ts'
import { Llama3Parser } from './llama3-parser.ts'
import { pythonJson, pythonJsonLines } from './python-json.ts'
import { stripped } from './python-text.ts'
import { textOfParts } from './turns.ts'

/** The format has no place for reasoning. */
export const llama3: Family = {
  name: 'llama3',
  retention: 'all',
  needs: ['<|begin_of_text|>', '<|start_header_id|>', '<|end_header_id|>', '<|eot_id|>'],
  // <|eom_id|> ends a turn that waits for a tool's output, in place of <|eot_id|>; models write either behind calls.
  stops: ['<|eot_id|>', '<|eom_id|>', '<|end_of_text|>'],
  markers: ['<|python_tag|>'],
  head(pen, { system, tools, date }) {
    pen.markup('<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n')
    if (tools.length > 0) pen.markup('Environment: ipython\n')
    pen.markup(`Cutting Knowledge Date: December 2023\nToday Date: ${dayOf(date)}\n\n`)
    pen.text(stripped(system ?? ''))
    pen.control('<|eot_id|>')
  },
  segment(pen, segment, before, _kept, head) {
    if (segment.kind === 'user') {
      pen.markup('<|start_header_id|>user<|end_header_id|>\n\n')
      if (before === 'head') offer(pen, head)
      pen.text(stripped(textOfParts(segment.parts)))
      pen.control('<|eot_id|>')
      return
    }
    offerAlone(pen, before, head)
    if (segment.kind === 'assistant') return turnOf(pen, segment.turn)
    message(pen, segment)
  },
  opening(pen, before, head) {
    offerAlone(pen, before, head)
    pen.markup('<|start_header_id|>assistant<|end_header_id|>\n\n')
  },
  spoken(pen, { text, calls }) {
    pen.text(text)
    // Behind words only this says that a call follows.
    if (text !== '' && calls.length > 0) pen.control('<|python_tag|>')
    for (const [n, call] of calls.entries()) {
      if (n > 0) pen.markup('; ')
      pen.text(callText(call))
    }
    pen.control('<|eot_id|>')
  },
  closed(pen, _turn, end) {
    pen.control(end === '<|eom_id|>' ? end : '<|eot_id|>')
  },
  changes: () => false,
  parser: ({ tools }) => new Llama3Parser(tools.map((tool) => tool.flat)),
  constrain,
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
/** `2026-07-26` → `26 Jul 2026` */
function dayOf(date: string): string {
  const [year = '', month = '', day = ''] = date.split('-')
  return `${day} ${months[Number(month) - 1] ?? ''} ${year}`
}
/** The tools, in front of the first user message's own words. */
function offer(pen: Pen, { tools }: Head): void {
  if (tools.length === 0) return
  pen.markup(
    'Given the following functions, please respond with a JSON for a function call with its proper arguments that best answers the given prompt.\n\nRespond in the format {"name": function name, "parameters": dictionary of argument name and its value}.Do not use variables.\n\n',
  )
  for (const tool of tools) pen.text(`${pythonJsonLines(templateTool(tool))}\n\n`)
}
/** A conversation that does not begin with a user message: the tools stand in one of their own. */
function offerAlone(pen: Pen, before: Kind, head: Head): void {
  if (before !== 'head' || head.tools.length === 0) return
  pen.markup('<|start_header_id|>user<|end_header_id|>\n\n')
  offer(pen, head)
  pen.control('<|eot_id|>')
}
function message(pen: Pen, segment: Extract<Segment, { kind: 'system' | 'tool' }>): void {
  pen.markup(`<|start_header_id|>${segment.kind === 'tool' ? 'ipython' : 'system'}<|end_header_id|>\n\n`)
  pen.text(segment.kind === 'tool' ? pythonJson(textOfParts(segment.parts)) : stripped(segment.text))
  pen.control('<|eot_id|>')
}
/** One message for the text and one for each call: the template knows no message with both. */
function turnOf(pen: Pen, { text, calls }: Turn): void {
  const texts = calls.map(callText)
  if (stripped(text) !== '' || calls.length === 0) texts.unshift(stripped(text))
  for (const one of texts) {
    pen.markup('<|start_header_id|>assistant<|end_header_id|>\n\n')
    pen.text(one)
    pen.control('<|eot_id|>')
  }
}
const callText = (call: { readonly name: string; readonly arguments: string }): string =>
  `{"name": "${call.name}", "parameters": ${call.arguments}}`

/** Calls are told from text by how a turn begins, so an engine can be held to calls only where it may write nothing else. */
function constrain({ answer, tools, must, one }: Want): Constraint {
  if (tools.length === 0 && answer)
    return { after: undefined, rule: { type: 'whole', content: { type: 'json', schema: answer } } }
  const tags = jsonTags(tools, (name) => ({ begin: `{"name": "${name}", "parameters": `, end: '}' }))
  const otherwise = answer ? ({ type: 'json', schema: answer } as const) : words
  return { after: undefined, rule: { type: 'tags', tags, must, one, ...(must ? {} : { otherwise }) } }
}
/** Text that does not begin as a call does. */
const words = { type: 'regex', definition: String.raw`[^\s{](.|\n)*`, quoted: false } as const
