// The flags that say what the configuration is, the same for every command that needs one.
import type { Command } from 'commander'
import { ConfigError, type Flags } from '../config.ts'

export type ConfigOptions = {
  readonly config?: string
  readonly host?: string
  readonly port?: string
  readonly data?: string
  readonly logLevel?: string
  readonly engineUrl?: string
  readonly set?: readonly string[]
}

/** Adds them to a command. */
export function configOptions(command: Command): Command {
  return command
    .option('-c, --config <file>', 'the configuration file (default: continuo.yaml here, if there is one)')
    .option('--host <host>', 'where to listen (default: 127.0.0.1; other machines need keys)')
    .option('-p, --port <port>', 'port to listen on, 0 for any free one (default: 8787)')
    .option('--data <folder>', 'folder of the database and the key file (default: ./data)')
    .option('--log-level <level>', 'trace, debug, info, warn, error, fatal or silent (default: info)')
    .option(
      '--engine-url <url>',
      'send every model name to this chat-completions server, e.g. http://127.0.0.1:8000/v1',
    )
    .option(
      '--set <name=value>',
      'any setting of docs/config.md, e.g. limits.drainMs=5s; may be repeated',
      (value: string, all: string[]) => [...all, value],
      [],
    )
}

/** The options as `loadConfig` takes them. Throws ConfigError for a `--set` without `=`. */
export function flagsOf(options: ConfigOptions): Flags {
  const set: Record<string, unknown> = {}
  if (options.engineUrl !== undefined) {
    set['engines'] = { main: { type: 'chat', url: options.engineUrl } }
    set['models'] = { '*': { engine: 'main' } }
  }
  for (const text of options.set ?? []) {
    const at = text.indexOf('=')
    if (at < 1)
      throw new ConfigError([
        { path: [], where: `--set ${text}`, message: 'write --set name=value, such as --set log.level=debug' },
      ])
    set[text.slice(0, at)] = text.slice(at + 1)
  }
  const named = { host: options.host, port: options.port, data: options.data, 'log.level': options.logLevel }
  for (const [name, value] of Object.entries(named)) if (value !== undefined) set[name] = value
  const shown = { host: '--host', port: '--port', data: '--data', 'log.level': '--log-level' }
  const engine = options.engineUrl === undefined ? {} : { engines: '--engine-url', models: '--engine-url' }
  return { config: options.config, set, shown: { ...shown, ...engine } }
}
