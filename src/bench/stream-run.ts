// One measurement of `bench stream`: so many connections at such a rate over one path, and what each process spent on it.
import { quantile } from './report.ts'
import type { Stamps } from './stamp.ts'
import { type Dialect, StreamReader } from './stream-reader.ts'

/** A way from engine to client. `take`: processor time of what stands between, since the last time. */
export type Path = {
  readonly name: string
  readonly url: string
  readonly dialect: Dialect
  readonly take: () => Promise<{ readonly cpuUs: number }>
}
export type Load = { readonly rate: number; readonly connections: number }
export type Run = {
  /** Tokens that arrived each second ÷ tokens that the engine wrote each second; the worst connection. */
  readonly delivered: number
  /** What the engine wrote each second ÷ what it was asked for; the worst connection. */
  readonly kept: number
  /** From the engine's write to the client's read, ms. */
  readonly p50: number
  readonly p99: number
  /** µs for each token of the engine. */
  readonly cpu: number
  /** Of one core, while tokens came. */
  readonly load: { readonly server: number; readonly engine: number; readonly client: number }
}

/** Tokens of a run, for each second that it is to last. */
const mostAtOnce = 80_000

export async function measure(path: Path, engine: Path['take'], load: Load, seconds: number): Promise<Run> {
  const { rate, connections } = load
  // Shorter where more come than any gateway can carry, or it would take long to catch up.
  const tokens = Math.max(20, Math.round(seconds * Math.min(rate, mostAtOnce / connections)))
  const readers = await Promise.all(
    Array.from({ length: connections }, () => StreamReader.open(path.url, path.dialect)),
  )
  try {
    await Promise.all([path.take(), engine()])
    const own = process.cpuUsage()
    const begun = performance.now()
    const read = await Promise.all(readers.map((reader) => reader.read({ tokensPerSecond: rate, tokens })))
    const us = (performance.now() - begun) * 1000
    const { user, system } = process.cpuUsage(own)
    const [server, source] = await Promise.all([path.take(), engine()])
    const latencies = read.flatMap((stamps) => stamps.latencies)
    return {
      delivered: Math.min(...read.map((s) => span(s, 'written') / span(s, 'found'))),
      kept: Math.min(...read.map((s) => ((tokens - 1) * 1e6) / span(s, 'written') / rate)),
      p50: quantile(latencies, 0.5),
      p99: quantile(latencies, 0.99),
      cpu: server.cpuUs / (tokens * connections),
      load: { server: server.cpuUs / us, engine: source.cpuUs / us, client: (user + system) / us },
    }
  } finally {
    for (const reader of readers) reader.close()
  }
}
/** µs from the first token to the last. */
const span = (s: Stamps, what: 'written' | 'found'): number =>
  what === 'written' ? s.lastWritten - s.firstWritten : s.lastFound - s.firstFound
