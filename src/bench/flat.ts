// `continuo bench flat`: what a turn costs the server, and what its client sees, by the length of the conversation. The
// promise is that step 200 costs what step 2 costs.
import { type Benchmark, whole, wholes } from './benchmark.ts'
import { callIds, callsForEver, Conversation, type Place, settingsOf } from './conversation.ts'
import {
  type Arm,
  medianOf,
  mustBegin,
  type Sample,
  sampleOf,
  samePrompts,
  thereAndBack,
  warmUp,
  type Way,
  ways,
  short,
} from './by-length.ts'
import { httpDriver } from './http-driver.ts'
import { qwen3Folder } from './packages.ts'
import {
  machine,
  median,
  type OnProgress,
  type Plot,
  ratio,
  type Report,
  seriesOf,
  type Spread,
  spread,
  type Table,
} from './report.ts'
import { type Served, serveApart } from './served.ts'
import { tokenEngine } from './token-engine.ts'
import { wsDriver } from './ws-driver.ts'

type Options = {
  readonly lengths?: readonly number[]
  readonly turns?: number
  readonly quick: boolean
  readonly repeats?: number | undefined
}
const all = [1000, 5000, 10_000, 25_000, 50_000, 100_000, 200_000]
const few = [1000, 10_000, 50_000, 200_000]
/** Tokens that a turn adds while the conversation grows. */
const growth = 500

export const benchmark: Benchmark<Options> = {
  name: 'flat',
  description: 'what a turn costs the server, and what its client sees, by the length of the conversation',
  examples: [
    ['--quick', 'four lengths, within two minutes'],
    ['--lengths 1000,400000', 'two lengths of your own'],
  ],
  declare: (command) =>
    void command
      .option('--lengths <list>', `tokens of the conversation (default: ${all.join(',')})`, wholes)
      .option('--turns <n>', 'turns of each sample (default: 60, or 30 with --quick)', whole),
  run,
}

async function run(options: Options, onProgress: OnProgress): Promise<Report> {
  const { quick } = options
  const lengths = (options.lengths ?? (quick ? few : all)).toSorted((a, b) => a - b)
  mustBegin(lengths)
  const turns = options.turns ?? (quick ? 30 : 60)
  const repeats = options.repeats ?? (quick ? 2 : 5)
  const facts = machine()
  const settings = settingsOf()
  const folder = await qwen3Folder((what) => onProgress(0, what))
  onProgress(0, 'starting three servers and an engine')
  const remote = await tokenEngine({ ids: await callIds(folder) })
  const opened: (() => Promise<void>)[] = [() => remote.stop()]
  try {
    const servers: Served[] = []
    // Whole histories leave so much garbage that collecting it would count for the deltas: they have a server of their own.
    for (const caches of [true, true, false]) {
      const served = await start(folder, remote.url, caches)
      opened.push(() => served.stop())
      servers.push(served)
    }
    const [keeps, resent, forgets] = servers
    if (!keeps || !resent || !forgets) throw new Error('There are three servers.')
    const socket = await wsDriver({ url: keeps.url })
    opened.push(() => socket.close())
    const arms: Arm[] = []
    for (const way of ways) {
      const served = !way.caches ? forgets : way.sends === 'all' ? resent : keeps
      const driver = way.door === 'socket' ? await wsDriver(served) : httpDriver({ url: served.url, keepAlive: true })
      opened.push(() => driver.close())
      arms.push({ way, driver, served, model: way.remote ? 'remote' : 'local' })
    }

    const conversation = new Conversation(socket, { model: 'local', ...settings }, { output: growth, seed: 1 })
    const places: Place[] = []
    const longest = lengths.at(-1) ?? 0
    for (const length of lengths) {
      onProgress((0.1 * length) / longest, `growing to ${length} tokens`)
      places.push(await conversation.grow(length))
    }
    const samples = new Map<string, Sample[]>()
    const steps = places.length * arms.length * repeats
    let step = 0
    for (const place of places) await samePrompts(arms, place, settings)
    await warmUp(arms, places, settings, (what) => onProgress(0.1, what))
    for (let n = 0; n < repeats; n++)
      // There and back, so that what changes while it runs does not favour a length.
      for (const [at, place] of thereAndBack([...places.entries()], n))
        for (const arm of arms) {
          const key = keyOf(arm.way, lengths[at] ?? 0)
          onProgress(0.1 + (0.9 * step++) / steps, `${arm.way.name} at ${lengths[at]} tokens`)
          samples.set(key, [...(samples.get(key) ?? []), await sampleOf(arm, place, settings, turns, 1000 + step)])
        }
    return {
      title: 'One turn, by the length of the conversation',
      command: 'continuo bench flat',
      machine: facts,
      options: { lengths, turns, repeats },
      ...reported(lengths, (way, length) => samples.get(keyOf(way, length)) ?? []),
    }
  } finally {
    for (const close of opened.reverse()) await close().catch(() => {})
  }
}
const keyOf = (way: Way, length: number): string => `${way.name} ${length}`

