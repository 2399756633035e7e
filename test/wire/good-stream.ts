// Good event streams made from a plan, for the tests of the oracles: what a correct server would send for these items.
import fc from 'fast-check'

export type Frame = { type: string; sequence_number: number; [key: string]: unknown }
type Words = { kind: 'message' | 'reasoning'; parts: { refusal: boolean; deltas: string[] }[] }
type Call = { kind: 'function_call' | 'custom_tool_call'; deltas: string[] }
export type PlannedItem = Words | Call | { kind: 'compaction' }
export type Plan = {
  readonly items: readonly PlannedItem[]
  readonly ending: 'completed' | 'failed' | 'length' | 'cancelled'
  readonly lane: string | undefined
}

const delta = fc.string({ minLength: 1, maxLength: 6 })
// Numbered, so that no two orders of them say the same.
const deltas = fc.array(delta, { minLength: 1, maxLength: 4 }).map((texts) => texts.map((text, n) => `${n}${text}`))
const item: fc.Arbitrary<PlannedItem> = fc.oneof(
  fc.record({
    kind: fc.constantFrom('message' as const, 'reasoning' as const),
    parts: fc.array(fc.record({ refusal: fc.boolean(), deltas }), { minLength: 1, maxLength: 3 }),
  }),
  fc.record({ kind: fc.constantFrom('function_call' as const, 'custom_tool_call' as const), deltas }),
  fc.record({ kind: fc.constant('compaction' as const) }),
)
export const plans: fc.Arbitrary<Plan> = fc.record({
  items: fc.array(item, { minLength: 1, maxLength: 4 }),
  ending: fc.constantFrom('completed' as const, 'failed' as const, 'length' as const, 'cancelled' as const),
  lane: fc.constantFrom(undefined, 'a', 'b-1'),
})

/** A response object with every field the wire always has. */
export function responseWith(over: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    id: 'resp_1',
    object: 'response',
    created_at: 1,
    status: 'in_progress',
    background: false,
    completed_at: null,
    error: null,
    frequency_penalty: 0,
    incomplete_details: null,
    instructions: null,
    max_output_tokens: null,
    max_tool_calls: null,
    model: 'm',
    output: [],
    parallel_tool_calls: true,
    presence_penalty: 0,
    previous_response_id: null,
    prompt_cache_key: null,
    reasoning: null,
    safety_identifier: null,
    service_tier: 'default',
    store: false,
    temperature: 1,
    text: { format: { type: 'text' } },
    tool_choice: 'auto',
    tools: [],
    top_logprobs: 0,
    top_p: 1,
    truncation: 'disabled',
    usage: null,
    metadata: {},
    ...over,
  }
}
export const usage = {
  input_tokens: 1,
  input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
  output_tokens: 1,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 2,
}

export function streamOf(plan: Plan): Frame[] {
  const frames: Frame[] = []
  const emit = (type: string, rest: Record<string, unknown>): void => {
    frames.push({
      type,
      ...rest,
      sequence_number: frames.length,
      ...(plan.lane === undefined ? {} : { stream_id: plan.lane }),
    })
  }
  const output: Record<string, unknown>[] = []
  emit('response.created', { response: responseWith() })
  emit('response.in_progress', { response: responseWith() })
  for (const [n, planned] of plan.items.entries()) emitItem(planned, n, emit, output)
  const endings = {
    completed: { status: 'completed', completed_at: 2 },
    failed: { status: 'failed', error: { code: 'server_error', message: 'broke' } },
    length: { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } },
    cancelled: { status: 'cancelled', incomplete_details: { reason: 'cancelled' } },
  }
  const type = plan.ending === 'completed' || plan.ending === 'failed' ? plan.ending : 'incomplete'
  emit(`response.${type}`, { response: responseWith({ output, usage, ...endings[plan.ending] }) })
  return frames
}

type Emit = (type: string, rest: Record<string, unknown>) => void
function emitItem(planned: PlannedItem, n: number, emit: Emit, output: Record<string, unknown>[]): void {
  const id = `item_${n}`
  const at = { item_id: id, output_index: n }
  const done = (item: Record<string, unknown>): void => {
    output.push(item)
    emit('response.output_item.done', { output_index: n, item })
  }
  if (planned.kind === 'compaction') {
    emit('response.output_item.added', { output_index: n, item: { type: 'compaction', id, encrypted_content: '' } })
    emit('response.compaction.compacting', at)
    return done({ type: 'compaction', id, encrypted_content: 'sealed' })
  }
  if ('deltas' in planned) {
    const field = planned.kind === 'function_call' ? 'arguments' : 'input'
    const stem =
      planned.kind === 'function_call' ? 'response.function_call_arguments' : 'response.custom_tool_call_input'
    const call = { type: planned.kind, id, call_id: `call_${n}`, name: 'f' }
    emit('response.output_item.added', { output_index: n, item: { ...call, status: 'in_progress', [field]: '' } })
    for (const text of planned.deltas) emit(`${stem}.delta`, { ...at, delta: text })
    emit(`${stem}.done`, { ...at, [field]: planned.deltas.join('') })
    return done({ ...call, status: 'completed', [field]: planned.deltas.join('') })
  }
  const message = planned.kind === 'message'
  const words = (content: unknown[], status: string): Record<string, unknown> =>
    message
      ? { type: 'message', id, status, role: 'assistant', content }
      : { type: 'reasoning', id, status, summary: [], content }
  emit('response.output_item.added', { output_index: n, item: words([], 'in_progress') })
  const content = planned.parts.map(({ refusal, deltas: texts }, index) => {
    const kind = message ? (refusal ? 'refusal' : 'output_text') : 'reasoning_text'
    const field = kind === 'refusal' ? 'refusal' : 'text'
    const part = (text: string): Record<string, unknown> => ({
      type: kind,
      [field]: text,
      ...(kind === 'output_text' ? { annotations: [] } : {}),
    })
    const place = { ...at, content_index: index }
    const logprobs = kind === 'output_text' ? { logprobs: [] } : {}
    const text = texts.join('')
    emit('response.content_part.added', { ...place, part: part('') })
    for (const piece of texts) emit(`response.${kind}.delta`, { ...place, delta: piece, ...logprobs })
    emit(`response.${kind}.done`, { ...place, [field]: text, ...logprobs })
    emit('response.content_part.done', { ...place, part: part(text) })
    return part(text)
  })
  done(words(content, 'completed'))
}

/** The same frames, numbered anew: so that a change must be found by its meaning, not by a gap in the numbers. */
export const renumbered = (frames: readonly Frame[]): Frame[] =>
  frames.map((frame, n) => ({ ...frame, sequence_number: n }))
