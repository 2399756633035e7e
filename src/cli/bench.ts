// `continuo bench`: what WebSocket mode with kept state is worth on this machine, stage by stage. Declares a command for each
// benchmark and prints, saves and shows what they report; how anything is measured is src/bench/'s affair.
import { accessSync, constants, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { Command, CommanderError, Option } from 'commander'
import { whole, type Benchmark, type CommonOptions } from '../bench/benchmark.ts'
import type { Report } from '../bench/report.ts'
import { progressBar } from './progress.ts'

/** What the command itself does with a report. */
type Output = { readonly json?: true; readonly html?: string | true; readonly save?: string }

const help = `
Everything it needs runs on this machine: a server of its own, an engine that keeps an exact pace, clients, and a proxy that
stands for distance. Arms that are compared run in turn, so that a busy moment hits all; figures are medians [least–most].

Examples:
  continuo bench loop --quick                      within two minutes: one agent task in every mode
  continuo bench loop --html                       the same in full, and a page with plots to send around
  continuo bench flat --json > flat.json           one JSON object; every ratio by its name
  continuo bench show flat.json loop.json --html   saved results as one page
  continuo bench loop --help                       what can be set

A target that is missed is a result: the exit code is 0. It is 1 where nothing could be measured, 2 for wrong flags.
`
const showHelp = `
A file is what --save wrote or --json printed.

Examples:
  continuo bench show loop.json                    in the terminal
  continuo bench show *.json --html report.html    all in one page
`
/** Of one saved result, and how many at once. */
const maxBytes = 16 * 1024 * 1024
const maxFiles = 50

/** In the order of the help. A benchmark is loaded when its command is asked for. */
const benchmarks: Readonly<
  Record<string, { readonly summary: string; readonly load: () => Promise<{ readonly benchmark: Benchmark }> }>
> = {
  loop: { summary: 'one agent task of many tool calls, in every mode', load: () => import('../bench/loop.ts') },
  flat: { summary: 'one turn, by the length of the conversation', load: () => import('../bench/flat.ts') },
  stream: {
    summary: 'tokens delivered against tokens generated, and what an event costs',
    load: () => import('../bench/stream.ts'),
  },
  idle: { summary: 'memory of an idle socket and of a conversation', load: () => import('../bench/idle.ts') },
  ttft: { summary: 'time to first token, with every cache and with none', load: () => import('../bench/ttft.ts') },
}

/** Registers the commands. */
export function benchCommand(program: Command): void {
  const bench = program
    .command('bench')
    .description('measure what WebSocket mode with kept state is worth on this machine')
    .addHelpText('after', help)
    .exitOverride(({ exitCode }: CommanderError) => process.exit(exitCode === 0 ? 0 : 2))
  for (const [name, { summary }] of Object.entries(benchmarks)) bench.command(name).summary(summary)
  bench
    .command('show')
    .summary('show saved results, in the terminal or as one page')
    .description('show results that were saved with --save, in the terminal or as one page')
    .argument('<file...>', 'saved results')
    .option('--json', 'print one JSON object, or a list of them')
    .option('--html [file]', `write a page (default: ${pageName('results')})`)
    .addHelpText('after', showHelp)
    .action(async (files: string[], output: Output) => {
      process.exitCode = await orOne(async () => {
        if (files.length > maxFiles) throw new Error(`These are ${files.length} files; ${maxFiles} fit into one page.`)
        writable(output)
        const reports: Report[] = []
        const { readReport } = await import('../bench/report-json.ts')
        for (const file of files) reports.push(readReport(await textOf(file), file))
        await present(reports, output, 'results')
      })
    })
  // Before the command reads its flags, since only the benchmark knows them.
  bench.hook('preSubcommand', async (_, command) => {
    const known = benchmarks[command.name()]
    if (known) declare(command, (await known.load()).benchmark)
  })
}

function declare(command: Command, benchmark: Benchmark): void {
  const { name, description, examples } = benchmark
  command.description(description)
  benchmark.declare(command)
  const own = new Set(command.options)
  command
    .option('--quick', 'rougher, within two minutes', false)
    .option('--repeats <n>', 'repeats of everything, interleaved (default: 5, or 2 with --quick)', whole)
    .option('--json', 'print one JSON object instead of tables')
    .option('--html [file]', `write a page with tables and plots (default: ${pageName(name)})`)
    .option('--save <file>', 'save the result as JSON, for `continuo bench show`')
    .addHelpText(
      'after',
      `\nExamples:\n${columns(examples.map(([args, does]) => [`continuo bench ${name} ${args}`.trim(), does]))}\n`,
    )
    .action(async (options: CommonOptions & Output) => {
      process.exitCode = await orOne(async () => {
        writable(options)
        const bar = progressBar(process.stderr)
        endOnSignals(bar.end)
        const run = async (): Promise<Report> => {
          try {
            return await benchmark.run(options, bar.onProgress)
          } finally {
            bar.end()
          }
        }
        await present([{ ...(await run()), command: repeated(command, own) }], options, name)
      })
    })
}
const pageName = (name: string): string => `continuo-bench-${name}.html`
const columns = (rows: readonly (readonly [string, string])[]): string => {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}   ${right}`).join('\n')
}

/** What repeats the run: the flags that were given, without those that say where the result goes, and without a secret. */
function repeated(command: Command, own: ReadonlySet<Option>): string {
  const given = command.options.filter(
    (option) =>
      command.getOptionValueSource(option.attributeName()) !== 'default' &&
      command.getOptionValueSource(option.attributeName()) !== undefined &&
      // A report is there to be sent around; a key is not.
      option.attributeName() !== 'key' &&
      (own.has(option) || ['quick', 'repeats'].includes(option.attributeName())),
  )
  const flags = given.map((option) => {
    const value: unknown = command.getOptionValue(option.attributeName())
    const flag = option.long ?? option.flags
    if (option.attributeName() === 'key') return `${flag} KEY`
    return typeof value === 'boolean'
      ? flag
      : `${flag} ${quoted(Array.isArray(value) ? value.join(',') : String(value))}`
  })
  return ['continuo bench', command.name(), ...flags].join(' ')
}
const quoted = (text: string): string => (/^[\w./:,=@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`)

