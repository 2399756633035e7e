// The events of the wire. `Body` is an event before it has its place in a log; the place is its `sequence_number`.
import type { ErrorBody } from './errors.ts'
import type { Item, OutputPart, ReasoningText } from './items.ts'
import { toolsJson } from './known-tools.ts'
import type { Response, Usage } from './response.ts'

type At = { item_id: string; output_index: number }
type In = At & { content_index: number }
type Steer = { id: string; previous_response_id: string }

/** Events this server writes into a response's log. */
export type Body =
  | { type: 'response.created' | 'response.in_progress'; response: Response }
  | { type: 'response.completed' | 'response.incomplete' | 'response.failed'; response: Response }
  | { type: 'response.output_item.added' | 'response.output_item.done'; output_index: number; item: Item }
  | (In & { type: 'response.content_part.added' | 'response.content_part.done'; part: OutputPart | ReasoningText })
  | (In & { type: 'response.output_text.delta'; delta: string; logprobs: unknown[] })
  | (In & { type: 'response.output_text.done'; text: string; logprobs: unknown[] })
  | (In & { type: 'response.refusal.delta'; delta: string })
  | (In & { type: 'response.refusal.done'; refusal: string })
  | (In & { type: 'response.reasoning_text.delta'; delta: string })
  | (In & { type: 'response.reasoning_text.done'; text: string })
  | (At & { type: 'response.function_call_arguments.delta'; delta: string })
  | (At & { type: 'response.function_call_arguments.done'; arguments: string })
  | (At & { type: 'response.custom_tool_call_input.delta'; delta: string })
  | (At & { type: 'response.custom_tool_call_input.done'; input: string })
  | (At & { type: 'response.compaction.compacting' })
  /** A rollout waits for these; `usage` is that of all its generations so far. */
  | { type: 'response.done'; response_id: string; required_input: RequiredInput[]; usage: Usage }
  | { type: 'response.steer.accepted'; steer: Steer }
  | {
      type: 'response.steer.pending'
      steer: Steer
      reason: 'waiting_for_required_input'
      required_input: RequiredInput[]
    }

export type RequiredInput =
  | { type: 'function_call_output'; call_id: string; name: string }
  | { type: 'custom_tool_call_output'; call_id: string }

export type Event = Body & { sequence_number: number }

export type SteerErrorCode =
  | 'response_not_found'
  | 'invalid_input'
  | 'steering_not_supported'
  | 'too_many_pending_steers'
  | 'response_already_completed'
  | 'response_not_active'
  | 'successor_creation_failed'

/** Frames that belong to no log. A socket adds `stream_id` where the request had one. */
export type Loose =
  | { type: 'error'; status: number; sequence_number: number; error: ErrorBody; headers?: Record<string, string> }
  | { type: 'keepalive'; sequence_number: number }
  | {
      type: 'response.steer.failed'
      sequence_number: number
      steer: { id?: string; previous_response_id: string; input: unknown }
      error: { type: 'invalid_request_error'; code: SteerErrorCode; message: string }
    }
  | {
      type: 'response.inject.failed'
      sequence_number: number
      response_id: string
      input: unknown
      error: { code: 'response_already_completed' | 'response_not_found'; message: string }
    }

export const isTerminal = (event: { type: string }): boolean =>
  event.type === 'response.completed' || event.type === 'response.incomplete' || event.type === 'response.failed'

/** An event that carries a piece of one part's text; neighbours of one part may be joined. */
export type DeltaEvent = Extract<Event, { delta: string }>
export const isDelta = (event: Event): event is DeltaEvent => 'delta' in event

/**
 * JSON of an event. Deltas, the hot kind, are put together from a template whose head is fixed per part: a fifth of the
 * cost of JSON.stringify. Law 5: `JSON.parse(encodeEvent(e))` equals `e`.
 */
export function encodeEvent(e: Event): string {
  switch (e.type) {
    case 'response.output_text.delta':
      return `${inPart(e)},"delta":${JSON.stringify(e.delta)},"logprobs":${e.logprobs.length === 0 ? '[]' : JSON.stringify(e.logprobs)}}`
    case 'response.reasoning_text.delta':
    case 'response.refusal.delta':
      return `${inPart(e)},"delta":${JSON.stringify(e.delta)}}`
    case 'response.function_call_arguments.delta':
    case 'response.custom_tool_call_input.delta':
      return `${head(e.type, e.item_id, e.output_index)}${e.sequence_number},"delta":${JSON.stringify(e.delta)}}`
    case 'response.created':
    case 'response.in_progress':
    case 'response.completed':
    case 'response.incomplete':
    case 'response.failed':
      return `{"type":"${e.type}","response":${responseJson(e.response)},"sequence_number":${e.sequence_number}}`
    default:
      return json(e) ?? ''
  }
}
/** As JSON.stringify; but a long text, which the events at the end of an item say one after the other, is quoted once. */
function json(value: unknown): string | undefined {
  if (typeof value === 'string') return value.length < longText ? JSON.stringify(value) : textOnce(value)
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map((one) => json(one) ?? 'null').join(',')}]`
  let out = ''
  for (const [name, one] of Object.entries(value)) {
    const text = json(one)
    if (text !== undefined) out += `${out === '' ? '' : ','}${JSON.stringify(name)}:${text}`
  }
  return `{${out}}`
}
const longText = 1024
/** Characters; what is longer is quoted each time, and not held on to. */
const longestKept = 1_000_000
const textOnce = quotedOnce()
const instructionsOnce = quotedOnce()
/** Remembers the last text that it was asked for. */
function quotedOnce(): (text: string) => string {
  let kept = { text: '', json: '""' }
  return (text) => {
    if (text.length > longestKept) return JSON.stringify(text)
    if (kept.text !== text) kept = { text, json: JSON.stringify(text) }
    return kept.json
  }
}
/** Three events of every turn echo its tools and instructions, which are most of it. */
function responseJson(response: Response): string {
  const { instructions } = response
  let out = ''
  for (const [name, value] of Object.entries(response)) {
    if (value === undefined) continue
    const text =
      name === 'tools'
        ? toolsJson(response.tools)
        : name === 'instructions' && instructions !== null
          ? instructionsOnce(instructions)
          : json(value)
    out += `${out === '' ? '{' : ','}"${name}":${text}`
  }
  return `${out}}`
}
const inPart = (e: In & { type: string; sequence_number: number }): string =>
  `${head(e.type, e.item_id, e.output_index)}${e.sequence_number},"content_index":${e.content_index}`

// One slot is enough: the deltas of a part come one after the other, and parts of other lanes only cost a rebuild.
let last = { type: '', item: '', at: -1, head: '' }
function head(type: string, item: string, at: number): string {
  if (last.item !== item || last.type !== type || last.at !== at)
    last = {
      type,
      item,
      at,
      head: `{"type":"${type}","item_id":${JSON.stringify(item)},"output_index":${at},"sequence_number":`,
    }
  return last.head
}
