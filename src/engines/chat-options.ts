// What a chat-completions server is told to be: where it listens, how it spells things, what it can and cannot do.
import { z } from 'zod'
import { answerBytes, lingerMs, wireOptions } from './wire-options.ts'

const yes = z.boolean().default(true)
const no = z.boolean().default(false)
export const effortLevels = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const

/** What the server takes. A request that needs what is `false` here gets `unsupported_by_engine`, unless we can do it ourselves. */
const can = z.strictObject({
  tools: yes,
  /** `tool_choice` other than auto. */
  tool_choice: yes,
  /** One tool by name in `tool_choice`. Otherwise only that tool is offered, with `required`. */
  named_choice: yes,
  /** The field `parallel_tool_calls`. We hold a request to one call either way. */
  parallel_tool_calls: yes,
  strict: yes,
  json_schema: yes,
  json_object: yes,
  /** The field `reasoning_effort`: true passes every level, a list the nearest one of it, `ignore` none, false refuses. */
  reasoning_effort: z.union([z.boolean(), z.literal('ignore'), z.array(z.enum(effortLevels)).min(1)]).default(true),
  /** `image_url` parts with data URLs. */
  images: yes,
  /** `file` parts with data URLs. */
  files: no,
  /** `logprobs` and `top_logprobs` are asked for; the engine port carries none yet, so clients get empty lists. */
  logprobs: no,
  penalties: yes,
  /** `stream_options.include_usage`. Without it we count. */
  stream_options: yes,
  /** `none`: not sent, the turn counts and stops by itself. */
  max_tokens_field: z.enum(['max_tokens', 'max_completion_tokens', 'none']).default('max_tokens'),
  /** Messages of role developer, anywhere. Implies `system: any`. */
  developer_role: no,
  /**
   * Where system messages may stand. `first`: all that lead the conversation become one, later ones user messages,
   * because many chat templates refuse a system message elsewhere. `any`: each stays where it is.
   */
  system: z.enum(['first', 'any']).default('first'),
})

export const chatOptions = z.strictObject({
  /** Base URL, as clients of that server have it: usually ends in /v1. */
  url: z.url({ protocol: /^https?$/ }),
  /** The engine's id, in error sentences and logs. Default: the URL's host. */
  name: z.string().min(1).max(256).optional(),
  /** The server's name for the model. Default: the name the client asked for. */
  model: z.string().min(1).max(256).optional(),
  /** Tokens the prompt may have, where known. */
  context: z.number().int().positive().optional(),
  /** Further fields of every request body, e.g. chat_template_kwargs. They win over ours, except for messages and stream. */
  body: z.record(z.string(), z.unknown()).default({}),
  ...wireOptions,
  lingerMs,
  ...answerBytes,
  /** The field that gives earlier reasoning back to the model. */
  reasoningField: z.enum(['reasoning_content', 'reasoning', 'none']).default('reasoning_content'),
  /** Reasoning stands in the text as <think>…</think>. `open`: the template opens the tag, the text begins inside. */
  thinkTags: z.union([z.boolean(), z.literal('open')]).default(false),
  /** A warm-up sends the prompt with a bound of one token, to bring it into the server's cache. */
  prefill: no,
  can: can.prefault({}),
})

/** As configured. */
export type ChatInput = z.input<typeof chatOptions>
/** With every default filled in. */
export type ChatOptions = z.output<typeof chatOptions>
