// `npm run bench:compare -- REV [REV2]`: is a revision faster than another? Both are built, each round starts a fresh
// server of each, in alternating order, and every measure is the ratio of a pair. `.` is the working tree.
import { Command, InvalidArgumentError } from 'commander'
import { machine, type Report, spread } from '../../src/bench/report.ts'
import { qwen3Folder } from '../../src/bench/packages.ts'
import { whole } from '../../src/bench/benchmark.ts'
import { main, print, Progress } from '../figures.ts'
import { type Interval, pairedInterval, verdict } from './interval.ts'
import { engine, type Measure, measure, measures, type Round } from './measure.ts'
import { buildRevision, type Revision } from './revision.ts'
import { startServer } from './server.ts'

type Options = { rounds: number; tokens: number; turns: number; engine: 'items' | 'tokens'; json?: true }
const program = new Command('compare')
  .description(
    'two revisions of this repository against each other: fresh processes, alternating rounds, paired ratios',
  )
  .argument('<before>', 'a revision, as git names it')
  .argument('[after]', 'another; `.` is the working tree', '.')
  .option('--rounds <n>', 'rounds, each with a fresh server of both', whole, 7)
  .option('--tokens <n>', 'length of the long history', whole, 50_000)
  .option('--turns <n>', 'turns of each measurement', whole, 40)
  .option('--engine <kind>', 'items, or tokens: with the vocabulary of Qwen3', kind, 'tokens')
  .option('--json', 'print one JSON object')
  .addHelpText(
    'after',
    '\nExamples:\n  npm run bench:compare -- HEAD~1\n  npm run bench:compare -- v0.1.0 main --rounds 15\n',
  )
program.parse()
const options = program.opts<Options>()
const [before = '', after = '.'] = program.processedArgs as string[]

const model = 'bench'
async function config(): Promise<Record<string, unknown>> {
  const note = (what: string): void => void process.stderr.write(`${what} …\n`)
  const own = { engine: 'sim' }
  const of = options.engine === 'tokens' ? { ...own, codec: 'qwen3', tokenizer: await qwen3Folder(note) } : own
  return {
    engines: { sim: { ...engine, ...(options.engine === 'tokens' ? { tokens: true } : {}) } },
    models: { [model]: of },
    store: { kind: 'memory' },
  }
}
async function round(revision: Revision, settings: Readonly<Record<string, unknown>>): Promise<Round> {
  const server = await startServer(revision.program, settings)
  try {
    return await measure(server, { model, tokens: options.tokens, turns: options.turns })
  } finally {
    await server.stop()
  }
}

await main(async () => {
  const settings = await config()
  const note = (what: string): void => void process.stderr.write(`${what} …\n`)
  const facts = machine()
  const pair = [buildRevision(before, note), buildRevision(after, note)] as const
  const rounds: [Round[], Round[]] = [[], []]
  const progress = new Progress(options.rounds * 2)
  try {
    for (let n = 0; n < options.rounds; n++)
      for (const which of n % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
        rounds[which].push(await round(pair[which], settings))
        progress.step(pair[which].commit)
      }
  } finally {
    progress.end()
    for (const revision of pair) revision.remove()
  }
  const report = reported(facts, pair, rounds)
  print(options.json === true, report)
  return 0
})

function reported(
  facts: Report['machine'],
  [first, second]: readonly [Revision, Revision],
  [was, is]: readonly [readonly Round[], readonly Round[]],
): Report {
  const names = Object.keys(measures) as Measure[]
  const values = (of: readonly Round[], name: Measure): number[] => of.map((one) => one[name])
  const intervals = names.map((name): [Measure, Interval] => [
    name,
    pairedInterval(values(is, name), values(was, name)),
  ])
  return {
    command: 'compare',
    machine: facts,
    options: { before: first.commit, after: second.commit, ...options },
    ratios: Object.fromEntries(
      intervals.map(([name, { median, low, high }]) => [name, { median, min: low, max: high }]),
    ),
    targets: [],
    tables: [
      {
        title: `${second.commit} ÷ ${first.commit}`,
        note: `Medians of ${options.rounds} paired ratios with their 95 % interval; less is better. Left and right: medians [least–most].`,
        head: ['measure', first.commit, second.commit, 'ratio', 'interval', ''],
        rows: intervals.map(([name, interval]) => [
          measures[name],
          spread(values(was, name)),
          spread(values(is, name)),
          interval.median.toFixed(3),
          `${interval.low.toFixed(3)} to ${interval.high.toFixed(3)}`,
          verdict(interval),
        ]),
      },
    ],
    plots: [],
    notes: ['Processor time is counted in steps of 10 ms; the server ran on the same machine as its client.'],
  }
}
function kind(text: string): 'items' | 'tokens' {
  if (text === 'items' || text === 'tokens') return text
  throw new InvalidArgumentError('It must be items or tokens.')
}
