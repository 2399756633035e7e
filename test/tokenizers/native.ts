// The official binding of the tokenizers library, as oracle. It has no switch for special tokens in the text, so it is
// given files without added tokens.
import { createRequire } from 'node:module'
import type { TokenizerJson } from './fixtures.ts'

type Native = {
  encode(text: string, pair: null, options: { addSpecialTokens: boolean }): Promise<{ getIds(): number[] }>
}
export type Encode = (text: string) => Promise<number[]>

/** Undefined where the package is not installed. `added`: control tokens in the text become their ids, as in renders. */
export function nativeEncoder(json: TokenizerJson, added = false): Encode | undefined {
  const native = load()
  const added_tokens = added ? json.added_tokens : []
  const tokenizer = native?.Tokenizer.fromString(JSON.stringify({ ...json, added_tokens, post_processor: null }))
  return tokenizer && (async (text) => (await tokenizer.encode(text, null, { addSpecialTokens: false })).getIds())
}
function load(): { Tokenizer: { fromString(json: string): Native } } | undefined {
  try {
    return createRequire(import.meta.url)('tokenizers') as { Tokenizer: { fromString(json: string): Native } }
  } catch {
    return undefined
  }
}
