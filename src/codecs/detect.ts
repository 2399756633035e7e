// Which family a model belongs to, by marks that only its template and its vocabulary have.

type Mark = { readonly family: string; readonly has: readonly string[]; readonly not?: readonly string[] }
/** Looked for in this order: what is more particular stands first. */
const marks: readonly Mark[] = [
  { family: 'gpt-oss', has: ['<|channel|>', '<|start|>'] },
  { family: 'deepseek-v3.2', has: ['｜DSML｜'] },
  { family: 'deepseek-v3', has: ['<｜tool▁calls▁begin｜>', '```json'] },
  { family: 'deepseek-v3.1', has: ['<｜tool▁calls▁begin｜>'] },
  { family: 'kimi-k2-thinking', has: ['<|tool_calls_section_begin|>', '<think>'] },
  { family: 'kimi-k2', has: ['<|tool_calls_section_begin|>'] },
  { family: 'glm-4.7-flash', has: ['<arg_key>', 'clear_thinking'] },
  { family: 'glm-4.6', has: ['<arg_key>'] },
  { family: 'ministral-3', has: ['[TOOL_CALLS]', '[THINK]'] },
  { family: 'devstral', has: ['[TOOL_CALLS]', '[ARGS]'], not: ['[CALL_ID]'] },
  { family: 'mistral-small-3.2', has: ['[TOOL_CALLS]', '[ARGS]'] },
  { family: 'mistral-nemo', has: ['[TOOL_CALLS]', '[AVAILABLE_TOOLS]'] },
  { family: 'llama3', has: ['<|start_header_id|>', '<|eot_id|>'] },
  { family: 'qwen3.5', has: ['<|im_start|>', '<function=', '<think>', 'enable_thinking'] },
  { family: 'qwen3-coder', has: ['<|im_start|>', '<function='] },
  { family: 'hermes-3', has: ['<|im_start|>', '<tool_call>', 'scratch_pad'] },
  { family: 'hermes-3', has: ['<|im_start|>', '<tool_call>', 'bos_token'] },
  { family: 'qwen3', has: ['<|im_start|>', '<tool_call>', '<think>'] },
  { family: 'qwen2.5', has: ['<|im_start|>', '<tool_call>', 'You are Qwen'] },
  { family: 'qwen3-instruct', has: ['<|im_start|>', '<tool_call>'] },
]

/** `template`: Jinja source. Undefined where it is none of ours. */
export function familyOf(template: string): string | undefined {
  return marks.find(
    ({ has, not = [] }) => has.every((m) => template.includes(m)) && !not.some((m) => template.includes(m)),
  )?.family
}
