// Speaks acts into Arrivals at a pace: one piece at a time, as many as are due, never faster than they are read. Owns
// the counts of one generation and how it ends.
import { ApiError } from '../protocol/errors.ts'
import type { Item } from '../protocol/items.ts'
import type { Arrivals } from '../turn/arrivals.ts'
import type { Chunk, Delta, EngineUsage, Finish } from '../turn/ports.ts'
import { type Act, type Fault, filler, pieces } from './scenario-act.ts'

/** Thrown inside a generation that nobody wants any more. */
export const stopped = new Error('stopped')

/** One generation's end from outside, and all the waiting that it cuts short. */
export class Stop {
  #stopped = false
  #wake: (() => void) | undefined
  get stopped(): boolean {
    return this.#stopped
  }
  stop(): void {
    this.#stopped = true
    this.#wake?.()
  }
  check(): void {
    if (this.#stopped) throw stopped
  }
  /** Milliseconds; Infinity waits for the stop. Throws `stopped`. */
  async wait(ms: number): Promise<void> {
    this.check()
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>((resolve) => {
      this.#wake = resolve
      if (ms !== Infinity) timer = setTimeout(resolve, Math.min(ms, 2 ** 31 - 1))
    })
    clearTimeout(timer)
    this.#wake = undefined
    this.check()
  }
}

export type Pace = {
  /** Pieces a second; 0: as fast as they are read. */
  readonly rate: number
  /** Pieces a chunk. */
  readonly batch: number
  /** Pieces after which the generation is cut with `length`. */
  readonly limit: number
}
type Spoken = 'text' | 'reasoning' | 'refusal' | 'arguments'
const yieldEvery = 256
/** What the engine remembers of its own output, in characters; behind that it forgets the item. */
const remembered = 4_000_000

export class Speech {
  readonly #arrivals: Arrivals
  readonly #stop: Stop
  readonly #batch: number
  readonly #limit: number
  #rate: number
  #fault: Fault | undefined
  #over: Finish | 'vanished' | undefined
  #said: Finish = 'stop'
  #endless = false
  #noEnd = false
  #usage: 'given' | 'missing' | 'double' | 'negative' = 'given'
  #ownUsage: Partial<EngineUsage> = {}
  #open: Act['do'] | undefined
  #held = ''
  #count = 0
  #output = 0
  #reasoning = 0
  #burst = 0
  /** Since when, and from which piece on, the rate is kept. */
  #from: number | undefined
  #done = 0
  readonly #items: Item[] = []
  #forgot = false

  constructor(arrivals: Arrivals, stop: Stop, pace: Pace, fault: Fault | undefined) {
    this.#arrivals = arrivals
    this.#stop = stop
    this.#rate = pace.rate
    this.#batch = pace.batch
    this.#limit = pace.limit
    this.#fault = fault
  }
  /** What was said whole, as items; empty where something was broken off. */
  get items(): readonly Item[] {
    return this.#over === undefined && !this.#forgot ? this.#items : []
  }

