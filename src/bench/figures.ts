// Figures as people read them: numbers of three digits, spreads as `1.23 [1.10–1.40]`, a target met or missed and by how
// much. Terminal, page and docs all say them with these words.
import type { Cell, Report, Spread, Target } from './report.ts'

const three = new Intl.NumberFormat('en-GB', { maximumSignificantDigits: 3 })
const two = new Intl.NumberFormat('en-GB', { maximumSignificantDigits: 2 })
const grouped = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 0 })

/** Three digits; whole numbers and thousands as they are, in groups. `–` where there is none. */
export function figure(n: number): string {
  if (Number.isNaN(n)) return '–'
  if (!Number.isFinite(n)) return n < 0 ? '−∞' : '∞'
  const size = Math.abs(n)
  if (size >= 1e15 || (size > 0 && size < 1e-6)) return n.toExponential(2)
  return Number.isInteger(n) || size >= 1000 ? grouped.format(n) : three.format(n)
}

/** `1.23 [1.10–1.40]`: all with as many decimals as the median needs for three digits. Of a single value no brackets. */
export function shown(spread: Spread): string {
  const [middle, range] = parts(spread)
  return range === undefined ? middle : `${middle} [${range}]`
}
/** The same figures apart, for a page that sets them apart. */
export function parts({ median, min, max }: Spread): readonly [middle: string, range: string | undefined] {
  if (Object.is(median, min) && Object.is(median, max)) return [figure(median), undefined]
  const of = decimals(median)
  return [of(median), `${of(min)}–${of(max)}`]
}
function decimals(median: number): (n: number) => string {
  const size = Math.abs(median)
  if (!Number.isFinite(median) || size >= 1e15 || (size > 0 && size < 1e-6)) return figure
  const digits = size === 0 ? 2 : Math.min(8, Math.max(0, 2 - Math.floor(Math.log10(size))))
  const format = new Intl.NumberFormat('en-GB', { minimumFractionDigits: digits, maximumFractionDigits: digits })
  return (n) => (Number.isFinite(n) && Math.abs(n) < 1e15 ? format.format(n) : figure(n))
}

export function isSpread(cell: Cell): cell is Spread {
  return typeof cell === 'object'
}
export function cellText(cell: Cell): string {
  return typeof cell === 'string' ? cell : typeof cell === 'number' ? figure(cell) : shown(cell)
}

/** How a target came out. `reported`: it has no limit; `unmeasured`: this run has no such ratio. */
export type Verdict = {
  readonly kind: 'met' | 'missed' | 'reported' | 'unmeasured'
  /** `met, 12 % below`, `missed by 3 %, not in every repeat`. */
  readonly text: string
}
export function limitText({ atMost, atLeast }: Target): string {
  return [
    ...(atMost === undefined ? [] : [`≤ ${figure(atMost)}`]),
    ...(atLeast === undefined ? [] : [`≥ ${figure(atLeast)}`]),
  ].join(', ')
}
/** By the median; where repeats lie on both sides of the limit, it says so. */
export function verdict(target: Target, seen: Spread | undefined): Verdict {
  const { atMost, atLeast } = target
  if (!seen || Number.isNaN(seen.median)) return { kind: 'unmeasured', text: 'not measured' }
  if (atMost === undefined && atLeast === undefined) return { kind: 'reported', text: 'reported' }
  const holds = (n: number): boolean => (atMost === undefined || n <= atMost) && (atLeast === undefined || n >= atLeast)
  const { median, min, max } = seen
  const mixed = holds(min) !== holds(median) || holds(max) !== holds(median)
  const doubt = mixed ? ', not in every repeat' : ''
  if (holds(median)) return { kind: 'met', text: `met${room(target, median)}${doubt}` }
  const limit = atMost !== undefined && median > atMost ? atMost : (atLeast ?? 0)
  return { kind: 'missed', text: `missed${share(' by ', Math.abs(median - limit), limit)}${doubt}` }
}
function room({ atMost, atLeast }: Target, median: number): string {
  if (atMost !== undefined && atLeast !== undefined) return ''
  if (atMost !== undefined) return share(', ', atMost - median, atMost, ' below')
  return share(', ', median - (atLeast ?? 0), atLeast ?? 0, ' above')
}
function share(before: string, part: number, whole: number, after = ''): string {
  const percent = (part / Math.abs(whole)) * 100
  if (!Number.isFinite(percent)) return ''
  const text = percent > 0 && percent < 0.1 ? '< 0.1' : (percent < 10 ? two : grouped).format(percent)
  return `${before}${text} %${after}`
}

/** `3 of 5 targets met`; of those that have a limit and were measured. Empty where there is none. */
export function score({ targets, ratios }: Report): string {
  const kinds = targets.map((target) => verdict(target, ratioOf(ratios, target.ratio)).kind)
  const judged = kinds.filter((kind) => kind === 'met' || kind === 'missed')
  if (judged.length === 0) return ''
  return `${judged.filter((kind) => kind === 'met').length} of ${judged.length} targets met`
}
export function ratioOf(ratios: Report['ratios'], name: string): Spread | undefined {
  return Object.hasOwn(ratios, name) ? ratios[name] : undefined
}
/** Ratios by name, each with its target where it has one; those of targets first, in their order. */
export function headlines({ targets, ratios }: Report): readonly (readonly [Target, Spread | undefined])[] {
  const named = new Set(targets.map((target) => target.ratio))
  const rest = Object.keys(ratios).filter((name) => !named.has(name))
  return [...targets, ...rest.map((ratio) => ({ ratio, what: '' }))].map((t) => [t, ratioOf(ratios, t.ratio)] as const)
}

/** UTC, to the minute. */
export function when(iso: string): string {
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(iso) ? `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC` : iso
}
export function machineText({ cpu, cores, memoryGiB, system, node, load }: Report['machine']): string {
  return `${cpu}, ${figure(cores)} cores, ${figure(memoryGiB)} GiB · ${system} · Node ${node} · load ${load}`
}
