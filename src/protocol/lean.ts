// Lean turns, an addition of this server that it offers in the answer to an upgrade: a request may take settings from the
// response that it continues, and its envelopes may leave them out. docs/protocol.md, section "Lean turns".
// Free of the schema library, for clients.

/** The header of the 101 that lists what this server offers beyond the protocol. */
export const extensionsHeader = 'continuo-extensions'
export const leanExtension = 'lean'

/** Settings that can be inherited: all but the model, by which a request is let in before anything is looked up. */
export const inheritable = [
  'instructions',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'max_output_tokens',
  'max_tool_calls',
  'temperature',
  'top_p',
  'top_logprobs',
  'presence_penalty',
  'frequency_penalty',
  'reasoning',
  'text',
  'truncation',
  'service_tier',
  'prompt_cache_key',
  'safety_identifier',
  'user',
  'metadata',
  'include',
] as const
export type Inheritable = (typeof inheritable)[number]
const names: ReadonlySet<string> = new Set(inheritable)
export const isInheritable = (name: string): boolean => names.has(name)

/** How a request is lean. */
export type Lean = {
  /** Settings to take from the previous response: those it asked for and did not give itself. */
  readonly inherit: readonly Inheritable[]
  /** False: envelopes leave out what can be inherited, whoever gave it. */
  readonly echo: boolean
}
