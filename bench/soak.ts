// `npm run bench:soak`: hundreds of agents at once, round after round, against a server in a process of its own. Exit
// code 1 on any error, if anything is left over in the server, or if its memory grows from round to round.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { Command } from 'commander'
import { whole } from '../src/bench/benchmark.ts'
import { machine, median, quantile, type Report, type Spread } from '../src/bench/report.ts'
import { main, mebibytes, print, Progress } from './figures.ts'
import { round, type Round, unstoredMark } from './loop.ts'
import { type Memory, serveApart, type Served } from './served.ts'

type Options = {
  sockets: number
  turns: number
  rounds: number
  warmup: number
  bound: number
  collect?: true
  json?: true
}
/** Memory while a round ran and right after it: medians, the highest RSS, the lowest heap, which holds least garbage. */
type Footprint = { readonly rss: number; readonly heap: number; readonly heapLow: number; readonly rssHigh: number }
/** Beginnings of prompts that the simulated engine remembers: a bounded cache that would take a dozen rounds to fill. */
const cacheItems = 10_000

const program = new Command('soak')
  .description(
    'agents in a tool loop over WebSocket mode, against a server of its own with the simulated engine at full speed',
  )
  .option('--sockets <n>', 'agents at once', whole, 200)
  .option('--turns <n>', 'turns of each agent a round', whole, 20)
  .option('--rounds <n>', 'rounds that count', whole, 8)
  .option('--warmup <n>', 'rounds before them, in which caches and bounded buffers fill', whole, 4)
  .option(
    '--bound <percent>',
    'growth of memory, second half of the rounds against the first, that counts as a leak',
    whole,
    10,
  )
  .option('--collect', 'collect all garbage between rounds, so that the lowest heap is exact and is judged too')
  .option('--json', 'print one JSON object')
program.parse()
const options = program.opts<Options>()

async function soak(server: Served, sockets: number, turns: number): Promise<number> {
  const all = options.warmup + options.rounds
  const progress = new Progress(all * sockets * turns)
  const rounds: Round[] = []
  const footprints: Footprint[] = []
  for (let n = 0; n < all; n++) {
    const { result, samples } = await sampled(server, () =>
      round({ wsUrl: server.wsUrl, sockets, turns, onTurn: () => progress.step(`round ${n + 1} of ${all}`) }),
    )
    rounds.push(result)
    await server.withoutSockets()
    if (options.collect) samples.push(await server.memory(true))
    footprints.push(footprint(samples))
  }
  progress.end()
  const { turns: endings, warnings } = server.seen
  const { code, ms: drainMs } = await server.stop()

  const expected = all * sockets * turns
  const completed = sum(rounds, (r) => r.completed)
  const stored = sum(rounds, (r) => r.stored)
  const rows = storedRows(server.data)
  const leaked = filesWith(server.data, unstoredMark)
  const growth = {
    rss: grown(footprints.slice(options.warmup), 'rss'),
    heap: grown(footprints.slice(options.warmup), 'heapLow'),
  }
  const problems = [
    ...rounds.flatMap((r, n) => r.errors.map((e) => `round ${n + 1}: ${e}`)),
    ...warnings.map((line) => `server's log: ${line}`),
    ...(completed === expected ? [] : [`${completed} of ${expected} turns completed`]),
    ...(endings['stop'] === expected ? [] : [`the server counted ${JSON.stringify(endings)} turns`]),
    ...(rows === stored ? [] : [`${rows} responses are stored, ${stored} should be`]),
    ...leaked.map((file) => `${file} holds what was sent with store: false`),
    ...(code === 0 ? [] : [`the server ended with ${code} after ${drainMs} ms`]),
    // Nothing was open or ran, so draining had nothing to wait for.
    ...(drainMs < 5000 ? [] : [`the idle server took ${drainMs} ms to drain`]),
    // Without collecting, the lowest heap is as much chance as fact; a leak still shows in RSS.
    ...Object.entries(options.collect ? growth : { rss: growth.rss }).flatMap(([name, share]) =>
      share * 100 <= options.bound
        ? []
        : [`${name} grew by ${(share * 100).toFixed(1)} %, more than ${options.bound} %`],
    ),
  ]
  const errors = sum(rounds, (r) => r.failures)
  const counted = rounds.slice(options.warmup)
  const latencies = counted.flatMap((r) => r.ms)
  const seconds = sum(counted, (r) => r.tookMs) / 1000
  const result: Result = {
    turns: completed,
    errors,
    stored: rows,
    left: { sockets: server.seen.sockets, drainMs },
    turnMs: { median: median(latencies), p99: quantile(latencies, 0.99) },
    turnsPerSecond: counted.reduce((s, r) => s + r.completed, 0) / seconds,
    eventsPerSecond: counted.reduce((s, r) => s + r.events, 0) / seconds,
    memory: footprints,
    growth,
    problems,
  }
  print(options.json === true, reported(result, rounds))
  return problems.length > 0 || errors > 0 ? 1 : 0
}

