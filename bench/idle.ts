// `npm run bench:idle`: what one idle socket costs the server in memory. Thousands are opened, each does one small turn
// (or none), and the memory of the server's process is compared with before, after full collections.
import { Command } from 'commander'
import { kibibytes, machine, main, Progress, report, shown, spread, table, whole } from './figures.ts'
import { serveApart } from './served.ts'
import { Talk, userMessage } from './talk.ts'

type Options = { sockets: number; runs: number; json?: true }
const program = new Command('idle')
  .description('memory of the server for each idle socket: without a turn, after a small one, with compression')
  .option('--sockets <n>', 'sockets', whole, 2000)
  .option('--runs <n>', 'runs of each kind, interleaved, each against a new server', whole, 3)
  .option('--json', 'print one JSON object')
program.parse()
const options = program.opts<Options>()

type Kind = {
  readonly name: string
  readonly turn: boolean
  readonly compression: 'off' | 'tight'
  readonly keepEvents: boolean
}
const kinds: readonly Kind[] = [
  { name: 'no turn, compression off', turn: false, compression: 'off', keepEvents: false },
  { name: 'no turn, compression tight', turn: false, compression: 'tight', keepEvents: false },
  { name: 'one turn, compression off', turn: true, compression: 'off', keepEvents: false },
  { name: 'one turn, compression tight', turn: true, compression: 'tight', keepEvents: false },
  { name: 'one turn, compression off, its events kept for replay', turn: true, compression: 'off', keepEvents: true },
]
/** Sockets opened and used before the measurement, so that code is compiled and pools are filled. */
const warmUp = 200
/** Sockets that are being opened at once. */
const width = 50

type Cost = { readonly rss: number; readonly heap: number; readonly external: number }

/** Bytes for each socket. */
async function cost(kind: Kind, progress: Progress): Promise<Cost> {
  const websocket = { compression: kind.compression }
  // Events of ended responses are the server's memory, not the socket's: left out unless they are what is asked for.
  const events = kind.keepEvents ? {} : { keepBytes: 0 }
  const server = await serveApart({ config: { limits: { websocket, events }, store: { kind: 'memory' } }, gc: true })
  try {
    await close(await open(server.wsUrl, kind, warmUp, () => {}))
    await server.withoutSockets()
    const before = await server.memory(true)
    const talks = await open(server.wsUrl, kind, options.sockets, () => progress.step(kind.name))
    const after = await server.memory(true)
    await close(talks)
    if (server.seen.warnings.length > 0) throw new Error(server.seen.warnings.join('\n'))
    const each = (what: keyof Cost): number => (after[what] - before[what]) / options.sockets
    return { rss: each('rss'), heap: each('heap'), external: each('external') }
  } finally {
    await server.stop()
    server.remove()
  }
}

async function open(wsUrl: string, kind: Kind, count: number, onOpen: () => void): Promise<Talk[]> {
  const talks: Talk[] = []
  let started = 0
  const one = async (): Promise<void> => {
    while (started++ < count) {
      const talk = await Talk.open(wsUrl, kind.compression === 'tight')
      talks.push(talk)
      // Without tools the engine answers at once. The frame is larger than what compression leaves alone.
      if (kind.turn) await talk.turn({ store: false, tools: [], input: [userMessage('How are you?')] })
      onOpen()
    }
  }
  await Promise.all(Array.from({ length: width }, one))
  return talks
}
const close = async (talks: readonly Talk[]): Promise<unknown> => Promise.all(talks.map((talk) => talk.close()))

await main(async () => {
  const progress = new Progress(kinds.length * options.runs * options.sockets)
  const costs = kinds.map((): Cost[] => [])
  for (let run = 0; run < options.runs; run++)
    for (const [n, kind] of kinds.entries()) costs[n]?.push(await cost(kind, progress))
  progress.end()
  const rows = kinds.map(({ name }, n) => {
    const of = (what: keyof Cost): number[] => (costs[n] ?? []).map((c) => kibibytes(c[what]))
    return { name, rssKiB: spread(of('rss')), heapKiB: spread(of('heap')), externalKiB: spread(of('external')) }
  })
  const facts = machine()
  const lines = rows.map((r) => [r.name, shown(r.rssKiB), shown(r.heapKiB), shown(r.externalKiB)])
  const text = [
    Object.entries(facts)
      .map(([k, v]) => `${k} ${v}`)
      .join(' · '),
    `${options.sockets} sockets; KiB for each, medians of ${options.runs} runs [least–most]`,
    '',
    table(['socket', 'RSS', 'heap', 'external'], lines),
  ].join('\n')
  report(options.json === true, { machine: facts, options, rows }, text)
  return 0
})
