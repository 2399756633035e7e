// DeepSeek V3.2: reasoning in <think>, calls as tagged values around one token, ｜DSML｜.
import { ApiError } from '../protocol/errors.ts'
import { templateTool } from '../protocol/functions.ts'
import type { Callable } from '../protocol/tools.ts'
import type { Constraint, Content, Tag } from '../turn/ports.ts'
import type { Family, Head, Pen, Turn, TurnCall, Want } from './family.ts'
import { constraintOf } from './constrain.ts'
import { DsmlParser } from './dsml-parser.ts'
import { fieldsOf } from './json-fields.ts'
import { complete, settle } from './owed.ts'
import { pythonJson } from './python-json.ts'
import { textOfParts } from './turns.ts'

const bos = '<｜begin▁of▁sentence｜>'
const eos = '<｜end▁of▁sentence｜>'
const user = '<｜User｜>'
const assistant = '<｜Assistant｜>'

/**
 * Reasons only where asked to. A turn without reasoning is opened by `<think></think>`, and written as `</think>` alone
 * where a client sends it; reasoning stays until the user speaks again.
 */
export const deepseekV32: Family = {
  name: 'deepseek-v3.2',
  retention: 'tool_cycle',
  needs: [bos, eos, user, assistant, '<think>', '</think>'],
  stops: [eos],
  markers: ['｜DSML｜'],
  pairs: [['<think>', '</think>']],
  head,
  segment(pen, segment, before, kept, settings) {
    if (segment.kind === 'tool') {
      pen.text(`${before === 'tool' ? '' : '\n\n<function_results>'}\n<result>`)
      pen.text(textOfParts(segment.parts))
      return pen.text('</result>')
    }
    if (segment.kind !== 'assistant') {
      pen.control(user)
      return pen.text(segment.kind === 'system' ? segment.text : textOfParts(segment.parts))
    }
    if (before !== 'assistant') {
      if (before !== 'tool') pen.control(assistant)
      if (kept && thinks(settings)) {
        pen.control('<think>')
        pen.text(segment.turn.reasoning)
      }
      pen.control('</think>')
    }
    said(pen, segment.turn)
  },
  leave(pen, before, next) {
    if (before !== 'tool' || next === 'tool') return
    pen.text(`\n</function_results>${next === 'assistant' ? '\n\n' : ''}`)
  },
  opening(pen, before, settings) {
    if (before !== 'tool') pen.control(assistant)
    pen.markup(thinks(settings) ? '<think>' : '<think></think>')
  },
  spoken(pen, turn, settings) {
    const thinking = thinks(settings)
    if (!thinking && turn.reasoning !== '') pen.control('<think>')
    if (thinking || turn.reasoning !== '') {
      pen.text(turn.reasoning)
      pen.control('</think>')
    }
    said(pen, turn)
  },
  closed(pen, _turn, end) {
    if (typeof end !== 'string') complete(pen, end.text, tagEnds(end.text))
    settle(pen, end)
    pen.control(eos)
  },
  changes: (turn, settings) => turn.reasoning !== '' || thinks(settings),
  parser: (settings) => new DsmlParser(thinks(settings)),
  constrain,
}
const thinks = ({ effort }: Head): boolean => effort !== null && effort !== 'none'

