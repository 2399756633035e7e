// `continuo doctor`: where every setting comes from, and whether engines, store and socket work, tried by the paths that
// real requests take. Every failure says what to do.
import { createHash, randomBytes } from 'node:crypto'
import { ConfigError, loadConfig, settings, type Config, type Loaded } from '../config.ts'
import { version } from '../version.ts'
import { createLog } from '../observe/log.ts'
import { createEngine, createStore } from '../registry.ts'
import { readCredentials, tlsFiles, type TlsFiles } from '../tls.ts'
import { localEngines, scan, type Found } from './local-engines.ts'
import { flagsOf, type ConfigOptions } from './options.ts'
import { downloads } from './progress.ts'
import { addressOf, enginesInUse, whyNot } from './serve.ts'
import { serves, warmUp } from './warm-up.ts'

/** `advice`: what to do, for everything that did not go well. */
export type Check = {
  readonly name: string
  readonly result: 'ok' | 'failed' | 'skipped'
  readonly message: string
  readonly advice?: string
}
type Row = {
  readonly setting: string
  readonly value: unknown
  readonly origin: string
  readonly where?: string | undefined
}
type Options = ConfigOptions & { readonly key?: string; readonly json?: boolean }

const patience = 5000

/** Prints what it finds and returns the exit code: 1 if anything failed. */
export async function doctor(options: Options): Promise<number> {
  process.stdout.on('error', () => {})
  const checks: Check[] = []
  let loaded: Loaded | undefined
  let rows: Row[] = []
  let found: readonly Found[] = []
  try {
    loaded = loadConfig({ flags: flagsOf(options) })
    rows = table(loaded)
    for (const warning of loaded.warnings)
      checks.push({ name: 'environment', result: 'skipped', message: warning, advice: 'Rename or unset it.' })
    const { config } = loaded
    checks.push({
      name: 'configuration',
      result: 'ok',
      message: loaded.file ?? 'defaults, environment and flags; there is no file',
    })
    for (const name of enginesInUse(config)) checks.push(await engine(name, config, loaded))
    if (enginesInUse(config).every((name) => config.engines[name]?.type === 'simulated'))
      found = await scan(localEngines)
    const files = tlsFiles(config)
    if (files) checks.push(await certificate(files, loaded))
    checks.push(
      await store(config, loaded),
      await socket(config, loaded, options.key ?? process.env['CONTINUO_API_KEY']),
    )
  } catch (e) {
    checks.push({
      name: 'configuration',
      result: 'failed',
      message: whyNot(e, loaded),
      advice: 'Correct it; docs/config.md has every setting.',
    })
  }
  const ok = checks.every((c) => c.result !== 'failed')
  const simulated =
    loaded !== undefined &&
    enginesInUse(loaded.config).every((name) => loaded?.config.engines[name]?.type === 'simulated')
  process.stdout.write(
    options.json
      ? `${JSON.stringify({ version: version, node: process.version, ok, settings: rows, checks, found }, undefined, 2)}\n`
      : report(rows, checks, simulated ? suggestion(found) : '', ok),
  )
  return ok ? 0 : 1
}

// ── the checks ───────────────────────────────────────────────────────────────────────────────────────────────────────
async function engine(name: string, config: Config, loaded: Loaded): Promise<Check> {
  const label = `engine ${name}`
  const options = config.engines[name]
  try {
    const bar = downloads(process.stderr)
    const told = { note: () => {}, onProgress: bar.onProgress }
    const made = await createEngine(name, options ?? { type: 'simulated' }, process.env, told)
    try {
      // An engine in this process loads its model first, and perhaps downloads it: that has limits of its own.
      if (options?.type === 'llama-embedded') await made.describe?.(AbortSignal.timeout(patience)).finally(bar.end)
      const models = await made.probe(AbortSignal.timeout(patience))
      const shown = models.slice(0, 5).join(', ') + (models.length > 5 ? ` and ${models.length - 5} more` : '')
      return { name: label, result: 'ok', message: `${String(options?.type)}; it serves ${shown || 'no named models'}` }
    } finally {
      await made.close()
    }
  } catch (e) {
    const advice =
      e instanceof ConfigError || options?.type === 'llama-embedded'
        ? 'Correct its options.'
        : 'Start the engine, or correct its `url` under `engines`.'
    return { name: label, result: 'failed', message: whyNot(e, loaded), advice }
  }
}

async function certificate(files: TlsFiles, loaded: Loaded): Promise<Check> {
  const name = 'certificate'
  const advice = 'Correct tls.cert and tls.key, or renew what they name; docs/operations.md says more.'
  try {
    const { until, warning } = await readCredentials(files)
    if (warning !== undefined) return { name, result: 'failed', message: warning, advice }
    return { name, result: 'ok', message: `${files.cert} fits its key and is valid until ${until.toISOString()}` }
  } catch (e) {
    return { name, result: 'failed', message: whyNot(e, loaded), advice }
  }
}

async function store(config: Config, loaded: Loaded): Promise<Check> {
  try {
    const made = await createStore(config)
    try {
      await made.check()
      return {
        name: 'store',
        result: 'ok',
        message: `${config.store.kind}: a write and a read went through (data folder: ${config.data})`,
      }
    } finally {
      await made.close()
    }
  } catch (e) {
    const advice =
      'Make the data folder writable with some room on its disk, or choose another with --data or CONTINUO_DATA.'
    return { name: 'store', result: 'failed', message: whyNot(e, loaded), advice }
  }
}

