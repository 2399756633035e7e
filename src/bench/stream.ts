// `bench stream`: of what an engine generates, how much arrives how late, and what that costs the server; beside it the
// bare engine, the least gateway that we could write, and one as it first comes to mind.
import { cpus } from 'node:os'
import { type Benchmark, type CommonOptions, whole, wholes } from './benchmark.ts'
import { gateway } from './minimal-gateway.ts'
import { pacedEngine } from './paced-engine.ts'
import { type Cell, machine, type OnProgress, ratio, type Report, seriesOf, spread, type Table } from './report.ts'
import { serveApart } from './served.ts'
import { type Load, measure, type Path, type Run } from './stream-run.ts'

export type StreamOptions = {
  /** Tokens a second of each connection. */
  readonly rates: readonly number[]
  readonly connections: readonly number[]
  /** How long each stream lasts. */
  readonly seconds?: number | undefined
}
/** `runs`: for each path, one a repeat. */
type Measured = { readonly load: Load; readonly runs: ReadonlyMap<string, readonly Run[]> }

const ours = 'Continuo, socket'
const minimal = 'minimal gateway'
const names = ['engine itself', ours, 'Continuo, SSE', minimal, 'naive gateway'] as const
/** The cells that the targets are about: measured in every repeat, others in fewer. */
const aimed = ({ rate, connections }: Load): boolean => (rate === 1000 || rate === 4000) && connections <= 20
const othersRepeats = 2

export const benchmark: Benchmark<StreamOptions> = {
  name: 'stream',
  description: 'Measure streams from an engine to a client: what arrives, how late, and what it costs the server.',
  examples: [
    ['--quick', 'within two minutes'],
    ['--rates 4000 --connections 20', 'one cell: eighty thousand tokens a second'],
  ],
  declare(command) {
    command
      .option('--rates <list>', 'tokens a second of each connection', wholes, [65, 1000, 4000])
      .option('--connections <list>', 'streams at once', wholes, [1, 20, 100])
      .option('--seconds <n>', 'how long each stream lasts (default: 2, or 1 with --quick)', whole)
  },
  run,
}
async function run(options: StreamOptions & CommonOptions, onProgress: OnProgress): Promise<Report> {
  const { quick, rates, connections } = options
  const seconds = options.seconds ?? (quick ? 1 : 2)
  const repeats = options.repeats ?? (quick ? 2 : 5)
  const facts = machine()
  const engine = await pacedEngine({ tokensPerSecond: 1, ttftMs: 100, outputTokens: 1, calls: 0, stamped: true })
  const stops = [engine.stop]
  try {
    const set = { engines: { paced: { type: 'chat', url: engine.url } }, models: { paced: { engine: 'paced' } } }
    const server = await serveApart({ set })
    stops.push(server.stop)
    const least = await gateway('minimal', engine.url)
    stops.push(least.stop)
    const plain = await gateway('naive', engine.url)
    stops.push(plain.stop)
    const paths: readonly Path[] = [
      { name: names[0], url: engine.url, dialect: 'chat', take: async () => ({ cpuUs: 0 }) },
      { name: names[1], url: server.url, dialect: 'ws', take: server.take },
      { name: names[2], url: server.url, dialect: 'sse', take: server.take },
      { name: names[3], url: least.url, dialect: 'ws', take: least.take },
      { name: names[4], url: plain.url, dialect: 'ws', take: plain.take },
    ]
    const loads = rates.flatMap((rate) => connections.map((n): Load => ({ rate, connections: n })))
    const rounds = loads.map((load) => (aimed(load) ? repeats : Math.min(repeats, quick ? 1 : othersRepeats)))
    const cells: { load: Load; runs: Map<string, Run[]> }[] = loads.map((load) => ({ load, runs: new Map() }))

    onProgress(0, 'warming up')
    for (const path of paths) await measure(path, engine.take, { rate: 4000, connections: 10 }, 0.5)
    const all = rounds.reduce((sum, n) => sum + n, 0) * paths.length
    let done = 0
    for (let round = 0; round < repeats; round++)
      for (const [n, { load, runs }] of cells.entries()) {
        if (round >= (rounds[n] ?? 0)) continue
        // Each first in its turn, so that none profits from its place.
        for (const path of [...paths.slice(round % paths.length), ...paths.slice(0, round % paths.length)]) {
          onProgress(done++ / all, `${load.connections} × ${load.rate} tokens/s, ${path.name}`)
          const seen = runs.get(path.name) ?? []
          seen.push(await measure(path, engine.take, load, seconds))
          runs.set(path.name, seen)
        }
      }
    onProgress(1, '')
    return report(cells, facts, { rates, connections, seconds, repeats, quick })
  } finally {
    for (const stop of stops.toReversed()) await stop()
  }
}

