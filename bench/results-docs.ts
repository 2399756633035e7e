// docs/benchmarks.md and the table in README.md as they follow from bench/results/: figures come from saved results, words
// from the template. `npm run docs:benchmarks` writes both; a test compares.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cellText, headlines, limitText, machineText, ratioOf, shown, verdict, when } from '../src/bench/figures.ts'
import { readReport } from '../src/bench/report-json.ts'
import type { Report, Table } from '../src/bench/report.ts'

/** By name: `loop` is bench/results/loop.json. */
export type Results = ReadonlyMap<string, Report>

/** Of the program itself, in the order of its help; their targets make the table in README.md. */
const shipped = ['loop', 'flat', 'stream', 'idle', 'ttft']
const begin = '<!-- benchmarks: written by npm run docs:benchmarks -->'
const end = '<!-- /benchmarks -->'
const placeholder = /^\{\{(\w+)(?: ([\w-]+))?\}\}$/gm

export function readResults(root: string): Results {
  const folder = join(root, 'bench/results')
  const names = readdirSync(folder)
    .filter((name) => name.endsWith('.json'))
    .toSorted()
  return new Map(
    names.map((name) => [
      name.slice(0, -5),
      readReport(readFileSync(join(folder, name), 'utf8'), `bench/results/${name}`),
    ]),
  )
}
/** Each file that follows from the results, with what should stand in it. */
export function documents(root: string, results: Results): ReadonlyMap<string, string> {
  const read = (file: string): string => readFileSync(join(root, file), 'utf8')
  return new Map([
    ['docs/benchmarks.md', benchmarksPage(read('bench/results/benchmarks.template.md'), results)],
    ['README.md', withHeadline(read('README.md'), results)],
  ])
}
export function writeDocuments(root: string): void {
  for (const [file, text] of documents(root, readResults(root))) writeFileSync(join(root, file), text)
}

/** `{{headline}}`: the targets of the program's benchmarks; `{{report NAME}}`: one result. Throws for others, and for a result left out. */
export function benchmarksPage(template: string, results: Results): string {
  const used = new Set<string>()
  const page = template.replaceAll(placeholder, (whole: string, kind: string, name: string | undefined) => {
    if (kind === 'headline' && name === undefined) return headline(results)
    if (kind !== 'report' || name === undefined)
      throw new Error(`${whole} is no placeholder; there are {{headline}} and {{report NAME}}.`)
    used.add(name)
    const report = results.get(name)
    return report ? reportMarkdown(report, name) : notYet(name)
  })
  const left = [...results.keys()].find((name) => !used.has(name))
  if (left !== undefined)
    throw new Error(`bench/results/${left}.json stands nowhere in the template: {{report ${left}}} shows it.`)
  return page
}
export function withHeadline(readme: string, results: Results): string {
  const [from, to] = [readme.indexOf(begin), readme.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`README.md has no ${begin} with ${end} behind it.`)
  return `${readme.slice(0, from)}${begin}\n${headline(results)}\n${readme.slice(to)}`
}

const notYet = (name: string): string =>
  `No result is committed yet: \`npx continuo bench ${name} --save bench/results/${name}.json\`, then \`npm run docs:benchmarks\`.`

function headline(results: Results): string {
  const rows = shipped.flatMap((name) => {
    const report = results.get(name)
    const targets = report?.targets.filter((t) => t.atMost !== undefined || t.atLeast !== undefined) ?? []
    return targets.map((target) => {
      const seen = report && ratioOf(report.ratios, target.ratio)
      return [
        `${target.what} (\`${target.ratio}\`)`,
        seen ? shown(seen) : '–',
        limitText(target),
        verdict(target, seen).text,
      ]
    })
  })
  if (rows.length === 0)
    return 'No result is committed yet; `npm run bench -- loop --quick` measures on your machine within two minutes.'
  return markdownTable(['what', 'seen', 'target', ''], rows)
}

function reportMarkdown(report: Report, name: string): string {
  const { command, machine, tables, plots, notes } = report
  const rows = headlines(report).map(([target, seen]) => [
    `${target.what} (\`${target.ratio}\`)`.trim(),
    seen ? shown(seen) : '–',
    limitText(target),
    verdict(target, seen).text,
  ])
  return [
    `\`${command}\``,
    `${when(machine.date)} · Continuo ${machine.continuo} · ${machineText(machine)}.${plots.length === 0 ? '' : ` With plots: \`npx continuo bench show bench/results/${name}.json --html\`.`}`,
    ...(rows.length > 0 ? [markdownTable(['what', 'seen', 'target', ''], rows)] : []),
    ...tables.flatMap(tableMarkdown),
    ...(notes.length > 0
      ? ['What to know about these figures:', notes.map((note) => `- ${plain(note)}`).join('\n')]
      : []),
  ].join('\n\n')
}
function tableMarkdown({ title, note, head, rows }: Table): string[] {
  return [
    `**${plain(title)}.**${note === undefined ? '' : ` ${plain(note)}`}`,
    markdownTable(
      head,
      rows.map((row) => row.map(cellText)),
    ),
  ]
}
function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => plain(cell).replaceAll('|', '\\|')).join(' | ')} |`
  const padded = rows.map((row) => head.map((_, n) => row[n] ?? ''))
  return [line(head), line(head.map(() => '---')), ...padded.map(line)].join('\n').replaceAll(/ {2,}\|/g, ' |')
}
/** In one line, and nothing of it HTML. */
const plain = (text: string): string => text.replaceAll(/\s+/g, ' ').replaceAll('<', '&lt;').trim()
