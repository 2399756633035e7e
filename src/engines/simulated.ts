// The simulated engine: no model, but everything else of one, deterministic. It calls tools, answers, honours formats and
// limits, keeps a pace, has a prefix cache, and fails as it is told to. For trying out, demos, benchmarks and tests.
import { z } from 'zod'
import { ApiError } from '../protocol/errors.ts'
import type { Settings } from '../protocol/request.ts'
import { callables, chosen, type Callable } from '../protocol/tools.ts'
import { Arrivals } from '../turn/arrivals.ts'
import type { Chain } from '../turn/chain.ts'
import type { Call, Chunk, Engine, Prompt } from '../turn/ports.ts'
import type { Act } from './scenario-act.ts'
import { behave } from './scenario-behaviour.ts'
import { itemsOf } from './scenario-items.ts'
import { PrefixCache } from './simulated-cache.ts'
import { RunCache, speakIds } from './simulated-ids.ts'
import { Faults, injectedFault, markedFault } from './simulated-faults.ts'
import { type Head, headOf, promptText, seenOf } from './scenario-prompt.ts'
import { loadScenario, type Scenario, scenarioSchema } from './scenario.ts'
import { Speech, Stop, stopped } from './simulated-speech.ts'

export const simulatedOptions = z.strictObject({
  /** Tokens a second; 0: as fast as they are read. */
  tokensPerSecond: z.number().min(0).max(1e6).default(0),
  /** Milliseconds before the first token, beside prefill. */
  ttftMs: z.number().min(0).max(3_600_000).default(0),
  /** Tokens of the prompt that are not cached, computed a second; 0: no time at all. */
  prefillTokensPerSecond: z.number().min(0).max(1e9).default(0),
  /** Tokens of prompt and output together. */
  context: z.number().int().min(1).default(1_000_000),
  /** Tool rounds before an answer. */
  rounds: z.number().int().min(0).max(10_000).default(3),
  /** Tokens a chunk. */
  batch: z.number().int().min(1).max(10_000).default(1),
  /** A YAML file, or its content as an object. */
  scenario: z.union([z.string().min(1), scenarioSchema]).optional(),
  /** A short reasoning item before everything else. */
  reasoning: z.boolean().default(false),
  /** Take ids, made by the codec of the model, and give ids. */
  tokens: z.boolean().default(false),
  /** Keep what was received, for tests. */
  record: z.boolean().default(false),
  faults: z.array(injectedFault).max(100).default([]),
  /** What `probability` is drawn from. */
  seed: z.number().int().default(1),
  /** Obey `[fault:KIND]` in the user's text. Only for tests of clients. */
  faultMarkers: z.boolean().default(false),
  /** Beginnings of prompts that are remembered, one an item. */
  cacheItems: z.number().int().min(0).max(10_000_000).default(100_000),
})
export type SimulatedOptions = z.input<typeof simulatedOptions>
type Options = z.output<typeof simulatedOptions>

/** What the engine was given. `prompt`: the conversation as the model sees it, without ids; `tools`: flat names. */
export type Got = {
  readonly id: string
  readonly prompt: string
  readonly tools: readonly string[]
  readonly cached: number
  readonly generate: boolean
  /** With the option `tokens`: the ids, in place of the text. */
  readonly ids?: readonly number[]
}
export interface SimulatedProbe {
  /** The last 1,000 calls, oldest first; none without the option `record`. */
  readonly got: readonly Got[]
  /** Generations and warm-ups that were started, that run now, and that were stopped from outside before their end. */
  readonly calls: number
  readonly running: number
  readonly aborted: number
}
const mostGot = 1000

/** `id`: its name in the configuration. Throws an Error with a sentence for options and scenarios that are wrong. */
export function simulated(options: SimulatedOptions = {}, id = 'simulated'): Engine & SimulatedProbe {
  const parsed = simulatedOptions.safeParse(options)
  if (parsed.success) return new Simulated(id, parsed.data)
  const issue = parsed.error.issues[0]
  throw new Error(`Simulated engine: ${issue?.path.join('.') || 'options'}: ${issue?.message ?? 'wrong shape'}`)
}

