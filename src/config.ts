// Where every setting comes from: flags, then environment, then the file, then the default of config-schema.ts. Owns the
// sentences that a person reads who wrote one of them wrongly: each says where it stands and what to do.
import { dirname, resolve } from 'node:path'
import { parse as parseYaml } from 'yaml'
import type { z } from 'zod'
import { keyConfig } from './access/keys.ts'
import { ConfigError, meant, nearest, type Path, type Problem } from './config-error.ts'
import { defaultFile, isTree, put, read, readFile, type ConfigFile, type Tree } from './config-file.ts'
import { configSchema, engineOptions, modelOptions, settings, type Config, type Setting } from './config-schema.ts'

export { ConfigError, dotted, meant, type Path, type Problem } from './config-error.ts'
export { configSchema, settings }
export type { Config, EngineOptions, ModelOptions, Setting } from './config-schema.ts'

export type Origin = 'flag' | 'env' | 'file' | 'default'
/** `set`: setting name → value or its text. `shown`: the flag it came by, if not `--set`. `config`: path of the file. */
export type Flags = {
  readonly config?: string | undefined
  readonly set?: Readonly<Record<string, unknown>>
  readonly shown?: Readonly<Record<string, string>>
}
type Env = Readonly<Record<string, string | undefined>>
export type Loaded = {
  readonly config: Config
  /** Setting name → what gave it. */
  readonly origin: ReadonlyMap<string, Origin>
  /** Setting name → `continuo.yaml:12`, `PORT`, `--port`; nothing for defaults. */
  readonly where: ReadonlyMap<string, string>
  /** The file that was read. */
  readonly file: string | undefined
  /** What looks wrong but stops nothing. */
  readonly warnings: readonly string[]
  /** An error that names paths of this configuration, with the places they were written at. */
  locate(error: ConfigError): ConfigError
}

/** Variables of ours that are no settings: the file's path, and the key that `agent` and `doctor` dial with. */
const otherEnv: ReadonlySet<string> = new Set(['CONTINUO_CONFIG', 'CONTINUO_API_KEY'])

/** Resolves the whole configuration. Throws ConfigError with all problems at once. */
export function loadConfig(from: { flags?: Flags; env?: Env; cwd?: string } = {}): Loaded {
  const { flags = {}, env = process.env, cwd = process.cwd() } = from
  const file = readFile(flags.config ?? env['CONTINUO_CONFIG'], cwd)
  const origin = new Map<string, Origin>(settings.map((s) => [s.name, 'default']))
  const where = new Map<string, string>()
  const problems: Problem[] = []
  const tree = file.tree
  const place = (setting: Setting, value: unknown, by: Origin, at: string) => {
    problems.push(...put(tree, setting.path, value, at))
    origin.set(setting.name, by)
    where.set(setting.name, at)
  }

  for (const setting of settings) {
    if (read(tree, setting.path) === undefined) continue
    origin.set(setting.name, 'file')
    where.set(setting.name, file.at(setting.path) ?? defaultFile)
  }
  for (const setting of settings) {
    const name = [setting.env, ...(setting.name === 'port' ? ['PORT'] : [])].find((n) => given(env[n]))
    if (name !== undefined) place(setting, fromText(setting, env[name] ?? '', problems, name), 'env', name)
  }
  for (const [name, value] of Object.entries(flags.set ?? {})) {
    const setting = settings.find((s) => s.name === name)
    const at = flags.shown?.[name] ?? '--set'
    if (setting) place(setting, typeof value === 'string' ? fromText(setting, value, problems, at) : value, 'flag', at)
    else
      problems.push({
        path: [],
        where: `--set ${name}`,
        message: `no such setting${meant(
          name,
          settings.map((s) => s.name),
        )}`,
      })
  }

  const spot = (path: Path) => placeOf(path, origin, where, file.at)
  problems.push(...resolveSecrets(tree, env))
  const parsed = configSchema.safeParse(tree, { reportInput: true })
  if (!parsed.success) problems.push(...parsed.error.issues.flatMap(sentences))
  if (!parsed.success || problems.length > 0)
    throw new ConfigError(problems.map((p) => ({ ...p, where: p.where ?? spot(p.path) })))

  const config = parsed.data
  const absolute = (name: string, path: string): string =>
    resolve(origin.get(name) === 'file' && file.path !== undefined ? dirname(file.path) : cwd, path)
  config.data = absolute('data', config.data)
  if (config.tls.cert !== undefined) config.tls.cert = absolute('tls.cert', config.tls.cert)
  if (config.tls.key !== undefined) config.tls.key = absolute('tls.key', config.tls.key)
  if (origin.get('models') === 'default') config.models = modelsFor(config.engines) ?? config.models
  // The simulated engine is always there, so that a model can name it without ceremony.
  config.engines = { simulated: { type: 'simulated' }, ...config.engines }
  const wrong = contradictions(config).map((p) => ({ ...p, where: p.where ?? spot(p.path) }))
  if (wrong.length > 0) throw new ConfigError(wrong)
  return {
    config: freeze(config),
    origin,
    where,
    file: file.path,
    warnings: strangers(env),
    locate: (error) => new ConfigError(error.problems.map((p) => ({ ...p, where: p.where ?? spot(p.path) }))),
  }
}

