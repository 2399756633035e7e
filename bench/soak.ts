// `npm run bench:soak`: hundreds of agents at once, round after round, against a server in a process of its own. Exit
// code 1 on any error, if anything is left over in the server, or if its memory grows from round to round.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { Command } from 'commander'
import { machine, main, mebibytes, median, Progress, quantile, report, table, whole } from './figures.ts'
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
  const result = {
    machine: machine(),
    options,
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
  report(options.json === true, result, text(result, rounds))
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
  machine: object
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
function text(r: Result, rounds: readonly Round[]): string {
  const rows = r.memory.map((m, n) => {
    const done = rounds[n]
    const bytes = [m.rss, m.rssHigh, m.heapLow, m.heap].map((b) => mebibytes(b).toFixed(0))
    const times = done
      ? [(done.tookMs / 1000).toFixed(1), median(done.ms).toFixed(0), quantile(done.ms, 0.99).toFixed(0)]
      : []
    return [`${n + 1}${n < options.warmup ? ' (warm-up)' : ''}`, ...times, ...bytes]
  })
  const percent = (share: number): string => `${share < 0 ? '' : '+'}${(share * 100).toFixed(1)} %`
  return [
    Object.entries(r.machine)
      .map(([k, v]) => `${k} ${String(v)}`)
      .join(' · '),
    `${options.sockets} sockets × ${options.turns} turns × ${options.rounds} rounds after ${options.warmup} for warming up; half of the turns stored`,
    '',
    table(['round', 's', 'turn ms', 'p99', 'RSS MiB', 'highest', 'heap low MiB', 'heap'], rows),
    '',
    `turns      ${r.turns} completed, ${r.errors} errors, ${r.stored} stored and found in the database`,
    `speed      ${r.turnsPerSecond.toFixed(0)} turns/s, ${r.eventsPerSecond.toFixed(0)} events/s; a turn takes ${r.turnMs.median.toFixed(1)} ms (median), ${r.turnMs.p99.toFixed(1)} ms (p99)`,
    `memory     second half of the rounds against the first: RSS ${percent(r.growth.rss)}, lowest heap ${percent(r.growth.heap)}; the bound is ${options.bound} %`,
    `left over  ${r.left.sockets} sockets; the server drained and ended in ${r.left.drainMs} ms`,
    ...(r.problems.length > 0 ? ['', ...r.problems.map((p) => `PROBLEM  ${p}`)] : ['', 'no problem']),
  ].join('\n')
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
