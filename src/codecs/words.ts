// Text between markers without the line breaks that the format itself puts around it.

/** Line breaks that are held back; a model that writes nothing else is heard. */
const most = 4096

export class Words {
  #begun = false
  #held = ''

  /** What can be said by now: leading line breaks never, trailing ones when it is known that they are not the last. */
  push(text: string): string {
    let piece = this.#held + text
    if (!this.#begun) {
      piece = piece.replace(/^\n+/, '')
      if (piece === '') {
        this.#held = ''
        return ''
      }
      this.#begun = true
    }
    let end = piece.length
    while (end > 0 && piece.length - end < most && piece[end - 1] === '\n') end--
    this.#held = piece.slice(end)
    return piece.slice(0, end)
  }
  /** The line breaks at the end but for `own`, those of the format. Nothing where there was no text. */
  end(own = Infinity): string {
    const rest = this.#held.slice(0, Math.max(0, this.#held.length - own))
    this.#begun = false
    this.#held = ''
    return rest
  }
}
