// What an engine has said and nobody has read yet. Merges, bounds, and ends on abort, so that no engine has to.
import type { Chunk } from './ports.ts'

export class Arrivals implements AsyncIterableIterator<Chunk> {
  #held: Chunk[] = []
  #over: { readonly error: unknown } | 'end' | undefined = undefined
  #wake: (() => void) | undefined = undefined
  #room: PromiseWithResolvers | undefined = undefined
  readonly #signal: AbortSignal
  readonly #limit: number
  readonly #onAbort = (): void => this.fail(this.#signal.reason)

  /** `limit`: chunks held before `push` asks the source to pause. */
  constructor(signal: AbortSignal, limit = 64) {
    this.#signal = signal
    this.#limit = limit
    if (signal.aborted) this.#onAbort()
    else signal.addEventListener('abort', this.#onAbort, { once: true })
  }
  /** What a turn reads. `leave`: it has had enough; the far side is to stop at once, and nobody waits for it. */
  until(leave: () => void): AsyncIterable<Chunk> {
    return {
      [Symbol.asyncIterator]: () => ({
        next: () => this.next(),
        return: () => {
          leave()
          return this.return()
        },
      }),
    }
  }
  /** A promise when the reader is behind: pause the source until it resolves. After the end it does nothing. */
  push(chunk: Chunk): Promise<void> | undefined {
    if (this.#over) return undefined
    this.#held.push(chunk)
    this.#wake?.()
    if (this.#held.length < this.#limit) return undefined
    return (this.#room ??= withResolvers()).promise
  }
  end(): void {
    this.#finish('end')
  }
  /** What was not read yet is lost: the turn has failed. */
  fail(error: unknown): void {
    if (this.#over === undefined) this.#held = []
    this.#finish({ error })
  }
  #finish(how: { error: unknown } | 'end'): void {
    this.#over ??= how
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#wake?.()
    this.#free()
  }
  #free(): void {
    this.#room?.resolve()
    this.#room = undefined
  }
  [Symbol.asyncIterator](): this {
    return this
  }
  async next(): Promise<IteratorResult<Chunk>> {
    while (true) {
      const held = this.#held
      if (held.length > 0) {
        this.#held = []
        this.#free()
        return { value: merge(held), done: false }
      }
      if (this.#over === 'end') return { value: undefined, done: true }
      if (this.#over) throw this.#over.error
      await new Promise<void>((resolve) => (this.#wake = resolve))
      this.#wake = undefined
    }
  }
  async return(): Promise<IteratorResult<Chunk>> {
    this.#held = []
    this.end()
    return { value: undefined, done: true }
  }
}

type PromiseWithResolvers = { readonly promise: Promise<void>; readonly resolve: () => void }
function withResolvers(): PromiseWithResolvers {
  let resolve = (): void => {}
  const promise = new Promise<void>((r) => (resolve = r))
  return { promise, resolve }
}

function merge(all: readonly Chunk[]): Chunk {
  const [first] = all
  if (all.length === 1 && first) return first
  const out: { -readonly [K in keyof Chunk]: Chunk[K] } = {}
  for (const chunk of all) {
    if (chunk.usage) out.usage = chunk.usage
    if (chunk.finish) out.finish = chunk.finish
    if (chunk.warm !== undefined) out.warm = chunk.warm
  }
  const deltas = all.flatMap((c) => c.deltas ?? [])
  if (deltas.length > 0) out.deltas = deltas
  const tokens = all.flatMap((c) => c.tokens ?? [])
  if (tokens.length > 0) out.tokens = tokens
  const text = all.map((c) => c.text ?? '').join('')
  if (text !== '') out.text = text
  return out
}
