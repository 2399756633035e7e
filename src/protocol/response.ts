// The response object: the fields that are always on the wire, in the order recordings of the original show.
import type { Item } from './items.ts'
import type { Tool, ToolChoice } from './tools.ts'

export type ResponseStatus = 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled' | 'queued'
/** From `interrupted` on, and `estimated` below, additions of this server; see docs/protocol.md. */
export type IncompleteReason =
  | 'max_output_tokens'
  | 'content_filter'
  | 'steered'
  | 'interrupted'
  | 'cancelled'
  | 'append_timeout'
  | 'max_rounds'
  | 'draining'
export type Usage = {
  input_tokens: number
  input_tokens_details: { cached_tokens: number; cache_write_tokens: number }
  output_tokens: number
  output_tokens_details: { reasoning_tokens: number }
  total_tokens: number
  /** Present and true where the engine reported nothing usable and these are our own counts. */
  estimated?: true
}
export type ResponseError = { code: string; message: string; param?: string | null; type?: string }
export type TextFormat =
  | { type: 'text' }
  | { type: 'json_object' }
  | {
      type: 'json_schema'
      name: string
      schema: Record<string, unknown>
      description?: string
      strict?: boolean | null
    }
export type TextConfig = { format: TextFormat; verbosity?: 'low' | 'medium' | 'high' }
export type ReasoningConfig = {
  effort?: 'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh' | 'max' | null
  summary?: 'auto' | 'concise' | 'detailed' | null
  generate_summary?: 'auto' | 'concise' | 'detailed' | null
  context?: string | null
  mode?: string | null
}

export type Response = {
  id: string
  object: 'response'
  created_at: number
  status: ResponseStatus
  background: boolean
  completed_at: number | null
  error: ResponseError | null
  frequency_penalty: number
  incomplete_details: { reason: IncompleteReason } | null
  instructions: string | null
  max_output_tokens: number | null
  max_tool_calls: number | null
  model: string
  output: readonly Item[]
  parallel_tool_calls: boolean
  presence_penalty: number
  previous_response_id: string | null
  prompt_cache_key: string | null
  reasoning: ReasoningConfig | null
  safety_identifier: string | null
  service_tier: string
  store: boolean
  temperature: number
  text: TextConfig
  tool_choice: ToolChoice
  tools: readonly Tool[]
  top_logprobs: number
  top_p: number
  truncation: 'auto' | 'disabled'
  usage: Usage | null
  user?: string
  metadata: Record<string, string>
  /** Only on a response that `response.interrupt` ended. */
  end_turn?: false
}
