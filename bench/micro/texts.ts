// What tools of an agent put out: windows into real files, one behind the other.
import { realTexts } from './encoder.ts'

const bytes = 2_500_000

export class Texts {
  readonly #all = realTexts(bytes).join('\n')
  #at = 0

  next(length: number): string {
    if (this.#at + length > this.#all.length) this.#at = 0
    this.#at += length
    return this.#all.slice(this.#at - length, this.#at)
  }
}
