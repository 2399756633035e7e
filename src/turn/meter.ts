// Usage of one turn, also of one that was cut before its engine could report. What an engine reports is the truth when
// it is possible; else our own counts stand, marked as estimated. The generations of a rollout add up.
import type { Chunk, Delta, EngineUsage } from './ports.ts'

export class Meter {
  /** Of the generations before this one. */
  #before: EngineUsage = none
  /** Tokens of this one's prompt; undefined until an engine was called. */
  #prompt: (() => number) | undefined
  #reported: EngineUsage | undefined
  #pieces = 0
  #reasoning = 0
  /** Ids of the output, where they are known. */
  #counted: { readonly output: number; readonly reasoning: number } | undefined

  /**
   * The engine was called: from here on there is something to account for. `prompt`: the prompt's tokens as we know or
   * estimate them; asked only where the engine reports none.
   */
  called(prompt: () => number): void {
    this.#before = this.usage
    this.#prompt = prompt
    this.#reported = this.#counted = undefined
    this.#pieces = this.#reasoning = 0
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
    return this.#before.output + this.#saw
  }
  get usage(): EngineUsage {
    return sum(this.#before, this.#generation)
  }
  get #saw(): number {
    return this.#counted?.output ?? this.#pieces
  }
  get #generation(): EngineUsage {
    const r = this.#reported
    const counted = this.#counted
    // Engines of tokens do not know which of them are reasoning.
    if (r && possible(r, this.#saw))
      return counted ? { ...r, reasoning: Math.min(r.output, Math.max(r.reasoning, counted.reasoning)) } : r
    if (!this.#prompt) return none
    const input = this.#prompt()
    const { output, reasoning } = counted ?? { output: this.#pieces, reasoning: this.#reasoning }
    return { input, cached: 0, output, reasoning, estimated: true }
  }
}

const none: EngineUsage = { input: 0, cached: 0, output: 0, reasoning: 0 }
function sum(a: EngineUsage, b: EngineUsage): EngineUsage {
  if (a === none) return b
  return {
    input: a.input + b.input,
    cached: a.cached + b.cached,
    output: a.output + b.output,
    reasoning: a.reasoning + b.reasoning,
    ...(a.estimated === true || b.estimated === true ? { estimated: true as const } : {}),
  }
}
function possible(u: EngineUsage, pieces: number): boolean {
  const whole = [u.input, u.cached, u.output, u.reasoning].every((n) => Number.isSafeInteger(n) && n >= 0)
  return whole && u.cached <= u.input && u.reasoning <= u.output && (u.output > 0 || pieces === 0)
}
