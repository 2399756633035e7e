// An agent's loop over one connection: ask the model, run the tools it calls here, send their outputs, until it answers.
import type { FunctionCall, Item } from '../protocol/items.ts'
import type { Response, ReasoningConfig } from '../protocol/response.ts'
import { Cancelled, ClientError, ConnectionLost, RequestRejected } from './failures.ts'
import { inOrder, type Call, type CallOptions } from './flight.ts'
import { itemsOf, type CreateBody } from './history.ts'
import type { ServerEvent } from './frame.ts'
import type { LocalTool } from './tools.ts'

export type ToolCall = {
  readonly call: FunctionCall
  readonly args: Readonly<Record<string, unknown>>
  readonly tool: LocalTool
}
export type AgentEvent =
  | { type: 'step'; step: number }
  /** An event of the wire, as it came. */
  | { type: 'wire'; event: ServerEvent }
  | { type: 'tool_started'; call: FunctionCall }
  | { type: 'tool_finished'; call: FunctionCall; output: string; failed: boolean; ms: number }
  /** The step failed in a way that may pass and is asked again; text of it that was yielded is void. */
  | { type: 'retry'; step: number; reason: string }

export type AgentOptions = {
  /** A connection, or one lane of it. */
  readonly via: { create(body: CreateBody, options?: CallOptions): Call }
  readonly model: string
  readonly instructions?: string
  readonly tools: readonly LocalTool[]
  readonly input: string | readonly Item[]
  readonly reasoning?: ReasoningConfig
  readonly signal?: AbortSignal
  /** Generations at most. Default 50. */
  readonly maxSteps?: number
  /** Tries of one step after failures that may pass. Default 3 more. */
  readonly retries?: number
  /** First wait before such a try, in milliseconds; it doubles. Default 500. */
  readonly retryMs?: number
  /** False: no `generate:false` request before the first turn. */
  readonly warmUp?: boolean
  /** Asked before a tool with `confirm` runs; one question at a time. Default: everything may run. */
  readonly approve?: (call: ToolCall) => boolean | Promise<boolean>
  readonly onEvent?: (event: AgentEvent) => void
}
export type AgentResult = {
  readonly status: 'completed' | 'incomplete' | 'max_steps'
  readonly steps: number
  /** Text of the last step. */
  readonly text: string
  /** Sums over all steps. */
  readonly usage: { readonly input: number; readonly cached: number; readonly output: number }
  /** The whole conversation, the input first. */
  readonly items: readonly Item[]
}

