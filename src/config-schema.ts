// The one schema of everything that can be configured, with every default. Where values come from is config.ts's affair;
// the options of an engine are checked by the engine's own file (registry.ts), so here they are loose records.
import { z } from 'zod'
import { keyConfig } from './access/keys.ts'
import type { Limits } from './session/limits.ts'

const KiB = 1024
const MiB = 1024 * KiB
const second = 1000
const minute = 60 * second
/** The longest a Node timer can wait; anything above it fires at once. */
const longest = 2 ** 31 - 1
/** A JavaScript string cannot be longer, and a message becomes one. */
const longestText = 512 * MiB - 64

const scales = {
  bytes: { b: 1, kb: 1e3, mb: 1e6, gb: 1e9, kib: KiB, mib: MiB, gib: 1024 * MiB },
  ms: { ms: 1, s: second, sec: second, m: minute, min: minute, h: 60 * minute, d: 1440 * minute },
} as const

/** `64 MiB` or `30 min` as a number; what is no such text stays as it is, for the schema to refuse. */
function measure(units: Readonly<Record<string, number>>): (value: unknown) => unknown {
  return (value) => {
    const [, digits, unit] = typeof value === 'string' ? (/^(\d+(?:\.\d+)?)\s*([a-z]*)$/i.exec(value.trim()) ?? []) : []
    if (digits === undefined || unit === undefined) return value
    const scale = unit === '' ? 1 : units[unit.toLowerCase()]
    return scale === undefined ? value : Math.round(Number(digits) * scale)
  }
}
const count = (min: number, max = 1_000_000_000) => {
  const error = `must be a whole number from ${min} to ${max}`
  return z.int({ error }).min(min, { error }).max(max, { error })
}
const size = (min: number, max = Number.MAX_SAFE_INTEGER) => {
  const error = `must be a size in bytes from ${min} to ${max}, or text such as "64 MiB"`
  return z.preprocess(measure(scales.bytes), z.int({ error }).min(min, { error }).max(max, { error }))
}
const duration = (min: number) => {
  const error = `must be a time in milliseconds from ${min} to ${longest} (24 days), or text such as "30 s" or "10 min"`
  return z.preprocess(measure(scales.ms), z.int({ error }).min(min, { error }).max(longest, { error }))
}
const oneOf = <const T extends readonly string[]>(...names: T) =>
  z.enum(names, { error: `must be one of: ${names.join(', ')}` })
const flag = () => z.boolean({ error: 'must be true or false' })
const text = (what: string) => z.string({ error: `must be ${what}` }).min(1, { error: `must be ${what}` })

/** Names of engines stand in log lines and metrics. */
const engineName = z
  .string()
  .regex(/^[A-Za-z0-9_.-]{1,64}$/, { error: 'an engine is named with at most 64 letters, digits, "_", "." and "-"' })
const modelName = z
  .string()
  .min(1, { error: 'a model needs a name' })
  .max(256, { error: 'a model name has at most 256 characters' })

export const modelOptions = z.strictObject({
  engine: text('the name of an engine listed under `engines`'),
  context: count(1, 100_000_000).optional(),
  codec: text('the name of a codec, or `auto`').optional(),
  tokenizer: text('the path of a tokenizer.json or of a folder, or a name on the hub').optional(),
  template: text('the path of a Jinja file').optional(),
  retention: oneOf('auto', 'all', 'tool_cycle').optional(),
  encoder: oneOf('auto', 'huggingface').optional(),
})
export const engineOptions = z.looseObject(
  { type: text('a type of engine, such as `vllm` or `chat`') },
  { error: 'must be a map with at least `type`' },
)

/** `fleet` of an engine with `urls`. */
export const fleetOptions = z.strictObject({
  concurrency: count(1, 100_000).default(64),
  queue: count(0, 1_000_000).default(256),
  attempts: count(1, 256).default(3),
  failures: count(1, 1000).default(2),
  backoffMs: duration(1).default(second),
  maxBackoffMs: duration(1).default(30 * second),
})

const websocket = z.strictObject({
  enabled: flag().default(true),
  ramp: z
    .number({ error: 'must be a share from 0 to 1' })
    .min(0, { error: 'must be a share from 0 to 1' })
    .max(1, { error: 'must be a share from 0 to 1' })
    .default(1),
  compression: oneOf('off', 'tight').default('off'),
  closeAfterFailure: oneOf('auto', 'never', 'always').default('auto'),
  maxMessageBytes: size(KiB, longestText).default(64 * MiB),
  maxHeldBytes: size(KiB).default(512 * MiB),
  maxSockets: count(1).default(10_000),
  inFlight: count(1, 10_000).default(16),
  namedLanes: count(0, 100_000).default(32),
  queued: count(0, 100_000).default(64),
  continuable: count(1, 100_000).default(64),
  continuableBytes: size(0).default(128 * MiB),
  pendingSteers: count(0, 10_000).default(16),
  pingMs: duration(100).default(25 * second),
  pongMs: duration(100).default(30 * second),
  maxAgeMs: duration(0).default(0),
})

