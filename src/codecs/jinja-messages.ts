// Items → the chat messages that a template is given. Says once what hand-written formats do segment by segment;
// scripts/goldens/messages.py is the same mapping for the reference.
import { ApiError } from '../protocol/errors.ts'
import { type Naming, templateTool } from '../protocol/functions.ts'
import type { Item } from '../protocol/items.ts'
import type { Callable } from '../protocol/tools.ts'
import type { Part, TurnCall, TurnPiece } from './family.ts'
import { parseJson } from './jinja-values.ts'
import { beginsAnew, pieceOf, segmentOf, turnOf } from './turns.ts'

/** In what templates differ. */
export type Mapping = {
  /** Arguments of calls as JSON text, or as what it says. */
  readonly arguments: 'text' | 'parsed'
  /** `user`: the template has no system message; its text stands in front of the first user message. */
  readonly system: 'system' | 'user'
  /** The role of system messages that do not lead. */
  readonly laterSystem: 'system' | 'user'
  /** The field of reasoning; `blocks`: a part of the content; `none`: it is left out. */
  readonly reasoning: 'none' | 'blocks' | 'reasoning_content' | 'reasoning' | 'thinking'
  /** `split`: one call a message. */
  readonly calls: 'together' | 'split'
  /** `joined`: user messages that touch are one. */
  readonly users: 'apart' | 'joined'
  /** `functions`: `functions.NAME:N`, N counting the calls of a message. `nine`: nine letters and digits. */
  readonly ids: 'given' | 'functions' | 'nine'
  /** What stands for text beside calls where there is none. */
  readonly noText: '' | null
}
export const plainMapping: Mapping = {
  arguments: 'parsed',
  system: 'system',
  laterSystem: 'system',
  reasoning: 'reasoning_content',
  calls: 'together',
  users: 'apart',
  ids: 'given',
  noText: '',
}

type Block = { readonly type: string; readonly text?: string; readonly thinking?: string }
export type Message = {
  readonly role: 'system' | 'user' | 'assistant' | 'tool'
  content: string | null | readonly Block[]
  readonly [field: string]: unknown
}

/** Throws ApiError `unsupported_by_engine` for images: only the makers of a format know what stands for one. */
export function messagesOf(
  items: readonly Item[],
  instructions: string | null,
  naming: Naming,
  mapping: Mapping,
): Message[] {
  const out: Message[] = []
  const lead = instructions === null || instructions === '' ? [] : [instructions]
  const names = new Map<string, string>()
  const ids = new Map<string, string>()
  let group: TurnPiece[] = []
  let leads = true
  const user = (text: string): void => {
    const last = out.at(-1)
    if (mapping.users === 'joined' && last?.role === 'user') last.content = `${String(last.content)}\n\n${text}`
    else out.push({ role: 'user', content: text })
  }
  const begin = (): void => {
    if (!leads) return
    leads = false
    if (lead.length === 0) return
    const text = lead.join('\n\n')
    if (mapping.system === 'system') out.push({ role: 'system', content: text })
    else out.push({ role: 'user', content: text })
  }
  const close = (): void => {
    if (group.length > 0) out.push(...assistant(group, ids, mapping))
    group = []
  }
  for (const item of items) {
    const piece = pieceOf(item, naming)
    if (piece) {
      begin()
      if (beginsAnew(group, piece)) close()
      if (piece.kind === 'call') names.set(piece.callId, piece.name)
      group.push(piece)
      continue
    }
    const segment = segmentOf(item, (callId) => names.get(callId))
    if (!segment || segment.kind === 'assistant') continue
    if (segment.kind === 'system' && leads) {
      lead.push(segment.text)
      continue
    }
    begin()
    close()
    if (segment.kind === 'tool') {
      const id = ids.get(segment.callId) ?? idOf(segment.callId, segment.name ?? '', 0, mapping)
      const name = segment.name === undefined ? {} : { name: segment.name }
      out.push({ role: 'tool', tool_call_id: id, ...name, content: textOf(segment.parts) })
    } else if (segment.kind === 'user') {
      const first = out[0]
      if (mapping.system === 'user' && out.length === 1 && first?.role === 'user' && lead.length > 0)
        first.content = `${String(first.content)}\n\n${textOf(segment.parts)}`
      else user(textOf(segment.parts))
    } else if (mapping.laterSystem === 'user' || mapping.system === 'user') user(segment.text)
    else out.push({ role: 'system', content: segment.text })
  }
  begin()
  close()
  return out
}

function assistant(pieces: readonly TurnPiece[], ids: Map<string, string>, mapping: Mapping): Message[] {
  const { reasoning, text, calls } = turnOf(pieces)
  const content = text === '' && calls.length > 0 ? mapping.noText : text
  const message: Message = { role: 'assistant', content, ...thought(reasoning, text, mapping) }
  const made = calls.map((call, n) => callOf(call, n, ids, mapping))
  if (made.length === 0) return [message]
  if (mapping.calls === 'together') return [{ ...message, tool_calls: made }]
  const [first, ...more] = made
  return [
    { ...message, tool_calls: [first] },
    ...more.map((call): Message => ({ role: 'assistant', content: mapping.noText, tool_calls: [call] })),
  ]
}
function thought(reasoning: string, text: string, mapping: Mapping): Record<string, unknown> {
  if (reasoning === '' || mapping.reasoning === 'none') return {}
  if (mapping.reasoning !== 'blocks') return { [mapping.reasoning]: reasoning }
  const said = text === '' ? [] : [{ type: 'text', text }]
  return { content: [{ type: 'thinking', thinking: reasoning }, ...said] }
}
function callOf(call: TurnCall, n: number, ids: Map<string, string>, mapping: Mapping): object {
  const id = idOf(call.callId, call.name, n, mapping)
  ids.set(call.callId, id)
  const given = mapping.arguments === 'text' ? call.arguments : parsed(call.arguments)
  return { id, type: 'function', function: { name: call.name, arguments: given } }
}
function idOf(callId: string, name: string, n: number, { ids }: Mapping): string {
  if (ids === 'functions') return `functions.${name}:${n}`
  if (ids === 'given' || /^[A-Za-z0-9]{9}$/.test(callId)) return callId
  // FNV-1a, in as many digits: the same id for the same call, and no two alike but by bad luck.
  let hash = 0xcbf29ce484222325n
  for (const char of callId) hash = BigInt.asUintN(64, (hash ^ BigInt(char.codePointAt(0) ?? 0)) * 0x100000001b3n)
  return hash.toString(36).padStart(9, '0').slice(-9)
}
/** Arguments that were broken off stay text. */
function parsed(json: string): unknown {
  try {
    return parseJson(json)
  } catch {
    return json
  }
}
function textOf(parts: readonly Part[]): string {
  let text = ''
  for (const part of parts) {
    if (typeof part !== 'string')
      throw new ApiError(
        'unsupported_by_engine',
        "This model cannot do 'input_image': its chat template is used as it is, and no place for images is known.",
        'input',
      )
    text += part
  }
  return text
}
/** None for an empty list, as servers give them. */
export const toolsOf = (tools: readonly Callable[]): object[] | null =>
  tools.length === 0 ? null : tools.map(templateTool)
