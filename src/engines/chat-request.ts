// Settings of a turn → fields of a chat-completions request, and the refusal of what this server cannot be asked for.
import { ApiError } from '../protocol/errors.ts'
import type { Settings } from '../protocol/request.ts'
import type { TextFormat } from '../protocol/response.ts'
import { type Callable, callables, chosen } from '../protocol/tools.ts'
import type { Chain } from '../turn/chain.ts'
import { type Needs } from './chat-messages.ts'
import { type ChatOptions, effortLevels } from './chat-options.ts'
import { definition, type Naming, namingOf } from '../protocol/functions.ts'

/** What a turn may call, and how that is asked for. */
export type Offer = {
  readonly naming: Naming
  /** Sent to the server. */
  readonly tools: readonly Callable[]
  readonly byFlat: ReadonlyMap<string, Callable>
  /** The field `tool_choice`; undefined is auto. */
  readonly choice: unknown
  readonly calls: 'none' | 'one' | 'many'
  /** Named by `tool_choice`, but not among the tools. */
  readonly missing: boolean
}
type Can = ChatOptions['can']

export function offerOf(settings: Settings, chain: Chain, can: Can): Offer {
  const all = callables(chain.tools, settings.tools)
  const naming = namingOf(all)
  const { tool_choice: choice } = settings
  const { tools: left, must } = chosen(all, choice)
  const calls = left.length === 0 ? 'none' : settings.parallel_tool_calls ? 'many' : 'one'
  const byFlat = new Map(left.map((t) => [t.flat, t]))
  const offer = { naming, byFlat, calls, missing: must && left.length === 0 } as const
  // The tools stay in the prompt, so that the server's prefix cache holds; calls made all the same are not read.
  if (choice === 'none')
    return {
      ...offer,
      tools: can.tool_choice ? all : [],
      choice: can.tool_choice && all.length > 0 ? 'none' : undefined,
    }
  if (!must) return { ...offer, tools: left, choice: undefined }
  const [only] = left
  const named = typeof choice === 'object' && choice.type !== 'allowed_tools'
  if (named && left.length === 1 && only && can.named_choice)
    return { ...offer, tools: all, choice: { type: 'function', function: { name: only.flat } } }
  return { ...offer, tools: left, choice: 'required' }
}

/** Throws ApiError `unsupported_by_engine` naming the field, for what neither the server nor the turn can do. */
export function admit(name: string, settings: Settings, offer: Offer, needs: Needs, can: Can): void {
  const no = (param: string, what: string): ApiError =>
    new ApiError('unsupported_by_engine', `The engine '${name}' cannot do '${param}': ${what}`, param)
  if (offer.missing) throw no('tool_choice', 'it names no function or custom tool of this request.')
  if (offer.calls !== 'none' && !can.tools) throw no('tools', 'it takes no tools.')
  if (offer.choice !== undefined && offer.choice !== 'none' && !can.tool_choice)
    throw no('tool_choice', 'it cannot be made to call a tool; use auto.')
  const { format } = settings.text
  if (format.type === 'json_schema' && !can.json_schema)
    throw no('text.format', 'it cannot hold its answer to a JSON schema.')
  if (format.type === 'json_object' && !can.json_object) throw no('text.format', 'it cannot hold its answer to JSON.')
  const effort = settings.reasoning?.effort ?? null
  if (effort !== null && effortFor(effort, can.reasoning_effort) === undefined)
    throw no('reasoning.effort', `it knows no effort '${effort}'.`)
  if ((settings.top_logprobs ?? 0) > 0 && !can.logprobs) throw no('top_logprobs', 'it gives no log probabilities.')
  if (settings.presence_penalty && !can.penalties) throw no('presence_penalty', 'it knows no penalties.')
  if (settings.frequency_penalty && !can.penalties) throw no('frequency_penalty', 'it knows no penalties.')
  if (needs.images && !can.images) throw no('input_image', 'it takes no images.')
  if (needs.files && !can.files) throw no('input_file', 'it takes no files.')
  if (needs.foreign !== undefined) throw no(needs.foreign, 'images and files reach it as data URLs only.')
}

/** Every field but `messages` and the stream's. `prefill`: one token at most is wanted. */
export function fieldsOf(settings: Settings, offer: Offer, can: Can, prefill: boolean): Record<string, unknown> {
  const fields: Record<string, unknown> = {}
  if (offer.tools.length > 0) {
    fields['tools'] = offer.tools.map((t) => definition(t, can.strict))
    if (offer.choice !== undefined) fields['tool_choice'] = offer.choice
    // True is every server's default, and some refuse the field itself.
    if (!settings.parallel_tool_calls && can.parallel_tool_calls) fields['parallel_tool_calls'] = false
  }
  const bound = prefill ? 1 : settings.max_output_tokens
  const boundField = can.max_tokens_field === 'none' && prefill ? 'max_tokens' : can.max_tokens_field
  if (bound !== null && boundField !== 'none') fields[boundField] = bound
  if (settings.temperature !== null) fields['temperature'] = settings.temperature
  if (settings.top_p !== null) fields['top_p'] = settings.top_p
  if (settings.presence_penalty) fields['presence_penalty'] = settings.presence_penalty
  if (settings.frequency_penalty) fields['frequency_penalty'] = settings.frequency_penalty
  if (settings.top_logprobs) Object.assign(fields, { logprobs: true, top_logprobs: settings.top_logprobs })
  const effort = settings.reasoning?.effort ?? null
  const level = effort === null ? null : effortFor(effort, can.reasoning_effort)
  if (level) fields['reasoning_effort'] = level
  const format = formatOf(settings.text.format, can.strict)
  if (format) fields['response_format'] = format
  return fields
}

function formatOf(format: TextFormat, strict: boolean): unknown {
  if (format.type === 'text') return undefined
  if (format.type === 'json_object') return { type: 'json_object' }
  const { name, schema, description } = format
  return {
    type: 'json_schema',
    json_schema: {
      name,
      schema,
      ...(description === undefined ? {} : { description }),
      ...(strict && typeof format.strict === 'boolean' ? { strict: format.strict } : {}),
    },
  }
}
type Effort = (typeof effortLevels)[number]
/** The level to send: null is none at all, undefined that the server cannot. `none` is a promise and never rounded. */
function effortFor(effort: Effort, can: Can['reasoning_effort']): Effort | null | undefined {
  if (can === 'ignore') return null
  if (typeof can === 'boolean') return can ? effort : undefined
  if (can.includes(effort)) return effort
  if (effort === 'none') return undefined
  const rank = (level: Effort): number => Math.abs(effortLevels.indexOf(level) - effortLevels.indexOf(effort))
  return can.filter((level) => level !== 'none').sort((a, b) => rank(a) - rank(b))[0]
}
