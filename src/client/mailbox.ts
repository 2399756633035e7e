// The bounded queue between a socket that cannot wait and a reader that may be slow.

/** Holds at most `maxItems` values weighing `maxBytes`. One reader. */
export class Mailbox<T> {
  #items: T[] = []
  #sizes: number[] = []
  #head = 0
  #bytes = 0
  #ended = false
  #error: Error | undefined
  #wake: (() => void) | undefined
  readonly #maxItems: number
  readonly #maxBytes: number
  constructor(maxItems: number, maxBytes: number) {
    this.#maxItems = maxItems
    this.#maxBytes = maxBytes
  }

  /** False when the value does not fit; it is not kept then. A single value always fits into an empty box. */
  push(value: T, bytes: number): boolean {
    if (this.#ended) return true
    const held = this.#items.length - this.#head
    if (held > 0 && (held >= this.#maxItems || this.#bytes + bytes > this.#maxBytes)) return false
    this.#items.push(value)
    this.#sizes.push(bytes)
    this.#bytes += bytes
    this.#rouse()
    return true
  }
  /** After this nothing is taken in. The reader gets what is held, then the end or the error. */
  end(error?: Error): void {
    if (this.#ended) return
    this.#ended = true
    this.#error = error
    this.#rouse()
  }
  /** As `end`, but what is held is thrown away: the reader meets the end or the error at once. */
  abandon(error?: Error): void {
    this.#reset()
    if (this.#ended) this.#error = error
    else this.end(error)
  }
  /** What can be had without waiting; undefined when nothing is held. */
  poll(): T | undefined {
    if (this.#head === this.#items.length) return undefined
    const value = this.#items[this.#head]
    this.#bytes -= this.#sizes[this.#head] ?? 0
    this.#head++
    if (this.#head === this.#items.length) this.#reset()
    else if (this.#head > 1024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#sizes = this.#sizes.slice(this.#head)
      this.#head = 0
    }
    return value
  }
  /** The next value; undefined at the end. Rejects with the error of `end`, once. */
  async next(): Promise<T | undefined> {
    for (;;) {
      const value = this.poll()
      if (value !== undefined) return value
      if (this.#ended) {
        const error = this.#error
        this.#error = undefined
        if (error) throw error
        return undefined
      }
      await new Promise<void>((resolve) => (this.#wake = resolve))
    }
  }
  #reset(): void {
    this.#items = []
    this.#sizes = []
    this.#head = 0
    this.#bytes = 0
  }
  #rouse(): void {
    this.#wake?.()
    this.#wake = undefined
  }
}
