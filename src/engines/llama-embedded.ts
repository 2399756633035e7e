// llama.cpp inside Continuo, by node-llama-cpp in a process of its own. Takes ids and gives ids; a conversation keeps
// its sequence of the KV cache, so that a turn computes only what is new in it.
import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { ApiError } from '../protocol/errors.ts'
import type { Settings } from '../protocol/request.ts'
import { Arrivals } from '../turn/arrivals.ts'
import type { Chain } from '../turn/chain.ts'
import type { Call, Chunk, Constraint, Description, Engine, Prompt } from '../turn/ports.ts'
import { gbnfOf } from './gbnf.ts'
import { Holder } from './grammar-hold.ts'
import { download, modelFile, type Progress } from './llama-embedded-hub.ts'
import { libraryUrl } from './llama-embedded-library.ts'
import type { Described, Held, Load, Place, Question, Run } from './llama-embedded-messages.ts'
import { llamaEmbeddedOptions, type LlamaEmbeddedInput, type LlamaEmbeddedOptions } from './llama-embedded-options.ts'
import { type Listener, LlamaProcess } from './llama-embedded-process.ts'
import { Script } from './llama-embedded-script.ts'
import { refusePictures } from './pictures.ts'
import type { Scripted } from './scenario-items.ts'

export { llamaEmbeddedOptions }

/** What tests look at. */
export interface LlamaProbe {
  /** What the KV cache holds now, as llama.cpp's process reports it. */
  held(): Promise<Held>
  readonly pid: number | undefined
}

/** `id`: its name in the configuration. Throws an Error with a sentence for options that are wrong. */
export function llamaEmbedded(
  options: LlamaEmbeddedInput,
  id = 'llama-embedded',
  progress: Progress = () => {},
): Engine & LlamaProbe {
  return new LlamaEmbedded(id, llamaEmbeddedOptions.parse(options), progress)
}

/** What `Chunk.warm` carries; no other engine reads it. */
type WarmPlace = Place & { readonly engine: LlamaEmbedded; readonly birth: number }

class LlamaEmbedded implements Engine, LlamaProbe {
  readonly id: string
  readonly takes = 'tokens'
  readonly #options: LlamaEmbeddedOptions
  readonly #process: LlamaProcess
  readonly #script: Script | undefined
  readonly #holder: Holder<string>

