// How a model of an engine that takes tokens gets its codec: tokenizer and template from the configuration or from the
// engine, the family by name or by its template, and a self-test against the engine. Done once, at start.
import { readFile } from 'node:fs/promises'
import type { Family } from './codecs/family.ts'
import { ConfigError, meant, type ModelOptions, type Path } from './config.ts'
import type { Codec, Description, Engine, Tokenizer } from './turn/ports.ts'

/** One line for each format that is written by hand. */
const families: Readonly<Record<string, () => Promise<Family>>> = {
  'qwen2.5': () => import('./codecs/hermes.ts').then((m) => m.qwen25),
  qwen3: () => import('./codecs/hermes.ts').then((m) => m.qwen3),
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
export const codecNames: readonly string[] = [...Object.keys(families), 'jinja']

/** What is said while models are made ready. */
export type Told = {
  readonly note: (what: string, fields: Readonly<Record<string, string | number | boolean>>) => void
  /** Bytes of a file that comes from a hub; `total` where it is known. */
  readonly onProgress?: ((file: string, bytes: number, total: number | undefined) => void) | undefined
}
type Made = { readonly codec: Codec; readonly context: number | undefined }
/** Longest that an engine is waited for at start. */
const askMs = 10_000

/** Throws ConfigError that says what to configure, or what of the engine does not fit. */
export async function createCodec(name: string, options: ModelOptions, engine: Engine, told: Told): Promise<Made> {
  const at: Path = ['models', name]
  const engineTold = await describe(engine, options, at)
  const codec = await codecAlone(name, options, told, engineTold)
  const differs = await selfTested(codec.tokenizer, engine, engineTold, told, name)
  if (differs !== undefined)
    throw wrong(
      [...at, 'tokenizer'],
      `the engine '${engine.id}' makes other ids of the same text: ${differs}; give the tokenizer of the model that it serves, or use an engine of type chat`,
    )
  const context = options.context ?? engineTold.context
  told.note('model is ready', { model: name, engine: engine.id, codec: codec.id, vocabulary: codec.tokenizer.size })
  return { codec, context }
}

/** The codec without its engine, which it is then not compared with. Throws as createCodec does. */
export async function codecAlone(
  name: string,
  options: Omit<ModelOptions, 'engine'>,
  told: Told,
  engine: Description = {},
): Promise<Codec> {
  const at: Path = ['models', name]
  const text = await tokenizerOf(options, engine, at, told)
  const { codec = 'auto' } = options
  return await made(codec === 'auto' ? await detect(text.template, name, told) : codec, text, options, at)
}

/** How two prompts differ, in words, for whoever explains it. */
export const differ = async (): Promise<typeof import('./codecs/differ.ts')> => await import('./codecs/differ.ts')

async function describe(engine: Engine, options: ModelOptions, at: Path): Promise<Description> {
  try {
    return (await engine.describe?.(AbortSignal.timeout(askMs))) ?? {}
  } catch (e) {
    // With both given, the engine may come later.
    if (options.tokenizer !== undefined && (options.codec ?? 'auto') !== 'auto') return {}
    throw wrong(
      at,
      `the engine '${engine.id}' could not be asked about its model (${sentence(e)}); start it first, or give both \`tokenizer\` and \`codec\``,
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
  { onProgress }: Told,
): Promise<Text> {
  const file = options.template === undefined ? undefined : await read(options.template, [...at, 'template'])
  const source = options.tokenizer ?? engine.tokenizer ?? engine.source
  if (engine.text) return { tokenizer: undefined, template: file ?? engine.template, config: undefined }
  if (source === undefined)
    throw wrong(
      [...at, 'tokenizer'],
      "the engine does not tell its tokenizer; give the path of a tokenizer.json, of the model's folder, or its name on the hub",
    )
  const { loadTokenizer } = await import('./tokenizers/load.ts')
  try {
    const loaded = await loadTokenizer(source, onProgress ? { onProgress } : {})
    return {
      tokenizer: loaded.tokenizer,
      template: file ?? engine.template ?? loaded.template,
      config: loaded.config,
    }
  } catch (e) {
    throw wrong([...at, 'tokenizer'], sentence(e))
  }
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

async function made(
  name: string,
  { tokenizer, template, config }: Text,
  options: Omit<ModelOptions, 'engine'>,
  at: Path,
): Promise<Codec> {
  const retention = options.retention === 'auto' ? undefined : options.retention
  try {
    if (name === 'jinja') {
      if (template === undefined || !tokenizer)
        throw new Error('a template is needed; give `template`, the path of a Jinja file')
      const { jinjaCodec } = await import('./codecs/jinja.ts')
      return await jinjaCodec(template, tokenizer, {
        retention,
        variables: config,
      })
    }
    const load = Object.hasOwn(families, name) ? families[name] : undefined
    if (!load)
      throw new Error(
        name === 'none'
          ? `no template is known, so the chat format cannot be told; give \`codec\`, one of: ${codecNames.join(', ')}`
          : `no such codec${meant(name, codecNames)}; there are: ${codecNames.join(', ')}`,
      )
    const family = await load()
    const { familyCodec } = await import('./codecs/codec.ts')
    return familyCodec(family, tokenizer ?? (await bytesFor(family)), {
      retention,
    })
  } catch (e) {
    throw wrong([...at, 'codec'], sentence(e))
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
  const ours = await Promise.all(selfTest.map((text) => tokenizer.encode(text)))
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
  } catch (e) {
    throw wrong(at, sentence(e))
  }
}
const wrong = (path: Path, message: string): ConfigError => new ConfigError([{ path, message }])
const sentence = (e: unknown): string => (e instanceof Error ? e.message : String(e))