/** Runs `work` while the server's memory is sampled, a few times a second and once behind it. */
async function sampled<T>(server: Served, work: () => Promise<T>): Promise<{ result: T; samples: Memory[] }> {
  const samples: Memory[] = []
  let asking = Promise.resolve()
  const timer = setInterval(() => {
    asking = asking.then(async () => void samples.push(await server.memory())).catch(() => {})
  }, 200)
  try {
    const result = await work()
    clearInterval(timer)
    await asking
    samples.push(await server.memory())
    return { result, samples }
  } finally {
    clearInterval(timer)
  }
}
function footprint(samples: readonly Memory[]): Footprint {
  const rss = samples.map((s) => s.rss)
  const heap = samples.map((s) => s.heap)
  return { rss: median(rss), heap: median(heap), heapLow: Math.min(...heap), rssHigh: Math.max(...rss) }
}
/** Share by which the median of the second half lies above that of the first; 0.1 is ten per cent. */
function grown(rounds: readonly Footprint[], what: 'rss' | 'heapLow'): number {
  const half = Math.ceil(rounds.length / 2)
  if (rounds.length < 2) return 0
  return median(rounds.slice(half).map((r) => r[what])) / median(rounds.slice(0, half).map((r) => r[what])) - 1
}

function storedRows(data: string): number {
  const db = new Database(join(data, 'continuo.db'), { readonly: true })
  try {
    const row = db.prepare<[], { n: number }>('select count(*) as n from responses').get()
    return row?.n ?? 0
  } finally {
    db.close()
  }
}
const filesWith = (folder: string, mark: string): string[] =>
  readdirSync(folder).filter((name) => readFileSync(join(folder, name)).includes(mark))
const sum = (rounds: readonly Round[], of: (r: Round) => number): number => rounds.reduce((s, r) => s + of(r), 0)

type Result = {
  turns: number
  errors: number
  stored: number
  left: { sockets: number; drainMs: number }
  turnMs: { median: number; p99: number }
  turnsPerSecond: number
  eventsPerSecond: number
  memory: readonly Footprint[]
  growth: { rss: number; heap: number }
  problems: readonly string[]
}
const once = (n: number): Spread => ({ median: n, min: n, max: n })

function reported(r: Result, rounds: readonly Round[]): Report {
  const { sockets, turns, rounds: counted, warmup, bound, collect } = options
  const flags = Object.entries({ sockets, turns, rounds: counted, warmup, bound })
    .filter(([name]) => program.getOptionValueSource(name) === 'cli')
    .map(([name, value]) => ` --${name} ${value}`)
  const given = `${flags.join('')}${collect ? ' --collect' : ''}`
  const percent = (share: number): string => `${share < 0 ? '' : '+'}${(share * 100).toFixed(1)} %`
  const notHeap = collect ? '' : '; the heap is not judged, since without --collect it is as much chance as fact'
  return {
    title: 'Hundreds of agents at once, round after round',
    command: `npm run bench:soak${given === '' ? '' : ` --${given}`}`,
    machine: machine(),
    options: { sockets, turns, rounds: counted, warmup, bound, collect: collect === true },
    ratios: {
      soak_errors: once(r.errors + r.problems.length),
      soak_rss_growth: once(1 + r.growth.rss),
      soak_heap_growth: once(1 + r.growth.heap),
      soak_turns_per_second: once(r.turnsPerSecond),
      soak_events_per_second: once(r.eventsPerSecond),
      soak_turn_ms: once(r.turnMs.median),
      soak_turn_p99_ms: once(r.turnMs.p99),
    },
    targets: [
      { ratio: 'soak_errors', what: 'errors, and anything left over', atMost: 0 },
      { ratio: 'soak_rss_growth', what: 'RSS, second half of the rounds ÷ the first', atMost: 1 + bound / 100 },
      {
        ratio: 'soak_heap_growth',
        what: 'lowest heap of a round, second half ÷ the first',
        ...(collect ? { atMost: 1 + bound / 100 } : {}),
      },
      { ratio: 'soak_turns_per_second', what: 'turns/s, server and clients on the same cores' },
      { ratio: 'soak_events_per_second', what: 'events/s' },
      { ratio: 'soak_turn_ms', what: `a turn while ${sockets} agents press, median, ms` },
      { ratio: 'soak_turn_p99_ms', what: 'the same, p99, ms' },
    ],
    tables: [
      {
        title: 'Rounds',
        note: `${sockets} sockets × ${turns} turns a round; half of the turns are stored.`,
        head: ['round', 's', 'turn ms', 'p99 ms', 'RSS MiB', 'highest', 'lowest heap MiB', 'heap'],
        rows: r.memory.map((m, n) => {
          const done = rounds[n]
          const times = done ? [done.tookMs / 1000, median(done.ms), quantile(done.ms, 0.99)] : [NaN, NaN, NaN]
          const bytes = [m.rss, m.rssHigh, m.heapLow, m.heap].map((b) => Math.round(mebibytes(b)))
          return [`${n + 1}${n < warmup ? ', warm-up' : ''}`, ...times, ...bytes]
        }),
      },
    ],
    plots: [],
    notes: [
      ...r.problems.map((problem) => `PROBLEM: ${problem}`),
      `${r.turns} turns completed, ${r.errors} errors; ${r.stored} stored and found in the database.`,
      `Left over: ${r.left.sockets} sockets; the server drained and ended in ${r.left.drainMs} ms.`,
      `Memory of the second half of the rounds against the first: RSS ${percent(r.growth.rss)}, lowest heap ${percent(r.growth.heap)}; the bound is ${bound} %${notHeap}.`,
    ],
  }
}

await main(async () => {
  const { sockets, turns } = options
  const engines = { simulated: { type: 'simulated', rounds: turns - 1, cacheItems } }
  const server = await serveApart({ config: { engines }, gc: options.collect === true })
  try {
    return await soak(server, sockets, turns)
  } finally {
    await server.stop()
    server.remove()
  }
})