/** Prints them, and writes what is to be written. */
async function present(reports: readonly Report[], { json, html, save }: Output, name: string): Promise<void> {
  process.stdout.on('error', () => {})
  const { reportJson } = await import('../bench/report-json.ts')
  const [only] = reports
  if (save !== undefined && only) write(save, reportJson(only))
  if (html !== undefined) {
    const { reportHtml } = await import('../bench/report-html.ts')
    write(html === true ? pageName(name) : html, reportHtml(reports))
  }
  if (json)
    process.stdout.write(reports.length === 1 && only ? reportJson(only) : `[${reports.map(reportJson).join(',')}]\n`)
  else if (html === undefined || reports.length === 1) {
    const { reportText } = await import('../bench/report-text.ts')
    process.stdout.write(reports.map((report) => reportText(report, process.stdout.columns || 120)).join('\n'))
  }
}
function write(file: string, text: string): void {
  writeFileSync(file, text)
  process.stderr.write(`written: ${resolve(file)}\n`)
}
/** Before minutes are spent on what could not be kept. */
function writable({ html, save }: Output): void {
  for (const file of [html, save])
    if (typeof file === 'string')
      try {
        accessSync(dirname(resolve(file)), constants.W_OK)
      } catch {
        throw new Error(
          `${file} cannot be written: there is no folder ${dirname(resolve(file))} that may be written to.`,
        )
      }
}
async function textOf(name: string): Promise<string> {
  try {
    await using file = await open(name)
    const { size } = await file.stat()
    if (size > maxBytes) throw new Error(`it has ${size} bytes, and a saved result at most ${maxBytes}`)
    return await file.readFile('utf8')
  } catch (e) {
    throw new Error(`${name} cannot be read: ${e instanceof Error ? e.message : String(e)}`, { cause: e })
  }
}
/** By way of `exit`, so that what stands on the disk for the moment goes; processes go with this one. */
function endOnSignals(atEnd: () => void): void {
  for (const [signal, code] of Object.entries({ SIGINT: 130, SIGTERM: 143, SIGHUP: 129 }))
    process.once(signal, () => {
      atEnd()
      process.exit(code)
    })
}
/** What fails becomes a line and exit code 1. */
async function orOne(work: () => Promise<void>): Promise<number> {
  try {
    await work()
    return 0
  } catch (e) {
    process.stderr.write(`${e instanceof Error ? e.message : String(e)}\n`)
    return 1
  }
}