class Simulated implements Engine, SimulatedProbe {
  readonly id: string
  readonly takes: 'items' | 'tokens'
  readonly got: Got[] = []
  calls = 0
  aborted = 0
  readonly #running = new Set<Generation>()
  readonly #options: Options
  readonly #cache: PrefixCache
  readonly #runs = new RunCache()
  readonly #faults: Faults
  readonly #scenario: Scenario | undefined

  constructor(id: string, options: Options) {
    this.id = id
    this.#options = options
    this.takes = options.tokens ? 'tokens' : 'items'
    this.#cache = new PrefixCache(options.cacheItems)
    this.#faults = new Faults(options.faults, options.seed)
    this.#scenario = options.scenario === undefined ? undefined : loadScenario(options.scenario)
  }
  get running(): number {
    return this.#running.size
  }
  admit(settings: Settings, chain: Chain): void {
    offered(settings, chain)
    this.#weigh(headOf(settings, chain.owner), chain)
  }
  generate(call: Call): AsyncIterable<Chunk> {
    return new Generation(call.signal, (generation) => this.#run(call, generation))
  }
  async probe(signal: AbortSignal): Promise<readonly string[]> {
    signal.throwIfAborted()
    return ['simulated']
  }
  async close(): Promise<void> {
    for (const generation of this.#running) generation.fail(new ApiError('server_error', 'The engine was closed.'))
  }

  async #run(call: Call, generation: Generation): Promise<void> {
    const { arrivals, stop } = generation
    this.calls++
    this.#running.add(generation)
    try {
      await (call.prompt ? this.#computeIds(call, call.prompt, arrivals, stop) : this.#compute(call, arrivals, stop))
      arrivals.end()
    } catch (e) {
      if (e === stopped) this.aborted++
      else arrivals.fail(e)
    } finally {
      this.#running.delete(generation)
    }
  }
  async #compute({ id, chain, settings, generate }: Call, arrivals: Arrivals, stop: Stop): Promise<void> {
    const { ttftMs, prefillTokensPerSecond, tokensPerSecond, batch, context } = this.#options
    const { all, choice } = offered(settings, chain)
    const head = headOf(settings, chain.owner)
    const input = this.#weigh(head, chain)
    const cached = this.#cache.cached(head, chain)
    if (this.#options.record)
      this.#record({ id, prompt: promptText(head, chain), tools: all.map((t) => t.flat), cached, generate })
    const acts = generate ? this.#acts(settings, chain, all, choice) : []
    const fault = generate ? this.#fault(chain) : undefined

    const prefill = prefillTokensPerSecond === 0 ? 0 : ((input - cached) * 1000) / prefillTokensPerSecond
    const wait = prefill + (generate ? ttftMs : 0)
    if (wait > 0) await stop.wait(wait)
    stop.check()
    this.#cache.learn(head, chain)
    if (!generate) {
      void arrivals.push({ usage: { input, cached, output: 0, reasoning: 0 }, finish: 'stop' })
      return
    }
    const limit = Math.min(settings.max_output_tokens ?? Infinity, context - input)
    const speech = new Speech(arrivals, stop, { rate: tokensPerSecond, batch, limit }, fault)
    await speech.perform(acts, { input, cached })
    stop.check()
    this.#cache.learn(head, chain, speech.items)
  }
  async #computeIds(call: Call, prompt: Prompt, arrivals: Arrivals, stop: Stop): Promise<void> {
    const { ttftMs, prefillTokensPerSecond, tokensPerSecond, batch, context } = this.#options
    const { id, chain, settings, generate, principal } = call
    const began = performance.now()
    const { all, choice } = offered(settings, chain)
    const input = prompt.run.length
    if (input >= context) throw tooLong(input, context)
    const cached = this.#runs.cached(principal.owner, prompt.run)
    if (this.#options.record)
      this.#record({ id, prompt: '', tools: all.map((t) => t.flat), cached, generate, ids: [...prompt.run.view()] })
    const acts = generate ? this.#acts(settings, chain, all, choice) : []
    const { items, pause, finish } = itemsOf(acts, `${seenOf(chain).turns}`)
    const ids = generate ? await prompt.written(items) : []
    const fault = generate ? this.#fault(chain) : undefined
    const prefill = prefillTokensPerSecond === 0 ? 0 : ((input - cached) * 1000) / prefillTokensPerSecond
    // What it took to make up the ids is no part of a model's work: it counts as waited.
    const wait = prefill + pause + (generate ? ttftMs : 0) - (performance.now() - began)
    if (wait > 0) await stop.wait(wait)
    this.#runs.learn(principal.owner, prompt.run)
    const limit = Math.min(settings.max_output_tokens ?? Infinity, context - input)
    const spoken = await speakIds(ids, arrivals, stop, { rate: tokensPerSecond, batch, limit }, fault)
    if (spoken.finish === undefined) return
    this.#runs.learn(principal.owner, prompt.run, Array.from(ids).slice(0, spoken.output))
    void arrivals.push({
      usage: { input, cached, output: spoken.output, reasoning: 0 },
      finish: spoken.finish === 'stop' ? (finish ?? 'stop') : spoken.finish,
      warm: id,
    })
  }
  #acts(settings: Settings, chain: Chain, all: readonly Callable[], choice: ReturnType<typeof chosen>): Act[] {
    const seen = seenOf(chain)
    const { rounds, reasoning } = this.#options
    const scripted = this.#scenario?.next({ seen, model: settings.model, tools: all })
    const acts = scripted ?? behave(settings, choice, seen, { rounds, reasoning })
    if (settings.parallel_tool_calls) return acts
    const first = acts.findIndex((a) => a.do === 'call')
    return acts.filter((a, n) => a.do !== 'call' || n === first)
  }
  #fault(chain: Chain): ReturnType<Faults['next']> {
    const injected = this.#faults.next()
    return (this.#options.faultMarkers ? markedFault(seenOf(chain).user) : undefined) ?? injected
  }
  #weigh(head: Head, chain: Chain): number {
    const input = head.weight + chain.weight
    const { context } = this.#options
    if (input <= context) return input
    throw tooLong(input, context)
  }
  #record(got: Got): void {
    this.got.push(got)
    if (this.got.length > mostGot) this.got.shift()
  }
}

