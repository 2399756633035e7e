// What a simulated generation consists of: acts, faults among them, and the pieces that texts are spoken in. A piece is
// the simulated engine's token.
import { z } from 'zod'
import { errorTable, type ErrorCode } from '../protocol/errors.ts'

const kinds = [
  'error',
  'cut',
  'failed',
  'vanish',
  'hang',
  'endless',
  'slow',
  'overlap',
  'no-end',
  'incomplete',
  'filter',
  'usage-missing',
  'usage-double',
  'usage-negative',
] as const
export type FaultKind = (typeof kinds)[number]
export const faultKinds: readonly string[] = kinds

const codes = z.enum(Object.keys(errorTable) as [ErrorCode, ...ErrorCode[]])
/** Where a fault strikes: after so many pieces of output. `ms`: time a piece takes once it is `slow`. */
export const faultShape = {
  kind: z.enum(kinds),
  after: z.number().int().min(0).max(1e9).optional(),
  code: codes.optional(),
  message: z.string().optional(),
  ms: z.number().min(0).max(3_600_000).optional(),
}
export const faultSchema = z.union([z.enum(kinds).transform((kind): Fault => ({ kind })), z.strictObject(faultShape)])
export type Fault = z.infer<z.ZodObject<typeof faultShape>>

export const usageSchema = z.strictObject({
  input: z.number().optional(),
  cached: z.number().optional(),
  output: z.number().optional(),
  reasoning: z.number().optional(),
})
export type Act =
  | { readonly do: 'text' | 'reasoning' | 'refusal'; readonly pieces: Iterable<string> }
  | {
      readonly do: 'call'
      readonly kind: 'function' | 'custom'
      readonly name: string
      readonly namespace: string | undefined
      /** Arguments as JSON, or the free input of a custom tool. */
      readonly input: string
    }
  | { readonly do: 'pause'; readonly ms: number }
  | { readonly do: 'fault'; readonly fault: Fault }
  | { readonly do: 'finish'; readonly finish: 'stop' | 'length' | 'filter' }
  | { readonly do: 'usage'; readonly usage: z.infer<typeof usageSchema> }

export const say = (text: string): Act => ({ do: 'text', pieces: pieces(text) })

/** A text in pieces of at most four characters, a word's spaces with its beginning; joined they are the text again. */
export function pieces(text: string): string[] {
  return text.match(/\s{0,8}[^\s]{1,4}|\s+/gu) ?? []
}
const filling =
  ' the tide was low and the gull sat on the post as if it had all day to wait for the next boat'.match(/ \w+/g) ?? []

/** So many pieces of a text without meaning, one after the other, never all at once in memory. */
export function* filler(count: number): Generator<string> {
  for (let n = 0; n < count; n++) yield filling[n % filling.length] ?? ''
}
