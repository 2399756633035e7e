// The door for `response.create` and the HTTP body of the same name: parsed once, trusted inside.
// Unknown fields are accepted and dropped; unknown item and tool types are kept as they came.
import { z } from 'zod'
import { complain } from './complaint.ts'
import { ApiError } from './errors.ts'
import type { Item } from './items.ts'
import { knownTools } from './known-tools.ts'
import { inheritable, type Lean } from './lean.ts'
import { parseItems } from './parse.ts'
import type { ReasoningConfig, TextConfig } from './response.ts'
import type { Tool, ToolChoice } from './tools.ts'

/** What a request says about how to answer. Inherited along a chain only by lean turns that ask for it, and by a steering successor. */
export type Settings = {
  readonly model: string
  readonly instructions: string | null
  readonly tools: readonly Tool[]
  readonly tool_choice: ToolChoice
  readonly parallel_tool_calls: boolean
  readonly max_output_tokens: number | null
  readonly max_tool_calls: number | null
  readonly temperature: number | null
  readonly top_p: number | null
  readonly top_logprobs: number | null
  readonly presence_penalty: number | null
  readonly frequency_penalty: number | null
  readonly reasoning: ReasoningConfig | null
  readonly text: TextConfig
  readonly truncation: 'auto' | 'disabled'
  readonly service_tier: string | null
  readonly prompt_cache_key: string | null
  readonly safety_identifier: string | null
  readonly user: string | null
  readonly metadata: Record<string, string>
  readonly include: readonly string[]
}
export type Create = {
  readonly settings: Settings
  readonly input: readonly Item[]
  /** `previous_response_id`. */
  readonly previous: string | undefined
  /** `stream_id`; undefined is the default lane. */
  readonly lane: string | undefined
  readonly store: boolean
  /** False: a warm-up. */
  readonly generate: boolean
  /** HTTP only: SSE instead of one JSON body. */
  readonly stream: boolean
  /** Set where the request asks for it. Sockets only. */
  readonly lean?: Lean | undefined
  /** Sockets only: the response waits for the outputs of its calls and goes on (session/rollout.ts). */
  readonly rollout: boolean
  /** POST /responses/compact: the output is a window of messages and a summary, to start a new conversation with. */
  readonly window: boolean
}

/** How its tools are read: knownTools, or parseTools where nothing is to be remembered. */
export type ParseTools = (sent: unknown) => readonly Tool[]

export const lanePattern = /^[A-Za-z0-9_.-]{1,256}$/

/** Tools that one `allowed_tools` may name. */
const maxAllowed = 1024

const count = z.number().int().positive().nullish()
const share = (max: number): z.ZodType<number | null | undefined> => z.number().min(0).max(max).nullish()
const penalty = z.number().min(-2).max(2).nullish()
const reasoning = z
  .looseObject({
    effort: z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']).nullish(),
    summary: z.enum(['auto', 'concise', 'detailed']).nullish(),
  })
  .nullish()
const format = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('text') }),
  z.looseObject({ type: z.literal('json_object') }),
  z.looseObject({
    type: z.literal('json_schema'),
    name: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/),
    schema: z.record(z.string(), z.unknown()),
    description: z.string().optional(),
    strict: z.boolean().nullish(),
  }),
])
const text = z
  .looseObject({ format: format.optional(), verbosity: z.enum(['low', 'medium', 'high']).nullish() })
  .nullish()
const toolChoice = z
  .union([
    z.enum(['none', 'auto', 'required']),
    z.looseObject({ type: z.literal('function'), name: z.string() }),
    z.looseObject({ type: z.literal('custom'), name: z.string() }),
    z.looseObject({
      type: z.literal('allowed_tools'),
      mode: z.enum(['auto', 'required']),
      tools: z.array(z.record(z.string(), z.unknown())).max(maxAllowed),
    }),
    // Hosted kinds and those of newer clients; a kind from above must have its shape.
    z
      .looseObject({ type: z.string() })
      .refine(({ type }) => !['function', 'custom', 'allowed_tools'].includes(type), 'lacks what its type needs'),
  ])
  .nullish()

const lean = z
  .strictObject(
    {
      inherit: z
        .array(
          z.enum(inheritable, { error: `is no setting that can be inherited; these are: ${inheritable.join(', ')}` }),
        )
        .max(inheritable.length)
        .optional(),
      echo: z.boolean().optional(),
    },
    {
      error: (issue) =>
        issue.code === 'unrecognized_keys'
          ? 'takes `inherit` (names of settings) and `echo` (true or false) only'
          : undefined,
    },
  )
  .nullish()

