// Which loops a run consists of: a cell is one pace and one distance, with its modes in turn, round after round. A full table
// of all modes would take an hour, so each cell has the modes that the named ratios need, and some have all.
import { type ModeName, modeNames } from './loop-modes.ts'

export type Cell = {
  readonly rate: number
  readonly rttMs: number
  readonly tls: boolean
  readonly calls: number
  readonly rounds: number
  /** Measured in every round. */
  readonly modes: readonly ModeName[]
  /** Measured in the first round only, so that every cause can be told. */
  readonly also: readonly ModeName[]
}
export type Wish = {
  readonly calls: number
  readonly rates: readonly number[]
  readonly rtts: readonly number[]
  readonly repeats: number
  readonly tls: 'auto' | 'on' | 'off'
  readonly quick: boolean
  /** Chosen by hand: then every cell has these, in every round. */
  readonly modes: readonly ModeName[] | undefined
  /** A loop cannot be shortened: it was recorded. */
  readonly whole: boolean
}
/** Tokens a second below which a loop takes so long that a few calls have to do. */
export const slow = 500
const slowCalls = 5
/** Of the calls of a loop, so many are made from afar, where nothing else is chosen. */
const farShare = 0.5

export function planOf(wish: Wish): readonly Cell[] {
  const fast = wish.rates.filter((rate) => rate >= slow)
  const cells: Cell[] = []
  for (const rttMs of wish.rtts)
    for (const rate of wish.rates) {
      const far = rttMs > 0
      if (wish.whole && rate < slow && fast.length > 0) continue
      // From afar one pace tells enough: the slowest of the fast ones.
      if (!wish.modes && far && fast.length > 0 && rate !== Math.min(...fast)) continue
      const named = wish.modes ?? namedAt(rate, far, rate === Math.max(...fast))
      const all = !wish.modes && rate >= slow && (far ? !wish.quick : rate === Math.max(...fast))
      cells.push({
        rate,
        rttMs,
        tls: wish.tls === 'on' || (wish.tls === 'auto' && far),
        calls: wish.whole
          ? wish.calls
          : Math.min(
              wish.calls,
              rate < slow ? slowCalls : far && !wish.modes ? Math.ceil(wish.calls * farShare) : Infinity,
            ),
        rounds: rate < slow && !wish.modes ? 1 : wish.repeats,
        modes: named,
        also: all ? modeNames.filter((name) => !named.includes(name) && !(wish.quick && name === 'http-new')) : [],
      })
    }
  return cells
}
function namedAt(rate: number, far: boolean, fastest: boolean): readonly ModeName[] {
  if (far) return ['http-new', 'ws-chain']
  if (rate < slow) return ['http-stateless', 'ws-chain']
  return fastest
    ? ['http-stateless', 'http-own', 'ws-chain', 'ws-lean', 'rollout']
    : ['http-stateless', 'http-own', 'ws-chain']
}
/** Modes of round `n`, the first being 0: there and back, so that none profits from its place. */
export function modesIn({ modes, also }: Cell, n: number): readonly ModeName[] {
  const names = modeNames.filter((name) => modes.includes(name) || (n === 0 && also.includes(name)))
  return n % 2 === 0 ? names : names.toReversed()
}

export const cellName = ({ rate, rttMs, tls }: Cell): string =>
  `${rate} tokens/s, ${rttMs === 0 ? 'loopback' : `${rttMs} ms round trips`}${tls ? ', TLS' : ''}`
