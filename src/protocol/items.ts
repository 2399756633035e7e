// The items of a conversation that clients and models exchange, and what decides that an item is a call, an answer,
// the model's own. Item types that only hosted tools make stand in hosted-items.ts. Shapes: openai 7.59 types.
import type { HostedItem } from './hosted-items.ts'
import type { Caller, Tool } from './tools.ts'

export type { Caller }

export type ItemStatus = 'in_progress' | 'completed' | 'incomplete'
export type Breakpoint = { mode: 'explicit'; ttl?: string }
export type InputText = { type: 'input_text'; text: string; prompt_cache_breakpoint?: Breakpoint }
export type InputImage = {
  type: 'input_image'
  detail?: 'low' | 'high' | 'auto' | 'original'
  image_url?: string | null
  file_id?: string | null
  prompt_cache_breakpoint?: Breakpoint
}
export type InputFile = {
  type: 'input_file'
  file_data?: string
  file_id?: string | null
  file_url?: string
  filename?: string
  detail?: 'low' | 'high' | 'auto'
  prompt_cache_breakpoint?: Breakpoint
}
export type InputPart = InputText | InputImage | InputFile
export type OutputText = { type: 'output_text'; text: string; annotations: unknown[]; logprobs?: unknown[] }
export type Refusal = { type: 'refusal'; refusal: string }
export type ReasoningText = { type: 'reasoning_text'; text: string }
export type SummaryText = { type: 'summary_text'; text: string }
export type OutputPart = OutputText | Refusal

export type Role = 'user' | 'assistant' | 'system' | 'developer'
/** After the door `content` is always an array; a string on the wire becomes one text part. */
export type Message = {
  type: 'message'
  id?: string
  role: Role
  content: (InputPart | OutputPart)[]
  status?: ItemStatus
  phase?: 'commentary' | 'final_answer' | null
}
export type FunctionCall = {
  type: 'function_call'
  id?: string
  call_id: string
  name: string
  arguments: string
  namespace?: string
  async?: boolean
  caller?: Caller | null
  status?: ItemStatus
}
export type ToolOutput = string | InputPart[]
export type FunctionCallOutput = {
  type: 'function_call_output'
  id?: string | null
  call_id: string
  output: ToolOutput
  name?: string | null
  namespace?: string | null
  caller?: Caller | null
  status?: ItemStatus | null
}
export type CustomToolCall = {
  type: 'custom_tool_call'
  id?: string
  call_id: string
  name: string
  input: string
  namespace?: string
  async?: boolean
  caller?: Caller | null
  status?: ItemStatus
}
export type CustomToolCallOutput = {
  type: 'custom_tool_call_output'
  id?: string
  call_id: string
  output: ToolOutput
  caller?: Caller | null
  status?: ItemStatus
}
export type Reasoning = {
  type: 'reasoning'
  id?: string
  summary: SummaryText[]
  content?: ReasoningText[]
  encrypted_content?: string | null
  status?: ItemStatus
}
export type Compaction = { type: 'compaction'; id?: string | null; encrypted_content: string }
export type CompactionTrigger = { type: 'compaction_trigger'; id?: string | null }
/** Tools that a conversation brings along as an item, in front of those in the request's `tools`. */
export type AdditionalTools = { type: 'additional_tools'; id?: string | null; role: string; tools: Tool[] }
export type ItemReference = { type: 'item_reference'; id: string }

/**
 * One item after the door. Types this server does not know yet are kept as they came and typed as one of these, so
 * every `switch` over `type` needs a default that passes them on.
 */
export type Item =
  | Message
  | FunctionCall
  | FunctionCallOutput
  | CustomToolCall
  | CustomToolCallOutput
  | Reasoning
  | Compaction
  | CompactionTrigger
  | AdditionalTools
  | ItemReference
  | HostedItem

/** What the model of this server may write. */
export type ModelItem = Message | Reasoning | FunctionCall | CustomToolCall | Compaction
/** A call that a client answers with its next request. */
export type ClientCall = FunctionCall | CustomToolCall

export const isClientCall = (item: Item): item is ClientCall =>
  item.type === 'function_call' || item.type === 'custom_tool_call'

/** The call that this item answers, whatever kind of `*_output` it is; undefined for items that answer none. */
export function answeredCall(item: Item): string | undefined {
  if (!item.type.endsWith('_call_output') && item.type !== 'tool_search_output') return undefined
  const id = (item as { call_id?: unknown }).call_id
  return typeof id === 'string' ? id : undefined
}
/** The id under which a later output answers this item; undefined for items that are no call. */
export function calledAs(item: Item): string | undefined {
  if (!item.type.endsWith('_call')) return undefined
  const { call_id, id } = item as { call_id?: unknown; id?: unknown }
  return typeof call_id === 'string' ? call_id : typeof id === 'string' ? id : undefined
}

/** Plain text of a message, a reasoning item or a tool output, parts joined; images and files leave none. */
export function textOf(content: string | readonly { type: string }[] | undefined): string {
  if (content === undefined) return ''
  if (typeof content === 'string') return content
  let text = ''
  for (const part of content as readonly { type: string; text?: unknown; refusal?: unknown }[]) {
    if (typeof part.text === 'string') text += part.text
    else if (typeof part.refusal === 'string') text += part.refusal
  }
  return text
}