// ── environment and flags ────────────────────────────────────────────────────────────────────────────────────────────
/** A cluster sets `CONTINUO_PORT=tcp://…` for a service of that name; that is none of ours. */
const given = (value: string | undefined) => value !== undefined && value !== '' && !value.startsWith('tcp://')

/** The value that a text means: as it is where the setting takes text, else as YAML; a list may be written `a, b`. */
function fromText(setting: Setting, text: string, problems: Problem[], at: string): unknown {
  if (setting.schema.safeParse(text).success) return text
  try {
    const value: unknown = parseYaml(text, { maxAliasCount: 0 })
    if (typeof value !== 'string' || !Array.isArray(setting.byDefault)) return value
    return value.split(',').map((part) => part.trim())
  } catch {
    problems.push({
      path: setting.path,
      where: at,
      message: 'the text is no valid YAML; write `{name: value}` or `[a, b]`',
    })
    return undefined
  }
}

/** Variables with our prefix that nobody reads. A warning and no error: an environment is shared with other programs. */
function strangers(env: Env): string[] {
  const known = settings.map((s) => s.env)
  return Object.keys(env)
    .filter((n) => n.startsWith('CONTINUO_') && !known.includes(n) && !otherEnv.has(n))
    .filter((n) => !n.startsWith('CONTINUO_SERVICE_') && !n.startsWith('CONTINUO_PORT_'))
    .filter((n) => nearest(n, known) !== undefined)
    .map((n) => `${n} is no setting and was ignored${meant(n, known)}`)
}

/** `secretEnv: NAME` in a key becomes `secret`, so that no secret needs to stand in the file. */
function resolveSecrets(tree: Tree, env: Env): Problem[] {
  if (!Array.isArray(tree['keys'])) return []
  const problems: Problem[] = []
  tree['keys'] = tree['keys'].map((key: unknown, n) => {
    if (!isTree(key) || !('secretEnv' in key)) return key
    const { secretEnv, ...rest } = key
    const path = ['keys', n, 'secretEnv']
    if (typeof secretEnv !== 'string') problems.push({ path, message: 'must be the name of an environment variable' })
    else if (!env[secretEnv])
      problems.push({ path, message: `the environment variable ${secretEnv} is not set; set it to the key's secret` })
    else if ('secret' in rest || 'secretSha256' in rest)
      problems.push({ path, message: 'give one of secret, secretSha256 and secretEnv, not two' })
    else return { ...rest, secret: env[secretEnv] }
    // A stand-in, so that the same mistake is not reported a second time by the schema.
    return { id: rest['id'], tenant: rest['tenant'], secret: 'not-resolved' }
  })
  return problems
}

// ── what cannot be together ──────────────────────────────────────────────────────────────────────────────────────────
/** Whoever lists an engine and no models means: use it for everything. */
function modelsFor(engines: Config['engines']): Config['models'] | undefined {
  const first = Object.keys(engines).find((name) => name !== 'simulated')
  return first === undefined ? undefined : { '*': { engine: first } }
}

export const isLoopback = (host: string): boolean => /^(localhost|127(\.\d{1,3}){3}|\[?::1\]?)$/i.test(host)

