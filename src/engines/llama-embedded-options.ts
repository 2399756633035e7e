// What embedded llama.cpp is told to be: which model, how much memory, how it samples where a request says nothing.
import { availableParallelism } from 'node:os'
import { z } from 'zod'
import { grammarOptions } from './grammar-hold.ts'
import { scenarioSchema } from './scenario.ts'

const ms = (n: number): z.ZodDefault<z.ZodNumber> => z.number().int().positive().default(n)

export const llamaEmbeddedOptions = z.strictObject({
  /** A GGUF file, or one on the hub as `org/repo/file.gguf`, which is downloaded once. */
  model: z.string().min(1).max(4096),
  /** Tokens of prompt and output together, in each sequence. Default: what the model and the memory allow, at most 32,768. */
  context: z.number().int().min(64).max(16_777_216).optional(),
  /** Conversations that are kept in memory, and computed at the same time. */
  sequences: z.number().int().min(1).max(64).default(4),
  /** Turns that wait for a sequence before further ones are refused. */
  waiting: z.number().int().min(0).max(10_000).default(64),
  /** Default: 1 on at most 4 cores, since two threads on two busy cores are a hundred times slower than one; else half. */
  threads: z.number().int().min(1).max(1024).default(defaultThreads),
  /** Faster, but what it computes hangs by a hair on how many ids it computes at once: not for comparing outputs. */
  flashAttention: z.enum(['auto', 'on', 'off']).default('auto'),
  gpu: z.enum(['auto', 'off', 'metal', 'cuda', 'vulkan']).default('auto'),
  /** Folder whose `node_modules` holds node-llama-cpp. */
  modules: z.string().min(1).optional(),
  /** Where models from the hub are kept. Default: `~/.cache/continuo/models`. */
  cacheDir: z.string().min(1).optional(),
  /** Base URL of the hub. Default: the environment's HF_ENDPOINT, else https://huggingface.co. */
  hub: z.url({ protocol: /^https?$/ }).optional(),
  /** Largest file that is downloaded. */
  downloadBytes: z.number().int().positive().default(200e9),
  /** Save a conversation's KV cache to `stateDir` when it makes room for another. Not for requests that nothing may be stored of. */
  saveState: z.boolean().default(false),
  stateDir: z.string().min(1).optional(),
  stateBytes: z.number().int().positive().default(8e9),
  ...grammarOptions,
  /** Until the model is loaded, the download apart. */
  startMs: ms(300_000),
  /** Without a token or a computed batch; a turn that waits for a sequence or for its reader is not counted. */
  idleMs: ms(300_000),
  /** Where a request says nothing. The defaults are llama.cpp's own. */
  temperature: z.number().min(0).max(2).default(0.8),
  topP: z.number().min(0).max(1).default(0.95),
  topK: z.number().int().min(0).max(1_000_000).default(40),
  minP: z.number().min(0).max(1).default(0.05),
  /** For runs that are to give the same again. Default: another one for each generation. */
  seed: z.number().int().min(0).max(4_294_967_295).optional(),
  /**
   * What the model is to write instead of what it thinks of: a scenario's file or its content, or `behaviour` for what
   * the simulated engine does without one. llama.cpp computes and samples every token of it.
   */
  scenario: z.union([z.string().min(1), scenarioSchema]).optional(),
})
export type LlamaEmbeddedInput = z.input<typeof llamaEmbeddedOptions>
export type LlamaEmbeddedOptions = z.output<typeof llamaEmbeddedOptions>

export function defaultThreads(): number {
  const cores = availableParallelism()
  return cores <= 4 ? 1 : Math.floor(cores / 2)
}