const tooLong = (input: number, context: number): ApiError =>
  new ApiError(
    'context_length_exceeded',
    `The prompt has about ${input} tokens; the simulated engine takes ${context}.`,
    'input',
  )
/** All tools of a turn, and those that `tool_choice` leaves. Throws where it leaves none although one must be called. */
function offered(settings: Settings, chain: Chain): { all: readonly Callable[]; choice: ReturnType<typeof chosen> } {
  const all = callables(settings.tools, chain.tools)
  const choice = chosen(all, settings.tool_choice)
  if (choice.must && choice.tools.length === 0)
    throw new ApiError(
      'invalid_request',
      "'tool_choice' asks for a tool that is not among the tools of this request.",
      'tool_choice',
    )
  return { all, choice }
}

/** Starts with the first read, so that one that nobody reads costs nothing; ends with the signal, or when it is given back. */
class Generation implements AsyncIterableIterator<Chunk> {
  readonly arrivals: Arrivals
  readonly stop = new Stop()
  #start: (() => Promise<void>) | undefined
  readonly #signal: AbortSignal
  readonly #onAbort = (): void => this.stop.stop()

  constructor(signal: AbortSignal, run: (generation: Generation) => Promise<void>) {
    this.#signal = signal
    this.arrivals = new Arrivals(signal)
    this.#start = () => run(this)
  }
  fail(error: unknown): void {
    this.arrivals.fail(error)
    this.stop.stop()
  }
  [Symbol.asyncIterator](): this {
    return this
  }
  next(): Promise<IteratorResult<Chunk>> {
    const start = this.#start
    this.#start = undefined
    if (start && !this.#signal.aborted) {
      this.#signal.addEventListener('abort', this.#onAbort, { once: true })
      void start().finally(() => this.#signal.removeEventListener('abort', this.#onAbort))
    }
    return this.arrivals.next()
  }
  return(): Promise<IteratorResult<Chunk>> {
    this.#start = undefined
    this.stop.stop()
    return this.arrivals.return()
  }
}
