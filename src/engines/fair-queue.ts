// Who waits for a free replica, and whose turn is next: owners in rotation, each owner's own first come, first served.
import { ApiError } from '../protocol/errors.ts'

type Waiter = { attempt(): boolean; fail(error: unknown): void }

export class FairQueue<T> {
  /** Owners in the order of their turns. */
  readonly #owners = new Map<string, Set<Waiter>>()
  readonly #limit: number
  #size = 0

  /** `limit`: waiters of all owners together. */
  constructor(limit: number) {
    this.#limit = limit
  }
  get size(): number {
    return this.#size
  }
  /**
   * Resolves with what `attempt` gives once it gives something; it is asked whenever this waiter's turn comes. Rejects
   * with what it throws, with `server_is_overloaded` when the queue is full, with the signal's reason when it fires.
   */
  wait(owner: string, signal: AbortSignal, attempt: () => T | undefined): Promise<T> {
    if (signal.aborted) return Promise.reject(signal.reason)
    if (this.#size >= this.#limit)
      return Promise.reject(
        new ApiError('server_is_overloaded', 'Every replica is busy and the queue is full; try again in a moment.'),
      )
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        signal.removeEventListener('abort', onAbort)
        const own = this.#owners.get(owner)
        if (!own?.delete(waiter)) return
        this.#size--
        if (own.size === 0) this.#owners.delete(owner)
      }
      const fail = (error: unknown): void => {
        leave()
        reject(error)
      }
      const onAbort = (): void => fail(signal.reason)
      const waiter: Waiter = {
        fail,
        attempt: () => {
          try {
            const value = attempt()
            if (value === undefined) return false
            leave()
            resolve(value)
          } catch (e) {
            fail(e)
          }
          return true
        },
      }
      signal.addEventListener('abort', onAbort, { once: true })
      const own = this.#owners.get(owner)
      if (own) own.add(waiter)
      else this.#owners.set(owner, new Set([waiter]))
      this.#size++
    })
  }
  /** Something may be free: lets the first in turn that can use it have it. */
  offer(): void {
    for (const [owner, own] of this.#owners)
      for (const waiter of own) {
        if (!waiter.attempt()) continue
        // The owner goes to the end of the rotation.
        if (this.#owners.delete(owner)) this.#owners.set(owner, own)
        return
      }
  }
  failAll(error: unknown): void {
    for (const own of [...this.#owners.values()]) for (const waiter of [...own]) waiter.fail(error)
  }
}
