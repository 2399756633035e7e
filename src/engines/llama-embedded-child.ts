// The process that runs llama.cpp: loads one model and computes the turns of one engine. Ends with its parent.
import type { FromChild, Held, Load, Question, Run, ToChild } from './llama-embedded-messages.ts'
import { BadGrammar, generation, type Machine } from './llama-embedded-generation.ts'
import { metadataOf, templateOf, tokenizerOf } from './llama-embedded-gguf.ts'
import type { Batched, BatchItem, Library } from './llama-embedded-library.ts'
import { Sequences } from './llama-embedded-sequences.ts'
import { SavedStates } from './llama-embedded-states.ts'

const say = (message: FromChild): void => void process.send?.(message)
const sentence = (e: unknown): string => (e instanceof Error ? e.message : String(e))

type Job = { readonly stop: AbortController; pause: Pause | undefined }
type Pause = { readonly promise: Promise<void>; readonly resolve: () => void }
function newPause(): Pause {
  let resolve = (): void => {}
  const promise = new Promise<void>((r) => (resolve = r))
  return { promise, resolve }
}

class Child {
  readonly #load: Load
  readonly #machine: Machine
  readonly #sequences: Sequences
  readonly #states: SavedStates | undefined
  readonly #batches: Batches
  readonly #jobs = new Map<number, Job>()
  #tokens = new Map<number, number[]>()

  private constructor(load: Load, machine: Machine, sequences: Sequences, states: SavedStates | undefined, b: Batches) {
    this.#load = load
    this.#machine = machine
    this.#sequences = sequences
    this.#states = states
    this.#batches = b
  }
  static async start(load: Load): Promise<Child> {
    const library = (await import(load.library)) as Library
    const llama = await library.getLlama({
      gpu: load.gpu === 'off' ? false : load.gpu,
      build: 'never',
      maxThreads: load.threads,
      progressLogs: false,
      logLevel: 'error',
      logger: (_level, message) => void process.stderr.write(`${message.trimEnd()}\n`),
    })
    const model = await llama.loadModel({ modelPath: load.model })
    const batches = new Batches()
    const context = await model.createContext({
      sequences: load.sequences,
      contextSize: load.context ?? { max: 32_768 },
      threads: load.threads,
      flashAttention: load.flashAttention === 'auto' ? 'auto' : load.flashAttention === 'on',
      batching: { itemPrioritizationStrategy: (all) => batches.fill(all) },
    })
    const states = load.states && new SavedStates(load.states.dir, load.states.bytes)
    const all = Array.from({ length: load.sequences }, () => context.getSequence())
    const machine = { library, llama, model, batch: context.batchSize, context: context.contextSize }
    say({ type: 'ready', context: context.contextSize, name: model.filename ?? load.model })
    return new Child(load, machine, new Sequences(all, load.waiting, states), states, batches)
  }
  hear(message: Exclude<ToChild, Load>): void {
    if (message.type === 'run') return void this.#run(message)
    if (message.type === 'ask') return void this.#answer(message.ask, message)
    const job = this.#jobs.get(message.job)
    if (!job) return
    if (message.type === 'pause') job.pause ??= newPause()
    else {
      job.pause?.resolve()
      job.pause = undefined
      if (message.type === 'cancel') job.stop.abort()
    }
  }

  async #run(run: Run): Promise<void> {
    const job: Job = { stop: new AbortController(), pause: undefined }
    this.#jobs.set(run.job, job)
    try {
      await this.#compute(run, job.stop.signal)
    } catch (e) {
      this.#flush()
      const code = e instanceof BadGrammar ? 'unsupported_by_engine' : 'server_error'
      if (!job.stop.signal.aborted) say({ type: 'failed', job: run.job, code, message: sentence(e) })
    } finally {
      this.#jobs.delete(run.job)
    }
  }
  async #compute(run: Run, signal: AbortSignal): Promise<void> {
    const taken = await this.#sequences.take(run, signal)
    if (taken === undefined) return
    if (taken === 'busy') {
      const message = `${this.#load.waiting} turns wait for a sequence already.`
      return say({ type: 'failed', job: run.job, code: 'server_is_overloaded', message })
    }
    try {
      say({ type: 'started', job: run.job, place: taken.place })
      const { finish, counts } = await generation(this.#machine, taken, run, signal, {
        alive: () => say({ type: 'alive', job: run.job }),
        token: (id) => this.#token(run.job, id),
        paused: () => this.#jobs.get(run.job)?.pause?.promise,
      })
      this.#sequences.whole(taken)
      this.#flush()
      say({ type: 'done', job: run.job, finish, counts })
    } finally {
      this.#sequences.give(taken.slot)
    }
  }
  /** Ids of one turn of the event loop travel together. */
  #token(job: number, id: number): void {
    if (this.#tokens.size === 0) setImmediate(() => this.#flush())
    const tokens = this.#tokens.get(job)
    if (tokens) tokens.push(id)
    else this.#tokens.set(job, [id])
  }
  #flush(): void {
    const all = this.#tokens
    this.#tokens = new Map()
    for (const [job, tokens] of all) say({ type: 'tokens', job, tokens })
  }

  async #answer(ask: number, question: Question): Promise<void> {
    try {
      say({ type: 'answer', ask, value: await this.#find(question) })
    } catch (e) {
      say({ type: 'no-answer', ask, message: sentence(e) })
    }
  }
  async #find(question: Question): Promise<unknown> {
    const { library, model, context } = this.#machine
    switch (question.what) {
      case 'tokenize':
        return question.texts.map((text) => model.tokenize(text, false))
      case 'held':
        return {
          sequences: this.#sequences.slots.map((s) => Uint32Array.from(s.sequence.contextTokens)),
          batches: this.#batches.all,
          mixed: this.#batches.mixed,
          saved: this.#states?.savedCount ?? 0,
          restored: this.#states?.restoredCount ?? 0,
        } satisfies Held
      case 'describe': {
        const file = await library.readGgufFileInfo(this.#load.model, { readTensorInfo: false, logWarnings: false })
        const metadata = metadataOf(file.metadata)
        return { template: templateOf(metadata), tokenizer: tokenizerOf(metadata), context }
      }
    }
  }
}

/** Fills a batch: everybody's next id first, so that nobody who writes waits for somebody's long prompt. */
class Batches {
  all = 0
  mixed = 0
  fill({ items, size }: { items: readonly BatchItem[]; size: number }): Batched[] {
    this.all++
    if (items.length > 1) this.mixed++
    let room = size
    const out = items.slice(0, size).map((item): Batched => {
      room--
      return { item, processAmount: 1 }
    })
    for (const one of out) {
      const more = Math.min(room, one.item.tokens.length - 1)
      one.processAmount += more
      room -= more
    }
    return out
  }
}

let child: Child | undefined
process.on('message', (message: ToChild) => {
  if (message.type !== 'load') return child?.hear(message)
  Child.start(message).then(
    (started) => (child = started),
    (e: unknown) => say({ type: 'unready', message: sentence(e) }),
  )
})
// Nothing is open that a clean end would keep, and a batch that runs would hold it up.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))
// A terminal sends this to the whole group; when to end is the parent's to say.
process.on('SIGINT', () => {})
