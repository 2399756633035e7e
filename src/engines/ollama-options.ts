// What an Ollama server is told to be: where it listens, which model it runs and how long it keeps it.
import { z } from 'zod'
import { grammarOptions } from './grammar-hold.ts'
import { answerBytes, wireOptions } from './wire-options.ts'

export const ollamaOptions = z.strictObject({
  /** Where Ollama listens, without /api or /v1. */
  url: z.url({ protocol: /^https?$/ }),
  /** Ollama's name for the model. Default: the name the client asked for. */
  model: z.string().min(1).max(256).optional(),
  /**
   * Tokens of prompt and output together (`num_ctx`). Without it Ollama's own default holds, which is small and known to
   * Ollama alone; with another value than the loaded model has, Ollama loads the model again.
   */
  context: z.number().int().positive().optional(),
  /** How long the model stays in memory: seconds, a duration such as `10m`, or -1 for ever. */
  keepAlive: z.union([z.number().int(), z.string().regex(/^-?\d+(ns|us|ms|s|m|h)$/)]).optional(),
  /** Further model options, e.g. `top_k`, `min_p`, `seed`. What the engine itself sets wins. */
  options: z.record(z.string(), z.unknown()).default({}),
  ...grammarOptions,
  ...wireOptions,
  ...answerBytes,
})

/** As configured. */
export type OllamaInput = z.input<typeof ollamaOptions>
/** With every default filled in. */
export type OllamaOptions = z.output<typeof ollamaOptions>
