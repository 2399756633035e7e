// What a llama-server is told to be: where it listens, and how long and how much it may answer.
import { z } from 'zod'
import { grammarOptions } from './grammar-hold.ts'
import { answerBytes, wireOptions } from './wire-options.ts'

export const llamaServerOptions = z.strictObject({
  /** Where llama-server listens, without /v1. */
  url: z.url({ protocol: /^https?$/ }),
  /** The model's name, for a server that routes between several. */
  model: z.string().min(1).max(256).optional(),
  /** Tokens of prompt and output together; default: what the server says of a slot. */
  context: z.number().int().positive().optional(),
  /**
   * Further fields of every request body, e.g. `top_k`, `min_p`, or `message_delimiters`: where models that cannot roll
   * back (sliding windows, recurrent ones) keep their checkpoints. What the engine itself sets wins.
   */
  body: z.record(z.string(), z.unknown()).default({}),
  ...grammarOptions,
  ...wireOptions,
  ...answerBytes,
})

/** As configured. */
export type LlamaServerInput = z.input<typeof llamaServerOptions>
/** With every default filled in. */
export type LlamaServerOptions = z.output<typeof llamaServerOptions>