function report(cells: readonly Measured[], facts: Report['machine'], options: Report['options']): Report {
  const of = ({ runs }: Measured, name: string): readonly Run[] => runs.get(name) ?? []
  const goal = cells.filter(({ load }) => aimed(load))
  const heavy = cells.find(({ load }) => load.rate === 4000 && load.connections === 20)
  const worst = Array.from({ length: Math.max(0, ...goal.map((cell) => of(cell, ours).length)) }, (_, round) =>
    Math.min(...goal.map((cell) => of(cell, ours)[round]?.delivered ?? Infinity)),
  )
  const latency = of(heavy ?? { load: { rate: 0, connections: 0 }, runs: new Map() }, ours).map((r) => r.p50)
  const ratios = {
    ...(worst.length > 0 ? { delivered_min: spread(worst) } : {}),
    ...(heavy
      ? {
          cpu_over_minimal: ratio(
            of(heavy, ours).map((r) => r.cpu),
            of(heavy, minimal).map((r) => r.cpu),
          ),
        }
      : {}),
    ...(latency.length > 0 ? { added_p50_ms: spread(latency) } : {}),
  }
  const table = (
    title: string,
    note: string,
    value: (run: Run) => number,
    paths: readonly string[] = names,
  ): Table => ({
    title,
    note,
    head: ['connections × tokens/s', ...paths, 'limit'],
    rows: cells.map((cell): Cell[] => [
      label(cell.load),
      ...paths.map((name): Cell => (of(cell, name).length > 0 ? spread(of(cell, name).map(value)) : '–')),
      limit(of(cell, names[0]), of(cell, ours)),
    ]),
  })
  const served = names.slice(1)
  const x = {
    label: 'connections × tokens/s',
    values: cells.map((_, n) => n),
    names: cells.map(({ load }) => label(load)),
  }
  const series = (value: (run: Run) => number, paths: readonly string[]) =>
    paths.map((name) =>
      seriesOf(
        name,
        cells.map((cell) => (of(cell, name).length > 0 ? spread(of(cell, name).map(value)) : undefined)),
      ),
    )
  return {
    title: 'Streams, from an engine to a client',
    command: 'continuo bench stream',
    machine: facts,
    options,
    ratios,
    targets: [
      {
        ratio: 'delivered_min',
        what: 'tokens delivered ÷ generated, the worst of 1 and 20 connections at 1,000 and 4,000 tokens/s',
        atLeast: 0.99,
      },
      {
        ratio: 'cpu_over_minimal',
        what: 'processor time for each token at 20 × 4,000 tokens/s, ours ÷ the minimal gateway',
        atMost: 1.2,
      },
      {
        ratio: 'added_p50_ms',
        what: 'milliseconds from the engine’s write to the client’s read at 20 × 4,000 tokens/s, median',
        atMost: 2,
      },
    ],
    tables: [
      table(
        'Delivered',
        'Tokens that arrive each second ÷ tokens that the engine writes each second; the slowest connection.',
        (r) => r.delivered,
      ),
      table(
        'Added latency, median',
        'Milliseconds from the engine’s write to the client’s read. The engine itself: the same without a gateway.',
        (r) => r.p50,
      ),
      table('Added latency, 99th percentile', 'Milliseconds.', (r) => r.p99),
      table(
        'Processor time for each token',
        'Microseconds of the gateway’s process, engine client included.',
        (r) => r.cpu,
        served,
      ),
      table(
        'Engine’s pace',
        'Tokens that it wrote each second ÷ tokens that it was asked for: below 1 the machine is the limit.',
        (r) => r.kept,
      ),
    ],
    plots: [
      {
        title: 'Processor time for each token',
        kind: 'bars',
        x,
        y: { label: 'µs', log: true },
        series: series((r) => r.cpu, served),
      },
      {
        title: 'Added latency, median',
        kind: 'bars',
        x,
        y: { label: 'ms', log: true },
        series: series((r) => r.p50, names),
      },
    ],
    notes: [
      'Every token is a stamp of 6 characters, set as it is written; client and engine share a clock. Clients look for stamps only, and parse no JSON.',
      'Continuo joins what one read of the engine’s stream says of one part into one event; both other gateways write an event for each token. Both keep nothing, check nothing and number their events only.',
      'A server that falls behind reads more at once, joins more, and looks cheaper for each token: processor time compares only where both delivered alike.',
      'Delivered counts the last token, which in Continuo waits for the ends of turns that end at the same moment: here all do.',
      'All processes share the machine: engine, gateway, and the clients in the process of the benchmark. Where the column “limit” names one, that row says more of it than of a gateway.',
      'Of a single quiet stream most of the processor time is the system’s waking up; the more arrive at once, the less each costs.',
    ],
  }
}
const label = ({ connections, rate }: Load): string => `${connections} × ${rate}`
/** What else than a gateway kept a cell from being faster. */
function limit(direct: readonly Run[], served: readonly Run[]): string {
  const some = (runs: readonly Run[], test: (run: Run) => boolean): boolean =>
    runs.filter(test).length * 2 > runs.length
  if (some(direct, (r) => r.kept < 0.99)) return 'engine'
  if (some(direct, (r) => r.delivered < 0.99 || r.load.client > 0.9)) return 'client'
  if (some(served, (r) => r.kept < 0.99 || r.load.server + r.load.engine + r.load.client > cpus().length * 0.9))
    return 'processors'
  return '–'
}
