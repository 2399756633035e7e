// Mistral with the tekken tokenizers, in three generations: calls as one JSON list (Nemo, v3), a name with an id and
// arguments behind tokens of their own (Small 3.2, v11), the same without ids (Devstral, Ministral, v13).
import { createHash } from 'node:crypto'
import { templateTool } from '../protocol/functions.ts'
import type { Constraint, Content } from '../turn/ports.ts'
import type { Family, Head, Kind, Part, Pen, Segment, Turn, Want } from './family.ts'
import { constraintOf, jsonContent } from './constrain.ts'
import { MistralParser } from './mistral-parser.ts'
import { ministralSystem, smallSystem } from './mistral-system.ts'
import { settle } from './owed.ts'
import { pythonJson } from './python-json.ts'
import { textOfParts } from './turns.ts'

const [bos, eos] = ['<s>', '</s>']
const users = ['[INST]', '[/INST]']
const system = ['[SYSTEM_PROMPT]', '[/SYSTEM_PROMPT]']
const tooling = ['[AVAILABLE_TOOLS]', '[/AVAILABLE_TOOLS]', '[TOOL_CALLS]', '[TOOL_RESULTS]', '[/TOOL_RESULTS]']
const thoughts = ['[THINK]', '[/THINK]'] as const
const picture = (pen: Pen): void => pen.control('[IMG]')

/**
 * Mistral Nemo. Its template puts tools and system text into the last user message, so that every new one rewrites the
 * conversation; here they stay with the first, as the tools do in Mistral's own later formats (v13), and prefixes hold.
 */
export const mistralNemo: Family = {
  name: 'mistral-nemo',
  retention: 'all',
  needs: [bos, eos, ...users, ...tooling],
  stops: [eos],
  markers: [],
  head(pen, { system: text, tools }) {
    pen.control(bos)
    // The template prints names and descriptions as they are, without escapes.
    const shown = tools.map((tool) => {
      const { name, description, parameters } = templateTool(tool).function
      return `{"type": "function", "function": {"name": "${name}", "description": "${description}", "parameters": ${pythonJson(parameters)}}}`
    })
    if (tools.length > 0) wrapped(pen, tooling, `[${shown.join(', ')}]`)
    if (text === undefined) return
    pen.control('[INST]')
    pen.text(text)
  },
  segment(pen, segment, before, _kept, head) {
    const open = before === 'head' && head.system !== undefined
    if (segment.kind === 'user' || segment.kind === 'system') return asked(pen, segment, open ? 'user' : before)
    if (open) pen.control('[/INST]')
    if (segment.kind === 'tool') {
      const { callId, parts } = segment
      return wrapped(pen, results, `{"content": ${textOfParts(parts)}, "call_id": "${nine(callId)}"}`)
    }
    listed(pen, segment.turn)
  },
  leave: answers,
  opening(pen, before, head) {
    if (before === 'head' && head.system !== undefined) pen.control('[/INST]')
  },
  spoken: listed,
  closed(pen, { pieces }, end) {
    if (typeof end !== 'string' && pieces.at(-1)?.kind === 'call') pen.text(']')
    pen.control(eos)
  },
  parser: () => new MistralParser(),
  constrain: (want) =>
    constraintOf(
      want,
      want.tools.map((tool) => ({
        begin: `[TOOL_CALLS][{"name": "${tool.flat}", "arguments": `,
        content: { type: 'sequence', parts: [jsonContent(tool), perhapsId] },
        end: '}]',
      })),
      undefined,
    ),
}
const perhapsId: Content = { type: 'regex', definition: '(, "id": "[A-Za-z0-9]{9}")?', quoted: false }
function listed(pen: Pen, { text, calls }: Turn): void {
  pen.text(text)
  if (calls.length > 0) {
    const list = calls.map((c) => `{"name": "${c.name}", "arguments": ${c.arguments}, "id": "${nine(c.callId)}"}`)
    pen.control('[TOOL_CALLS]')
    pen.text(`[${list.join(', ')}]`)
  }
  pen.control(eos)
}
const results = ['[TOOL_RESULTS]', '[/TOOL_RESULTS]']

/** Small 3.2: ids beside the names. Its template moves tools to the last user message too; see `mistralNemo`. */
export const mistralSmall: Family = tekken({
  name: 'mistral-small-3.2',
  needs: [...system, ...users, ...tooling, '[CALL_ID]', '[ARGS]', '[TOOL_CONTENT]'],
  markers: ['[IMG]'],
  picture,
  system: (head) => smallSystem(head.date),
  ids: true,
})
/** Ministral 3 Reasoning: all reasoning stays, as the template has it. */
export const ministral: Family = tekken({
  name: 'ministral-3',
  needs: [...system, ...users, ...tooling, '[ARGS]', ...thoughts],
  markers: ['[IMG]', '[CALL_ID]'],
  picture,
  system: (head) => (head.thinking ? ministralSystem : undefined),
  reasons: true,
})
/**
 * Devstral. Its template brings the prompt of one agent along for requests that have no instructions; it is left out, as
 * Mistral's own renderer (mistral-common) leaves it out.
 */
