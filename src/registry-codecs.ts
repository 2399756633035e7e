// How a model of an engine that takes tokens gets its codec: tokenizer and template from the configuration or from the
// engine, the family by name or by its template, and a self-test against the engine. Done once, at start. Whatever does not
// fit is a ConfigError that says what to do.
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type * as Differ from './codecs/differ.ts'
import type { Family } from './codecs/family.ts'
import type { JinjaCodec } from './codecs/jinja.ts'
import type { Dialect, DialectName } from './codecs/jinja-dialect.ts'
import { ConfigError, meant, type ModelOptions, type Path } from './config.ts'
import type { Loaded } from './tokenizers/load.ts'
import type { Codec, Description, Engine, Tokenizer } from './turn/ports.ts'

/** One line for each format that is written by hand. */
const families: Readonly<Record<string, () => Promise<Family>>> = {
  'qwen2.5': () => import('./codecs/hermes.ts').then((m) => m.qwen25),
  qwen3: () => import('./codecs/hermes.ts').then((m) => m.qwen3),
  'qwen3-instruct': () => import('./codecs/hermes.ts').then((m) => m.qwen3Instruct),
  'hermes-3': () => import('./codecs/hermes.ts').then((m) => m.hermes3),
  'qwen3-coder': () => import('./codecs/qwen-xml.ts').then((m) => m.qwen3Coder),
  'qwen3.5': () => import('./codecs/qwen-xml.ts').then((m) => m.qwen35),
  'gpt-oss': () => import('./codecs/harmony.ts').then((m) => m.gptOss),
  llama3: () => import('./codecs/llama3.ts').then((m) => m.llama3),
  'mistral-nemo': () => import('./codecs/mistral.ts').then((m) => m.mistralNemo),
  'mistral-small-3.2': () => import('./codecs/mistral.ts').then((m) => m.mistralSmall),
  'ministral-3': () => import('./codecs/mistral.ts').then((m) => m.ministral),
  devstral: () => import('./codecs/mistral.ts').then((m) => m.devstral),
  'deepseek-v3': () => import('./codecs/deepseek.ts').then((m) => m.deepseekV3),
  'deepseek-v3.1': () => import('./codecs/deepseek.ts').then((m) => m.deepseekV31),
  'deepseek-v3.2': () => import('./codecs/deepseek-dsml.ts').then((m) => m.deepseekV32),
  'glm-4.6': () => import('./codecs/glm.ts').then((m) => m.glm46),
  'glm-4.7-flash': () => import('./codecs/glm.ts').then((m) => m.glm47),
  'kimi-k2': () => import('./codecs/kimi.ts').then((m) => m.kimiK2),
  'kimi-k2-instruct': () => import('./codecs/kimi.ts').then((m) => m.kimiK2Instruct),
  'kimi-k2-thinking': () => import('./codecs/kimi.ts').then((m) => m.kimiK2Thinking),
}
const familyNames = Object.keys(families)
export const codecNames: readonly string[] = [...familyNames, 'jinja']

/** What is said while models are made ready. */
export type Told = {
  readonly note: (what: string, fields: Readonly<Record<string, string | number | boolean>>) => void
  /** Bytes of a file that comes from a hub; `total` where it is known. */
  readonly onProgress?: ((file: string, bytes: number, total: number | undefined) => void) | undefined
  /** By encoder and by where they come from: models of one vocabulary share it. */
  readonly tokenizers?: Map<string, Promise<Loaded>>
}
/** Makes the codec; `apart` sets it apart from all others (CodecOptions). */
type MakeCodec = (apart?: string) => Codec
type Made = { readonly codec: Codec; readonly make: MakeCodec; readonly context: number | undefined }
/** Longest that an engine is waited for at start. */
const askMs = 10_000

/** Throws ConfigError that says what to configure, or what of the engine does not fit. */
export async function createCodec(name: string, options: ModelOptions, engine: Engine, told: Told): Promise<Made> {
  const at: Path = ['models', name]
  const engineTold = await describe(engine, options, at)
  const make = await codecMaker(name, options, told, engineTold)
  const codec = make()
  const differs = await selfTested(codec.tokenizer, engine, engineTold, told, name)
  if (differs !== undefined)
    throw wrong(
      [...at, 'tokenizer'],
      `the engine '${engine.id}' makes other ids of the same text: ${differs}; give the tokenizer of the model that it serves, or use an engine of type chat`,
    )
  const context = options.context ?? engineTold.context
  told.note('model is ready', { model: name, engine: engine.id, codec: codec.id, vocabulary: codec.tokenizer.size })
  return { codec, make, context }
}

