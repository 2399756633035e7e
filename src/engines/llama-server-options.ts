// What a llama-server is told to be: where it listens, and how long and how much it may answer.
import { z } from 'zod'
import { grammarOptions } from './grammar-hold.ts'

const ms = (n: number): z.ZodDefault<z.ZodNumber> => z.number().int().positive().default(n)

export const llamaServerOptions = z.strictObject({
  /** Where llama-server listens, without /v1. */
  url: z.url({ protocol: /^https?$/ }),
  apiKey: z.string().min(1).optional(),
  /** The model's name, for a server that routes between several. */
  model: z.string().min(1).max(256).optional(),
  /** Tokens of prompt and output together; default: what the server says of a slot. */
  context: z.number().int().positive().optional(),
  headers: z.record(z.string(), z.string()).default({}),
  /**
   * Further fields of every request body, e.g. `top_k`, `min_p`, or `message_delimiters`: where models that cannot roll
   * back (sliding windows, recurrent ones) keep their checkpoints. What the engine itself sets wins.
   */
  body: z.record(z.string(), z.unknown()).default({}),
  ...grammarOptions,
  connectMs: ms(5_000),
  /** Until the first byte of an answer: the server sends none while all of its slots are busy. */
  headersMs: ms(600_000),
  idleMs: ms(300_000),
  /** Requests at once; more are refused as overload. Those beyond the server's slots wait there. */
  requests: z.number().int().positive().default(512),
  /** One line of the stream, and all of one answer. */
  lineBytes: z
    .number()
    .int()
    .positive()
    .default(16 * 1024 * 1024),
  totalBytes: z
    .number()
    .int()
    .positive()
    .default(256 * 1024 * 1024),
})

/** As configured. */
export type LlamaServerInput = z.input<typeof llamaServerOptions>
/** With every default filled in. */
export type LlamaServerOptions = z.output<typeof llamaServerOptions>
