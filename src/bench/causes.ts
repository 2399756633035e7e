// What a gain is made of: modes in a row, each different from the one before in one cause, and how much of the whole gain
// each step brought. Steps that lost count as negative shares, so that the shares always add up to the whole.

/** A mode, and what makes it different from the one in front of it; the first has no cause. */
export type Rung = { readonly mode: string; readonly cause: string }
export type Step = {
  readonly from: string
  readonly to: string
  readonly cause: string
  /** Saved by it; negative where it costs. */
  readonly ms: number
  /** Of the whole gain; NaN where nothing was gained or lost as a whole. */
  readonly share: number
}
export type Causes = {
  readonly ms: number
  /** Of the time of the first mode. */
  readonly saved: number
  readonly steps: readonly Step[]
}

/** `ms`: time by mode. A mode without one is passed over: the step behind it then has its cause as well. */
export function causesOf(rungs: readonly Rung[], ms: ReadonlyMap<string, number>): Causes {
  type Seen = { readonly mode: string; readonly cause: string; readonly ms: number }
  const seen: Seen[] = []
  let causes: string[] = []
  for (const { mode, cause } of rungs) {
    causes.push(cause)
    const time = ms.get(mode)
    if (time === undefined) continue
    seen.push({ mode, cause: causes.join(', '), ms: time })
    causes = []
  }
  const first = seen[0]?.ms ?? NaN
  const whole = first - (seen.at(-1)?.ms ?? NaN)
  const steps = seen.slice(1).map((to, n): Step => {
    const from = seen[n] ?? to
    const gain = from.ms - to.ms
    return { from: from.mode, to: to.mode, cause: to.cause, ms: gain, share: whole === 0 ? NaN : gain / whole }
  })
  return { ms: whole, saved: whole / first, steps }
}
