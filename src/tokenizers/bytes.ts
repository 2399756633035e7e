// The smallest tokenizer: ids 0 to 255 are bytes of UTF-8, control tokens follow. For engines that take raw text, and tests.
import { createHash } from 'node:crypto'
import type { Tokenizer } from '../turn/ports.ts'
import { IdTexts } from './id-text.ts'

/** `controls`: texts of the control tokens, ids from 256 in their order. */
export function byteTokenizer(controls: readonly string[]): Tokenizer {
  const ids = new Map([...new Set(controls)].map((name, n) => [name, 256 + n] as const))
  const names = new Map([...ids].map(([name, id]) => [id, name] as const))
  const texts = new IdTexts((id) => (id >= 0 && id < 256 ? Uint8Array.of(id) : new Uint8Array(0)), names)
  const hash = createHash('sha256').update(JSON.stringify([...ids.keys()]))
  return {
    id: `bytes-${hash.digest('base64url').slice(0, 16)}`,
    size: 256 + ids.size,
    // Lone surrogates become U+FFFD.
    encode: (text) => new Uint8Array(Buffer.from(text, 'utf8')),
    control: (name) => ids.get(name),
    nameOf: (id) => names.get(id),
    stream: () => texts.stream(),
    decode: (tokens) => texts.decode(tokens),
  }
}