  constructor(id: string, options: LlamaEmbeddedOptions, progress: Progress) {
    this.id = id
    this.#options = options
    this.#holder = new Holder(id, options.grammars, (rule, { control, stops, opened }) =>
      gbnfOf(rule, { control, stops, opened }),
    )
    const { model, cacheDir, hub, downloadBytes, idleMs, modules, saveState, stateDir, scenario, startMs } = options
    if (saveState && stateDir === undefined) throw new Error('saveState needs stateDir: the folder to save to.')
    const { file, url } = modelFile(model, cacheDir, hub)
    const library = libraryUrl(modules)
    this.#script = scenario === undefined ? undefined : new Script(scenario)
    let there = url === undefined
    const { context, sequences, threads, gpu, flashAttention, waiting, stateBytes } = options
    this.#process = new LlamaProcess({
      id,
      startMs,
      load: async (): Promise<Load> => {
        if (url !== undefined && !there)
          await download({ url, file, limit: downloadBytes, stallMs: idleMs }, progress).catch((e: unknown) => {
            throw new ApiError('server_error', e instanceof Error ? e.message : String(e))
          })
        there = true
        const states = saveState && stateDir !== undefined ? { dir: stateDir, bytes: stateBytes } : undefined
        return { type: 'load', library, model: file, context, sequences, threads, gpu, flashAttention, waiting, states }
      },
    })
  }
  get pid(): number | undefined {
    return this.#process.pid
  }
  admit(settings: Settings, chain: Chain, constraint?: Constraint): void {
    refusePictures(chain, this.id)
    if ((settings.top_logprobs ?? 0) > 0)
      throw new ApiError(
        'unsupported_by_engine',
        `Engine ${this.id} cannot do what 'top_logprobs' asks: it gives no log probabilities.`,
        'top_logprobs',
      )
    // A script says what is written, whatever is asked for.
    if (!this.#script) this.#holder.admit(settings, chain, constraint)
  }
  generate(call: Call): AsyncIterable<Chunk> {
    const { prompt } = call
    if (!prompt) throw new ApiError('server_error', `Engine ${this.id} was given no tokens; its model needs a codec.`)
    this.#fits(prompt)
    const grammar = call.generate && !this.#script ? this.#holder.of(call, prompt) : undefined
    const arrivals = new Arrivals(call.signal)
    const end = new AbortController()
    const stop = (): void => end.abort(call.signal.reason)
    if (call.signal.aborted) stop()
    else call.signal.addEventListener('abort', stop, { once: true })
    void this.#begin(call, prompt, grammar, arrivals, end.signal)
      .then(
        () => arrivals.end(),
        (e: unknown) => arrivals.fail(e),
      )
      .finally(() => call.signal.removeEventListener('abort', stop))
    return arrivals.until(() => end.abort())
  }
  async probe(signal: AbortSignal): Promise<readonly string[]> {
    await this.#process.ask({ what: 'held' }, signal)
    return [this.#name]
  }
  /** Loading the model, and before that its download, take as long as their own limits allow. */
  async describe(): Promise<Description> {
    await this.#process.start()
    return (await this.#ask({ what: 'describe' })) as Described
  }
  async tokenize(texts: readonly string[], signal: AbortSignal): Promise<readonly (readonly number[])[]> {
    return (await this.#process.ask({ what: 'tokenize', texts }, signal)) as number[][]
  }
  async held(): Promise<Held> {
    return (await this.#ask({ what: 'held' })) as Held
  }
  close(): Promise<void> {
    return this.#process.close()
  }

  #ask(question: Question): Promise<unknown> {
    return this.#process.ask(question, AbortSignal.timeout(this.#options.idleMs))
  }
  get #name(): string {
    return this.#process.ready?.name ?? this.#options.model
  }
  #fits(prompt: Prompt): void {
    const context = this.#process.ready?.context ?? this.#options.context
    const { length } = prompt.run
    if (length === 0) throw new ApiError('server_error', `Engine ${this.id} was given a prompt without tokens.`)
    // One place is left for the first id of the output.
    if (context === undefined || length < context) return
    throw new ApiError(
      'context_length_exceeded',
      `The prompt has ${length} tokens; engine ${this.id} takes ${context} with the output.`,
      'input',
    )
  }
  /** Resolves with the end of the generation. Throws ApiError, or what `signal` was aborted with. */
  async #begin(
    call: Call,
    prompt: Prompt,
    grammar: string | undefined,
    arrivals: Arrivals,
    signal: AbortSignal,
  ): Promise<void> {
    const scripted = call.generate ? this.#script?.next(call.settings, call.chain) : undefined
    const script = scripted && (await this.#written(prompt, scripted))
    if (scripted && scripted.pause > 0) await sleep(scripted.pause, undefined, { signal })
    const { birth } = await this.#process.start()
    signal.throwIfAborted()
    this.#fits(prompt)
    const turn = new Turn(this, birth, arrivals, this.#process, this.#options.idleMs)
    const filtered = scripted?.finish === 'filter'
    await turn.run(
      {
        ids: prompt.run.view(),
        place: this.#place(call, birth),
        generate: call.generate,
        mayStore: call.mayStore,
        most: call.settings.max_output_tokens ?? 2 ** 31 - 1,
        stops: prompt.stops,
        sampling: this.#sampling(call.settings),
        grammar,
        script,
      },
      signal,
    )
    if (filtered) void arrivals.push({ finish: 'filter' })
  }
  async #written(prompt: Prompt, { items, finish }: Scripted): Promise<Uint32Array> {
    const ids = Uint32Array.from(await prompt.written(items))
    const last = ids.at(-1)
    // A model that is cut off does not end its turn.
    return finish === 'length' && last !== undefined && prompt.stops.includes(last) ? ids.slice(0, -1) : ids
  }
  #place({ warm }: Call, birth: number): Place | undefined {
    const value = warm?.value as Partial<WarmPlace> | null | undefined
    if (value?.engine !== this || value.birth !== birth || value.slot === undefined || value.turn === undefined)
      return undefined
    return { slot: value.slot, turn: value.turn }
  }
  #sampling(settings: Settings): Run['sampling'] {
    const { temperature, topP, topK, minP, seed } = this.#options
    return {
      temperature: settings.temperature ?? temperature,
      topP: settings.top_p ?? topP,
      topK,
      minP,
      seed: seed ?? randomInt(2 ** 32 - 1),
      presence: settings.presence_penalty ?? 0,
      frequency: settings.frequency_penalty ?? 0,
    }
  }
}

