// The response object around its output: what a request makes of it before anything was said, and usage as the wire has
// it. Order of fields as recorded from the original; values that a client may rely on are never missing.
import type { Create } from '../protocol/request.ts'
import type { Response, Usage } from '../protocol/response.ts'
import type { EngineUsage } from './ports.ts'

export function usageOf(u: EngineUsage): Usage {
  return {
    input_tokens: u.input,
    input_tokens_details: { cached_tokens: u.cached, cache_write_tokens: 0 },
    output_tokens: u.output,
    output_tokens_details: { reasoning_tokens: u.reasoning },
    total_tokens: u.input + u.output,
    ...(u.estimated === true ? { estimated: true as const } : {}),
  }
}

/** A response that has just begun. */
export function baseOf(id: string, request: Create): Response {
  const s = request.settings
  return {
    id,
    object: 'response',
    created_at: Math.floor(Date.now() / 1000),
    status: 'in_progress',
    background: false,
    completed_at: null,
    error: null,
    frequency_penalty: s.frequency_penalty ?? 0,
    incomplete_details: null,
    instructions: s.instructions,
    max_output_tokens: s.max_output_tokens,
    max_tool_calls: s.max_tool_calls,
    model: s.model,
    output: [],
    parallel_tool_calls: s.parallel_tool_calls,
    presence_penalty: s.presence_penalty ?? 0,
    previous_response_id: request.previous ?? null,
    prompt_cache_key: s.prompt_cache_key,
    reasoning: s.reasoning,
    safety_identifier: s.safety_identifier,
    service_tier: s.service_tier ?? 'default',
    store: request.store,
    temperature: s.temperature ?? 1,
    text: s.text,
    tool_choice: s.tool_choice,
    tools: s.tools,
    top_logprobs: s.top_logprobs ?? 0,
    top_p: s.top_p ?? 1,
    truncation: s.truncation,
    usage: null,
    ...(s.user === null ? {} : { user: s.user }),
    metadata: s.metadata,
  }
}
