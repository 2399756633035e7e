// Which plug-ins there are, and how configuration becomes them. The only place that loads one, and only when it is asked
// for. A new engine is one file and one line in `engineTypes`.
import { join } from 'node:path'
import { z } from 'zod'
import { fleetOptions } from './config-schema.ts'
import {
  ConfigError,
  meant,
  type Config,
  type EngineOptions,
  type ModelOptions,
  type Path,
  type Problem,
} from './config.ts'
import { ApiError } from './protocol/errors.ts'
import { codecAlone, createCodec, type Told } from './registry-codecs.ts'
import type { Codec, Engine, Model, Store } from './turn/ports.ts'

/** What an engine's file offers: the schema of its options, and the engine made from options that fit it. */
type Plugin = { readonly schema: z.ZodType; make(id: string, options: unknown, told: Told): Engine | Promise<Engine> }
function plugin<S extends z.ZodType>(
  schema: S,
  make: (options: z.input<S>, id: string, told: Told) => Engine | Promise<Engine>,
): Plugin {
  // Only what `schema` has accepted gets here.
  return { schema, make: (id, options, told) => make(options as z.input<S>, id, told) }
}
const untold: Told = { note: () => {} }

const engineTypes: Readonly<Record<string, () => Promise<Plugin>>> = {
  simulated: () => import('./engines/simulated.ts').then((m) => plugin(m.simulatedOptions, m.simulated)),
  vllm: () => import('./engines/vllm.ts').then((m) => plugin(m.vllmOptions, m.vllm)),
  sglang: () => import('./engines/sglang.ts').then((m) => plugin(m.sglangOptions, m.sglang)),
  'llama-server': () => import('./engines/llama-server.ts').then((m) => plugin(m.llamaServerOptions, m.llamaServer)),
  'llama-embedded': () =>
    import('./engines/llama-embedded.ts').then((m) =>
      plugin(m.llamaEmbeddedOptions, (options, id, { onProgress }) =>
        m.llamaEmbedded(options, id, (bytes, total) => onProgress?.(options.model, bytes, total)),
      ),
    ),
  ollama: () => import('./engines/ollama.ts').then((m) => plugin(m.ollamaOptions, m.ollama)),
  chat: () =>
    import('./engines/chat.ts').then((m) => plugin(m.chatOptions, (options, id) => m.chat({ name: id, ...options }))),
}

/**
 * The engine of these options; with `urls`, one per URL behind one front. Throws ConfigError, with paths from `engines` on,
 * for a type that does not exist or options that it does not take.
 */
export async function createEngine(
  name: string,
  options: EngineOptions,
  env: NodeJS.ProcessEnv = process.env,
  told = untold,
): Promise<Engine> {
  const at: Path = ['engines', name]
  const load = Object.hasOwn(engineTypes, options.type) ? engineTypes[options.type] : undefined
  if (!load) {
    const known = Object.keys(engineTypes)
    throw new ConfigError([
      {
        path: [...at, 'type'],
        message: `no such type of engine${meant(options.type, known)}; there are: ${known.join(', ')}`,
      },
    ])
  }
  const { type: _, urls, fleet: spread, apiKeyEnv, ...rest } = options
  const own = { ...rest, ...secretOf(apiKeyEnv, at, env) }
  const { schema, make } = await load()
  if (urls === undefined && spread === undefined) {
    parse(schema, own, at)
    return await made(() => make(name, own, told), at)
  }

  const { fleet } = await import('./engines/fleet.ts')
  const rules = parse(fleetOptions, spread ?? {}, [...at, 'fleet'])
  // All are checked before one is made, since each holds connections.
  const each = addressesOf(urls, rest, at).map((url) => ({ ...own, url }))
  for (const [n, o] of each.entries()) parse(schema, o, [...at, 'urls', n])
  const replicas = await Promise.all(
    each.map((o, n) => made(() => make(`${name}-${n + 1}`, o, told), [...at, 'urls', n])),
  )
  return fleet({ id: name, replicas, ...rules })
}

