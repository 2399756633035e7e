// What a benchmark found out: ratios by name, tables, plots, and what they do not show. Whoever prints it knows this only.
import { cpus, loadavg, release, totalmem } from 'node:os'
import { version } from '../version.ts'

/** Of repeats, interleaved with those that it is compared with. */
export type Spread = { readonly median: number; readonly min: number; readonly max: number }
export type Cell = string | number | Spread
export type Table = {
  readonly title: string
  /** What the numbers are, under which conditions. */
  readonly note?: string
  readonly head: readonly string[]
  readonly rows: readonly (readonly Cell[])[]
}
export type Series = {
  readonly name: string
  /** One for each x; null where there is none. */
  readonly values: readonly (number | null)[]
  /** Of the repeats, where there were several. */
  readonly low?: readonly (number | null)[]
  readonly high?: readonly (number | null)[]
}
export type Axis = { readonly label: string; readonly log?: boolean }
export type Plot = {
  readonly title: string
  readonly note?: string
  /** `bars`: each x is a group, named by `names`. */
  readonly kind: 'lines' | 'bars'
  readonly x: Axis & { readonly values: readonly number[]; readonly names?: readonly string[] }
  readonly y: Axis
  readonly series: readonly Series[]
}
/** One line of the table of targets: what was to be reached, as a limit of the ratio of that name. */
export type Target = {
  readonly ratio: string
  readonly what: string
  /** Undefined: reported as it is. */
  readonly atMost?: number
  readonly atLeast?: number
}
export type Report = {
  /** What was measured, for people: `One agent task in eight modes`. */
  readonly title?: string
  readonly command: string
  readonly machine: Machine
  /** As they were used, defaults included. */
  readonly options: Readonly<Record<string, unknown>>
  readonly ratios: Readonly<Record<string, Spread>>
  readonly targets: readonly Target[]
  readonly tables: readonly Table[]
  readonly plots: readonly Plot[]
  /** Conditions, losses, and what the figures do not show. */
  readonly notes: readonly string[]
}
export type Machine = {
  readonly continuo: string
  readonly node: string
  readonly system: string
  readonly cpu: string
  readonly cores: number
  readonly memoryGiB: number
  /** Load averages when the run began. */
  readonly load: string
  /** ISO date of the run. */
  readonly date: string
}
/** Hears how far a benchmark is. `share` from 0 to 1. */
export type OnProgress = (share: number, what: string) => void

/** Throws a RangeError for no values. */
export function spread(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b)
  const [min] = sorted
  const max = sorted.at(-1)
  if (min === undefined || max === undefined) throw new RangeError('There is nothing to take a median of.')
  return { median: median(sorted), min, max }
}
export function median(values: readonly number[]): number {
  return quantile(values, 0.5)
}
/** Between its neighbours where it falls between two; NaN of nothing. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (sorted.length - 1) * q
  const below = sorted[Math.floor(at)] ?? NaN
  const above = sorted[Math.ceil(at)] ?? NaN
  return below + (above - below) * (at - Math.floor(at))
}
/** Each by its partner: of repeats made one after the other, so that a busy moment of the machine hits both. */
export function ratio(above: readonly number[], below: readonly number[]): Spread {
  return spread(above.map((n, i) => n / (below[i] ?? NaN)))
}

/** A line, or bars of one colour: medians with what they range over; a gap where there is none. */
export function seriesOf(name: string, spreads: readonly (Spread | undefined)[]): Series {
  const each = (of: (spread: Spread) => number): (number | null)[] =>
    spreads.map((one) => (one === undefined ? null : of(one)))
  return { name, values: each((s) => s.median), low: each((s) => s.min), high: each((s) => s.max) }
}

export function machine(): Machine {
  return {
    continuo: version,
    node: process.version,
    system: `${process.platform} ${release()} ${process.arch}`,
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 1024 ** 3),
    load: loadavg()
      .map((n) => n.toFixed(1))
      .join(' '),
    date: new Date().toISOString(),
  }
}
