// Reports as one page that stands alone: no request leaves it, from a file or from a server. Holds the results themselves,
// which its plots are drawn from and which a reader can save.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { figure, headlines, isSpread, limitText, parts, score, verdict, when } from './figures.ts'
import { pageScript, themeScript } from './page-script.ts'
import { pageStyle } from './page-style.ts'
import { reportObject } from './report-json.ts'
import type { Cell, Report, Spread, Table, Target } from './report.ts'

/** One after the other where there are several; none is an Error. */
export function reportHtml(reports: readonly Report[]): string {
  const [first] = reports
  if (!first) throw new RangeError('There is no report to make a page of.')
  const { css, js } = uplot()
  const title = reports.length === 1 ? nameOf(first) : `${reports.length} benchmarks`
  const scripts = [themeScript, js, pageScript]
  // Only these scripts run, whatever a name in the results says, and nothing is fetched.
  const hashes = scripts.map((text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`)
  const policy = `default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src ${hashes.join(' ')}; base-uri 'none'; form-action 'none'`
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="continuo bench">
<title>${escaped(title)} · Continuo</title>
<link rel="icon" href="data:,">
<style>${css}${pageStyle}</style>
<script>${themeScript}</script>
</head>
<body>
${reports.length > 1 ? bar(reports) : ''}
<main>
${reports.map((report, n) => section(report, n, reports.length > 1 ? 'h2' : 'h1')).join('\n')}
<footer>Measured and written by <code>continuo bench</code> of Continuo ${escaped(first.machine.continuo)}. Plots are drawn by uPlot. This page holds its results and asks nobody for anything.</footer>
</main>
<script>${js}</script>
<script>${pageScript}</script>
</body>
</html>
`
}

/** With the notice that its licence asks for. Throws where the package is not installed. */
function uplot(): { readonly css: string; readonly js: string } {
  const { resolve } = createRequire(import.meta.url)
  const read = (file: string): string => readFileSync(resolve(`uplot/${file}`), 'utf8')
  const notice = read('LICENSE').replaceAll('*/', '* /').trim()
  return { css: read('dist/uPlot.min.css'), js: `/*! uPlot\n${notice}\n*/\n${read('dist/uPlot.iife.min.js')}` }
}

const nameOf = ({ title, command }: Report): string => title ?? command
function bar(reports: readonly Report[]): string {
  const links = reports.map((report, n) => `<a href="#report-${n}">${escaped(nameOf(report))}</a>`)
  return `<nav class="bar"><div><b>Continuo</b>${links.join('')}</div></nav>`
}

function section(report: Report, n: number, level: 'h1' | 'h2'): string {
  const { command, machine: m, tables, plots, notes, options } = report
  const judged = score(report)
  const all = /^(\d+) of \1 /.test(judged) ? ' all' : ''
  const facts = [
    when(m.date),
    `Continuo ${m.continuo}`,
    `${m.cpu}, ${figure(m.cores)} cores, ${figure(m.memoryGiB)} GiB`,
    m.system,
    `Node ${m.node}`,
    `load ${m.load} at the start`,
  ]
  const settings = Object.entries(options).map(
    ([name, value]) =>
      `<dt>${escaped(name)}</dt><dd>${escaped(typeof value === 'string' ? value : (JSON.stringify(value) ?? ''))}</dd>`,
  )
  const blocks = [
    ratios(report),
    ...plots.map(
      (plot, p) =>
        `<section><h3>${escaped(plot.title)}</h3>${note(plot.note)}<div class="plot" data-report="${n}" data-plot="${p}"><div class="legend"></div><div class="chart" role="img" aria-label="${escaped(plot.title)}"><noscript><p>The plot is drawn by a script; the tables have its figures.</p></noscript></div></div></section>`,
    ),
    ...tables.map(tableHtml),
    notes.length === 0
      ? ''
      : `<section class="limits"><h3>Conditions, and what this does not show</h3><ul>${notes.map((text) => `<li>${escaped(text)}</li>`).join('')}</ul></section>`,
    settings.length === 0
      ? ''
      : `<details><summary>Options as they were used</summary><dl>${settings.join('')}</dl></details>`,
  ]
  return `<article class="report" id="report-${n}">
<header>${judged === '' ? '' : `<span class="score${all}">${judged}</span>`}<${level}>${escaped(nameOf(report))}</${level}>
<p class="note">Repeat it: <code>${escaped(command)}</code></p>
<ul class="facts">${facts.map((fact) => `<li>${escaped(fact)}</li>`).join('')}</ul></header>
${blocks.filter((block) => block !== '').join('\n')}
<p><button type="button" class="save" data-report="${n}" data-name="${fileName(report)}">Save these results as JSON</button></p>
<script type="application/json">${inScript(JSON.stringify(reportObject(report)))}</script>
</article>`
}
const note = (text: string | undefined): string => (text === undefined ? '' : `<p class="note">${escaped(text)}</p>`)
function fileName({ command, machine }: Report): string {
  const plain = (text: string): string => text.replaceAll(/[^A-Za-z0-9]+/g, '-').replace(/^-+|-+$/g, '')
  return `${plain(command).slice(0, 60) || 'continuo-bench'}-${plain(machine.date.slice(0, 10))}.json`
}

function ratios(report: Report): string {
  const lines = headlines(report)
  if (lines.length === 0) return ''
  const rows = lines.map(([target, seen]) => {
    const { kind, text } = verdict(target, seen)
    const [mark, ...doubt] = text.split(', ')
    const word =
      kind === 'met' || kind === 'missed'
        ? `<span class="mark ${kind}">${escaped(mark ?? '')}</span>${doubt.length > 0 ? `<small>${escaped(doubt.join(', '))}</small>` : ''}`
        : `<small>${target.what === '' && kind === 'reported' ? '' : text}</small>`
    const what = target.what === '' ? '' : `<span>${escaped(target.what)}</span>`
    return `<tr><td class="what">${what}<code>${escaped(target.ratio)}</code></td><td class="n">${seen ? spreadHtml(seen) : '–'}</td><td class="n limit">${escaped(limitText(target))}</td><td>${seen ? strip(seen, target) : ''}</td><td class="verdict">${word}</td></tr>`
  })
  return `<section><h3>Ratios</h3><p class="note">Medians of the repeats; below them the least and the most. The dotted line is the target.</p>
<div class="wide"><table class="targets"><thead><tr><th>what</th><th class="n">seen</th><th class="n">target</th><th></th><th></th></tr></thead><tbody>${rows.join('')}</tbody></table></div></section>`
}
/** The median, the spread and the limit on one scale from 0. */
function strip({ median, min, max }: Spread, { atMost, atLeast }: Target): string {
  const limits = [atMost, atLeast].filter((n) => n !== undefined)
  const all = [median, min, max, ...limits]
  if (limits.length === 0 || !all.every((n) => Number.isFinite(n) && n >= 0)) return ''
  const end = Math.max(...all) * 1.12
  const at = (n: number): string => `${(end > 0 ? (n / end) * 100 : 0).toFixed(2)}%`
  const marks = limits.map((n) => `<i class="limit" style="left:${at(n)}"></i>`)
  return `<div class="strip" aria-hidden="true"><i></i><i class="spread" style="left:${at(min)};width:${at(Math.max(0, max - min))}"></i>${marks.join('')}<i class="middle" style="left:${at(median)}"></i></div>`
}
function spreadHtml(spread: Spread): string {
  const [middle, range] = parts(spread)
  return `<b>${escaped(middle)}</b>${range === undefined ? '' : ` <small>${escaped(range)}</small>`}`
}

function tableHtml({ title, note: words, head, rows }: Table): string {
  const count = Math.max(head.length, ...rows.map((row) => row.length))
  const numeric = Array.from(
    { length: count },
    (_, n) => rows.length > 0 && rows.every((row) => typeof (row[n] ?? 0) !== 'string' || row[n] === ''),
  )
  const cls = (n: number): string => (numeric[n] ? ' class="n"' : '')
  const heads = Array.from({ length: count }, (_, n) => `<th${cls(n)}>${escaped(head[n] ?? '')}</th>`)
  const line = (row: readonly Cell[]): string =>
    `<tr>${Array.from({ length: count }, (_, n) => (n === 0 ? `<th scope="row"${cls(n)}>${cell(row[n])}</th>` : `<td${cls(n)}>${cell(row[n])}</td>`)).join('')}</tr>`
  return `<section><h3>${escaped(title)}</h3>${note(words)}<div class="wide"><table><thead><tr>${heads.join('')}</tr></thead><tbody>${rows.map(line).join('') || `<tr><td class="none" colspan="${Math.max(1, count)}">nothing</td></tr>`}</tbody></table></div></section>`
}
function cell(value: Cell | undefined): string {
  if (value === undefined) return ''
  if (typeof value === 'string') return escaped(value)
  if (!isSpread(value)) return escaped(figure(value))
  const [middle, range] = parts(value)
  return range === undefined ? escaped(middle) : `${escaped(middle)} <small>${escaped(range)}</small>`
}

function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;')
    .replaceAll('\0', '\u{fffd}')
}
/** JSON that no reader of HTML takes for a tag: `<` stands in strings only. */
const inScript = (json: string): string =>
  json.replaceAll('<', '\\u003c').replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029')
