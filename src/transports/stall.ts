// Tells a peer that reads slowly from one that has stopped.

/** Looks at one connection again and again: bytes wait for it, and has any left since the last look? */
export class Stall {
  #seen: { readonly written: number; readonly since: number } | undefined
  /** Milliseconds for which bytes have been waiting and none has left. `written`: bytes that have left so far. */
  length(waits: boolean, written: number, now: number): number {
    if (!waits) this.#seen = undefined
    else if (this.#seen?.written !== written) this.#seen = { written, since: now }
    return this.#seen ? now - this.#seen.since : 0
  }
}
