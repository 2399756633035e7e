// Usage of one turn, also of one that was cut before its engine could report. What an engine reports is the truth when
// it is possible; else our own counts stand, marked as estimated.
import type { Chunk, EngineUsage } from './ports.ts'

export class Meter {
  readonly #prompt: () => number
  #reported: EngineUsage | undefined
  #pieces = 0
  #reasoning = 0
  #asked = false

  /** `prompt`: our estimate of the prompt's tokens; asked only where the engine reports none. */
  constructor(prompt: () => number) {
    this.#prompt = prompt
  }
  /** The engine was called: from here on there is something to account for. */
  called(): void {
    this.#asked = true
  }
  saw(chunk: Chunk): void {
    if (chunk.usage) this.#reported = chunk.usage
    for (const d of chunk.deltas ?? []) {
      if (d.type === 'end' || d.type === 'call') continue
      this.#pieces++
      if (d.type === 'reasoning') this.#reasoning++
    }
  }
  /** Pieces of text so far: never more than tokens, since an engine sends at least one token a piece. */
  get pieces(): number {
    return this.#pieces
  }
  get usage(): EngineUsage {
    const r = this.#reported
    if (r && possible(r, this.#pieces)) return r
    if (!this.#asked) return { input: 0, cached: 0, output: 0, reasoning: 0 }
    return { input: this.#prompt(), cached: 0, output: this.#pieces, reasoning: this.#reasoning, estimated: true }
  }
}

function possible(u: EngineUsage, pieces: number): boolean {
  const whole = [u.input, u.cached, u.output, u.reasoning].every((n) => Number.isSafeInteger(n) && n >= 0)
  return whole && u.cached <= u.input && u.reasoning <= u.output && (u.output > 0 || pieces === 0)
}
