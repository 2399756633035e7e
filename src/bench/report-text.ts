// A report for a terminal: where it was measured, ratios beside their targets, tables in columns, plots as small drawings,
// and what the figures do not show.
import { flat, table, widthOf, wrap } from './columns.ts'
import { cellText, figure, headlines, limitText, machineText, score, shown, verdict, when } from './figures.ts'
import type { Plot, Report, Series } from './report.ts'

/** Fits `columns` where the words allow it. Ends with a line end. */
export function reportText(report: Report, columns = 120): string {
  const { title, command, machine, ratios, targets, tables, plots, notes } = report
  const blocks = [
    [
      ...(title === undefined ? [] : wrap(title, columns)),
      ...wrap(`${command} · continuo ${machine.continuo} · ${when(machine.date)}`, columns),
      ...wrap(machineText(machine), columns),
    ],
    Object.keys(ratios).length + targets.length > 0 ? ratioLines(report, columns) : [],
    ...tables.map((t) => [
      ...titled(t.title, t.note, columns),
      table(
        t.head,
        t.rows.map((row) => row.map(cellText)),
        columns,
      ),
    ]),
    ...plots.map((plot) => plotLines(plot, columns)),
    notes.length > 0 ? ['Notes', ...notes.flatMap((note) => hanging('· ', note, columns))] : [],
  ]
  return `${blocks
    .filter((block) => block.length > 0)
    .map((block) => block.join('\n'))
    .join('\n\n')}\n`
}

function ratioLines(report: Report, columns: number): string[] {
  const rows = headlines(report).map(([target, seen]) => {
    const { text } = verdict(target, seen)
    return [target.ratio, target.what, seen ? shown(seen) : '–', limitText(target), text]
  })
  const judged = score(report)
  return [
    `Ratios: median [least–most]${judged === '' ? '' : `; ${judged}`}`,
    table(['ratio', 'what', 'seen', 'target', ''], rows, columns),
  ]
}
function titled(title: string, note: string | undefined, columns: number): string[] {
  return [...wrap(title, columns), ...(note === undefined ? [] : hanging('  ', note, columns))]
}
function hanging(mark: string, text: string, columns: number): string[] {
  const room = ' '.repeat(widthOf(mark))
  return wrap(text, columns - widthOf(mark)).map((line, n) => `${n === 0 ? mark : room}${line}`)
}

const nameWidth = 36
const steps = '▁▂▃▄▅▆▇█'
const mostBars = 24

/**
 * Lines as one small curve for each series, all on one scale; bars as bars. Nothing where that could not be read: bars on a
 * logarithmic scale, or too many; the tables have the figures.
 */
function plotLines(plot: Plot, columns: number): string[] {
  const all = plot.series.flatMap((s) => s.values.filter((v): v is number => drawable(v, plot.y.log === true)))
  if (all.length === 0) return []
  const scale = scaleOf(all, plot)
  const lines = plot.kind === 'bars' ? bars(plot, scale, columns) : curves(plot, scale, columns)
  return lines.length === 0 ? [] : [...titled(plot.title, plot.note, columns), ...lines]
}
const drawable = (v: number | null | undefined, log: boolean): v is number =>
  typeof v === 'number' && Number.isFinite(v) && (!log || v > 0)

/** From a value to 0 … 1. A scale that is not logarithmic begins at 0, so that heights compare. */
function scaleOf(all: readonly number[], { y }: Plot): (v: number) => number {
  const of = y.log === true ? Math.log10 : (v: number) => v
  const least = all.reduce((a, b) => Math.min(a, b))
  const most = all.reduce((a, b) => Math.max(a, b))
  const low = y.log === true ? of(least) : Math.min(0, least)
  const high = of(most)
  return (v) => (high > low ? Math.min(1, Math.max(0, (of(v) - low) / (high - low))) : 0)
}
function curves(plot: Plot, scale: (v: number) => number, columns: number): string[] {
  const { x, y, series } = plot
  if (x.values.length < 3) return []
  const wide = Math.max(1, Math.min(4, Math.floor((columns - nameWidth - 30) / x.values.length)))
  const ends = [x.values[0] ?? NaN, x.values.at(-1) ?? NaN].map(figure)
  const log = y.log === true ? ', logarithmic' : ''
  return [
    ...hanging('  ', `${y.label}${log}, over ${x.label} ${ends.join(' … ')}; first → last`, columns),
    ...series.map((s) => {
      const curve = x.values.map((_, n) => step(s.values[n], scale, y.log === true).repeat(wide)).join('')
      const seen = s.values.filter((v) => typeof v === 'number')
      const range = seen.length === 0 ? '–' : `${figure(seen[0] ?? NaN)} → ${figure(seen.at(-1) ?? NaN)}`
      return `  ${short(s.name)}  ${curve}  ${range}`
    }),
  ]
}
function step(v: number | null | undefined, scale: (v: number) => number, log: boolean): string {
  return drawable(v, log) ? (steps[Math.round(scale(v) * (steps.length - 1))] ?? ' ') : ' '
}
function bars(plot: Plot, scale: (v: number) => number, columns: number): string[] {
  const { x, y, series } = plot
  if (y.log === true || x.values.length * series.length > mostBars) return []
  const room = Math.max(10, Math.min(50, columns - nameWidth - 26))
  const of = (s: Series, n: number): string => {
    const v = s.values[n]
    if (!drawable(v, false)) return '–'
    return `${'█'.repeat(Math.round(scale(v) * room)) || '▏'} ${figure(v)}`
  }
  return [
    ...hanging('  ', y.label, columns),
    ...x.values.flatMap((value, n) => [
      ...hanging('  ', x.names?.[n] ?? `${x.label} ${figure(value)}`, columns),
      ...series.map((s) => `    ${short(s.name)}  ${of(s, n)}`),
    ]),
  ]
}
function short(name: string): string {
  const letters = Array.from(flat(name))
  return (letters.length > nameWidth ? `${letters.slice(0, nameWidth - 1).join('')}…` : letters.join('')).padEnd(
    nameWidth,
  )
}
