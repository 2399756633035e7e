// A value that a model writes as bare text, on its way into JSON: a string goes on while it is written, everything else
// when it is complete.
import { jsonOfText, onlyString, type Types, undecided } from './typed-value.ts'

/** Characters of a value that may yet be something else than a string. */
const maxValue = 1024 * 1024

export class ValueStream {
  readonly #types: Types
  readonly #write: (json: string) => void
  /** All of a value that is not known to be a string. */
  #held = ''
  #string = false

  constructor(types: Types, write: (json: string) => void) {
    this.#types = types
    this.#write = write
  }
  push(text: string): void {
    if (text === '') return
    if (this.#string) return this.#write(escaped(text))
    this.#held += text
    if (this.#open && this.#held.length < maxValue) return
    this.#string = true
    this.#write(`"${escaped(this.#held)}`)
  }
  end(): void {
    this.#write(this.#string ? '"' : jsonOfText(this.#held, this.#types))
  }
  get #open(): boolean {
    const types = this.#types
    if (onlyString(types)) return false
    return types && !types.has('string') ? true : undecided(this.#held, types)
  }
}

const escaped = (text: string): string => JSON.stringify(text).slice(1, -1)
