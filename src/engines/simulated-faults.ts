// Which request gets which fault: by a share of them drawn from a seed, every nth, or by a marker in the user's text.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { type Fault, faultKinds, type FaultKind, faultShape } from './scenario-act.ts'

/** Of the requests that generate: every nth, or a share of them, at most `times`. Neither: all of them. */
export const injectedFault = z
  .strictObject({
    ...faultShape,
    every: z.number().int().min(1).optional(),
    probability: z.number().min(0).max(1).optional(),
    times: z.number().int().min(1).optional(),
  })
  .refine((f) => f.every === undefined || f.probability === undefined, 'give `every` or `probability`, not both')
export type InjectedFault = z.infer<typeof injectedFault>

export class Faults {
  readonly #faults: readonly InjectedFault[]
  readonly #seed: number
  readonly #used: number[]
  #requests = 0

  constructor(faults: readonly InjectedFault[], seed: number) {
    this.#faults = faults
    this.#seed = seed
    this.#used = faults.map(() => 0)
  }
  /** The fault of the next request. The same seed and order of requests give the same faults. */
  next(): Fault | undefined {
    this.#requests++
    for (const [n, fault] of this.#faults.entries()) {
      const used = this.#used[n] ?? 0
      if (used >= (fault.times ?? Infinity) || !this.#strikes(fault, n)) continue
      this.#used[n] = used + 1
      return fault
    }
    return undefined
  }
  #strikes({ every, probability }: InjectedFault, n: number): boolean {
    if (every !== undefined) return this.#requests % every === 0
    if (probability === undefined) return true
    const drawn = createHash('sha1').update(`${this.#seed} ${n} ${this.#requests}`).digest().readUInt32BE(0)
    return drawn / 2 ** 32 < probability
  }
}

/** `[fault:cut]`, or `[fault:cut:20]` to strike after 20 pieces. Unknown kinds are plain text. */
export function markedFault(text: string): Fault | undefined {
  const [, kind, after] = /\[fault:([a-z-]{1,20})(?::(\d{1,9}))?\]/.exec(text) ?? []
  if (kind === undefined || !faultKinds.includes(kind)) return undefined
  return { kind: kind as FaultKind, ...(after === undefined ? {} : { after: Number(after) }) }
}