/** The codec without its engine, which it is then not compared with. Throws as createCodec does. */
export async function codecAlone(name: string, options: Omit<ModelOptions, 'engine'>, told: Told): Promise<Codec> {
  return (await codecMaker(name, options, told, {}))()
}

/** Loads what the codec is made of, and has made it once, so that nothing is wrong with it. */
async function codecMaker(
  name: string,
  options: Omit<ModelOptions, 'engine'>,
  told: Told,
  engine: Description,
): Promise<MakeCodec> {
  const at: Path = ['models', name]
  const text = await tokenizerOf(options, engine, at, told)
  const { codec = 'auto' } = options
  const found = codec === 'auto' ? await sure(() => detect(text.template, name, told), [...at, 'template']) : codec
  return await makerOf(found, text, options, at)
}

/** How two prompts differ, in words, for whoever explains it. */
export const differ = async (): Promise<typeof Differ> => await import('./codecs/differ.ts')

async function describe(engine: Engine, options: ModelOptions, at: Path): Promise<Description> {
  try {
    return (await engine.describe?.(AbortSignal.timeout(askMs))) ?? {}
  } catch (e) {
    // With both given, the engine may come later.
    if (options.tokenizer !== undefined && (options.codec ?? 'auto') !== 'auto') return {}
    throw wrong(
      at,
      `the engine '${engine.id}' could not be asked about its model: ${sentence(e)} Correct it under \`engines\`, or start it first; with both \`tokenizer\` and \`codec\` given here it may come later`,
    )
  }
}

type Text = {
  readonly tokenizer: Tokenizer | undefined
  readonly template: string | undefined
  readonly config: Readonly<Record<string, unknown>> | undefined
}
/** No tokenizer for an engine that is sent text: its codec says which control tokens there are. */
async function tokenizerOf(
  options: Omit<ModelOptions, 'engine'>,
  engine: Description,
  at: Path,
  { onProgress, tokenizers }: Told,
): Promise<Text> {
  const file = options.template === undefined ? undefined : await read(options.template, [...at, 'template'])
  if (engine.text) return { tokenizer: undefined, template: file ?? engine.template, config: undefined }
  const source = options.tokenizer ?? engine.tokenizer ?? engine.source
  if (source === undefined)
    throw wrong([...at, 'tokenizer'], `the engine does not tell its tokenizer; give ${tokenizerForms}`)
  const { loadTokenizer } = await import('./tokenizers/load.ts')
  try {
    const { encoder = 'auto' } = options
    const load = (): Promise<Loaded> =>
      loadTokenizer(source, {
        encoder,
        // Files of all models are called alike.
        onProgress: (file, bytes, total) => onProgress?.(`${String(source)}/${file}`, bytes, total),
      })
    const key = typeof source === 'string' ? `${encoder} ${source}` : undefined
    const known = key === undefined ? undefined : tokenizers?.get(key)
    const loading = known ?? load()
    if (key !== undefined) tokenizers?.set(key, loading)
    const { tokenizer, template, config } = await loading
    return { tokenizer, template: file ?? engine.template ?? template, config }
  } catch (e) {
    throw wrong([...at, 'tokenizer'], await untold(source, options.tokenizer === undefined, sentence(e)))
  }
}
const tokenizerForms =
  "the path of a tokenizer.json, the path of the model's folder, or its name on the hub (org/model)"

/** Why there is no tokenizer, and what to do. `told`: the engine named it, whose paths are those of its own machine. */
async function untold(source: unknown, told: boolean, why: string): Promise<string> {
  const { hubName } = await import('./tokenizers/hub.ts')
  if (typeof source !== 'string') return `the engine's own tokenizer cannot be used: ${why} Give ${tokenizerForms}`
  if (existsSync(source)) return `${why} Give ${tokenizerForms}`
  const where = told
    ? `the engine says that its model is '${source}', which is not on this machine`
    : `there is no file or folder '${source}' in ${process.cwd()}`
  return hubName(source)
    ? `${where}, and the hub gave none: ${why} Give ${tokenizerForms}; HF_ENDPOINT names another hub`
    : `${where}; give ${tokenizerForms}`
}

/** The family whose template this is; `jinja` where it is none of ours, or only looks like one. */
async function detect(template: string | undefined, model: string, { note }: Told): Promise<string> {
  if (template === undefined) return 'none'
  const { familyOf } = await import('./codecs/detect.ts')
  const proposed = familyOf(template)
  const load = proposed === undefined ? undefined : families[proposed]
  if (proposed === undefined || !load) return 'jinja'
  const { mismatch } = await import('./codecs/match.ts')
  const differs = mismatch(template, await load())
  if (differs === undefined) return proposed
  note('the template looks like a known format and is another; it is used as it is', {
    model,
    family: proposed,
    why: differs,
  })
  return 'jinja'
}

