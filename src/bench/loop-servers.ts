// The servers of a run: one that keeps everything it can, one that keeps nothing between requests, each with both encoders,
// and an engine for every pace. Only one of them works at a time.
import { certificate } from './certificate.ts'
import { type Distance, distance } from './distance.ts'
import type { Where } from './loop-drive.ts'
import type { Mode } from './loop-modes.ts'
import { both, type Served, serveApart, type Taken } from './served.ts'

/** How an engine speaks, and what; its name tells it from the others. */
export type Pace = {
  readonly name: string
  readonly tokensPerSecond: number
  readonly ttftMs: number
  readonly scenario: unknown
}
export type ServersOptions = {
  readonly paces: readonly Pace[]
  /** Folder of the vocabulary, with its template. */
  readonly tokenizer: string
  readonly tls: boolean
}
export type Servers = {
  /** Where this mode finds the engine of that pace, `rttMs` away. */
  where(mode: Mode, pace: string, rttMs: number): Promise<Where>
  take(mode: Mode): Promise<Taken>
  digests(on: boolean): Promise<void>
  stop(): Promise<void>
}

export async function startServers({ paces, tokenizer, tls }: ServersOptions): Promise<Servers> {
  const engines = paces.map(({ name, ...pace }) => [name, { type: 'simulated', tokens: true, ...pace }] as const)
  const own = { codec: 'qwen3', tokenizer }
  // The model's own template, and the library that its vocabulary comes from.
  const official = { codec: 'jinja:hermes', tokenizer, encoder: 'huggingface' }
  const set = (encoders: Readonly<Partial<Record<Mode['encoder'], object>>>): Readonly<Record<string, unknown>> => ({
    engines: Object.fromEntries(engines),
    models: Object.fromEntries(
      paces.flatMap(({ name: engine }) =>
        Object.entries(encoders).map(([encoder, options]) => [`${encoder}-${engine}`, { engine, ...options }] as const),
      ),
    ),
    'rollouts.enabled': true,
  })
  const [keeps, forgets] = await both(
    serveApart({ set: { ...set({ own }), caches: true }, tls }),
    serveApart({ set: { ...set({ own, official }), caches: false }, tls }),
  )
  const distances = new Map<string, Promise<Distance>>()
  const of = ({ caches }: Mode): Served => (caches ? keeps : forgets)
  return {
    where: async (mode, pace, rttMs) => {
      const { url } = of(mode)
      const key = `${url} ${rttMs}`
      if (rttMs > 0 && !distances.has(key)) distances.set(key, distance({ url, rttMs }))
      const far = await distances.get(key)
      return { url: far?.url ?? url, model: `${mode.encoder}-${pace}`, ca: tls ? certificate : undefined }
    },
    take: (mode) => of(mode).take(),
    digests: async (on) => {
      await keeps.digests(on)
      await forgets.digests(on)
    },
    stop: async () => {
      for (const far of distances.values()) await (await far).close()
      await Promise.all([keeps.stop(), forgets.stop()])
    },
  }
}
