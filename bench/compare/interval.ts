// How sure one is of a ratio of two programs that were measured in turns: the median of the paired ratios, and the interval
// in which it lies with 95 % by the bootstrap (Efron 1979): the pairs are drawn again and again, and their medians sorted.
import { median, quantile } from '../../src/bench/report.ts'

export type Interval = { readonly median: number; readonly low: number; readonly high: number; readonly pairs: number }
const draws = 2000
/** Of fewer pairs the bootstrap's interval is too narrow to be believed. */
const fewest = 5

/** `above[n]` and `below[n]` were measured one after the other. The same values give the same interval. Throws a RangeError for no pairs. */
export function pairedInterval(above: readonly number[], below: readonly number[]): Interval {
  if (above.length !== below.length || above.length === 0)
    throw new RangeError('Paired values are wanted, one or more of each.')
  const ratios = above.map((n, i) => n / (below[i] ?? NaN))
  const random = seeded(ratios.length)
  const medians = Array.from({ length: draws }, () =>
    median(ratios.map(() => ratios[Math.floor(random() * ratios.length)] ?? NaN)),
  )
  return {
    median: median(ratios),
    low: quantile(medians, 0.025),
    high: quantile(medians, 0.975),
    pairs: ratios.length,
  }
}
/** Is one of them faster, as far as these pairs tell? */
export function verdict({
  low,
  high,
  pairs,
}: Interval): 'more' | 'less' | 'no difference seen' | 'too few pairs to tell' {
  if (pairs < fewest) return 'too few pairs to tell'
  if (low > 1) return 'more'
  return high < 1 ? 'less' : 'no difference seen'
}

/** Numbers from 0 to 1, the same each time: mulberry32. */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}