/** One job of the process, as chunks. */
class Turn implements Listener {
  readonly #engine: LlamaEmbedded
  readonly #birth: number
  readonly #arrivals: Arrivals
  readonly #process: LlamaProcess
  readonly #idleMs: number
  #idle: NodeJS.Timeout | undefined
  #job = 0
  #paused = false
  #warm: WarmPlace | undefined
  #resolve: () => void = () => {}
  #reject: (error: unknown) => void = () => {}

  constructor(engine: LlamaEmbedded, birth: number, arrivals: Arrivals, process: LlamaProcess, idleMs: number) {
    this.#engine = engine
    this.#birth = birth
    this.#arrivals = arrivals
    this.#process = process
    this.#idleMs = idleMs
  }
  async run(run: Omit<Run, 'type' | 'job'>, signal: AbortSignal): Promise<void> {
    const ended = new Promise<void>((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    const { job, end } = this.#process.run(run, this)
    this.#job = job
    this.#idle = setTimeout(() => this.#silent(), this.#idleMs).unref()
    const onAbort = (): void => this.#reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      await ended
    } finally {
      signal.removeEventListener('abort', onAbort)
      clearTimeout(this.#idle)
      end()
    }
  }
  hear(message: Parameters<Listener['hear']>[0]): void {
    this.#idle?.refresh()
    switch (message.type) {
      case 'started':
        this.#warm = { ...message.place, engine: this.#engine, birth: this.#birth }
        return
      case 'alive':
        return
      case 'tokens':
        return this.#push({ tokens: message.tokens })
      case 'done': {
        const { finish, counts } = message
        this.#push({ usage: { ...counts, reasoning: 0 }, finish, warm: this.#warm })
        return this.#resolve()
      }
      case 'failed':
        return this.#reject(new ApiError(message.code, `Engine ${this.#engine.id}: ${message.message}`))
    }
  }
  lost(error: ApiError): void {
    this.#reject(error)
  }
  #push(chunk: Chunk): void {
    const room = this.#arrivals.push(chunk)
    if (!room || this.#paused) return
    this.#paused = true
    this.#process.pace(this.#job, 'pause')
    void room.then(() => {
      this.#paused = false
      this.#process.pace(this.#job, 'resume')
    })
  }
  #silent(): void {
    const stuck = Date.now() - this.#process.heard >= this.#idleMs
    // Its reader is slow, or it waits for a sequence in which somebody else computes.
    if (this.#paused || (!this.#warm && !stuck)) return void this.#idle?.refresh()
    const { id } = this.#engine
    this.#reject(
      new ApiError('server_error', `Engine ${id}: llama.cpp gave no sign of life for ${this.#idleMs / 1000} s.`),
    )
    // Not only this turn is stuck: nothing that is asked of it now would be answered.
    if (stuck) this.#process.kill()
  }
}
