// From ids back to text: the bytes of every id, and a decoder that is safe where a character is cut between two ids.
import type { TextStream } from '../turn/ports.ts'

/** Keeps U+FEFF, which TextDecoder would take for a byte order mark. */
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true })

/** Bytes at the end that begin a character and do not end it. */
function incomplete(bytes: Uint8Array): number {
  for (let back = 1; back <= 3 && back <= bytes.length; back++) {
    const byte = bytes[bytes.length - back] ?? 0
    if (byte < 0x80) return 0
    if (byte < 0xc0) continue
    const needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2
    return needed > back ? back : 0
  }
  return 0
}

/** What an id stands for: its bytes, and its text where they are whole characters. */
export class IdTexts {
  readonly #bytes: (id: number) => Uint8Array
  readonly #names: ReadonlyMap<number, string>
  /** Texts that have been asked for; null where the bytes are no whole characters. */
  readonly #texts: (string | null | undefined)[] = []

  /** `bytes`: none for an unknown id. `names`: of control tokens. */
  constructor(bytes: (id: number) => Uint8Array, names: ReadonlyMap<number, string>) {
    this.#bytes = bytes
    this.#names = names
  }

  /** As Tokenizer.decode. */
  decode(ids: ArrayLike<number>): string {
    let out = ''
    const stream = this.stream()
    for (let n = 0; n < ids.length; n++) {
      const id = ids[n] ?? -1
      const name = this.#names.get(id)
      out += name === undefined ? stream.push(id) : stream.end() + name
    }
    return out + stream.end()
  }

  /** As Tokenizer.stream. */
  stream(): TextStream {
    let held = new Uint8Array(0)
    return {
      push: (id) => {
        if (this.#names.has(id)) return ''
        if (held.length === 0) {
          const text = this.#text(id)
          if (text !== null) return text
        }
        const bytes = Buffer.concat([held, this.#bytes(id)])
        const whole = bytes.length - incomplete(bytes)
        held = bytes.subarray(whole)
        return utf8.decode(bytes.subarray(0, whole))
      },
      end: () => {
        const text = utf8.decode(held)
        held = new Uint8Array(0)
        return text
      },
    }
  }
  #text(id: number): string | null {
    const known = this.#texts[id]
    if (known !== undefined) return known
    const bytes = this.#bytes(id)
    if (bytes.length === 0) return ''
    const text = incomplete(bytes) > 0 ? null : utf8.decode(bytes)
    // U+FFFD of broken bytes may be one of a token before it: only what comes back as it was is whole.
    const whole = text !== null && Buffer.from(text).equals(bytes) ? text : null
    this.#texts[id] = whole
    return whole
  }
}
