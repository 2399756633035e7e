// Finds markers in text that comes in pieces. What may be the beginning of one is held back until it is known.
export type Found = { readonly marker: boolean; readonly text: string }

export class Seek {
  readonly #names: readonly string[]
  readonly #any: RegExp
  #held = ''

  /** At least one name, none empty. */
  constructor(names: readonly string[]) {
    this.#names = names
    // The longest first, where one begins like another.
    const sorted = names.toSorted((a, b) => b.length - a.length)
    this.#any = new RegExp(sorted.map((name) => name.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)).join('|'), 'g')
  }
  push(piece: string): Found[] {
    const text = this.#held + piece
    const out: Found[] = []
    let from = 0
    for (const match of text.matchAll(this.#any)) {
      if (match.index > from) out.push({ marker: false, text: text.slice(from, match.index) })
      out.push({ marker: true, text: match[0] })
      from = match.index + match[0].length
    }
    const end = Math.max(from, this.#safe(text))
    if (end > from) out.push({ marker: false, text: text.slice(from, end) })
    this.#held = text.slice(end)
    return out
  }
  get holding(): boolean {
    return this.#held !== ''
  }
  /** What was held back, which is no marker. */
  end(): string {
    const rest = this.#held
    this.#held = ''
    return rest
  }
  /** Up to where no marker can have begun. */
  #safe(text: string): number {
    let safe = text.length
    for (const name of this.#names)
      for (let length = Math.min(name.length - 1, text.length); length > 0; length--)
        if (text.endsWith(name.slice(0, length))) {
          safe = Math.min(safe, text.length - length)
          break
        }
    return safe
  }
}
