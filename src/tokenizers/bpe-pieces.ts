// Ids of single pieces, remembered: the same words come again and again.
import type { BpeFile } from './bpe-file.ts'
import { Merges } from './bpe-merge.ts'
import { atOnce, type Work } from './slices.ts'

/** Longer pieces are not remembered. */
const longestKept = 64

export class Pieces {
  readonly #merges: Merges
  readonly #whole: BpeFile['whole']
  // Two generations: when the young one is full it becomes the old one, and what is asked for again comes back.
  #young = new Map<string, number | readonly number[]>()
  #old = this.#young
  #chars = 0
  readonly #most: number
  readonly #bytes = new Uint8Array(3 * longestKept)

  /** `most`: pieces to remember; their texts have at most 16 times as many characters. */
  constructor(file: BpeFile, most: number) {
    this.#merges = new Merges(file.byteIds, file.merges)
    this.#whole = file.whole
    this.#most = Math.ceil(most / 2)
  }

  encode(piece: string, out: number[]): void {
    const ids = this.#young.get(piece) ?? this.#miss(piece)
    if (typeof ids === 'number') out.push(ids)
    else for (let n = 0; n < ids.length; n++) out.push(ids[n] ?? 0)
  }

  /** For pieces that take their time. */
  *long(piece: string): Work<ArrayLike<number>> {
    const bytes = Buffer.from(piece)
    const whole = this.#whole?.(bytes)
    return whole === undefined ? yield* this.#merges.long(bytes, bytes.length) : [whole]
  }

  #miss(piece: string): number | ArrayLike<number> {
    if (piece.length > longestKept) return atOnce(this.long(piece))
    const ids = this.#old.get(piece) ?? this.#merge(piece)
    if (this.#young.size >= this.#most || this.#chars >= this.#most * 16) {
      this.#old = this.#young
      this.#young = new Map()
      this.#chars = 0
    }
    // A piece cut out of a text would keep the whole text in memory: its copy does not.
    this.#young.set(piece.length < 13 ? piece : Buffer.from(piece, 'utf16le').toString('utf16le'), ids)
    this.#chars += piece.length
    return ids
  }
  #merge(piece: string): number | readonly number[] {
    const { written } = encoder.encodeInto(piece, this.#bytes)
    const whole = this.#whole?.(this.#bytes.subarray(0, written))
    if (whole !== undefined) return whole
    return this.#merges.short(this.#bytes, written) ?? Array.from(atOnce(this.#merges.long(this.#bytes, written)))
  }
}
const encoder = new TextEncoder()