/** The model's response failed for good. */
export class AgentFailed extends ClientError {
  readonly code: string
  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

const passing = new Set(['server_error', 'rate_limit_exceeded', 'server_is_overloaded'])

/**
 * Yields the model's text as it comes and returns the result. Throws Cancelled on `signal`, AgentFailed when a response
 * fails, and what a Call throws. Nothing is stored on the server; sealed reasoning travels along.
 */
export async function* runAgent(options: AgentOptions): AsyncGenerator<string, AgentResult, void> {
  const { via, model, instructions, reasoning, onEvent, maxSteps = 50 } = options
  const abort = new AbortController()
  const signal = options.signal ? AbortSignal.any([options.signal, abort.signal]) : abort.signal
  const settings: CreateBody = {
    model,
    ...(instructions === undefined ? {} : { instructions }),
    ...(reasoning === undefined ? {} : { reasoning }),
    tools: options.tools.map((tool) => tool.definition),
    store: false,
    include: ['reasoning.encrypted_content'],
  }
  const items = [...(itemsOf(options.input) ?? [])] as Item[]
  const usage = { input: 0, cached: 0, output: 0 }
  let text = ''
  try {
    if (options.warmUp !== false) await warmUp(via, settings, signal)
    for (let step = 1; step <= maxSteps; step++) {
      onEvent?.({ type: 'step', step })
      text = ''
      const turn = speak(options, settings, items, step, signal)
      let part = await turn.next()
      for (; part.done !== true; part = await turn.next()) {
        text += part.value
        yield part.value
      }
      const { response, output } = part.value
      usage.input += response.usage?.input_tokens ?? 0
      usage.cached += response.usage?.input_tokens_details?.cached_tokens ?? 0
      usage.output += response.usage?.output_tokens ?? 0
      items.push(...output)
      if (response.status === 'incomplete') return { status: 'incomplete', steps: step, text, usage, items }
      const calls = output.filter((item) => item.type === 'function_call')
      if (calls.length === 0) return { status: 'completed', steps: step, text, usage, items }
      items.push(...(await answer(calls, options, signal)))
    }
    return { status: 'max_steps', steps: maxSteps, text, usage, items }
  } finally {
    // Leaving the loop early must not leave a tool running.
    abort.abort(new Cancelled('The agent was stopped'))
  }
}

/** Hands the server what never changes, before there is anything to say. A server that cannot is asked without. */
async function warmUp(via: AgentOptions['via'], settings: CreateBody, signal: AbortSignal): Promise<void> {
  try {
    await via.create({ ...settings, generate: false, input: [] }, { signal, frozen: true }).finished
  } catch (error) {
    if (!(error instanceof RequestRejected || error instanceof ConnectionLost)) throw error
  }
}

/** One generation, tried again while its failure may pass. */
async function* speak(
  { via, onEvent, retries = 3, retryMs = 500 }: AgentOptions,
  settings: CreateBody,
  items: readonly Item[],
  step: number,
  signal: AbortSignal,
): AsyncGenerator<string, { response: Response; output: Item[] }, void> {
  for (let attempt = 0; ; attempt++) {
    const output = new Map<number, Item>()
    let reason: string
    try {
      // A copy: a call that is sent again reads its input again. The items themselves are never changed.
      const call = via.create({ ...settings, input: [...items] }, { signal, frozen: true })
      for await (const event of call) {
        onEvent?.({ type: 'wire', event })
        if (event.type === 'response.created') output.clear()
        else if (event.type === 'response.output_text.delta') yield event.delta
        else if (event.type === 'response.output_item.done') output.set(event.output_index, event.item)
      }
      const response = await call.finished
      if (response.status !== 'failed') return { response, output: inOrder(output) }
      const { code = 'server_error', message = 'The response failed.' } = response.error ?? {}
      if (attempt >= retries || !passing.has(code)) throw new AgentFailed(code, message)
      reason = message
    } catch (error) {
      if (!(error instanceof ConnectionLost) || attempt >= retries) throw error
      reason = error.message
    }
    onEvent?.({ type: 'retry', step, reason })
    await pause(retryMs * 2 ** attempt, signal)
  }
}

/** Outputs for calls, in their order. Neighbours that may run beside each other do; a tool that is asked about runs alone. */
async function answer(calls: readonly FunctionCall[], options: AgentOptions, signal: AbortSignal): Promise<Item[]> {
  const outputs: Item[] = []
  const toolOf = (call: FunctionCall): LocalTool | undefined =>
    options.tools.find((tool) => tool.definition.name === call.name)
  const free = calls.map((call) => {
    const tool = toolOf(call)
    return tool === undefined || (tool.parallel && !tool.confirm)
  })
  for (let at = 0; at < calls.length;) {
    let end = at + 1
    while (free[at] === true && free[end] === true) end++
    const together = calls.slice(at, end).map((call) => runTool(call, toolOf(call), options, signal))
    outputs.push(...(await Promise.all(together)))
    if (signal.aborted) throw new Cancelled('The agent was cancelled', signal.reason)
    at = end
  }
  return outputs
}

async function runTool(
  call: FunctionCall,
  tool: LocalTool | undefined,
  { approve, onEvent }: AgentOptions,
  signal: AbortSignal,
): Promise<Item> {
  const start = performance.now()
  let output: string
  let failed = false
  onEvent?.({ type: 'tool_started', call })
  try {
    if (!tool) throw new Error(`There is no tool named '${call.name}'`)
    const args = parseArguments(call.arguments)
    if (tool.confirm && approve && !(await approve({ call, args, tool })))
      throw new Error('The user did not allow this call')
    signal.throwIfAborted()
    output = await tool.run(args, signal)
  } catch (error) {
    failed = true
    output = `Error: ${error instanceof Error ? error.message : String(error)}`
  }
  onEvent?.({ type: 'tool_finished', call, output, failed, ms: performance.now() - start })
  return { type: 'function_call_output', call_id: call.call_id, output }
}

function parseArguments(json: string): Readonly<Record<string, unknown>> {
  let value: unknown
  try {
    value = JSON.parse(json === '' ? '{}' : json)
  } catch {
    throw new Error('The arguments are no valid JSON')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error('The arguments are no JSON object')
  return value as Readonly<Record<string, unknown>>
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer)
      reject(new Cancelled('The agent was cancelled', signal.reason))
    }
    if (signal.aborted) return stop()
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop)
      resolve()
    }, ms)
    signal.addEventListener('abort', stop, { once: true })
  })
}
