// What the door insists on for each item type it knows, one schema a type. Unknown fields pass; what is only carried
// is checked for its kind and no further. Content parts and tool lists have doors of their own and are `unknown` here.
import { z } from 'zod'

/** UTF-16 units an id may have: gateways pack signatures into call ids. */
const longestId = 8192

const id = z.string().max(longestId).nullish()
const needed = z.string().min(1).max(longestId)
const word = z.string().nullish()
const text = z.string()
const list = z.array(z.unknown()).nullish()
const opaque = z.looseObject({ type: z.string() })
const count = z.number().nullish()
const execution = z.enum(['server', 'client']).nullish()
const safetyChecks = z.array(z.looseObject({ id: z.string(), code: word, message: word })).nullish()
const caller = z
  .discriminatedUnion('type', [
    z.looseObject({ type: z.literal('direct') }),
    z.looseObject({ type: z.literal('program'), caller_id: z.string() }),
  ])
  .nullish()
const texts = z.array(z.looseObject({ type: z.string(), text: z.string() }))
const outcome = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('timeout') }),
  z.looseObject({ type: z.literal('exit'), exit_code: z.number() }),
])
const operation = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('create_file'), path: z.string(), diff: z.string() }),
  z.looseObject({ type: z.literal('update_file'), path: z.string(), diff: z.string() }),
  z.looseObject({ type: z.literal('delete_file'), path: z.string() }),
])

const item = <T extends z.ZodRawShape>(fields: T) => z.looseObject({ type: z.string(), id, status: word, ...fields })

const call = { call_id: needed, name: z.string().min(1), namespace: word, async: z.boolean().nullish(), caller }

export const itemShapes: ReadonlyMap<string, z.ZodType<Record<string, unknown>>> = new Map<
  string,
  z.ZodType<Record<string, unknown>>
>([
  [
    'message',
    item({
      role: z.enum(['user', 'assistant', 'system', 'developer']),
      content: z.unknown().optional(),
      phase: z.enum(['commentary', 'final_answer']).nullish(),
    }),
  ],
  ['function_call', item({ ...call, arguments: text })],
  [
    'function_call_output',
    item({ call_id: needed, output: z.unknown().optional(), name: word, namespace: word, caller }),
  ],
  ['custom_tool_call', item({ ...call, input: text })],
  ['custom_tool_call_output', item({ call_id: needed, output: z.unknown().optional(), caller })],
  ['reasoning', item({ summary: texts.nullish(), content: texts.nullish(), encrypted_content: word })],
  ['compaction', item({ encrypted_content: text })],
  ['compaction_trigger', item({})],
  ['additional_tools', item({ role: word, tools: z.unknown().optional() })],
  ['item_reference', item({ id: needed })],

  [
    'shell_call',
    item({
      call_id: needed,
      action: z.looseObject({ commands: z.array(z.string()), max_output_length: count, timeout_ms: count }),
      environment: opaque.nullish(),
      caller,
    }),
  ],
  [
    'shell_call_output',
    item({
      call_id: needed,
      output: z.array(z.looseObject({ stdout: text, stderr: text, outcome })),
      max_output_length: count,
      caller,
    }),
  ],
  ['apply_patch_call', item({ call_id: needed, operation, caller })],
  ['apply_patch_call_output', item({ call_id: needed, output: word, caller })],
  [
    'local_shell_call',
    item({
      call_id: id,
      action: z.looseObject({
        type: z.literal('exec'),
        command: z.array(z.string()),
        env: z.record(z.string(), z.string()).nullish(),
        timeout_ms: count,
        user: word,
        working_directory: word,
      }),
    }),
  ],
  ['local_shell_call_output', item({ call_id: id, output: text })],
  [
    'computer_call',
    item({
      call_id: needed,
      pending_safety_checks: safetyChecks,
      action: opaque.nullish(),
      actions: z.array(opaque).nullish(),
    }),
  ],
  [
    'computer_call_output',
    item({
      call_id: needed,
      output: z.looseObject({ type: z.literal('computer_screenshot'), image_url: word, file_id: word }),
      acknowledged_safety_checks: safetyChecks,
    }),
  ],
  ['tool_search_call', item({ call_id: id, arguments: z.unknown().optional(), execution })],
  ['tool_search_output', item({ call_id: id, execution, tools: z.unknown().optional() })],
  [
    'configuration_update',
    item({
      reasoning: z.looseObject({ effort: word }).nullish(),
      text: z.looseObject({ format: opaque.nullish() }).nullish(),
    }),
  ],

  ['web_search_call', item({ action: opaque.nullish() })],
  ['file_search_call', item({ queries: z.array(z.string()).nullish(), results: list })],
  ['code_interpreter_call', item({ code: word, container_id: word, outputs: z.array(opaque).nullish() })],
  [
    'image_generation_call',
    item({
      result: word,
      action: word,
      background: word,
      error: z.looseObject({}).nullish(),
      output_format: word,
      quality: word,
      revised_prompt: word,
      size: word,
      svg_usage: z.looseObject({}).nullish(),
    }),
  ],
  ['mcp_call', item({ server_label: text, name: text, arguments: text, approval_request_id: word, output: word })],
  ['mcp_list_tools', item({ server_label: text, tools: z.array(z.unknown()) })],
  ['mcp_approval_request', item({ server_label: text, name: text, arguments: text })],
  ['mcp_approval_response', item({ approval_request_id: needed, approve: z.boolean(), reason: word })],
  ['program', item({ call_id: needed, code: text, fingerprint: word })],
  ['program_output', item({ call_id: needed, result: text })],
])