/** A warm-up turn over a real socket: of the server that runs at the configured address, else of one started for it. */
async function socket(config: Config, loaded: Loaded, key: string | undefined): Promise<Check> {
  const name = 'socket'
  const { enabled, ramp } = config.limits.websocket
  if (!enabled || ramp === 0)
    return {
      name,
      result: 'skipped',
      message: 'WebSocket mode is switched off here, so clients use HTTP',
      advice: 'Set limits.websocket.enabled to true and ramp above 0 to switch it on.',
    }
  const model = Object.keys(config.models).find((m) => m !== '*') ?? 'doctor'
  const running = addressOf(tlsFiles(config) ? 'https' : 'http', config.host, config.port)
  const runs = config.port !== 0 && (await serves(running))
  if (runs && config.keys.length > 0 && key === undefined)
    return {
      name,
      result: 'skipped',
      message: `a server runs at ${running} and wants a key`,
      advice: 'Pass one with --key or CONTINUO_API_KEY.',
    }
  try {
    if (runs)
      return { name, result: 'ok', message: `a server runs at ${running}; ${await warmUp(running, model, key)}` }
    // A key of its own for this run: those of the configuration are known by their digests only.
    const own = randomBytes(24).toString('hex')
    const secretSha256 = createHash('sha256').update(own).digest('hex')
    const keys = config.keys.length > 0 ? [...config.keys, { id: 'doctor', tenant: 'doctor', secretSha256 }] : []
    const limits = { ...config.limits, websocket: { ...config.limits.websocket, ramp: 1 } }
    const { startApp } = await import('../app.ts')
    const bar = downloads(process.stderr)
    const quiet = createLog({ level: 'silent', pretty: false })
    const started = startApp({ ...config, keys, limits, port: 0 }, quiet, { onProgress: bar.onProgress })
    const app = await started.finally(bar.end)
    try {
      const done = await warmUp(addressOf(app.scheme, app.host, app.port), model, keys.length > 0 ? own : undefined)
      return { name, result: 'ok', message: `none runs at ${running}, so one was started for the moment; ${done}` }
    } finally {
      await app.close()
    }
  } catch (e) {
    const advice = runs
      ? 'Look into the log of the server that runs there; restart it if it is of another version.'
      : 'Correct what the message names; with --log-level debug `continuo serve` says more.'
    return { name, result: 'failed', message: whyNot(e, loaded), advice }
  }
}

// ── what is printed ──────────────────────────────────────────────────────────────────────────────────────────────────
function table({ config, origin, where }: Loaded): Row[] {
  return settings.map(({ name, path }) => ({
    setting: name,
    // What may be left out has no default.
    value:
      shown(
        name,
        path.reduce<unknown>((at, key) => (at as Record<string, unknown>)[key], config),
      ) ?? null,
    origin: origin.get(name) ?? 'default',
    where: where.get(name),
  }))
}

/** Without secrets: of keys the names, of engines what leads to them. */
function shown(name: string, value: unknown): unknown {
  if (name === 'keys') return (value as Config['keys']).map((k) => `${k.tenant}/${k.id}`)
  if (name !== 'engines') return value
  return Object.fromEntries(
    Object.entries(value as Config['engines']).map(([engineName, { type, url, urls }]) => [
      engineName,
      {
        type,
        ...(url === undefined ? {} : { url: bare(url) }),
        ...(Array.isArray(urls) ? { urls: urls.map(bare) } : {}),
      },
    ]),
  )
}
const bare = (url: unknown) =>
  String(url)
    .replace(/\/\/[^/@]*@/, '//')
    .replace(/[?#].*$/s, '')

function report(rows: readonly Row[], checks: readonly Check[], hint: string, ok: boolean): string {
  const cells = rows.map((r) => [
    r.setting,
    JSON.stringify(r.value),
    r.where === undefined ? r.origin : `${r.origin} (${r.where})`,
  ])
  const widths = [0, 1].map((n) => Math.min(48, Math.max(0, ...cells.map((c) => c[n]?.length ?? 0))))
  const lines = cells.map(
    (c) =>
      `  ${c
        .map((text, n) => text.padEnd(widths[n] ?? 0))
        .join('  ')
        .trimEnd()}`,
  )
  const marks = { ok: 'ok     ', failed: 'FAILED ', skipped: 'note   ' } as const
  const results = checks.map((c) => {
    const message = c.message.replaceAll('\n', '\n                 ')
    return `  ${marks[c.result]} ${c.name}: ${message}${c.advice ? `\n          → ${c.advice}` : ''}`
  })
  const head = `continuo ${version}, Node ${process.version}\n\n`
  const body = lines.length > 0 ? `Settings and where they come from\n${lines.join('\n')}\n\n` : ''
  return `${head}${body}Checks\n${results.join('\n')}\n${hint}\n${ok ? 'Everything that is set up works.' : 'Something failed; see the arrows above.'}\n`
}

function suggestion(found: readonly Found[]): string {
  const usable = found[0]
  if (!usable)
    return `\nOnly the simulated engine is configured, and no engine answers on the usual local ports (${localEngines.map((e) => `${e.name} ${e.port}`).join(', ')}).
Start one, run this again, and it prints the lines for continuo.yaml.\n`
  const list = found
    .map((f) => `  ${f.name} at ${f.url}: ${f.models.slice(0, 5).join(', ') || 'no models loaded'}`)
    .join('\n')
  return `\nOnly the simulated engine is configured, but these answer here:\n${list}\nTo use ${usable.name}, write this into continuo.yaml:\n\n${usable.yaml}`
}
