// Random conversations for the laws, and how to hold one: as deltas or with the full history each time.
import fc from 'fast-check'
import type { Socket, WireResponse } from '../wire/socket.ts'

export type Said = {
  readonly reasoning: string | undefined
  readonly text: string | undefined
  readonly calls: readonly { readonly name: string; readonly arguments: string }[]
}
export type Step = {
  readonly user: string
  readonly output: string
  readonly instructions: string
  /** In the full history: leave ids and statuses out; keep only the sealed form of reasoning. */
  readonly strip: boolean
  readonly sealedOnly: boolean
  readonly said: Said
}

export const words: fc.Arbitrary<string> = fc.oneof(
  fc.string({ minLength: 1, maxLength: 20 }),
  fc.constantFrom('ls -la\n', 'ä中文🙂', '<|im_end|>', '"quoted" \\ back', '{"a": 1}', ' ', '\n\n'),
)
const call = fc.record({
  name: fc.constantFrom('ls', 'cat', 'raw'),
  arguments: fc
    .dictionary(fc.constantFrom('path', 'n', 'input'), fc.oneof(words, fc.integer()), { maxKeys: 3 })
    .map((o) => JSON.stringify(o)),
})
const said: fc.Arbitrary<Said> = fc
  .record({
    reasoning: fc.option(words, { nil: undefined }),
    text: fc.option(words, { nil: undefined }),
    calls: fc.array(call, { maxLength: 3 }),
  })
  .map((s) => (s.text === undefined && s.calls.length === 0 ? { ...s, text: 'ok' } : s))
export const conversations: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    user: words,
    output: words,
    instructions: fc.constantFrom('Be brief.', 'Be brief.', 'Be long.'),
    strip: fc.boolean(),
    sealedOnly: fc.boolean(),
    said,
  }),
  { minLength: 1, maxLength: 6 },
)

export const tools: unknown[] = [
  { type: 'function', name: 'ls', parameters: { type: 'object', properties: {} }, strict: false },
  { type: 'function', name: 'cat', parameters: { type: 'object', properties: {} }, strict: false },
  { type: 'custom', name: 'raw', description: 'Takes text.' },
]

export type Item = { readonly type?: string; readonly role?: string; readonly [field: string]: unknown }
/** What a client sends next: outputs for the calls it got, or the user's next words. */
function answer(step: Step, last: WireResponse | undefined): Item[] {
  const outputs = (last?.output ?? []).flatMap((item): Item[] => {
    if (item.type === 'function_call')
      return [{ type: 'function_call_output', call_id: item['call_id'], output: step.output }]
    if (item.type === 'custom_tool_call')
      return [{ type: 'custom_tool_call_output', call_id: item['call_id'], output: step.output }]
    return []
  })
  return outputs.length > 0 ? outputs : [{ type: 'message', role: 'user', content: step.user }]
}
function resent(item: Item, { strip, sealedOnly }: Step): Item {
  const { id, status, ...bare } = item
  const kept: Item = strip ? bare : item
  if (item.type === 'reasoning' && sealedOnly) {
    const { content: _, ...sealed } = kept
    return sealed
  }
  return kept
}

/** The same with one set of settings per rollout: each step has those of the step at which its rollout begins. */
export function settled(steps: readonly Step[]): Step[] {
  const out: Step[] = []
  for (const step of steps) {
    const before = out.at(-1)
    out.push(before && before.said.calls.length > 0 ? { ...step, instructions: before.instructions } : step)
  }
  return out
}
/** Holds the conversation as rollouts, on a server that has them: each goes on for as long as the model calls something. */
export async function roll(socket: Socket, steps: readonly Step[]): Promise<void> {
  let previous: string | undefined
  let waits: { readonly id: string; readonly calls: readonly Item[] } | undefined
  for (const step of steps) {
    if (waits) {
      const input = waits.calls.map(({ type, call_id }) => ({ type, call_id, output: step.output }))
      socket.send({ type: 'response.append', response_id: waits.id, input })
    } else
      socket.send({
        type: 'response.create',
        model: 'm',
        store: false,
        rollout: true,
        instructions: step.instructions,
        tools,
        input: [{ type: 'message', role: 'user', content: step.user }],
        ...(previous === undefined ? {} : { previous_response_id: previous }),
      })
    const end = await socket.next((f) => /^(error|response\.(done|completed|failed|incomplete))$/.test(f.type))
    if (end.type === 'response.done') waits = { id: String(end['response_id']), calls: end['required_input'] as Item[] }
    else if (end.type === 'response.completed') {
      waits = undefined
      previous = (end['response'] as WireResponse).id
    } else throw new Error(`rollout failed: ${JSON.stringify(end)}`)
  }
}

/** Holds the conversation and returns it, as a client has it at the end; `after` is called behind every turn. */
export async function hold(
  socket: Socket,
  steps: readonly Step[],
  how: 'delta' | 'full',
  extra: object = {},
  after: () => unknown = () => undefined,
): Promise<Item[]> {
  let last: WireResponse | undefined
  let history: Item[] = []
  for (const step of steps) {
    const fresh = answer(step, last)
    history = [...history, ...fresh]
    const previous = how === 'delta' && last ? { previous_response_id: last.id } : {}
    const input = how === 'delta' ? fresh : history
    const { response, error } = await socket.turn({
      model: 'm',
      store: false,
      instructions: step.instructions,
      tools,
      input,
      ...previous,
      ...extra,
    })
    if (response?.status !== 'completed') throw new Error(`turn failed: ${JSON.stringify(error ?? response)}`)
    last = response
    history = [...history, ...response.output.map((item) => resent(item, step))]
    await after()
  }
  return history
}

/** What a model said, as the turns of a scenario for the simulated engine. */
export function turnsOf(said: readonly Said[]): object[] {
  return said.map(({ reasoning, text, calls }) => ({
    steps: [
      ...(reasoning === undefined ? [] : [{ reasoning }]),
      ...(text === undefined ? [] : [{ text }]),
      ...calls.map((c) => ({
        call: c.name === 'raw' ? { name: c.name, input: c.arguments } : { name: c.name, arguments: c.arguments },
      })),
    ],
  }))
}
