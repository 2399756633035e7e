// Options of every engine that is reached over HTTP, spread into its schema. Times in milliseconds.
import { z } from 'zod'

const ms = (n: number): z.ZodDefault<z.ZodNumber> => z.number().int().positive().default(n)

export const wireOptions = {
  apiKey: z.string().min(1).optional(),
  headers: z.record(z.string(), z.string()).default({}),
  connectMs: ms(5_000),
  /** Until the first byte of an answer: many servers read the whole prompt, wait for a slot or load the model before it. */
  headersMs: ms(600_000),
  idleMs: ms(300_000),
  /** Requests at once; more are refused as overload. */
  requests: z.number().int().positive().default(512),
}
/** One line of a stream, and all of one answer. */
export const answerBytes = {
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
}
/** How long usage may take to come after the model has finished. */
export const lingerMs = ms(2_000)