const http = z.strictObject({
  maxBodyBytes: size(KiB, longestText).default(64 * MiB),
  origins: z
    .array(
      z
        .string()
        .regex(/^(null|[a-z][a-z0-9+.-]*:\/\/[^/\s]+)$/, { error: 'must look like https://host:port, without a path' }),
      {
        error: 'must be a list of origins such as https://host:port',
      },
    )
    .max(1000, { error: 'has at most 1000 entries' })
    .default([]),
  headersMs: duration(100).default(10 * second),
})

const events = z.strictObject({
  keepMs: duration(0).default(10 * minute),
  keepBytes: size(0).default(64 * MiB),
  perResponse: size(64 * KiB).default(8 * MiB),
})

const prefixes = z.strictObject({
  keepBytes: size(0).default(256 * MiB),
  keepMs: duration(1000).default(60 * minute),
})

const limits = z.strictObject({
  websocket: websocket.prefault({}),
  http: http.prefault({}),
  keepaliveMs: duration(100).default(20 * second),
  detachGraceMs: duration(0).default(0),
  slowReaderBytes: size(KiB).default(MiB),
  slowReaderMs: duration(100).default(10 * second),
  turnMs: duration(100).default(30 * minute),
  conversationBytes: size(KiB).default(256 * MiB),
  outputBytes: size(KiB, longestText).default(16 * MiB),
  drainMs: duration(0).default(600 * second),
  events: events.prefault({}),
  prefixes: prefixes.prefault({}),
  unsettled: count(1, 10_000_000).default(10_000),
})

export const configSchema = z.strictObject({
  host: text('a host name or an IP address').default('127.0.0.1'),
  port: count(0, 65_535).default(8787),
  data: text('the path of a folder').default('data'),
  tls: z
    .strictObject({
      cert: text('the path of a PEM file').optional(),
      key: text('the path of a PEM file').optional(),
    })
    .prefault({}),
  keys: z.array(keyConfig, { error: 'must be a list of keys' }).max(100_000).default([]),
  models: z
    .record(modelName, modelOptions, { error: 'must be a map from model names to `{ engine: NAME }`' })
    .default({ '*': { engine: 'simulated' }, simulated: { engine: 'simulated' } }),
  engines: z
    .record(engineName, engineOptions, { error: 'must be a map from engine names to their options' })
    .default({ simulated: { type: 'simulated' } }),
  store: z
    .strictObject({
      kind: oneOf('sqlite', 'memory').default('sqlite'),
      maxAgeDays: count(0, 36_500).default(30),
      maxBytes: size(MiB).default(32 * 1024 * MiB),
      synchronous: oneOf('normal', 'full').default('normal'),
      maxRecords: count(1, 100_000_000).default(10_000),
    })
    .prefault({}),
  caches: flag().default(true),
  tokens: z
    .strictObject({
      shadow: z
        .number({ error: 'must be a share from 0 to 1' })
        .min(0, { error: 'must be a share from 0 to 1' })
        .max(1, { error: 'must be a share from 0 to 1' })
        .default(0.01),
    })
    .prefault({}),
  limits: limits.prefault({}),
  /** An experiment: see src/session/rollout.ts. */
  rollouts: z
    .strictObject({
      enabled: flag().default(false),
      waitMs: duration(1).default(10 * minute),
      rounds: count(1, 1_000_000).default(1000),
    })
    .prefault({}),
  log: z
    .strictObject({
      level: oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent').default('info'),
      pretty: z.union([z.boolean(), z.literal('auto')], { error: 'must be true, false or auto' }).default('auto'),
    })
    .prefault({}),
})

type Parsed = z.output<typeof configSchema>
/** Everything the server was told, whole and frozen. Times in milliseconds, sizes in bytes; `data` and the paths in `tls` are absolute. */
export type Config = Readonly<Omit<Parsed, 'limits'>> & { readonly limits: Limits }
export type EngineOptions = Config['engines'][string]
export type ModelOptions = Config['models'][string]

/** One value that can be set: by its path in the file, by an environment variable, by `--set`. */
export type Setting = {
  readonly path: readonly string[]
  /** The path with dots. */
  readonly name: string
  readonly env: string
  readonly schema: z.ZodType
  /** As the schema gives it when nothing is said. */
  readonly byDefault: unknown
}

const snake = (name: string) => name.replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2').toUpperCase()

/** Every setting of the schema, in its order. Lists and maps (`keys`, `models`, `engines`, origins) are one setting each. */
export const settings: readonly Setting[] = walk(configSchema, [])

function walk(schema: z.ZodType, path: readonly string[]): Setting[] {
  const inner = schema instanceof z.ZodPrefault ? schema.def.innerType : schema
  if (inner instanceof z.ZodObject) {
    // The shape of an object schema holds full schemas; its declared type is that of zod's inner interface.
    const shape = inner.shape as Record<string, z.ZodType>
    return Object.entries(shape).flatMap(([key, part]) => walk(part, [...path, key]))
  }
  const env = ['CONTINUO', ...path.map(snake)].join('_')
  return [{ path, name: path.join('.'), env, schema, byDefault: schema.parse(undefined) }]
}