function head(pen: Pen, { system, tools }: Head): void {
  pen.control(bos)
  pen.text(system ?? '')
  if (tools.length === 0) return
  if (system !== undefined && system !== '') pen.text('\n\n')
  pen.markup(
    '## Tools\n\nYou have access to a set of tools you can use to answer the user\'s question.\nYou can invoke functions by writing a "<｜DSML｜function_calls>" block like the following as part of your reply to the user:\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="$FUNCTION_NAME">\n<｜DSML｜parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</｜DSML｜parameter>\n...\n</｜DSML｜invoke>\n<｜DSML｜invoke name="$FUNCTION_NAME2">\n...\n</｜DSML｜invoke>\n</｜DSML｜function_calls>\n\nString and scalar parameters should be specified as is without any escaping or quotes, while lists and objects should use JSON format. The "string" attribute should be set to "true" for string type parameters and "false" for other types (numbers, booleans, arrays, objects).\n\nIf the thinking_mode is enabled, then after function results you should strongly consider outputting a thinking block. Here is an example:\n\n<｜DSML｜function_calls>\n...\n</｜DSML｜function_calls>\n\n<function_results>\n...\n</function_results>\n\n<think>...thinking about results</think>\n\nHere are the functions available in JSONSchema format:\n<functions>\n',
  )
  for (const tool of tools) pen.text(`${pythonJson(templateTool(tool).function)}\n`)
  pen.text('</functions>\n')
}
function said(pen: Pen, { text, calls }: Turn): void {
  pen.text(text)
  if (calls.length > 0) {
    pen.markup('\n\n<｜DSML｜function_calls>\n')
    for (const call of calls) invoke(pen, call)
    pen.markup('</｜DSML｜function_calls>')
  }
  pen.control(eos)
}
function invoke(pen: Pen, call: TurnCall): void {
  pen.markup('<｜DSML｜invoke name="')
  pen.text(call.name)
  pen.text('">\n')
  // Arguments that are no object are shown as they are, under a name that says so.
  const fields = fieldsOf(call.arguments) ?? [{ name: 'arguments', value: JSON.stringify(call.arguments) }]
  for (const { name, value } of fields) {
    const plain = value.startsWith('"')
    pen.markup('<｜DSML｜parameter name="')
    pen.text(`${name}" string="${plain}">${plain ? String(JSON.parse(value)) : value}`)
    pen.markup('</｜DSML｜parameter>\n')
  }
  pen.markup('</｜DSML｜invoke>\n')
}

/** What closes the tags that this text has opened. */
function tagEnds(text: string): string {
  const open: string[] = []
  for (const [, closes, name = ''] of text.matchAll(/<(\/?)｜DSML｜(function_calls|invoke|parameter)[^>]*>/g)) {
    if (closes === '') open.push(name)
    else if (open.includes(name)) open.length = open.lastIndexOf(name)
  }
  const ends = open.toReversed().map((name) => `</｜DSML｜${name}>`)
  // A value has no line break of its own.
  return (open.length === 0 || open.at(-1) === 'parameter' ? '' : '\n') + ends.join('\n')
}
/** Several calls are then several lists of one call, which the parser reads alike. */
function constrain(want: Want, settings: Head): Constraint {
  const tags = want.tools.map((tool): Tag => ({
    begin: `\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="${tool.flat}">\n`,
    content: contentOf(tool),
    end: '</｜DSML｜invoke>\n</｜DSML｜function_calls>',
  }))
  return constraintOf(want, tags, thinks(settings) ? '</think>' : undefined)
}
/**
 * Strict arguments one by one, in the order of the schema. Only plain strings are written as text; whatever has a rule of
 * its own is JSON, which the format allows for every value.
 */
function contentOf(tool: Callable): Content {
  if (tool.kind === 'custom') {
    const { format } = tool
    if (format?.type !== 'grammar') return tagged([['input', { type: 'text' }]])
    return tagged([['input', { type: format.syntax, definition: format.definition, quoted: false }]])
  }
  if (!tool.strict) return { type: 'text' }
  const { properties, required, additionalProperties, $defs, definitions } = tool.parameters
  const all = Object.entries((properties ?? {}) as Record<string, unknown>)
  const must = new Set(Array.isArray(required) ? required : [])
  if (additionalProperties !== false || all.some(([name]) => !must.has(name)))
    throw new ApiError(
      'unsupported_by_engine',
      `This model cannot do 'strict' for the tool '${tool.name}': in its chat format every property must be required and additionalProperties false.`,
      'tools',
    )
  const defs = { ...($defs === undefined ? {} : { $defs }), ...(definitions === undefined ? {} : { definitions }) }
  return tagged(
    all.map(([name, schema]) => [
      name,
      isText(schema) ? { type: 'text' } : { type: 'json', schema: { ...asObject(schema), ...defs } },
    ]),
  )
}
const asObject = (schema: unknown): Record<string, unknown> =>
  typeof schema === 'object' && schema !== null ? { ...schema } : {}
const isText = (schema: unknown): boolean => {
  const { type, description: _, title: __, default: ___, examples: ____, ...rules } = asObject(schema)
  return type === 'string' && Object.keys(rules).length === 0
}
const tagged = (values: readonly (readonly [string, Content])[]): Content => ({
  type: 'sequence',
  parts: values.flatMap(([name, content]) => [
    `<｜DSML｜parameter name="${name}" string="${content.type !== 'json'}">`,
    content,
    '</｜DSML｜parameter>\n',
  ]),
})
