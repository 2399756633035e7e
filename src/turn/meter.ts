// Usage of one turn, also of one that was cut before its engine could report. What an engine reports is the truth when
// it is possible; else our own counts stand, marked as estimated.
import type { Chunk, Delta, EngineUsage } from './ports.ts'

export class Meter {
  readonly #prompt: () => number
  #reported: EngineUsage | undefined
  #pieces = 0
  #reasoning = 0
  #asked = false
  /** Ids of the prompt and of the output, where they are known. */
  #input: number | undefined
  #counted: { readonly output: number; readonly reasoning: number } | undefined

  /** `prompt`: our estimate of the prompt's tokens; asked only where the engine reports none. */
  constructor(prompt: () => number) {
    this.#prompt = prompt
  }
  /** The engine was called: from here on there is something to account for. */
  called(input?: number): void {
    this.#asked = true
    this.#input = input
  }
  /** `counted`: ids so far, of an engine that takes tokens. */
  saw(chunk: Chunk, deltas: readonly Delta[], counted?: { readonly output: number; readonly reasoning: number }): void {
    if (chunk.usage) this.#reported = chunk.usage
    this.#counted = counted
    for (const d of deltas) {
      if (d.type === 'end' || d.type === 'call') continue
      this.#pieces++
      if (d.type === 'reasoning') this.#reasoning++
    }
  }
  /** Ids so far, or pieces of text: never more than tokens, since an engine sends at least one token a piece. */
  get pieces(): number {
    return this.#counted?.output ?? this.#pieces
  }
  get usage(): EngineUsage {
    const r = this.#reported
    const counted = this.#counted
    // Engines of tokens do not know which of them are reasoning.
    if (r && possible(r, this.pieces))
      return counted ? { ...r, reasoning: Math.min(r.output, Math.max(r.reasoning, counted.reasoning)) } : r
    if (!this.#asked) return { input: 0, cached: 0, output: 0, reasoning: 0 }
    const input = this.#input ?? this.#prompt()
    const { output, reasoning } = counted ?? { output: this.#pieces, reasoning: this.#reasoning }
    return { input, cached: 0, output, reasoning, estimated: true }
  }
}

function possible(u: EngineUsage, pieces: number): boolean {
  const whole = [u.input, u.cached, u.output, u.reasoning].every((n) => Number.isSafeInteger(n) && n >= 0)
  return whole && u.cached <= u.input && u.reasoning <= u.output && (u.output > 0 || pieces === 0)
}
