// `continuo bench ttft`: time to the first token, with everything that the server keeps between requests and with nothing,
// by the length of the conversation. The engine's own cache finds its prefix in all of them.
import { type Benchmark, whole, wholes } from './benchmark.ts'
import { callsForEver, Conversation, type Place, settingsOf } from './conversation.ts'
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
  short,
} from './by-length.ts'
import { httpDriver } from './http-driver.ts'
import { qwen3Folder } from './packages.ts'
import {
  machine,
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
import { wsDriver } from './ws-driver.ts'

type Options = {
  readonly lengths?: readonly number[]
  readonly turns?: number
  readonly ttft: number
  readonly quick: boolean
  readonly repeats?: number | undefined
}
const all = [1000, 30_000, 100_000]
const growth = 500
/** Of the engine that takes no time. */
const turnsOf = { quick: 4, full: 10 }

/** What is kept: everything; everything but the prefix index, and so what hangs on it; nothing. */
type Keeps = 'all' | 'no index' | 'nothing'
type Row = Way & { readonly keeps: Keeps; readonly encoder: 'own' | 'official' }
const http = { door: 'http', sends: 'all', caches: false } as const
export const rows: readonly Row[] = [
  {
    name: 'socket-cached',
    what: 'WebSocket, previous_response_id, every cache',
    door: 'socket',
    sends: 'new',
    caches: true,
    keeps: 'all',
    encoder: 'own',
  },
  { ...http, name: 'http-cached', what: 'HTTP, full history, every cache', caches: true, keeps: 'all', encoder: 'own' },
  {
    ...http,
    name: 'http-no-index',
    what: 'HTTP, full history, without the prefix index alone',
    keeps: 'no index',
    encoder: 'own',
  },
  { ...http, name: 'http-uncached', what: 'HTTP, full history, every cache off', keeps: 'nothing', encoder: 'own' },
  {
    ...http,
    name: 'http-uncached-official',
    what: 'the same with the official Hugging Face tokenizer and the template run by the Hugging Face library',
    keeps: 'nothing',
    encoder: 'official',
  },
]

export const benchmark: Benchmark<Options> = {
  name: 'ttft',
  description: 'time to first token, with every cache and with none, by the length of the conversation',
  examples: [
    ['--quick', 'fewer turns, within two minutes'],
    ['--ttft 200 --lengths 50000', 'an engine that takes 200 ms, one length'],
  ],
  declare: (command) =>
    void command
      .option('--lengths <list>', `tokens of the conversation (default: ${all.join(',')})`, wholes)
      .option('--ttft <ms>', 'time to first token of the engine that takes some', whole, 50)
      .option(
        '--turns <n>',
        `turns of each sample (default: ${turnsOf.full}, or ${turnsOf.quick} with --quick)`,
        whole,
      ),
  run,
}

/** What each row showed: with an engine that takes no time, and with one that takes some. */
export type Samples = (row: Row, length: number, engine: 'now' | 'later') => readonly Sample[]

async function run(options: Options, onProgress: OnProgress): Promise<Report> {
  const { quick, ttft } = options
  const lengths = (options.lengths ?? all).toSorted((a, b) => a - b)
  mustBegin(lengths)
  const turns = options.turns ?? (quick ? turnsOf.quick : turnsOf.full)
  const repeats = options.repeats ?? (quick ? 2 : 5)
  const facts = machine()
  const settings = settingsOf()
  const folder = await qwen3Folder((what) => onProgress(0, what))
  onProgress(0, 'starting three servers')
  const opened: (() => Promise<void>)[] = []
  try {
    const servers = new Map<Keeps, Served>()
    for (const keeps of ['all', 'no index', 'nothing'] as const) {
      const served = await start(folder, keeps, ttft)
      servers.set(keeps, served)
      opened.push(() => served.stop())
    }
    const arms: (readonly [row: Row, engine: 'now' | 'later', Arm])[] = []
    for (const row of rows)
      for (const engine of ['now', 'later'] as const) {
        const served = servers.get(row.keeps)
        if (!served) continue
        const driver = row.door === 'socket' ? await wsDriver(served) : httpDriver({ url: served.url, keepAlive: true })
        opened.push(() => driver.close())
        arms.push([row, engine, { way: row, driver, served, model: `${row.encoder}-${engine}` }])
      }
    const [, , first] = arms[0] ?? []
    if (!first) throw new Error('There is nothing to measure.')
    const conversation = new Conversation(
      first.driver,
      { model: first.model, ...settings },
      { output: growth, seed: 2 },
    )
    const places: Place[] = []
    const longest = lengths.at(-1) ?? 0
    for (const length of lengths) {
      onProgress((0.1 * length) / longest, `growing to ${length} tokens`)
      places.push(await conversation.grow(length))
    }
    const samples = new Map<string, Sample[]>()
    const steps = repeats * places.length * arms.length
    let step = 0
    const only = arms.map(([, , arm]) => arm)
    for (const place of places) await samePrompts(only, place, settings)
    await warmUp(only, places, settings, (what) => onProgress(0.1, what))
    for (let n = 0; n < repeats; n++)
      for (const [at, place] of thereAndBack([...places.entries()], n))
        for (const [row, engine, arm] of arms) {
          const length = lengths[at] ?? 0
          onProgress(0.1 + (0.9 * step++) / steps, `${row.name} at ${length} tokens`)
          const sample = await sampleOf(arm, place, settings, turns, 1000 + step)
          const key = keyOf(row, length, engine)
          samples.set(key, [...(samples.get(key) ?? []), sample])
        }
    return {
      title: 'Time to first token, caches on and off',
      command: 'continuo bench ttft',
      machine: facts,
      options: { lengths, ttft, turns, repeats },
      ...reported(lengths, ttft, (row, length, engine) => samples.get(keyOf(row, length, engine)) ?? []),
    }
  } finally {
    for (const close of opened.reverse()) await close().catch(() => {})
  }
}
const keyOf = (row: Row, length: number, engine: string): string => `${row.name} ${length} ${engine}`

function start(tokenizer: string, keeps: Keeps, ttftMs: number): Promise<Served> {
  const models = (['now', 'later'] as const).flatMap((engine) => [
    [`own-${engine}`, { engine, codec: 'qwen3', tokenizer }] as const,
    [`official-${engine}`, { engine, codec: 'jinja:hermes', tokenizer, encoder: 'huggingface' }] as const,
  ])
  return serveApart({
    set: {
      caches: keeps !== 'nothing',
      engines: { now: callsForEver, later: { ...callsForEver, ttftMs } },
      models: Object.fromEntries(models),
      'limits.prefixes.keepBytes': keeps === 'all' ? '2 GiB' : 0,
    },
  })
}

// ── the report ───────────────────────────────────────────────────────────────────────────────────────────────────────
type Reported = Pick<Report, 'ratios' | 'targets' | 'tables' | 'plots' | 'notes'>

/** Pure, so that a test can hold it against figures of its own. */
export function reported(lengths: readonly number[], ttft: number, samples: Samples): Reported {
  const longest = lengths.at(-1) ?? 0
  const server = (row: Row, length: number): number[] =>
    samples(row, length, 'now').map((sample) =>
      medianOf(sample, ({ parse, resolve, encode }) => parse + resolve + encode),
    )
  const first = (row: Row, length: number): number[] =>
    samples(row, length, 'now').map((sample) => medianOf(sample, (turn) => turn.first))
  const client = (row: Row, length: number): number[] =>
    samples(row, length, 'later').map((sample) => medianOf(sample, (turn) => turn.seenFirst))
  const [socket, cached, , uncached, official] = rows
  if (!socket || !cached || !uncached || !official) throw new Error('There are no rows.')
  const shares = (of: (row: Row, length: number) => number[], row: Row, length: number): Spread =>
    ratio(of(row, length), of(uncached, length))
  const ratios = {
    ttft_server_cached_over_uncached: shares(server, socket, longest),
    ttft_http_cached_over_uncached: shares(client, cached, longest),
    ttft_server_cached_over_official: ratio(server(socket, longest), server(official, longest)),
    ttft_http_cached_over_official: ratio(client(cached, longest), client(official, longest)),
  }
  const figures: readonly (readonly [string, string, (row: Row, length: number) => number[]])[] = [
    ['Server part of the time to first token, ms', 'From the request received to the engine called.', server],
    ['First token at the server, ms', 'From the request received; the engine takes no time.', first],
    [
      'First token at the client, ms',
      `From the request, not yet serialised; the engine takes ${ttft} ms, in all of them.`,
      client,
    ],
  ]
  const tables = figures.map(([title, note, of]): Table => ({
    title,
    note,
    head: ['turn', ...lengths.map(short), `÷ ${uncached.name} at ${short(longest)}`],
    rows: rows.map((row) => [row.name, ...lengths.map((length) => spread(of(row, length))), shares(of, row, longest)]),
  }))
  const stages = (['parse', 'resolve', 'encode'] as const).map(
    (stage) => (row: Row) =>
      spread(samples(row, longest, 'now').map((sample) => medianOf(sample, (turn) => turn[stage]))),
  )
  tables.push({
    title: `Server part by stage at ${short(longest)} tokens, ms`,
    note: 'parse: from the first byte of the body, or the whole frame, to a checked request. resolve: which conversation it is, admission, response.created. encode: rendering, ids, and what the engine is sent.',
    head: ['turn', 'parse', 'resolve', 'encode'],
    rows: rows.map((row) => [row.name, ...stages.map((of) => of(row))]),
  })
  const plots = figures.map(([title, note, of]): Plot => ({
    title,
    note,
    kind: 'bars',
    x: { label: 'tokens of the conversation', values: lengths.map((_, n) => n), names: lengths.map(short) },
    y: { label: 'ms', log: true },
    series: rows.map((row) =>
      seriesOf(
        row.name,
        lengths.map((length) => spread(of(row, length))),
      ),
    ),
  }))
  return {
    ratios,
    targets: [
      {
        ratio: 'ttft_server_cached_over_uncached',
        what: `server part at ${short(longest)} tokens: socket with every cache ÷ full history with none`,
        atMost: 0.05,
      },
      {
        ratio: 'ttft_http_cached_over_uncached',
        what: `first token at an HTTP client that sends full history, ${short(longest)} tokens: every cache ÷ none`,
        atMost: 0.55,
      },
      {
        ratio: 'ttft_http_cached_over_official',
        what: 'the same, with the official tokenizer and template library on the side without caches',
      },
    ],
    tables,
    plots,
    notes: [
      ...rows.map((row) => `${row.name}: ${row.what}.`),
      "Caches off means that nothing is kept between requests; vocabularies stay loaded. The engine's prefix cache is on in all rows, so prefill is in none.",
      'Every row gave the engine the same prompt, compared id by id at every length before anything was measured.',
      'The ratios by `uncached` have our own encoder on both sides; those by `official` have the Hugging Face library on the side without caches.',
      'Over HTTP, parse includes reading the body from the connection.',
    ],
  }
}