/** An engine that cannot be made of options that look right: a file that is not there, for instance. */
async function made(make: () => Engine | Promise<Engine>, path: Path): Promise<Engine> {
  try {
    return await make()
  } catch (e) {
    throw new ConfigError([{ path, message: e instanceof Error ? e.message : String(e) }])
  }
}

function addressesOf(urls: unknown, rest: Readonly<Record<string, unknown>>, at: Path): string[] {
  const refuse = (message: string): never => {
    throw new ConfigError([{ path: [...at, 'urls'], message }])
  }
  if (!Array.isArray(urls) || urls.length === 0) return refuse('must be a list of URLs, one for each replica')
  if (urls.length > 256) return refuse('has at most 256 replicas')
  if ('url' in rest) return refuse('give either `url` or `urls`, not both')
  if (new Set(urls).size < urls.length) return refuse('names a replica twice')
  return urls.map(String)
}

function secretOf(named: unknown, at: Path, env: NodeJS.ProcessEnv): { apiKey?: string } {
  if (named === undefined) return {}
  const secret = typeof named === 'string' ? env[named] : undefined
  if (secret) return { apiKey: secret }
  const message =
    typeof named === 'string'
      ? `the environment variable ${named} is not set; set it to the engine's key`
      : 'must be the name of an environment variable'
  throw new ConfigError([{ path: [...at, 'apiKeyEnv'], message }])
}

/** Throws ConfigError. Values are not shown: some are keys. */
function parse<S extends z.ZodType>(schema: S, value: unknown, at: Path): z.output<S> {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  throw new ConfigError(result.error.issues.flatMap((issue) => sentences(issue, schema, at)))
}
function sentences(issue: z.core.$ZodIssue, schema: z.ZodType, at: Path): Problem[] {
  const path = [...at, ...issue.path.map((p) => (typeof p === 'symbol' ? String(p) : p))]
  if (issue.code !== 'unrecognized_keys') return [{ path, message: issue.message }]
  const known = issue.path.length === 0 && schema instanceof z.ZodObject ? Object.keys(schema.shape) : []
  const list = known.length > 0 ? `; it has: ${known.join(', ')}` : ''
  return issue.keys.map((key) => ({
    path: [...path, key],
    message: `this type of engine has no such option${meant(key, known)}${list}`,
  }))
}

// ── models ───────────────────────────────────────────────────────────────────────────────────────────────────────────
export interface Models {
  /** The model of this name, else that of `"*"`. Throws `model_not_found`. */
  resolve(name: string): Model
  /** The configured names, without `"*"`. */
  list(): readonly string[]
  /** By their names in the configuration; those that a model uses. */
  readonly engines: ReadonlyMap<string, Engine>
  /** Closes every engine. */
  close(): Promise<void>
}

/** Makes every engine that a model uses. Throws ConfigError; what was made until then is closed. */
export async function createModels(config: Config, told = untold): Promise<Models> {
  const engines = new Map<string, Engine>()
  const close = async () => void (await Promise.allSettled([...engines.values()].map((e) => e.close())))
  const models = new Map<string, () => Model>()
  const sharing: Told = { ...told, tokenizers: new Map() }
  try {
    for (const [name, options] of Object.entries(config.models)) {
      const { engine, context } = options
      const made =
        engines.get(engine) ??
        (await createEngine(engine, config.engines[engine] ?? { type: engine }, process.env, told))
      engines.set(engine, made)
      const model = { name, engine: config.caches ? made : forgetful(made), context }
      if (made.takes === 'items') {
        models.set(name, () => model)
        continue
      }
      const { codec, make, context: room } = await createCodec(name, options, made, sharing)
      const whole = { ...model, codec, context: room }
      let asked = 0
      models.set(name, config.caches ? () => whole : () => ({ ...whole, codec: make(`#${++asked}`) }))
    }
  } catch (e) {
    await close()
    throw e
  }
  const any = models.get('*')
  const names = [...models.keys()].filter((name) => name !== '*')
  return {
    engines,
    close,
    list: () => names,
    resolve(name) {
      const named = name === '*' ? undefined : models.get(name)
      if (named) return named()
      if (any) return { ...any(), name }
      throw noModel(name)
    },
  }
}
/** An engine that is told nothing of what it gave back before: a fleet chooses a replica anew. Its own cache is its affair. */
const forgetful = (engine: Engine): Engine => ({
  id: engine.id,
  takes: engine.takes,
  admit: (settings, chain, constraint) => engine.admit(settings, chain, constraint),
  generate: (call) => engine.generate({ ...call, warm: undefined }),
  probe: (signal) => engine.probe(signal),
  close: () => engine.close(),
})
const noModel = (name: string): ApiError =>
  new ApiError(
    'model_not_found',
    `No model named '${name.slice(0, 256)}' is configured; GET /v1/models lists those there are.`,
    'model',
  )