function contradictions(config: Config): Problem[] {
  const problems: Problem[] = []
  if (!isLoopback(config.host) && config.keys.length === 0)
    problems.push({
      path: ['host'],
      message: `"${config.host}" can be reached from other machines, and no keys are configured, so anybody could use the server; add a key under \`keys\`, or set host to 127.0.0.1`,
    })
  const { cert, key } = config.tls
  if ((cert === undefined) !== (key === undefined))
    problems.push({
      path: ['tls', cert === undefined ? 'key' : 'cert'],
      message: `is given without \`tls.${cert === undefined ? 'cert' : 'key'}\`; HTTPS needs both, plain HTTP neither`,
    })
  const engines = Object.keys(config.engines)
  for (const [name, model] of Object.entries(config.models)) {
    if (name !== '*' && name.includes('*'))
      problems.push({
        path: ['models', name],
        message: 'names of models are exact; only "*" alone stands for others, and takes every name that is not listed',
      })
    if (!Object.hasOwn(config.engines, model.engine))
      problems.push({
        path: ['models', name, 'engine'],
        message: `no engine named "${model.engine}" is listed under \`engines\`${meant(model.engine, engines)}; there are: ${engines.join(', ')}`,
      })
  }
  if (Object.keys(config.models).length === 0)
    problems.push({
      path: ['models'],
      message: 'no model is configured; write `"*": {engine: NAME}` to map every name',
    })
  const owners = new Set<string>()
  const secrets = new Map<string, string>()
  for (const [n, key] of config.keys.entries()) {
    const owner = `${key.tenant}/${key.id}`
    if (owners.has(owner))
      problems.push({
        path: ['keys', n, 'id'],
        message: `the tenant "${key.tenant}" has two keys with the id "${key.id}"; rename one`,
      })
    const twin = secrets.get(key.secretSha256)
    if (twin !== undefined)
      problems.push({ path: ['keys', n], message: `the keys ${twin} and ${owner} have the same secret; change one` })
    owners.add(owner)
    secrets.set(key.secretSha256, owner)
  }
  const { maxMessageBytes, maxHeldBytes } = config.limits.websocket
  if (maxHeldBytes < maxMessageBytes)
    problems.push({
      path: ['limits', 'websocket', 'maxHeldBytes'],
      message: `${maxHeldBytes} is less than maxMessageBytes (${maxMessageBytes}), so the largest message could never be received; raise it or lower the other`,
    })
  return problems
}

// ── sentences ────────────────────────────────────────────────────────────────────────────────────────────────────────
function sentences(issue: z.core.$ZodIssue): Problem[] {
  const path = issue.path.map((p) => (typeof p === 'symbol' ? String(p) : p))
  if (issue.code !== 'unrecognized_keys') {
    const shown = path[0] === 'keys' ? '' : found(issue.input)
    return [{ path, message: issue.message + shown }]
  }
  const known = knownKeys(path)
  return issue.keys.map((key) => ({
    path: [...path, key],
    message: `no such setting${meant(key, known)}; known here: ${known.join(', ')}`,
  }))
}
const found = (input: unknown) =>
  typeof input === 'string' || typeof input === 'number' || typeof input === 'boolean'
    ? `, not ${JSON.stringify(input)}`
    : ''

function knownKeys(path: Path): string[] {
  if (path[0] === 'keys') return [...Object.keys(keyConfig.in.shape), 'secretEnv']
  if (path[0] === 'models') return Object.keys(modelOptions.shape)
  if (path[0] === 'engines') return Object.keys(engineOptions.shape)
  const inside = settings.filter((s) => path.every((p, n) => s.path[n] === p))
  return [...new Set(inside.flatMap((s) => s.path[path.length] ?? []))]
}

/** The place that gave a path its value: the file's line inside it, or the variable or flag that set all of it. */
function placeOf(
  path: Path,
  origin: ReadonlyMap<string, Origin>,
  where: ReadonlyMap<string, string>,
  at: ConfigFile['at'],
): string | undefined {
  const setting = settings.find((s) => s.path.every((p, n) => path[n] === p))
  const by = setting && origin.get(setting.name)
  if (setting && (by === 'env' || by === 'flag')) return where.get(setting.name)
  return at(path)
}

// ── trees ────────────────────────────────────────────────────────────────────────────────────────────────────────────
function freeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const part of Object.values(value)) freeze(part)
  }
  return value
}
