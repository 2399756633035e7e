// Every event that may stand on the wire, for readers: the 59 published types (openai 7.59), those of steering and
// injection, `response.done` of rollouts, and `keepalive`. What this server writes is `Event` and `Loose` in events.ts, a part of this union.
import type { ErrorBody } from './errors.ts'
import type { Body, Loose, RequiredInput } from './events.ts'
import type { ShellCallOutput } from './hosted-items.ts'
import type { Item, OutputPart, ReasoningText, SummaryText } from './items.ts'
import type { Response } from './response.ts'

type At = { item_id: string; output_index: number }
type In = At & { content_index: number }
type Of<T extends string> = { type: T }

/** The response as a whole, at its start, at its end and in between. */
type Whole = Of<
  | 'response.created'
  | 'response.queued'
  | 'response.in_progress'
  | 'response.completed'
  | 'response.incomplete'
  | 'response.failed'
> & { response: Response }

type Items = Of<'response.output_item.added' | 'response.output_item.done'> & { output_index: number; item: Item }

type Texts =
  | (Of<'response.content_part.added' | 'response.content_part.done'> & In & { part: OutputPart | ReasoningText })
  | (Of<'response.output_text.delta'> & In & { delta: string; logprobs: unknown[] })
  | (Of<'response.output_text.done'> & In & { text: string; logprobs: unknown[] })
  | (Of<'response.output_text.annotation.added'> & In & { annotation: unknown; annotation_index: number })
  | (Of<'response.refusal.delta'> & In & { delta: string })
  | (Of<'response.refusal.done'> & In & { refusal: string })
  | (Of<'response.reasoning_text.delta'> & In & { delta: string })
  | (Of<'response.reasoning_text.done'> & In & { text: string })

type InSummary = At & { summary_index: number }
type Summaries =
  | (Of<'response.reasoning_summary_part.added'> & InSummary & { part: SummaryText })
  | (Of<'response.reasoning_summary_part.done'> & InSummary & { part: SummaryText; status?: 'incomplete' })
  | (Of<'response.reasoning_summary_text.delta'> & InSummary & { delta: string })
  | (Of<'response.reasoning_summary_text.done'> & InSummary & { text: string })

type Audio =
  | (Of<'response.audio.delta' | 'response.audio.transcript.delta'> & { delta: string })
  | Of<'response.audio.done' | 'response.audio.transcript.done'>

type Calls =
  | (Of<'response.function_call_arguments.delta' | 'response.mcp_call_arguments.delta'> & At & { delta: string })
  | (Of<'response.function_call_arguments.done' | 'response.mcp_call_arguments.done'> & At & { arguments: string })
  | (Of<'response.custom_tool_call_input.delta'> & At & { delta: string })
  | (Of<'response.custom_tool_call_input.done'> & At & { input: string })
  | (Of<'response.code_interpreter_call_code.delta'> & At & { delta: string })
  | (Of<'response.code_interpreter_call_code.done'> & At & { code: string })

/** How far a hosted tool is. */
type Progress = Of<
  | 'response.compaction.compacting'
  | 'response.code_interpreter_call.in_progress'
  | 'response.code_interpreter_call.interpreting'
  | 'response.code_interpreter_call.completed'
  | 'response.file_search_call.in_progress'
  | 'response.file_search_call.searching'
  | 'response.file_search_call.completed'
  | 'response.web_search_call.in_progress'
  | 'response.web_search_call.searching'
  | 'response.web_search_call.completed'
  | 'response.image_generation_call.in_progress'
  | 'response.image_generation_call.generating'
  | 'response.image_generation_call.completed'
  | 'response.mcp_call.in_progress'
  | 'response.mcp_call.completed'
  | 'response.mcp_call.failed'
  | 'response.mcp_list_tools.in_progress'
  | 'response.mcp_list_tools.completed'
  | 'response.mcp_list_tools.failed'
> &
  At

type Pictures = Of<'response.image_generation_call.partial_image'> &
  At & {
    partial_image_b64: string
    partial_image_index: number
    background?: string
    output_format?: string
    quality?: string
    size?: string
  }

type OfCommand = { output_index: number; command_index: number }
type Shell =
  | (Of<'response.shell_call_command.added' | 'response.shell_call_command.done'> & OfCommand & { command: string })
  | (Of<'response.shell_call_command.delta'> & OfCommand & { delta: string })
  | (Of<'response.shell_call_output_content.delta'> &
      OfCommand & { item_id: string; delta: { stdout?: string; stderr?: string } })
  | (Of<'response.shell_call_output_content.done'> & OfCommand & { item_id: string; output: ShellCallOutput['output'] })

/** Nested is what servers send on a socket, flat what the published type of the SSE event says; read both. */
type Failure =
  | (Of<'error'> & { error: ErrorBody; status?: number; headers?: Record<string, string> })
  | (Of<'error'> & { code: string | null; message: string; param: string | null })

type Steer = { id: string; previous_response_id: string }
/** Newer servers may name other reasons and other stubs of what they wait for. */
type Steering =
  | (Of<'response.steer.accepted'> & { steer: Steer })
  | (Of<'response.steer.pending'> & {
      steer: Steer
      reason: string
      required_input: (RequiredInput | { type: string })[]
    })

/** The 59 published types of a response's stream. */
export type PublishedEvent = Whole | Items | Texts | Summaries | Audio | Calls | Progress | Pictures | Shell | Failure

/**
 * An event as a reader gets it. `sequence_number` is always there; `stream_id` where the request named a lane;
 * `obfuscation` is padding that some servers add to deltas.
 */
export type StreamEvent = (
  | PublishedEvent
  | Steering
  | Extract<Body, { type: 'response.done' }>
  | Of<'keepalive'>
  | Omit<Extract<Loose, { type: 'response.steer.failed' }>, 'sequence_number'>
  | Omit<Extract<Loose, { type: 'response.inject.failed' }>, 'sequence_number'>
) & { sequence_number: number; stream_id?: string; obfuscation?: string }
