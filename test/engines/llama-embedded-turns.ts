// What tests of embedded llama.cpp are made of: tiny models, prompts of ids, and turns read to their end.
import { existsSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { it } from 'vitest'
import { llamaEmbedded, type LlamaProbe } from '../../src/engines/llama-embedded.ts'
import type { Settings } from '../../src/protocol/request.ts'
import { byteTokenizer } from '../../src/tokenizers/bytes.ts'
import { Chain } from '../../src/turn/chain.ts'
import type { Call, Chunk, Engine, EngineUsage, Prompt } from '../../src/turn/ports.ts'
import { TokenRun } from '../../src/turn/tokens.ts'
import { tinyControls, type TinyOptions, tinyTokenizer, writeTinyGguf } from '../../src/bench/tiny-gguf.ts'
import { principal, settings } from './simulated-generations.ts'

export const modules = fileURLToPath(new URL('../llama', import.meta.url))
const ci = !['', '0', 'false', undefined].includes(process.env['CI'])
/** Without the packages of test/llama these tests are named skips, and failures where CI is set. */
const installed = existsSync(join(modules, 'node_modules/node-llama-cpp/package.json'))
export const llama: typeof it.skip = ci || installed ? it : it.skip

export const tokenizer = byteTokenizer(tinyControls)
export const control = (name: (typeof tinyControls)[number]): number => tokenizer.control(name) ?? -1
export const imEnd = control('<|im_end|>')
/** Ids of a text; control tokens by name. */
export function idsOf(text: string): number[] {
  return text
    .split(/(<\|?\/?[a-z_]+\|?>)/)
    .flatMap((part) => tokenizer.control(part) ?? Array.from(tokenizer.encode(part) as ArrayLike<number>))
}
export const user = (text: string): number[] => idsOf(`<|im_start|>user\n${text}<|im_end|>\n<|im_start|>assistant\n`)

const folder = mkdtempSync(join(tmpdir(), 'continuo-llama-'))
/** A model of bytes and control tokens; made once for each file of tests. */
export function tinyModel(options: TinyOptions = {}): string {
  const file = join(folder, `${options.arch ?? 'qwen3'}-${options.seed ?? 1}.gguf`)
  const byteLevel = tinyTokenizer(tinyControls, false)
  return existsSync(file) ? file : writeTinyGguf(file, { tokenizer: byteLevel, ...options })
}
export type Embedded = Engine & LlamaProbe
export type EmbeddedOptions = Partial<Parameters<typeof llamaEmbedded>[0]>
export const embedded = (options: EmbeddedOptions = {}): Embedded =>
  llamaEmbedded(
    { model: tinyModel(), modules, gpu: 'off', threads: 1, context: 2048, flashAttention: 'off', ...options },
    'tiny',
  )

export type Ask = {
  readonly ids: readonly number[]
  readonly warm?: unknown
  readonly settings?: Partial<Settings>
  readonly generate?: boolean
  readonly mayStore?: boolean
  readonly signal?: AbortSignal
  readonly chain?: Chain
  readonly prompt?: Partial<Prompt>
}
export type Told = {
  readonly tokens: number[]
  readonly text: string
  readonly usage: EngineUsage | undefined
  readonly finish: string | undefined
  readonly warm: unknown
  readonly error: unknown
}
export function callOf(ask: Ask): Call {
  const chain = ask.chain ?? Chain.root(principal.owner)
  return {
    id: 'resp_1',
    principal,
    chain,
    settings: settings({ temperature: 0, max_output_tokens: 24, ...ask.settings }),
    warm: ask.warm === undefined ? undefined : { value: ask.warm, at: chain },
    prompt: {
      run: TokenRun.empty.append(ask.ids),
      common: 0,
      tokenizer,
      stops: [imEnd],
      constraint: undefined,
      pictures: [],
      written: () => [],
      ...ask.prompt,
    },
    generate: ask.generate ?? true,
    mayStore: ask.mayStore ?? true,
    signal: ask.signal ?? new AbortController().signal,
  }
}
/** One turn; an error is part of the result. */
export async function turn(engine: Engine, ask: Ask, onChunk?: (chunk: Chunk) => void): Promise<Told> {
  const chunks: Chunk[] = []
  let error: unknown
  try {
    for await (const chunk of engine.generate(callOf(ask))) {
      chunks.push(chunk)
      onChunk?.(chunk)
    }
  } catch (e) {
    error = e
  }
  const tokens = chunks.flatMap((c) => c.tokens ?? [])
  return {
    tokens,
    text: tokenizer.decode(tokens),
    usage: chunks.findLast((c) => c.usage)?.usage,
    finish: chunks.findLast((c) => c.finish)?.finish,
    warm: chunks.findLast((c) => c.warm !== undefined)?.warm,
    error,
  }
}
