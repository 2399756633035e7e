// Where tokenizers come from: a file, a model's folder, a parsed object, or a hub by name; with the model's own template.
import { existsSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { Tokenizer } from '../turn/ports.ts'
import { bpeTokenizer } from './bpe.ts'
import { type Hub, hubFile, hubName } from './hub.ts'
import { huggingFaceTokenizer } from './huggingface.ts'

export type Encoder = 'auto' | 'huggingface'
export type LoadOptions = {
  /** Called as a file of the hub comes in. */
  readonly onProgress?: Hub['onProgress']
  /** Where files of the hub are kept. Default ~/.cache/continuo/tokenizers. */
  readonly cacheDir?: string | undefined
  readonly signal?: AbortSignal | undefined
  /** Of the hub; default HF_ENDPOINT, then https://huggingface.co. */
  readonly endpoint?: string | undefined
  /** Of the hub; default HF_TOKEN. */
  readonly token?: string | undefined
  /** `huggingface`: over the library, though our own encoder could. Default `auto`. */
  readonly encoder?: Encoder | undefined
  /** Of each file. Default 128 MiB. */
  readonly maxBytes?: number | undefined
}
export type Loaded = {
  readonly tokenizer: Tokenizer
  /** Jinja source, where the model has one. */
  readonly template?: string | undefined
  /** `tokenizer_config.json`, where there is one. */
  readonly config?: Readonly<Record<string, unknown>> | undefined
}
type Fields = Readonly<Record<string, unknown>>
/** The path of one of the model's files; undefined where it has none of that name. */
type Find = (name: string) => Promise<string | undefined>

/**
 * `source`: the path of a `tokenizer.json`, the path of a folder that has one, a hub's `org/model` or
 * `org/model@revision`, or a `tokenizer.json` as an object. Throws an Error with a sentence that says what to do.
 */
export async function loadTokenizer(source: unknown, options: LoadOptions = {}): Promise<Loaded> {
  const { encoder = 'auto' } = options
  if (typeof source !== 'string') return { tokenizer: build(source, 'The tokenizer', encoder) }
  const maxBytes = options.maxBytes ?? 128 * 1024 * 1024
  const there = await stat(source).catch(() => undefined)
  if (there?.isFile()) return { tokenizer: build(await readJson(source, maxBytes), source, encoder) }
  if (there?.isDirectory())
    return folder(source, encoder, maxBytes, async (name) =>
      existsSync(join(source, name)) ? join(source, name) : undefined,
    )
  const name = hubName(source)
  if (!name)
    throw new Error(`${source} is no tokenizer: give the path of a tokenizer.json, of a model's folder, or org/model.`)
  const hub: Hub = {
    base: options.endpoint ?? (process.env['HF_ENDPOINT'] || 'https://huggingface.co'),
    token: options.token ?? (process.env['HF_TOKEN'] || undefined),
    folder: options.cacheDir ?? join(homedir(), '.cache', 'continuo', 'tokenizers'),
    maxBytes,
    signal: options.signal,
    onProgress: options.onProgress,
  }
  return folder(source, encoder, maxBytes, (file) => hubFile(hub, name, file))
}

async function folder(source: string, encoder: Encoder, maxBytes: number, find: Find): Promise<Loaded> {
  const file = await find('tokenizer.json')
  if (file === undefined) throw new Error(`${source} has no tokenizer.json.`)
  const tokenizer = build(await readJson(file, maxBytes), file, encoder)
  const config = await fieldsOf(find, 'tokenizer_config.json', maxBytes)
  const jinja = await find('chat_template.jinja')
  const template = jinja === undefined ? undefined : await read(jinja, maxBytes)
  return {
    tokenizer,
    config,
    template: template ?? templateOf(config) ?? templateOf(await fieldsOf(find, 'chat_template.json', maxBytes)),
  }
}
/** Older files have a list of named templates. */
function templateOf(fields: Fields | undefined): string | undefined {
  const template = fields?.['chat_template']
  if (!Array.isArray(template)) return typeof template === 'string' ? template : undefined
  const named = template.filter(isFields)
  const chosen = named.find(({ name }) => name === 'default') ?? named[0]
  return typeof chosen?.['template'] === 'string' ? chosen['template'] : undefined
}

async function fieldsOf(find: Find, name: string, maxBytes: number): Promise<Fields | undefined> {
  const path = await find(name)
  if (path === undefined) return undefined
  const value = await readJson(path, maxBytes)
  if (!isFields(value)) throw new Error(`${path} is no JSON object.`)
  return value
}
async function readJson(path: string, maxBytes: number): Promise<unknown> {
  const text = await read(path, maxBytes)
  try {
    return JSON.parse(text) as unknown
  } catch (error) {
    throw new Error(`${path} is not valid JSON; fetch it again.`, { cause: error })
  }
}
async function read(path: string, maxBytes: number): Promise<string> {
  const { size } = await stat(path)
  if (size > maxBytes) throw new Error(`${path} has ${size} bytes; at most ${maxBytes} are read.`)
  return readFile(path, 'utf8')
}

/** By our own encoder where it can, else, or where it is asked for, over the library. */
function build(json: unknown, where: string, encoder: Encoder): Tokenizer {
  if (!isFields(json)) throw new Error(`${where} is no tokenizer.json: it is no JSON object.`)
  try {
    if (encoder === 'huggingface') throw new Error('not asked for')
    return bpeTokenizer(json)
  } catch (own) {
    try {
      return huggingFaceTokenizer(json)
    } catch (other) {
      const [a, b] = [own, other].map((error) => (error instanceof Error ? error.message : String(error)))
      throw new Error(`${where} cannot be used. As byte-level BPE: ${a}. As another kind: ${b}.`, { cause: other })
    }
  }
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