async function makerOf(
  name: string,
  { tokenizer, template, config }: Text,
  options: Omit<ModelOptions, 'engine'>,
  at: Path,
): Promise<MakeCodec> {
  const retention = options.retention === 'auto' ? undefined : options.retention
  const [way, dialect] = name.split(/:(.*)/s)
  const refuse = (where: keyof ModelOptions, message: string): never => {
    throw wrong([...at, where], message)
  }
  if (way === 'jinja') {
    if (!tokenizer)
      return refuse('codec', `this engine is sent text, for which the format must be known; give ${oneOf(familyNames)}`)
    if (template === undefined)
      return refuse('template', 'codec `jinja` needs a template; give the path of a Jinja file')
    if (retention !== undefined)
      return refuse('retention', 'with codec `jinja` the template decides what is kept; leave it out')
    const { jinjaCodec } = await import('./codecs/jinja.ts')
    const spoken = await dialectFor(dialect, template, at)
    const make = (apart?: string, like?: JinjaCodec): JinjaCodec =>
      jinjaCodec(template, tokenizer, { variables: config, dialect: spoken, apart, like })
    return await sure(() => {
      const first = make()
      return (apart) => (apart === undefined ? first : make(apart, first))
    }, [...at, 'template'])
  }
  if (name === 'none')
    return refuse(
      'codec',
      `no template is known, so the chat format cannot be told; give ${oneOf(tokenizer ? codecNames : familyNames)}`,
    )
  const load = Object.hasOwn(families, name) ? families[name] : undefined
  if (!load) return refuse('codec', `no such codec${meant(name, codecNames)}; there are: ${codecNames.join(', ')}`)
  const family = await load()
  const { familyCodec } = await import('./codecs/codec.ts')
  const ids = tokenizer ?? (await bytesFor(family))
  return await sure(() => made((apart) => familyCodec(family, ids, { retention, apart })), [...at, 'codec'])
}
/** Tried at once. */
function made(make: MakeCodec): MakeCodec {
  make()
  return make
}
const oneOf = (names: readonly string[]): string => `\`codec\`, one of: ${names.join(', ')}`

/** How the model writes its calls: as named behind `jinja:`, else as the template looks. Undefined: it is not known. */
async function dialectFor(named: string | undefined, template: string, at: Path): Promise<Dialect | undefined> {
  const { dialectOf, dialects } = await import('./codecs/jinja-dialect.ts')
  const names = Object.keys(dialects)
  if (named !== undefined && !Object.hasOwn(dialects, named))
    throw wrong(
      [...at, 'codec'],
      `no such way to write calls${meant(named, names)}; behind \`jinja:\` there may be: ${names.join(', ')}`,
    )
  // What the table has is a name of it.
  const family = dialects[(named as DialectName | undefined) ?? dialectOf(template)]
  return family === undefined ? undefined : await families[family]?.()
}

async function sure<T>(make: () => T | Promise<T>, at: Path): Promise<T> {
  try {
    return await make()
  } catch (e) {
    throw wrong(at, sentence(e))
  }
}
async function bytesFor({ needs, stops, markers }: Family): Promise<Tokenizer> {
  const { byteTokenizer } = await import('./tokenizers/bytes.ts')
  return byteTokenizer([...new Set([...needs, ...stops, ...markers])])
}

/** What differs; undefined also where the engine cannot be asked, which is noted. */
async function selfTested(
  tokenizer: Tokenizer,
  engine: Engine,
  told: Description,
  { note }: Told,
  model: string,
): Promise<string | undefined> {
  if (told.text || !engine.tokenize) return undefined
  const { disagreement, selfTest } = await import('./tokenizers/self-test.ts')
  const ours: ArrayLike<number>[] = []
  for (const text of selfTest) ours.push(await tokenizer.encode(text))
  let theirs
  try {
    theirs = await engine.tokenize(selfTest, AbortSignal.timeout(askMs))
  } catch (e) {
    note('the tokenizer could not be compared with that of the engine', { model, engine: engine.id, why: sentence(e) })
    return undefined
  }
  return theirs.length === 0 ? undefined : disagreement(selfTest, ours, theirs)
}

async function read(path: string, at: Path): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch {
    throw wrong(at, `'${path}' cannot be read in ${process.cwd()}; give the path of a Jinja file`)
  }
}
const wrong = (path: Path, message: string): ConfigError => new ConfigError([{ path, message }])
const sentence = (e: unknown): string => (e instanceof Error ? e.message : String(e))