  /** Speaks the acts to their end, or until a limit, a fault or the stop. Throws what the faults throw. */
  async perform(acts: Iterable<Act>, prompt: { readonly input: number; readonly cached: number }): Promise<void> {
    if (this.#fault && (this.#fault.after ?? defaultAfter(this.#fault)) === 0) await this.#strike()
    for (const act of acts) {
      if (this.#over) break
      await this.#act(act)
    }
    if (this.#fault && !this.#over) await this.#strike()
    if (this.#endless && !this.#over) await this.#act({ do: 'text', pieces: [] })
    if (this.#over === 'vanished') return
    const usage = { ...prompt, output: this.#output, reasoning: this.#reasoning, ...this.#ownUsage }
    if (this.#usage === 'double') {
      void this.#arrivals.push({ usage })
      await this.#settle()
    }
    void this.#arrivals.push(this.#last(usage))
  }
  #last(usage: EngineUsage): Chunk {
    const finish = this.#over === undefined || this.#over === 'vanished' ? this.#said : this.#over
    if (this.#usage === 'missing') return { finish }
    if (this.#usage === 'negative') return { usage: { input: -1, cached: -1, output: -1, reasoning: -1 }, finish }
    return { usage, finish }
  }

  async #act(act: Act): Promise<void> {
    switch (act.do) {
      case 'pause':
        await this.#stop.wait(act.ms)
        // The pause is no time in which pieces became due.
        this.#from = undefined
        return
      case 'fault':
        // In a script a fault stands at its place, and counts from there.
        this.#fault = { ...act.fault, after: this.#output + (act.fault.after ?? 0) }
        if ((act.fault.after ?? 0) === 0) await this.#strike()
        return
      case 'finish':
        this.#said = act.finish
        return
      case 'usage':
        this.#ownUsage = Object.fromEntries(Object.entries(act.usage).filter(([, n]) => n !== undefined))
        return
      case 'call': {
        const { kind, name, namespace, input } = act
        if (this.#full()) return
        this.#open = 'call'
        await this.#push({ type: 'call', kind, name, namespace })
        return this.#speak('arguments', pieces(input), (text) => callItem(act, text))
      }
      default: {
        if (this.#full()) return
        this.#open = act.do
        const kind = act.do
        return this.#speak(kind, act.pieces, (text) => wordsItem(kind, text))
      }
    }
  }
  #full(): boolean {
    if (this.#output < this.#limit) return false
    this.#over = 'length'
    return true
  }
  async #speak(type: Spoken, said: Iterable<string>, item: (text: string) => Item): Promise<void> {
    const whole: string[] = []
    let size = 0
    for (const piece of this.#endlessly(said)) {
      if (this.#fault && this.#output >= (this.#fault.after ?? defaultAfter(this.#fault))) await this.#strike()
      if (this.#over || this.#full()) break
      if (size < remembered) whole.push(piece)
      size += piece.length
      const wait = this.#piece(type, piece)
      if (wait) await wait
      this.#stop.check()
    }
    const rest = this.#flush(type)
    if (rest) await rest
    this.#open = undefined
    if (size >= remembered) this.#forgot = true
    this.#items.push(item(whole.join('')))
    if (this.#over !== 'vanished' && !this.#noEnd) await this.#push({ type: 'end', whole: this.#over === undefined })
  }
  *#endlessly(said: Iterable<string>): Generator<string> {
    yield* said
    while (this.#endless) yield* filler(1000)
  }

  /** A promise only when there is something to wait for: most pieces of a tick have none. */
  #piece(type: Spoken, text: string): Promise<void> | undefined {
    this.#output++
    if (type === 'reasoning') this.#reasoning++
    this.#held += text
    return ++this.#count < this.#batch ? undefined : this.#flush(type)
  }
  #flush(type: Spoken): Promise<void> | undefined {
    if (this.#count === 0) return undefined
    const text = this.#held
    this.#held = ''
    this.#done += this.#count
    this.#count = 0
    const early = this.#rate === 0 ? 0 : this.#due() - performance.now()
    if (early <= 0) return this.#push({ type, text })
    this.#burst = 0
    return this.#stop.wait(early).then(() => this.#push({ type, text }))
  }
  #due(): number {
    if (this.#from === undefined) {
      this.#from = performance.now()
      this.#done = 1
    }
    return this.#from + ((this.#done - 1) * 1000) / this.#rate
  }
  #push(delta: Delta): Promise<void> | undefined {
    const full = this.#arrivals.push({ deltas: [delta] })
    if (full) return this.#pressed(full)
    if (++this.#burst < yieldEvery) return undefined
    this.#burst = 0
    return new Promise((resolve) => setImmediate(resolve))
  }
  /** An engine that may not write computes nothing meanwhile, and has nothing to catch up with. */
  async #pressed(full: Promise<void>): Promise<void> {
    const before = performance.now()
    await full
    if (this.#from !== undefined) this.#from += performance.now() - before
    if (++this.#burst < yieldEvery) return
    this.#burst = 0
    await new Promise((resolve) => setImmediate(resolve))
  }

  async #strike(): Promise<void> {
    const fault = this.#fault
    this.#fault = undefined
    switch (fault?.kind) {
      case undefined:
        return
      case 'error':
        throw new ApiError(
          fault.code ?? 'server_error',
          fault.message ?? 'The simulated engine failed, as it was told to.',
        )
      case 'cut':
      case 'failed':
        await this.#settle()
        throw new ApiError(
          fault.code ?? 'server_error',
          fault.message ?? 'The simulated engine broke off, as it was told to.',
        )
      case 'vanish':
        this.#over = 'vanished'
        return
      case 'hang':
        await this.#settle()
        return this.#stop.wait(Infinity)
      case 'endless':
        this.#endless = true
        return
      case 'slow':
        this.#rate = 1000 / Math.max(fault.ms ?? 200, 0.001)
        this.#from = undefined
        return
      case 'overlap':
        if (this.#open === 'text') await this.#push({ type: 'call', kind: 'function', name: 'overlap' })
        else await this.#push({ type: 'text', text: 'overlap' })
        return
      case 'no-end':
        this.#noEnd = true
        return
      case 'incomplete':
        this.#over = 'length'
        return
      case 'filter':
        this.#over = 'filter'
        return
      case 'usage-missing':
        this.#usage = 'missing'
        return
      case 'usage-double':
        this.#usage = 'double'
        return
      case 'usage-negative':
        this.#usage = 'negative'
        return
    }
  }
  /** Lets the reader have what was said: a failure would discard it unread. */
  async #settle(): Promise<void> {
    if (this.#open !== undefined) await this.#flush(this.#open === 'call' ? 'arguments' : (this.#open as Spoken))
    await new Promise((resolve) => setImmediate(resolve))
    this.#stop.check()
  }
}

/** Faults of a broken-off stream strike a little into it, the others at once. */
const defaultAfter = ({ kind }: Fault): number =>
  ['cut', 'failed', 'vanish', 'hang', 'overlap', 'incomplete', 'filter'].includes(kind) ? 3 : 0

function wordsItem(kind: 'text' | 'reasoning' | 'refusal', text: string): Item {
  if (kind === 'reasoning') return { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text }] }
  const part =
    kind === 'text'
      ? { type: 'output_text' as const, text, annotations: [] }
      : { type: 'refusal' as const, refusal: text }
  return { type: 'message', role: 'assistant', content: [part] }
}
function callItem(act: Extract<Act, { do: 'call' }>, input: string): Item {
  const path = { name: act.name, ...(act.namespace === undefined ? {} : { namespace: act.namespace }) }
  // The id is the turn's to give; here it only has to be one.
  if (act.kind === 'function') return { type: 'function_call', call_id: '', ...path, arguments: input }
  return { type: 'custom_tool_call', call_id: '', ...path, input }
}