const create = z.object({
  model: z.string().min(1).max(256),
  input: z.unknown().optional(),
  instructions: z.string().nullish(),
  tools: z.unknown().optional(),
  tool_choice: toolChoice,
  parallel_tool_calls: z.boolean().nullish(),
  previous_response_id: z.string().min(1).max(256).nullish(),
  store: z.boolean().nullish(),
  generate: z.boolean().nullish(),
  stream: z.boolean().nullish(),
  rollout: z.boolean().nullish(),
  background: z.boolean().nullish(),
  conversation: z.unknown().optional(),
  prompt: z.unknown().optional(),
  context_management: z.array(z.unknown()).nullish(),
  max_output_tokens: count,
  max_tool_calls: count,
  temperature: share(2),
  top_p: share(1),
  top_logprobs: z.number().int().min(0).max(20).nullish(),
  presence_penalty: penalty,
  frequency_penalty: penalty,
  reasoning,
  text,
  truncation: z.enum(['auto', 'disabled']).nullish(),
  service_tier: z.string().max(64).nullish(),
  prompt_cache_key: z.string().max(1024).nullish(),
  prompt_cache_options: z.looseObject({ prewarm: z.boolean().nullish() }).nullish(),
  safety_identifier: z.string().max(1024).nullish(),
  user: z.string().max(1024).nullish(),
  metadata: z.record(z.string().max(64), z.string().max(512)).nullish(),
  include: z.array(z.string()).nullish(),
  continuo: lean,
})

const refuse = (param: string, message: string): ApiError => new ApiError('unsupported_parameter', message, param)

/**
 * Parses a create request; `lane` comes from the frame, never from an HTTP body.
 * Throws ApiError: invalid_request, unsupported_parameter, and what parseItems and parseTools throw.
 */
export function parseCreate(value: unknown, lane?: string, parse: ParseTools = knownTools): Create {
  const parsed = create.safeParse(value)
  if (!parsed.success) throw complain(parsed.error)
  const d = parsed.data
  if (d.background === true)
    throw refuse('background', 'Background responses are not offered yet; send the request without `background`.')
  if (d.conversation != null)
    throw refuse('conversation', 'Conversations are not offered; continue with `previous_response_id`.')
  if (d.prompt != null)
    throw refuse('prompt', 'Stored prompts are not offered; send the text in `instructions` and `input`.')
  if (d.context_management != null && d.context_management.length > 0)
    throw refuse(
      'context_management',
      'Automatic compaction is not offered; call /v1/responses/compact or send a compaction_trigger item.',
    )
  return {
    settings: {
      model: d.model,
      instructions: d.instructions ?? null,
      tools: parse(d.tools),
      tool_choice: (d.tool_choice ?? 'auto') as ToolChoice,
      parallel_tool_calls: d.parallel_tool_calls ?? true,
      max_output_tokens: d.max_output_tokens ?? null,
      max_tool_calls: d.max_tool_calls ?? null,
      temperature: d.temperature ?? null,
      top_p: d.top_p ?? null,
      top_logprobs: d.top_logprobs ?? null,
      presence_penalty: d.presence_penalty ?? null,
      frequency_penalty: d.frequency_penalty ?? null,
      reasoning: (d.reasoning ?? null) as ReasoningConfig | null,
      text: textConfig(d.text),
      truncation: d.truncation ?? 'disabled',
      service_tier: d.service_tier ?? null,
      prompt_cache_key: d.prompt_cache_key ?? null,
      safety_identifier: d.safety_identifier ?? null,
      user: d.user ?? null,
      metadata: d.metadata ?? {},
      include: d.include ?? [],
    },
    input: parseItems(d.input, 'input'),
    previous: d.previous_response_id ?? undefined,
    lane,
    store: d.store ?? true,
    generate: d.prompt_cache_options?.prewarm === true ? false : (d.generate ?? true),
    stream: d.stream ?? false,
    rollout: d.rollout ?? false,
    window: false,
    ...(d.continuo == null ? {} : { lean: leanOf(d) }),
  }
}

/** What is given wins, so only the names of what is not are left to inherit. */
function leanOf(d: z.infer<typeof create>): Lean {
  const { inherit = [], echo = true } = d.continuo ?? {}
  if (inherit.length > 0 && d.previous_response_id == null)
    throw new ApiError(
      'invalid_request',
      "'continuo.inherit' takes settings from a response: name it in `previous_response_id`.",
      'continuo.inherit',
    )
  return { inherit: inherit.filter((name) => d[name] === undefined), echo }
}

const compact = z.object({
  model: z.string().min(1).max(256),
  input: z.unknown().optional(),
  instructions: z.string().nullish(),
  previous_response_id: z.string().min(1).max(256).nullish(),
  prompt_cache_key: z.string().max(1024).nullish(),
})

/** The body of POST /responses/compact. Throws as parseCreate does. */
export function parseCompact(value: unknown): Create {
  const parsed = compact.safeParse(value)
  if (!parsed.success) throw complain(parsed.error)
  const { data } = parsed
  const request = parseCreate({ ...data, input: data.input ?? [], store: false })
  return { ...request, input: [...request.input, { type: 'compaction_trigger' }], window: true }
}

function textConfig(t: z.infer<typeof text>): TextConfig {
  const { format: f, verbosity, ...rest } = t ?? {}
  // `verbosity: null` must never be echoed (Open Responses schema); a missing one stays missing.
  return {
    ...rest,
    format: (f ?? { type: 'text' }) as TextConfig['format'],
    ...(verbosity == null ? {} : { verbosity }),
  }
}
