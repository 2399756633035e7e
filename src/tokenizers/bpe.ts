// Byte-level BPE tokenizers (Qwen, Llama 3, gpt-oss, DeepSeek, GLM and their like) from a Hugging Face `tokenizer.json`.
// Same ids as the library of that format, but for one thing: plain text never gives a control token.
import { createHash } from 'node:crypto'
import type { Tokenizer } from '../turn/ports.ts'
import { readBpe } from './bpe-file.ts'
import { Pieces } from './bpe-pieces.ts'
import { Splitter } from './bpe-split.ts'
import { IdTexts } from './id-text.ts'
import { nfc, nfcLong, wellFormed } from './nfc.ts'
import { inSlices, type Work } from './slices.ts'

export type BpeOptions = {
  /** Pieces whose ids are remembered, some 150 bytes each. Default 100,000. */
  readonly cacheSize?: number | undefined
}

/** A text of ordinary size and looks is given this long before its rest becomes a promise. */
const patienceMs = 25

/** `json`: a parsed `tokenizer.json`. Throws an Error that says what about it this encoder does not do. */
export function bpeTokenizer(json: unknown, { cacheSize = 100_000 }: BpeOptions = {}): Tokenizer {
  const file = readBpe(json)
  const pieces = new Pieces(file, cacheSize)
  const splitter = new Splitter(file.splits, pieces)
  const texts = new IdTexts((id) => file.bytes.of(id), file.names)
  const controls = new Map([...file.names].map(([id, name]) => [name, id] as const))
  const hash = createHash('sha256')
  for (const part of file.content) hash.update(part).update('\0\0')

  function* long(text: string): Work<ArrayLike<number>> {
    return yield* splitter.encodeLong(file.nfc ? yield* nfcLong(text) : text)
  }
  return {
    id: `bpe-${hash.digest('base64url').slice(0, 16)}`,
    size: file.size,
    encode: (text) => {
      const whole = wellFormed(text)
      const size = splitter.sizeOf(whole)
      if (size !== 'short') return inSlices(long(whole), size === 'ordinary' ? patienceMs : undefined)
      const out: number[] = []
      splitter.encode(file.nfc ? nfc(whole) : whole, out)
      return out
    },
    control: (name) => controls.get(name),
    nameOf: (id) => file.names.get(id),
    stream: () => texts.stream(),
    decode: (ids) => texts.decode(ids),
  }
}
