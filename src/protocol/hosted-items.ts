// Item types that hosted tools of other servers make, and the client-run shell, patch and computer items. Clients resend
// them from old conversations: they are accepted, kept and listed, and engines that do not know them leave them out of
// the prompt. Field names are those of openai 7.59, input and output variants in one type; what the door insists on is
// required here (item-shapes.ts), the rest optional, since clients strip ids, actions and statuses.
import type { Caller, Tool } from './tools.ts'

/** A nested object of another server: carried, never looked into. */
export type Opaque = { type: string }
/** Every status that some hosted item may have; a status outside this list is dropped at the door. */
export type HostedStatus =
  | 'in_progress'
  | 'completed'
  | 'incomplete'
  | 'failed'
  | 'searching'
  | 'interpreting'
  | 'generating'
  | 'calling'

type Own = { id?: string | null; status?: HostedStatus | null; created_by?: string }
type FromCode = { caller?: Caller | null }
type SafetyCheck = { id: string; code?: string | null; message?: string | null }

// ── run by the client ────────────────────────────────────────────────────────────────────────────────────────────────
export type ShellCall = Own &
  FromCode & {
    type: 'shell_call'
    call_id: string
    action: { commands: string[]; max_output_length?: number | null; timeout_ms?: number | null }
    environment?: Opaque | null
  }
export type ShellOutcome = { type: 'timeout' } | { type: 'exit'; exit_code: number }
export type ShellCallOutput = Own &
  FromCode & {
    type: 'shell_call_output'
    call_id: string
    output: { stdout: string; stderr: string; outcome: ShellOutcome; created_by?: string }[]
    max_output_length?: number | null
  }
export type PatchOperation =
  | { type: 'create_file' | 'update_file'; path: string; diff: string }
  | { type: 'delete_file'; path: string }
export type ApplyPatchCall = Own & FromCode & { type: 'apply_patch_call'; call_id: string; operation: PatchOperation }
export type ApplyPatchCallOutput = Own &
  FromCode & { type: 'apply_patch_call_output'; call_id: string; output?: string | null }
export type LocalShellCall = Own & {
  type: 'local_shell_call'
  call_id?: string | null
  action: {
    type: 'exec'
    command: string[]
    env?: Record<string, string> | null
    timeout_ms?: number | null
    user?: string | null
    working_directory?: string | null
  }
}
/** Has no `call_id` in the published types: its `id` is the call's. Clients that send one are taken at their word. */
export type LocalShellCallOutput = Own & { type: 'local_shell_call_output'; call_id?: string | null; output: string }
export type ComputerCall = Own & {
  type: 'computer_call'
  call_id: string
  pending_safety_checks?: SafetyCheck[] | null
  action?: Opaque | null
  actions?: Opaque[] | null
}
export type Screenshot = { type: 'computer_screenshot'; file_id?: string | null; image_url?: string | null }
export type ComputerCallOutput = Own & {
  type: 'computer_call_output'
  call_id: string
  output: Screenshot
  acknowledged_safety_checks?: SafetyCheck[] | null
}

// ── tools that load tools, and settings that change on the way ───────────────────────────────────────────────────────
export type ToolSearchCall = Own & {
  type: 'tool_search_call'
  call_id?: string | null
  arguments?: unknown
  execution?: 'server' | 'client' | null
}
/** Brings tools into the conversation, as `additional_tools` does. */
export type ToolSearchOutput = Own & {
  type: 'tool_search_output'
  call_id?: string | null
  execution?: 'server' | 'client' | null
  tools: Tool[]
}
export type ConfigurationUpdate = {
  type: 'configuration_update'
  id?: string | null
  reasoning?: { effort?: string | null } | null
  text?: { format?: Opaque | null } | null
}

// ── run by a server ──────────────────────────────────────────────────────────────────────────────────────────────────
export type WebSearchCall = Own & { type: 'web_search_call'; action?: Opaque | null }
export type FileSearchCall = Own & { type: 'file_search_call'; queries?: string[] | null; results?: unknown[] | null }
export type CodeInterpreterCall = Own & {
  type: 'code_interpreter_call'
  code?: string | null
  container_id?: string | null
  outputs?: Opaque[] | null
}
/** `result` is the picture in base64. All but `result` and the error say how it was made. */
export type ImageGenerationCall = Own & {
  type: 'image_generation_call'
  result?: string | null
  action?: string | null
  background?: string | null
  error?: object | null
  output_format?: string | null
  quality?: string | null
  revised_prompt?: string | null
  size?: string | null
  svg_usage?: object | null
}
export type McpCall = Own & {
  type: 'mcp_call'
  server_label: string
  name: string
  arguments: string
  approval_request_id?: string | null
  error?: unknown
  output?: string | null
}
export type McpListTools = Own & { type: 'mcp_list_tools'; server_label: string; tools: unknown[]; error?: unknown }
export type McpApprovalRequest = Own & {
  type: 'mcp_approval_request'
  server_label: string
  name: string
  arguments: string
}
export type McpApprovalResponse = Own & {
  type: 'mcp_approval_response'
  approval_request_id: string
  approve: boolean
  reason?: string | null
}
/** Code that the model wrote to call tools from (`programmatic_tool_calling`). */
export type Program = Own & { type: 'program'; call_id: string; code: string; fingerprint?: string | null }
export type ProgramOutput = Own & { type: 'program_output'; call_id: string; result: string }

export type HostedItem =
  | ShellCall
  | ShellCallOutput
  | ApplyPatchCall
  | ApplyPatchCallOutput
  | LocalShellCall
  | LocalShellCallOutput
  | ComputerCall
  | ComputerCallOutput
  | ToolSearchCall
  | ToolSearchOutput
  | ConfigurationUpdate
  | WebSearchCall
  | FileSearchCall
  | CodeInterpreterCall
  | ImageGenerationCall
  | McpCall
  | McpListTools
  | McpApprovalRequest
  | McpApprovalResponse
  | Program
  | ProgramOutput
