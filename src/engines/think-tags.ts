// Splits `<think>…</think>` at the start of a text from what follows, however the text is cut into pieces.

export type Spoken = { readonly type: 'reasoning' | 'text'; readonly text: string }

const open = '<think>'
const close = '</think>'

export class ThinkTags {
  #state: 'start' | 'inside' | 'behind' | 'text'
  #held = ''

  /** `inside`: the prompt's template has opened the tag already, so the model's text begins within it. */
  constructor(inside: boolean) {
    this.#state = inside ? 'inside' : 'start'
  }
  push(piece: string): Spoken[] {
    if (this.#state === 'text') return piece === '' ? [] : [{ type: 'text', text: piece }]
    this.#held += piece
    const out: Spoken[] = []
    if (this.#state === 'start') {
      const text = this.#held.trimStart()
      if (text.startsWith(open)) {
        this.#held = text.slice(open.length)
        this.#state = 'inside'
      } else if (!open.startsWith(text)) this.#state = 'text'
      else return out
    }
    if (this.#state === 'inside') {
      const at = this.#held.indexOf(close)
      const end = at < 0 ? this.#held.length - overlap(this.#held) : at
      if (end > 0) out.push({ type: 'reasoning', text: this.#held.slice(0, end) })
      this.#held = this.#held.slice(at < 0 ? end : at + close.length)
      if (at < 0) return out
      this.#state = 'behind'
    }
    // Templates put empty lines behind the tag; they belong to neither side.
    if (this.#state === 'behind') {
      this.#held = this.#held.trimStart()
      if (this.#held === '') return out
      this.#state = 'text'
    }
    if (this.#held !== '') out.push({ type: 'text', text: this.#held })
    this.#held = ''
    return out
  }
  /** What was held back because it might have become a tag. */
  end(): Spoken[] {
    const text = this.#held
    this.#held = ''
    if (text === '' || this.#state === 'behind') return []
    return [{ type: this.#state === 'inside' ? 'reasoning' : 'text', text }]
  }
}

/** Characters at the end of `text` that may be the beginning of the closing tag. */
function overlap(text: string): number {
  for (let n = Math.min(close.length - 1, text.length); n > 0; n--) if (text.endsWith(close.slice(0, n))) return n
  return 0
}
