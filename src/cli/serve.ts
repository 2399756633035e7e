// `continuo serve`: from a configuration to a server that runs, says plainly what it is, and ends tidily.
import type { App } from '../app.ts'
import { ConfigError, loadConfig, type Config, type Loaded } from '../config.ts'
import { version } from '../version.ts'
import { createLog, type Logger } from '../observe/log.ts'
import { flagsOf, type ConfigOptions } from './options.ts'
import { downloads } from './progress.ts'

/** Starts the server and returns once it serves; the process then lives until a signal. A failed start exits with 1. */
export async function serve(options: ConfigOptions): Promise<void> {
  // A reader of our output that goes away (`continuo | head`) is no reason to stop serving.
  process.stdout.on('error', () => {})
  let loaded: Loaded | undefined
  try {
    loaded = loadConfig({ flags: flagsOf(options) })
    const log = createLog(loaded.config.log)
    for (const warning of loaded.warnings) log.warn(warning)
    // Only now: a wrong configuration is told at once.
    const { startApp } = await import('../app.ts')
    const shown = downloads(process.stderr, (text) => log.info(text))
    const app = await startApp(loaded.config, log, { onProgress: shown.onProgress }).finally(shown.end)
    live(app, log)
    process.stdout.write(welcome(app, loaded))
  } catch (e) {
    process.stderr.write(`continuo did not start.\n${whyNot(e, loaded)}\n`)
    process.exit(1)
  }
}

/** One sentence, or one line per problem of the configuration: what is wrong and what to do. */
export function whyNot(e: unknown, loaded: Loaded | undefined): string {
  if (e instanceof ConfigError) return (loaded ? loaded.locate(e) : e).message
  const { host, port, data } = loaded?.config ?? {}
  const code = e instanceof Error && 'code' in e ? String(e.code) : ''
  switch (code) {
    case 'EADDRINUSE':
      return `Port ${port} on ${host} is taken, perhaps by another continuo; stop that program, or choose another port with --port or PORT.`
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return `This machine has no address "${host}"; set host to 127.0.0.1, to 0.0.0.0, or to an address of this machine.`
    case 'EACCES':
    case 'EPERM':
      return e instanceof Error && 'syscall' in e && e.syscall === 'listen'
        ? `This user may not listen on port ${port}; choose a port above 1023 with --port or PORT.`
        : `The data folder ${data} cannot be written; give this user the right to, or choose another with --data or CONTINUO_DATA.`
    case 'EROFS':
    case 'ENOTDIR':
    case 'EEXIST':
    case 'SQLITE_CANTOPEN':
      return `The data folder ${data} cannot be used (${code}); choose another with --data or CONTINUO_DATA.`
    case 'ENOSPC':
    case 'SQLITE_FULL':
      return `The disk of the data folder ${data} is full; make room, or choose another with --data or CONTINUO_DATA.`
    default:
      return e instanceof Error ? e.message : String(e)
  }
}

// ── living and ending ────────────────────────────────────────────────────────────────────────────────────────────────
/** A bug must be seen, yet must not take other people's turns with it where it need not. */
function live(app: App, log: Logger): void {
  let rejections = 0
  let ending = false
  process.on('unhandledRejection', (err) =>
    log.error({ err, count: ++rejections }, 'a promise was rejected and nobody looked'),
  )
  process.on('uncaughtException', (err) => {
    log.fatal({ err }, 'an error nobody caught; the state may be wrong, so the server ends')
    // Closing tells clients to come back; it gets two seconds, since what is broken may also hold it up.
    setTimeout(() => process.exit(1), 2000)
    if (!ending)
      void app
        .close()
        .catch(() => {})
        .then(() => process.exit(1))
    ending = true
  })
  const end = async (signal: string) => {
    if (ending) {
      log.warn({ signal }, 'second signal: ending at once')
      setTimeout(() => process.exit(0), 2000)
      await app.close().catch(() => {})
      process.exit(0)
    }
    ending = true
    log.info({ signal }, 'draining: running responses finish, new ones are refused; a second signal ends at once')
    try {
      await app.drain()
      await app.close()
    } catch (err) {
      log.error({ err }, 'ending was not tidy')
    }
    process.exit(0)
  }
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => void end(signal))
}

// ── what a person reads ──────────────────────────────────────────────────────────────────────────────────────────────
/** Names of engines that some model uses. */
export function enginesInUse(config: Config): string[] {
  return [...new Set(Object.values(config.models).map((m) => m.engine))]
}

/** How this machine reaches what listens there. */
export function addressOf(scheme: 'http' | 'https', host: string, port: number): string {
  const reachable = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host
  return `${scheme}://${reachable.includes(':') ? `[${reachable.replaceAll(/[[\]]/g, '')}]` : reachable}:${port}`
}

function welcome(app: App, { config, file }: Loaded): string {
  const address = addressOf(app.scheme, app.host, app.port)
  const used = enginesInUse(config)
  const real = used.filter((name) => config.engines[name]?.type !== 'simulated')
  const simulated = used.length > real.length
  const models = Object.keys(config.models)
  const model = models.includes('*') ? '' : `model = ${JSON.stringify(models[0])}\n`
  const key =
    config.keys.length > 0
      ? 'one of the configured keys'
      : 'any text (no keys are configured, so every local program may use the server)'
  const about = simulated
    ? `The engine${real.length > 0 ? ' of some models' : ''} is SIMULATED: it makes its answers up. To use a real one, start with
  continuo --engine-url http://127.0.0.1:8000/v1       (npm start -- --engine-url …)
or write this into continuo.yaml (\`continuo doctor\` looks for engines that run here and prints the lines for them):
  engines:
    main: {type: chat, url: "http://127.0.0.1:8000/v1"}
  models:
    "*": {engine: main}
`
    : `Engines: ${real.map((name) => `${name} (${String(config.engines[name]?.type)})`).join(', ')}
`
  return `continuo ${version} serves ${address}/v1 (HTTP) and ${address.replace('http', 'ws')}/v1/responses (WebSocket)
Data folder: ${config.data}    Configuration: ${file ?? 'defaults (no continuo.yaml here)'}

${about}
For the Codex CLI, put this into ~/.codex/config.toml, and set CONTINUO_API_KEY to ${key}:

${model}model_provider = "continuo"

[model_providers.continuo]
name = "Continuo"
base_url = "${address}/v1"
wire_api = "responses"
supports_websockets = true
env_key = "CONTINUO_API_KEY"

`
}