/** How prompts of a model are written. `codec` is undefined where its engine is given items and writes them itself. */
export type Writer = { readonly engine: string | undefined; readonly codec: Codec | undefined }
/** What a look at prompts may choose in place of the configuration. */
export type WriterOptions = Omit<ModelOptions, 'engine' | 'context'>

/**
 * How prompts of this model are written, for whoever only looks at them: of the configuration one engine is made at most,
 * and it is asked only where `codec` and `tokenizer` are not both known. With one of the two in `chosen` there is a codec
 * whatever the engine takes. Throws ConfigError, `model_not_found`.
 */
export async function createWriter(
  config: Config,
  name: string,
  chosen: WriterOptions,
  told = untold,
): Promise<Writer> {
  const named = name === '*' || !Object.hasOwn(config.models, name) ? config.models['*'] : config.models[name]
  const options = { ...named, ...chosen }
  const known = options.tokenizer !== undefined && (options.codec ?? 'auto') !== 'auto'
  const wanted = chosen.codec !== undefined || chosen.tokenizer !== undefined
  if (wanted && (known || named === undefined))
    return { engine: named?.engine, codec: await codecAlone(name, options, told) }
  if (!named) throw noModel(name)
  const engine = await createEngine(
    named.engine,
    config.engines[named.engine] ?? { type: named.engine },
    process.env,
    told,
  )
  try {
    if (engine.takes === 'items')
      return { engine: engine.id, codec: wanted ? await codecAlone(name, options, told) : undefined }
    if (known) return { engine: engine.id, codec: await codecAlone(name, options, told) }
    const { codec } = await createCodec(name, { ...options, engine: named.engine }, engine, told)
    return { engine: engine.id, codec }
  } finally {
    await engine.close()
  }
}

// ── store ────────────────────────────────────────────────────────────────────────────────────────────────────────────
/** The file of the SQLite store, in the data folder. */
export const storeFile = 'continuo.db'

/** Opens the configured store. `report` hears of what fails later, in the background. */
export async function createStore(
  { store, data }: Config,
  report?: (error: unknown, what: string) => void,
): Promise<Store> {
  if (store.kind === 'memory') {
    const { memoryStore } = await import('./stores/memory.ts')
    return memoryStore({ maxRecords: store.maxRecords })
  }
  const { sqliteStore } = await import('./stores/sql.ts')
  const { maxAgeDays, maxBytes, synchronous } = store
  return await sqliteStore({
    path: join(data, storeFile),
    maxAgeDays,
    maxBytes,
    synchronous,
    ...(report && { report }),
  })
}

/** The configured store for reading alone: nothing is made, changed or deleted. Throws with a sentence that says what to do. */
export async function openStore({ store, data }: Config): Promise<Store> {
  if (store.kind === 'memory')
    throw new Error(
      'The store is of kind `memory`: what it holds can be read in the process of the server only. Give the requests themselves, or set store.kind to sqlite.',
    )
  const { sqliteReader } = await import('./stores/sql.ts')
  return await sqliteReader(join(data, storeFile))
}
