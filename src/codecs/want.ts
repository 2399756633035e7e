// What a request's settings ask of the output, whatever the format.
import { ApiError } from '../protocol/errors.ts'
import type { Settings } from '../protocol/request.ts'
import { type Callable, chosen } from '../protocol/tools.ts'
import type { Want } from './family.ts'

/** Undefined where anything goes. Throws ApiError `unsupported_by_engine` for a call of something that is not offered. */
export function wantOf(settings: Settings, tools: readonly Callable[]): Want | undefined {
  const { tools: left, must } = chosen(tools, settings.tool_choice)
  if (must && left.length === 0)
    throw new ApiError(
      'unsupported_by_engine',
      "This model cannot do 'tool_choice': it names no function or custom tool of this request.",
      'tool_choice',
    )
  const { format } = settings.text
  const answer =
    format.type === 'json_schema' ? format.schema : format.type === 'json_object' ? { type: 'object' } : undefined
  const held = left.some((t) => t.strict || t.format?.type === 'grammar') || left.length < tools.length
  if (answer === undefined && !must && !(held && left.length > 0)) return undefined
  const one = !settings.parallel_tool_calls || (must && left.length === 1 && typeof settings.tool_choice === 'object')
  return { answer: must ? undefined : answer, tools: left, must, one }
}