function start(tokenizer: string, remote: string, caches: boolean): Promise<Served> {
  const model = { codec: 'qwen3', tokenizer }
  return serveApart({
    set: {
      caches,
      engines: { local: callsForEver, remote: { type: 'vllm', url: remote, context: 1_000_000 } },
      models: { local: { ...model, engine: 'local' }, remote: { ...model, engine: 'remote' } },
      'limits.prefixes.keepBytes': '2 GiB',
    },
  })
}
// ── the report ───────────────────────────────────────────────────────────────────────────────────────────────────────
type Samples = (way: Way, length: number) => readonly Sample[]
type Reported = Pick<Report, 'ratios' | 'targets' | 'tables' | 'plots' | 'notes'>

/** Pure, so that a test can hold it against figures of its own. */
export function reported(lengths: readonly number[], samples: Samples): Reported {
  const [shortest = 0, longest = 0] = [lengths[0], lengths.at(-1)]
  const [chain] = ways
  if (!chain) throw new Error('There is no way to ask.')
  const per = (way: Way, length: number, of: (sample: Sample) => number): number[] => samples(way, length).map(of)
  const added = (sample: Sample): number => medianOf(sample, (turn) => turn.added)
  const growthOf = (of: (sample: Sample) => number, way = chain): Spread =>
    ratio(per(way, longest, of), per(way, shortest, of))
  const name = `${short(longest)}_over_${short(shortest)}`
  const ratios = {
    [`turn_${name}`]: growthOf((sample) => sample.cpuMs),
    turn_ms_median: spread(per(chain, longest, added)),
    [`added_${name}`]: growthOf(added),
  }
  const figures: readonly (readonly [string, string, (sample: Sample) => number])[] = [
    ['Added by the server, ms a turn', 'Request received to engine called, and engine done to last event.', added],
    [
      'Processor time of the server, ms a turn',
      'Everything in its process, the simulated engine included.',
      (s) => s.cpuMs,
    ],
    [
      'Seen by the client, ms a turn',
      'From the request, not yet serialised, to its last event; the engine takes no time.',
      (s) => medianOf(s, (turn) => turn.client),
    ],
  ]
  const head = ['turn', ...lengths.map(short), `${short(longest)} ÷ ${short(shortest)}`]
  const tables = figures.map(([title, note, of]): Table => ({
    title,
    note,
    head,
    rows: ways.map((way) => [way.name, ...lengths.map((length) => spread(per(way, length, of))), growthOf(of, way)]),
  }))
  const stages = (['parse', 'resolve', 'encode', 'end'] as const).map(
    (stage) => (sample: Sample) => medianOf(sample, (turn) => turn[stage]),
  )
  tables.push({
    title: `Where it goes at ${short(longest)} tokens, ms a turn`,
    note: 'parse: from the first byte of the body, or the whole frame, to a checked request. resolve: which conversation it is, admission, response.created. encode: rendering, ids, and what the engine is sent. end: what is kept, and the last event.',
    head: ['turn', 'parse', 'resolve', 'encode', 'end', 'bytes up'],
    rows: ways.map((way) => [
      way.name,
      ...stages.map((of) => spread(per(way, longest, of))),
      median(samples(way, longest).flatMap((sample) => sample.turns.map((turn) => turn.bytesUp))),
    ]),
  })
  const plots = figures.map(([title, note, of]): Plot => ({
    title,
    note,
    kind: 'lines',
    x: { label: 'tokens of the conversation', log: true, values: lengths },
    y: { label: 'ms', log: true },
    series: ways.map((way) =>
      seriesOf(
        way.name,
        lengths.map((length) => spread(per(way, length, of))),
      ),
    ),
  }))
  return {
    ratios,
    targets: [
      {
        ratio: `turn_${name}`,
        what: `processor time of a turn at ${short(longest)} tokens ÷ at ${short(shortest)}, engine in the process`,
        atMost: 1.2,
      },
      { ratio: 'turn_ms_median', what: `ms that the server adds to a turn at ${short(longest)} tokens`, atMost: 1 },
    ],
    tables,
    plots,
    notes: [
      ...ways.map((way) => `${way.name}: ${way.what}.`),
      'A length is where turns begin, in walks of ten; each turn adds some 100 tokens, and a walk is forgotten behind its end.',
      'Every way gave the engine the same prompt, compared id by id at every length before anything was measured.',
      'ws-chain-remote is O(history) by nature: an engine over HTTP is sent all ids of the prompt each turn.',
      'http-chain stores what it says, since HTTP can continue only what is stored; here in memory.',
      'Over HTTP, parse includes reading the body from the connection.',
    ],
  }
}
