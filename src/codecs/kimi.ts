// Kimi K2: messages between <|im_…|> tokens, calls as JSON under ids of the form functions.NAME:N, which their outputs name
// again. The model counts on its own ids and loses its way when they change: they come back as they were written.
import { templateTool } from '../protocol/functions.ts'
import type { Content, Tag } from '../turn/ports.ts'
import { constraintOf, jsonContent } from './constrain.ts'
import type { CallNumber, Family, Pen, Turn, TurnCall } from './family.ts'
import { argumentBegin, callBegin, callEnd, KimiParser, nameInId, sectionBegin, sectionEnd } from './kimi-parser.ts'
import { settle } from './owed.ts'
import { pythonJson } from './python-json.ts'
import { textOfParts } from './turns.ts'

const roles = ['<|im_system|>', '<|im_user|>', '<|im_assistant|>', '<|im_middle|>', '<|im_end|>'] as const
const calls = [sectionBegin, sectionEnd, callBegin, argumentBegin, callEnd] as const
/** [EOS] is the tokenizer's; generation_config.json has the other alone. */
const stops = ['<|im_end|>', '[EOS]'] as const

type Style = {
  readonly name: string
  /** What the template says where nobody else does. */
  readonly system: string
  readonly behindSystem: string
  readonly thinks: boolean
  /** How calls are counted that have no id of the format's own. */
  readonly counts: keyof CallNumber
  /** Behind the id of an output. */
  readonly behindId: string
  /** The role of an output is its function's name. */
  readonly named: boolean
}
const kimi = 'You are Kimi, an AI assistant created by Moonshot AI.'

/** The first template: calls are counted in each message, and an escaped line break stays escaped. */
export const kimiK2 = family({
  name: 'kimi-k2',
  system: 'You are a helpful assistant',
  behindSystem: '',
  thinks: false,
  counts: 'inTurn',
  behindId: String.raw`\n`,
  named: false,
})
/** Later ones of the models without reasoning, with a stray line break behind their own system message. */
export const kimiK2Instruct = family({
  name: 'kimi-k2-instruct',
  system: kimi,
  behindSystem: '\n',
  thinks: false,
  counts: 'inAll',
  behindId: '\n',
  named: true,
})
/** Drops reasoning once it has led to an answer. */
export const kimiK2Thinking = family({
  name: 'kimi-k2-thinking',
  system: kimi,
  behindSystem: '',
  thinks: true,
  counts: 'inAll',
  behindId: '\n',
  named: true,
})

function family({ name, system, behindSystem, thinks, counts, behindId, named }: Style): Family {
  return {
    name,
    retention: thinks ? 'tool_cycle' : 'all',
    untilAnswer: thinks,
    needs: [...roles, ...calls, ...(thinks ? ['<think>', '</think>'] : [])],
    stops,
    markers: [],
    pairs: [
      ['<think>', '</think>'],
      [sectionBegin, sectionEnd],
      [callBegin, callEnd],
    ],
    head(pen, head) {
      if (head.tools.length > 0) {
        pen.markup('<|im_system|>tool_declare<|im_middle|>')
        pen.text(pythonJson(head.tools.map(templateTool)))
        pen.control('<|im_end|>')
      }
      message(pen, '<|im_system|>', 'system', head.system ?? system)
      if (head.system === undefined) pen.text(behindSystem)
    },
    segment(pen, segment, _before, kept) {
      switch (segment.kind) {
        case 'tool': {
          const role = named ? (segment.name ?? 'tool') : 'tool'
          const id = idOf(segment.callId, segment.name, segment.number)
          return message(pen, '<|im_system|>', role, `## Return of ${id}${behindId}${textOfParts(segment.parts)}`)
        }
        case 'assistant':
          pen.markup('<|im_assistant|>assistant<|im_middle|>')
          said(pen, segment.turn, kept)
          return pen.control('<|im_end|>')
        case 'system':
          return message(pen, '<|im_system|>', 'system', segment.text)
        default:
          return message(pen, '<|im_user|>', 'user', textOfParts(segment.parts))
      }
    },
    opening: (pen) => pen.markup('<|im_assistant|>assistant<|im_middle|>'),
    spoken(pen, turn) {
      said(pen, turn, true)
      pen.control('<|im_end|>')
    },
    closed(pen, _turn, end) {
      settle(pen, end)
      pen.control('<|im_end|>')
    },
    changes: (turn) => thinks && turn.reasoning !== '',
    parser: ({ tools }) => new KimiParser(tools, stops),
    constrain(want) {
      // Several calls are several sections of one, which are read alike; the model counts them.
      const number: Content = { type: 'regex', definition: '[0-9]{1,6}', quoted: false }
      const tags = want.tools.map((tool): Tag => ({
        begin: `${sectionBegin}${callBegin}functions.${tool.flat}:`,
        content: { type: 'sequence', parts: [number, argumentBegin, jsonContent(tool)] },
        end: `${callEnd}${sectionEnd}`,
      }))
      return constraintOf(want, tags, thinks ? '</think>' : undefined)
    },
  }

  function said(pen: Pen, turn: Turn, kept: boolean): void {
    if (thinks) {
      pen.control('<think>')
      if (kept) pen.text(turn.reasoning)
      pen.control('</think>')
    }
    pen.text(turn.text)
    if (turn.calls.length === 0) return
    pen.control(sectionBegin)
    for (const [n, call] of turn.calls.entries()) {
      pen.control(callBegin)
      pen.text(idOf(call.callId, call.name, { inTurn: n, inAll: turn.earlier + n }))
      pen.control(argumentBegin)
      pen.text(call.arguments)
      pen.control(callEnd)
    }
    pen.control(sectionEnd)
  }
  /** The model's own id as it is; that of any other client as the model would have written it. */
  function idOf(callId: string, name: TurnCall['name'] | undefined, number: CallNumber | undefined): string {
    if (name === undefined || number === undefined || nameInId(callId) === name) return callId
    return `functions.${name}:${number[counts]}`
  }
}

function message(pen: Pen, opens: string, role: string, text: string): void {
  pen.control(opens)
  pen.text(role)
  pen.control('<|im_middle|>')
  pen.text(text)
  pen.control('<|im_end|>')
}
