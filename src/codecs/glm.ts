// GLM 4.5 to 4.7: a turn ends with the token that opens the next one, <|user|> or <|observation|>, and calls are tagged
// values in <tool_call>. GLM 4.7 leaves the line breaks out, and its prompt opens the reasoning.
import { templateTool } from '../protocol/functions.ts'
import type { Callable } from '../protocol/tools.ts'
import type { Content, Tag } from '../turn/ports.ts'
import { constraintOf } from './constrain.ts'
import type { Family, Pen, Turn } from './family.ts'
import { argTags, GlmCall } from './glm-call.ts'
import { fieldsOf } from './json-fields.ts'
import { settle } from './owed.ts'
import { pythonJson } from './python-json.ts'
import { stripped } from './python-text.ts'
import { TagParser } from './tag-parser.ts'
import { textOfParts } from './turns.ts'

const roles = ['[gMASK]', '<sop>', '<|system|>', '<|user|>', '<|assistant|>', '<|observation|>'] as const
const tags = ['<think>', '</think>', '<tool_call>', '</tool_call>', ...argTags] as const
const pairs = ['think', 'tool_call', 'arg_key', 'arg_value'].map((tag) => [`<${tag}>`, `</${tag}>`] as const)
/** The model's own list of ends: eos_token_id of its generation_config.json. */
const stops = ['<|user|>', '<|observation|>', '<|endoftext|>'] as const
const nothink = '/nothink'

/** `line`: the line break between the parts of a message, or none. */
type Style = { readonly name: string; readonly line: '\n' | '' }

/** GLM 4.5 and 4.6: an own word behind user messages turns reasoning off. */
export const glm46 = glm({ name: 'glm-4.6', line: '\n' })
/** GLM 4.7 and its Flash. */
export const glm47 = glm({ name: 'glm-4.7-flash', line: '' })

function glm({ name, line }: Style): Family {
  const opens = line === ''
  const words = [...argTags, '<tool_response>', '</tool_response>', ...(opens ? [] : [nothink])]
  return {
    name,
    retention: 'tool_cycle',
    needs: [...roles, ...tags],
    stops,
    markers: words,
    pairs,
    head(pen, { system, tools }) {
      pen.markup('[gMASK]<sop>')
      if (tools.length > 0) {
        pen.markup(
          '<|system|>\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>\n',
        )
        for (const tool of tools) pen.text(`${pythonJson(templateTool(tool))}\n`)
        const pair = (n: number): string =>
          `<arg_key>{arg-key-${n}}</arg_key>${line}<arg_value>{arg-value-${n}}</arg_value>${line}`
        pen.markup(
          `</tools>\n\nFor each function call, output the function name and arguments within the following XML format:\n<tool_call>{function-name}${line}${pair(1)}${pair(2)}...${line}</tool_call>`,
        )
      }
      if (system === undefined) return
      pen.markup(`<|system|>${line}`)
      pen.text(system)
    },
    segment(pen, segment, before, kept, { thinking }) {
      switch (segment.kind) {
        case 'tool':
          pen.markup(`${before === 'tool' ? '' : '<|observation|>'}${line}<tool_response>${line}`)
          pen.text(textOfParts(segment.parts))
          return pen.markup(`${line}</tool_response>`)
        case 'assistant': {
          const { turn } = segment
          const reasoning = kept ? stripped(turn.reasoning) : ''
          pen.markup(`<|assistant|>${line}${opens && reasoning === '' ? '' : '<think>'}`)
          pen.text(reasoning)
          pen.control('</think>')
          return said(pen, turn, stripped(turn.text))
        }
        case 'system':
          pen.markup(`<|system|>${line}`)
          return pen.text(segment.text)
        default:
          pen.markup(`<|user|>${line}`)
          return asked(pen, textOfParts(segment.parts), thinking)
      }
    },
    opening(pen, _before, { thinking }) {
      pen.control('<|assistant|>')
      if (opens) pen.control(thinking ? '<think>' : '</think>')
      else if (!thinking) pen.markup('\n<think></think>')
    },
    spoken(pen, turn, { thinking }) {
      if (thinking) {
        if (!opens) pen.markup('\n<think>')
        pen.text(turn.reasoning)
        pen.control('</think>')
      }
      said(pen, turn, turn.text)
      pen.control(turn.calls.length > 0 ? '<|observation|>' : '<|user|>')
    },
    // Whatever follows begins with the token that ended the turn, or would have.
    closed(pen, _turn, end) {
      settle(pen, end, (closer) => {
        if (closer === '</think>') return closer
        if (closer === '</tool_call>') return line + closer
        return `${closer}${line}${closer === '</arg_key>' ? `<arg_value></arg_value>${line}` : ''}`
      })
    },
    parser({ tools, thinking }) {
      const byName = new Map(tools.map((tool) => [tool.flat, tool]))
      return new TagParser({
        thinking: opens && thinking,
        breaks: line.length,
        stops,
        call: (out, options) => new GlmCall(out, byName, options),
        words,
      })
    },
    constrain: (want, { thinking }) => constraintOf(want, want.tools.map(callTag), thinking ? '</think>' : undefined),
  }

  /** The switch is the format's own, also where a client has written it out. */
  function asked(pen: Pen, text: string, thinking: boolean): void {
    const off = !thinking && !opens
    pen.text(off && text.endsWith(nothink) ? text.slice(0, -nothink.length) : text)
    if (off) pen.markup(nothink)
  }
  function said(pen: Pen, { calls }: Turn, text: string): void {
    if (text !== '') pen.text(line + text)
    for (const call of calls) {
      pen.markup(`${line}<tool_call>`)
      pen.text(call.name + line)
      const fields = fieldsOf(call.arguments)
      // Arguments that were cut are no object: they stay as they are.
      if (!fields) pen.text(call.arguments + line)
      for (const { name: key, value } of fields ?? []) {
        pen.control('<arg_key>')
        pen.text(key)
        pen.markup(`</arg_key>${line}<arg_value>`)
        pen.text(value.startsWith('"') ? String(JSON.parse(value)) : value)
        pen.markup(`</arg_value>${line}`)
      }
      pen.control('</tool_call>')
    }
  }
  function callTag(tool: Callable): Tag {
    return { begin: `<tool_call>${tool.flat}`, content: contentOf(tool), end: '</tool_call>' }
  }
  function contentOf({ kind, format, strict, parameters }: Callable): Content {
    if (kind === 'custom' && format?.type === 'grammar') {
      const inner: Content = { type: format.syntax, definition: format.definition, quoted: false }
      const begin = `${line}<arg_key>input</arg_key>${line}<arg_value>`
      return { type: 'sequence', parts: [begin, inner, `</arg_value>${line}`] }
    }
    return { type: 'xml', style: 'glm', schema: kind === 'custom' || strict ? parameters : { type: 'object' } }
  }
}
