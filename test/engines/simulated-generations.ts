// What tests of the simulated engine are made of: settings, conversations, and a generation read to its end.
import { ApiError } from '../../src/protocol/errors.ts'
import type { Item } from '../../src/protocol/items.ts'
import type { Settings } from '../../src/protocol/request.ts'
import type { FunctionTool, Tool } from '../../src/protocol/tools.ts'
import { Chain } from '../../src/turn/chain.ts'
import type { Call, Chunk, Delta, Engine, EngineUsage } from '../../src/turn/ports.ts'

export const principal = { tenant: 'local', key: 'k', owner: 'local/k' }
export function settings(some: Partial<Settings> = {}): Settings {
  return {
    model: 'm',
    instructions: null,
    tools: [],
    tool_choice: 'auto',
    parallel_tool_calls: true,
    max_output_tokens: null,
    max_tool_calls: null,
    temperature: null,
    top_p: null,
    top_logprobs: null,
    presence_penalty: null,
    frequency_penalty: null,
    reasoning: null,
    text: { format: { type: 'text' } },
    truncation: 'disabled',
    service_tier: null,
    prompt_cache_key: null,
    safety_identifier: null,
    user: null,
    metadata: {},
    include: [],
    ...some,
  }
}
export const user = (text: string): Item => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] })
export const assistant = (text: string): Item => ({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'output_text', text, annotations: [] }],
})
export const output = (callId: string, text: string): Item => ({
  type: 'function_call_output',
  call_id: callId,
  output: text,
})
export const tool = (
  name: string,
  properties: Record<string, unknown> = {},
  required = Object.keys(properties),
): FunctionTool => ({
  type: 'function',
  name,
  parameters: { type: 'object', properties, required, additionalProperties: false },
  strict: false,
})
export const customTool = (
  name: string,
  format?: { type: 'grammar'; syntax: 'lark' | 'regex'; definition: string },
): Tool => ({
  type: 'custom',
  name,
  ...(format ? { format } : {}),
})
/** A conversation with one link for each list of items. */
export const chainOf = (...links: Item[][]): Chain =>
  links.reduce((c, items, n) => c.add({ response: `r${n}`, from: 'input', items }), Chain.root(principal.owner))

export type Read = {
  readonly chunks: Chunk[]
  readonly deltas: Delta[]
  readonly text: string
  readonly calls: { kind: string; name: string; namespace: string | undefined; input: string }[]
  readonly usage: EngineUsage | undefined
  readonly finish: string | undefined
  readonly error: unknown
}
export const callTo = (chain: Chain, some: Partial<Settings> = {}, rest: Partial<Call> = {}): Call => ({
  id: 'resp_1',
  principal,
  chain,
  settings: settings(some),
  prompt: undefined,
  warm: undefined,
  mayStore: true,
  generate: true,
  signal: new AbortController().signal,
  ...rest,
})
/** Reads a generation to its end; an error is part of the result. */
export async function read(engine: Engine, call: Call, onChunk?: (chunk: Chunk) => void): Promise<Read> {
  const chunks: Chunk[] = []
  let error: unknown
  try {
    for await (const chunk of engine.generate(call)) {
      chunks.push(chunk)
      onChunk?.(chunk)
    }
  } catch (e) {
    error = e
  }
  const deltas = chunks.flatMap((c) => c.deltas ?? [])
  const calls: Read['calls'] = []
  for (const d of deltas) {
    if (d.type === 'call') calls.push({ kind: d.kind, name: d.name, namespace: d.namespace, input: '' })
    const open = calls.at(-1)
    if (d.type === 'arguments' && open) open.input += d.text
  }
  return {
    chunks,
    deltas,
    calls,
    text: deltas.map((d) => (d.type === 'text' ? d.text : '')).join(''),
    usage: chunks.findLast((c) => c.usage)?.usage,
    finish: chunks.findLast((c) => c.finish)?.finish,
    error,
  }
}
export const codeOf = (error: unknown): string | undefined => (error instanceof ApiError ? error.code : undefined)

/** What a turn makes of a generation: the model's items, calls under ids of their own. */
export function itemsOf(deltas: readonly Delta[], prefix: string): Item[] {
  const items: Item[] = []
  let text = ''
  let open: Extract<Delta, { type: 'call' }> | 'text' | 'reasoning' | 'refusal' | undefined
  for (const d of deltas) {
    if (d.type === 'call') open = d
    else if (d.type === 'end') {
      const id = `${prefix}${items.length}`
      if (open === 'reasoning')
        items.push({
          type: 'reasoning',
          id,
          summary: [],
          content: [{ type: 'reasoning_text', text }],
          status: 'completed',
        })
      else if (typeof open === 'object') {
        const path = {
          id,
          call_id: `call_${id}`,
          name: open.name,
          ...(open.namespace === undefined ? {} : { namespace: open.namespace }),
        }
        items.push(
          open.kind === 'function'
            ? { type: 'function_call', ...path, arguments: text }
            : { type: 'custom_tool_call', ...path, input: text },
        )
      } else items.push({ ...assistant(text), id } as Item)
      text = ''
      open = undefined
    } else {
      text += d.text
      if (d.type !== 'arguments') open = d.type
    }
  }
  return items
}
