// The simulated engine as one that takes tokens: what it has computed before, id by id, and speaking ids at a pace.
import { ApiError } from '../protocol/errors.ts'
import type { Arrivals } from '../turn/arrivals.ts'
import type { Finish } from '../turn/ports.ts'
import type { TokenRun } from '../turn/tokens.ts'
import type { Fault } from './scenario-act.ts'
import type { Pace, Stop } from './simulated-speech.ts'

/** Prompts that are remembered for each owner: as many conversations as an engine would hold. */
const most = 64

/** A prompt and what was generated behind it. The run itself is the conversation's own, and not appended to. */
type Known = { readonly run: TokenRun; readonly behind: readonly number[] }

/** Which beginnings of prompts have been computed, by owner: nobody finds what somebody else has. */
export class RunCache {
  readonly #byOwner = new Map<string, Known[]>()

  /** Ids at the start of this prompt that are known. */
  cached(owner: string, prompt: TokenRun): number {
    let best = 0
    // Who differs where the best one ends is no better: one look, where comparing would cost the history.
    for (const known of this.#byOwner.get(owner) ?? [])
      if (best === 0 || idAt(known, best) === (prompt.at(best) ?? -1)) best = Math.max(best, common(known, prompt))
    return best
  }
  /** What it begins with, all of it, it takes the place of. */
  learn(owner: string, run: TokenRun, behind: readonly number[] = []): void {
    const within = (old: Known): boolean => {
      const length = old.run.length + old.behind.length
      return length <= run.length && idAt(old, length - 1) === run.at(length - 1) && common(old, run) === length
    }
    const others = (this.#byOwner.get(owner) ?? []).filter((old) => !within(old))
    this.#byOwner.delete(owner)
    this.#byOwner.set(owner, [{ run, behind }, ...others].slice(0, most))
    if (this.#byOwner.size > 1024) for (const oldest of this.#byOwner.keys()) return void this.#byOwner.delete(oldest)
  }
}
const idAt = ({ run, behind }: Known, place: number): number | undefined => run.at(place) ?? behind[place - run.length]
function common({ run, behind }: Known, prompt: TokenRun): number {
  const same = run.common(prompt)
  if (same < run.length) return same
  const differs = behind.findIndex((id, n) => id !== prompt.at(same + n))
  return same + (differs < 0 ? behind.length : differs)
}

/** Speaks ids to their end, to the limit or to the fault; returns how many, and why it ended. */
export async function speakIds(
  ids: ArrayLike<number>,
  arrivals: Arrivals,
  stop: Stop,
  { rate, batch, limit }: Pace,
  fault: Fault | undefined,
): Promise<{ readonly output: number; readonly finish: Finish | undefined }> {
  const end = Math.min(ids.length, limit, fault ? (fault.after ?? 3) : Infinity)
  const from = performance.now()
  for (let at = 0; at < end; at += batch) {
    const due = rate === 0 ? 0 : from + ((at + 1) * 1000) / rate - performance.now()
    if (due > 0) await stop.wait(due)
    stop.check()
    const tokens: number[] = []
    for (let n = at; n < Math.min(end, at + batch); n++) tokens.push(ids[n] ?? 0)
    const full = arrivals.push({ tokens })
    if (full) await full
    // As if it came over a network: others run in between.
    if (at % 256 === 0) await new Promise<void>((resolve) => setImmediate(resolve))
  }
  stop.check()
  if (!fault) return { output: end, finish: end < ids.length ? 'length' : 'stop' }
  if (fault.kind === 'hang') await stop.wait(Infinity)
  if (fault.kind === 'cut' || fault.kind === 'vanish') return { output: end, finish: undefined }
  throw new ApiError(fault.code ?? 'server_error', fault.message ?? 'The simulated engine fails as it was told to.')
}