export const devstral: Family = tekken({
  name: 'devstral',
  needs: [...system, ...users, ...tooling, '[ARGS]'],
  markers: ['[CALL_ID]', '[IMG]'],
  system: () => undefined,
  apart: true,
})

type Tekken = {
  readonly name: string
  readonly needs: readonly string[]
  readonly markers: readonly string[]
  readonly picture?: (pen: Pen) => void
  /** The system text where the request has none. */
  readonly system: (head: Head) => string | undefined
  readonly ids?: boolean
  readonly reasons?: boolean
  /** User messages that touch stay apart, and later system messages are such. */
  readonly apart?: boolean
}
function tekken({
  name,
  needs,
  markers,
  picture: pictured,
  system: without,
  ids = false,
  reasons = false,
  apart = false,
}: Tekken): Family {
  const spoken = (pen: Pen, turn: Turn, reasoning: boolean): void => {
    if (reasoning && turn.reasoning !== '') wrapped(pen, thoughts, turn.reasoning)
    pen.text(turn.text)
    for (const call of turn.calls) {
      pen.control('[TOOL_CALLS]')
      pen.text(call.name)
      if (ids) {
        pen.control('[CALL_ID]')
        pen.text(nine(call.callId))
      }
      pen.control('[ARGS]')
      pen.text(call.arguments)
    }
    pen.control(eos)
  }
  return {
    name,
    retention: 'all',
    needs: [bos, eos, ...needs],
    stops: [eos],
    markers,
    pairs: [thoughts],
    ...(pictured ? { pictures: ['user' as const] } : {}),
    head(pen, head) {
      pen.control(bos)
      const own = head.system === undefined ? without(head) : undefined
      if (own !== undefined) pen.markup(`[SYSTEM_PROMPT]${own}[/SYSTEM_PROMPT]`)
      if (head.system !== undefined) wrapped(pen, system, head.system)
      if (head.tools.length > 0) wrapped(pen, tooling, pythonJson(head.tools.map(templateTool)))
    },
    segment(pen, segment, before, kept) {
      if (segment.kind === 'assistant') return spoken(pen, segment.turn, reasons && kept)
      if (segment.kind === 'tool') {
        pen.control('[TOOL_RESULTS]')
        if (ids) {
          pen.text(nine(segment.callId))
          pen.control('[TOOL_CONTENT]')
        }
        pen.text(textOfParts(segment.parts))
        return pen.control('[/TOOL_RESULTS]')
      }
      if (!apart) return asked(pen, segment, before, pictured)
      if (segment.kind === 'system') return wrapped(pen, system, segment.text)
      wrapped(pen, users, textOfParts(segment.parts))
    },
    ...(apart ? {} : { leave: answers }),
    opening: () => undefined,
    spoken: (pen, turn) => spoken(pen, turn, reasons),
    closed(pen, _turn, end) {
      settle(pen, end)
      pen.control(eos)
    },
    parser: () => new MistralParser(),
    constrain: (want) => constrain(want, ids, reasons ? thoughts[1] : undefined),
  }
}

function wrapped(pen: Pen, [open = '', close = '']: readonly string[], text: string): void {
  pen.control(open)
  pen.text(text)
  pen.control(close)
}
/** The format wants roles to take turns: user messages that touch are one, and later system messages are the user's. */
function asked(
  pen: Pen,
  segment: Extract<Segment, { kind: 'user' | 'system' }>,
  before: Kind,
  pictured?: (pen: Pen) => void,
): void {
  if (before === 'user' || before === 'system') pen.text('\n\n')
  else pen.control('[INST]')
  const parts: readonly Part[] = segment.kind === 'system' ? [segment.text] : segment.parts
  for (const part of parts) {
    if (typeof part === 'string') pen.text(part)
    else pictured?.(pen)
  }
}
function answers(pen: Pen, before: Kind, next: Segment['kind']): void {
  if ((before === 'user' || before === 'system') && next !== 'user' && next !== 'system') pen.control('[/INST]')
}

/**
 * Ids are nine letters and digits; those that the model wrote are, all others are hashed to such. The same id gives the
 * same nine for ever.
 */
export function nine(callId: string): string {
  if (/^[A-Za-z0-9]{9}$/.test(callId)) return callId
  const hash = createHash('sha256').update(callId).digest()
  return Array.from(hash.subarray(0, 9), (byte) => letters[byte % letters.length]).join('')
}
const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'

function constrain(want: Want, ids: boolean, after: string | undefined): Constraint {
  const callId: Content = { type: 'regex', definition: '[A-Za-z0-9]{9}', quoted: false }
  const tags = want.tools.map((tool) => ({
    begin: `[TOOL_CALLS]${tool.flat}${ids ? '[CALL_ID]' : '[ARGS]'}`,
    content: ids ? { type: 'sequence' as const, parts: [callId, '[ARGS]', jsonContent(tool)] } : jsonContent(tool),
    end: '',
  }))
  return constraintOf(want, tags, after)
}
