// Which turn computes in which sequence of the KV cache. A sequence belongs to a conversation for as long as there is
// room; nothing that is said of one is believed: what counts is what it holds. Lives in the process of llama.cpp.
import type { Place, Run } from './llama-embedded-messages.ts'
import type { Meter, Sequence } from './llama-embedded-library.ts'
import type { SavedStates } from './llama-embedded-states.ts'

export type Slot = {
  readonly index: number
  readonly sequence: Sequence
  busy: boolean
  /** Those that wait for a turn in it that was given up to notice so. */
  readonly after: (() => void)[]
  /** Of the turn in it. */
  signal: AbortSignal | undefined
  /** When it was last given out, by our own count. */
  used: number
  /** The turns that may go on here: the last whole one, and that of a turn which was broken off behind it. */
  turns: readonly number[]
  /** All that it holds may be written to disk. */
  mayStore: boolean
}
/** `before`: what the sequence had computed before it was made to fit. */
export type Taken = { readonly slot: Slot; readonly place: Place; readonly before: Meter }
type Waiting = { readonly ids: Uint32Array; readonly place: Place | undefined; give(slot: Slot | undefined): void }

export class Sequences {
  readonly slots: readonly Slot[]
  readonly #limit: number
  readonly #states: SavedStates | undefined
  readonly #queue: Waiting[] = []
  #clock = 0

  /** `waiting`: turns that may wait for a sequence. */
  constructor(sequences: readonly Sequence[], waiting: number, states: SavedStates | undefined) {
    this.slots = sequences.map((sequence, index) => ({
      index,
      sequence,
      busy: false,
      after: [],
      signal: undefined,
      used: 0,
      turns: [],
      mayStore: false,
    }))
    this.#limit = waiting
    this.#states = states
  }
  /**
   * A sequence whose contents are the beginning of `ids`, short of at least one. Undefined after an abort; `busy` where
   * too many wait already.
   */
  async take(
    { ids, place, mayStore }: Pick<Run, 'ids' | 'place' | 'mayStore'>,
    signal: AbortSignal,
  ): Promise<Taken | 'busy' | undefined> {
    // Who gives up and asks again at once is to find what it has left; so does the turn behind a warm-up that it cut short.
    const left = this.slots.find((s) => s.busy && s.signal?.aborted && (this.#holds(s, place) || begins(s, ids)))
    if (left) await new Promise<void>((resolve) => left.after.push(resolve))
    const slot = this.#choose(ids, place) ?? (await this.#wait(ids, place, signal))
    if (slot === 'busy' || slot === undefined) return slot
    try {
      signal.throwIfAborted()
      slot.signal = signal
      const turn = ++this.#clock
      const own = place !== undefined && this.#holds(slot, place)
      // Until the new turn is whole the old one may be tried again.
      slot.turns = own ? [place.turn, turn] : [turn]
      const before = slot.sequence.tokenMeter.getState()
      await this.#align(slot, ids, own)
      // What is left of another conversation begins this one as well.
      slot.mayStore = mayStore
      return { slot, place: { slot: slot.index, turn }, before }
    } catch (e) {
      this.give(slot)
      if (signal.aborted) return undefined
      throw e
    }
  }
  /** The turn in it has come to its end. */
  whole({ slot, place }: Taken): void {
    slot.turns = [place.turn]
  }
  /** Nobody computes in it any more; the next in the queue takes the one that suits it best. */
  give(slot: Slot): void {
    slot.busy = false
    slot.signal = undefined
    for (const resolve of slot.after.splice(0)) resolve()
    const next = this.#queue.shift()
    next?.give(this.#choose(next.ids, next.place))
  }
  #wait(
    ids: Uint32Array,
    place: Place | undefined,
    signal: AbortSignal,
  ): Promise<Slot | undefined> | 'busy' | undefined {
    if (signal.aborted) return undefined
    if (this.#queue.length >= this.#limit) return 'busy'
    return new Promise((resolve) => {
      const leave = (): void => {
        this.#queue.splice(this.#queue.indexOf(waiting), 1)
        resolve(undefined)
      }
      const waiting: Waiting = {
        ids,
        place,
        give: (slot) => {
          signal.removeEventListener('abort', leave)
          resolve(slot)
        },
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#queue.push(waiting)
    })
  }
  #holds(slot: Slot, place: Place | undefined): boolean {
    return place !== undefined && place.slot === slot.index && slot.turns.includes(place.turn)
  }
  /** Marks the chosen one as busy. Undefined: none is free. */
  #choose(ids: Uint32Array, place: Place | undefined): Slot | undefined {
    const free = this.slots.filter((s) => !s.busy).sort((a, b) => a.used - b.used)
    const slot = free.find((s) => this.#holds(s, place)) ?? this.#byContents(free, ids)
    if (!slot) return undefined
    slot.busy = true
    slot.used = ++this.#clock
    return slot
  }
  /** `free`: least recently used first. */
  #byContents(free: readonly Slot[], ids: Uint32Array): Slot | undefined {
    let best: { slot: Slot; common: number; lost: number } | undefined
    for (const slot of free) {
      const same = slot.sequence.compareContextTokens(ids).firstDifferentIndex
      const lost = slot.sequence.nextTokenIndex - same
      // One that loses nothing goes before every other.
      const better = !best || (lost === 0) !== (best.lost === 0) ? lost === 0 || !best : same > best.common
      if (better) best = { slot, common: same, lost }
    }
    if (best && best.lost === 0 && best.common > 0) return best.slot
    const empty = free.find((s) => s.sequence.nextTokenIndex === 0)
    if (empty) return empty
    // Somebody's conversation is cut off: the one from which most is saved, or the one that nobody has wanted for longest.
    return best && best.common * 2 >= ids.length ? best.slot : free[0]
  }
  async #align(slot: Slot, ids: Uint32Array, own: boolean): Promise<void> {
    const { sequence } = slot
    const states = own ? undefined : this.#states
    let same = sequence.compareContextTokens(ids).firstDifferentIndex
    const saved = states?.best(ids)
    if (states && slot.mayStore && same < sequence.nextTokenIndex) await states.save(sequence)
    if (states && saved && saved.common > same) {
      await sequence.clearHistory()
      await states.restore(saved.saved, sequence)
      same = sequence.compareContextTokens(ids).firstDifferentIndex
    }
    // llama.cpp tells what comes next only behind an id that it computes now.
    const keep = Math.min(same, ids.length - 1)
    if (keep < sequence.nextTokenIndex)
      await sequence.eraseContextTokenRanges([{ start: keep, end: sequence.nextTokenIndex }])
  }
}
/** Is all that it holds the beginning of these? */
function begins({ sequence }: Slot, ids: Uint32Array): boolean {
  const same = sequence.compareContextTokens(ids).firstDifferentIndex
  return same > 0 && same === sequence.nextTokenIndex
}
