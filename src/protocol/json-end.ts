// Where a JSON object or array ends that comes in pieces, without parsing it.

/** Tells when a JSON object or array that comes in pieces is complete. */
export class JsonEnd {
  complete = false
  #depth = 0
  #quoted = false
  #escaped = false
  #odd = false

  /** Returns how many characters of `text` belong to it: all of them until it is complete. */
  push(text: string): number {
    if (this.complete) return 0
    if (this.#odd) return text.length
    for (let i = 0; i < text.length; i++) {
      const c = text.charCodeAt(i)
      if (this.#quoted) {
        if (this.#escaped) this.#escaped = false
        else if (c === 0x5c) this.#escaped = true
        else if (c === 0x22) this.#quoted = false
      } else if (c === 0x7b || c === 0x5b) this.#depth++
      else if (c === 0x7d || c === 0x5d) {
        if (--this.#depth <= 0) {
          this.complete = true
          return i + 1
        }
      } else if (this.#depth === 0 && c > 0x20) {
        this.#odd = true
        return text.length
      } else if (c === 0x22) this.#quoted = true
    }
    return text.length
  }
}
