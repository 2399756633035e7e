// What the loops of one cell come to: spreads over rounds, stages of a turn, and ratios of loops of the same round.
import { causesOf } from './causes.ts'
import type { Turned } from './loop-drive.ts'
import { type ModeName, modeNames, rungs } from './loop-modes.ts'
import type { Cell } from './loop-plan.ts'
import type { Cost, Measured } from './loop-measure.ts'
import { quantile, ratio, type Spread, spread } from './report.ts'
import { between } from './served.ts'

export type Stage = { readonly name: string; readonly of: (turn: Turned) => number }
const stage = (name: string, from: string, to: string): Stage => ({
  name,
  of: ({ marks }) => (marks ? between(marks, from, to) : NaN),
})
const engine = stage('engine', 'called', 'generated')
/** In the order of a turn; together they are all of it. A later leg of a rollout has the engine's only. */
export const stages: readonly Stage[] = [
  {
    name: 'network, parse',
    of: ({ ms, marks }) => (marks ? ms - between(marks, 'parsed', 'finished') : NaN),
  },
  stage('resolve, admit', 'parsed', 'created'),
  stage('encode', 'created', 'called'),
  engine,
  stage('finish', 'generated', 'finished'),
]
/** What is not the engine's: the whole turn without it. */
export const overhead = (turn: Turned): number => turn.ms - engine.of(turn)

/** Over all turns of all rounds; NaN where no turn has it. */
export function overTurns(loops: readonly Cost[], of: (turn: Turned) => number, q: number): number {
  return quantile(loops.flatMap(({ turns }) => turns.map(of)).filter(Number.isFinite), q)
}
/** Of each turn, the mean. */
export const perTurn = (loops: readonly Cost[], of: (turn: Turned) => number): number => {
  const all = loops.flatMap(({ turns }) => turns.map(of))
  return all.reduce((sum, n) => sum + n, 0) / all.length
}
/** By step of the loop, the median of the rounds. */
export function bySteps(loops: readonly Cost[], of: (turn: Turned) => number): number[] {
  const steps = loops[0]?.turns.length ?? 0
  return Array.from({ length: steps }, (_, n) =>
    quantile(
      loops
        .flatMap(({ turns }) => turns[n] ?? [])
        .map(of)
        .filter(Number.isFinite),
      0.5,
    ),
  )
}
export const endToEnd = (loops: readonly Cost[]): Spread => spread(loops.map(({ ms }) => ms))

/** End to end, of the rounds that have both; undefined where there is none. */
export function loopRatio({ loops }: Measured, above: ModeName, below: ModeName): Spread | undefined {
  const [a, b] = [loops.get(above) ?? [], loops.get(below) ?? []]
  const rounds = Math.min(a.length, b.length)
  if (rounds === 0) return undefined
  const ms = (all: readonly Cost[]): number[] => all.slice(0, rounds).map((loop) => loop.ms)
  return ratio(ms(a), ms(b))
}

export type CauseRow = {
  readonly cause: string
  readonly from: string
  readonly to: string
  readonly ms: Spread
  readonly percent: Spread
}
/** What the gain of a turn is made of, in the rounds that have every mode of the row; undefined for less than three modes. */
export function causesIn({
  loops,
}: Measured): { readonly rows: readonly CauseRow[]; readonly ms: Spread; readonly percent: Spread } | undefined {
  const present = rungs.filter(({ mode }) => loops.has(mode as ModeName))
  if (present.length < 3) return undefined
  const rounds = Math.min(...present.map(({ mode }) => loops.get(mode as ModeName)?.length ?? 0))
  const each = Array.from({ length: rounds }, (_, n) =>
    causesOf(
      rungs,
      new Map(
        modeNames.flatMap((name) => {
          const loop = loops.get(name)?.[n]
          return loop ? [[name, loop.ms / loop.turns.length] as const] : []
        }),
      ),
    ),
  )
  const [first] = each
  if (!first) return undefined
  return {
    ms: spread(each.map(({ ms }) => ms)),
    percent: spread(each.map(({ saved }) => saved * 100)),
    rows: first.steps.map(({ cause, from, to }, n) => ({
      cause,
      from,
      to,
      ms: spread(each.map(({ steps }) => steps[n]?.ms ?? NaN)),
      percent: spread(each.map(({ steps }) => (steps[n]?.share ?? NaN) * 100)),
    })),
  }
}

/** The ratios by their names, of the cells that have them. */
export function ratiosOf(measured: readonly Measured[]): Record<string, Spread> {
  const ratios: Record<string, Spread> = {}
  const put = (name: string, value: Spread | undefined): void => {
    if (value) ratios[name] = value
  }
  for (const one of measured) {
    const { rate, rttMs } = one.cell
    if (rttMs === 0) {
      put(`ws_over_stateless_${rate}`, loopRatio(one, 'ws-chain', 'http-stateless'))
      put(`ws_over_own_http_${rate}`, loopRatio(one, 'ws-chain', 'http-own'))
    } else put(`ws_over_stateless_${rate}_rtt${rttMs}`, loopRatio(one, 'ws-chain', 'http-new'))
  }
  const near = fastest(measured)
  if (near) {
    put('ws_over_rollout', loopRatio(near, 'ws-chain', 'rollout'))
    put('lean_over_rollout', loopRatio(near, 'ws-lean', 'rollout'))
  }
  return ratios
}
/** The cell in which what a server adds weighs most: the fastest engine, next door. */
export const fastest = (measured: readonly Measured[]): Measured | undefined =>
  measured
    .filter(({ cell }) => cell.rttMs === 0)
    .toSorted((a: { cell: Cell }, b: { cell: Cell }) => b.cell.rate - a.cell.rate)[0]
