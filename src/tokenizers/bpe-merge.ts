// The merges of one byte-level vocabulary: bytes of a piece in, ids out, exactly as the merges rank.
// Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units", 2016.
import { spent, type Work } from './slices.ts'

/** Above this many bytes the lowest rank is found by a heap. */
const small = 96
const none = 0x7fffffff
/** Rank and place in one number: ranks stay below 2^20, places below 2^32. */
const places = 2 ** 32

export class Merges {
  /** Of every byte, its id. */
  readonly #bytes: Int32Array
  /** Open addressing, four numbers a slot: left, right, rank, whole. -1: free. */
  readonly #slots: Int32Array
  readonly #mask: number
  readonly #ids = new Int32Array(small)
  readonly #found = new Int32Array(small)

  /** `merges`: left, right and whole of each, the one that goes first first. */
  constructor(bytes: Int32Array, merges: Int32Array) {
    this.#bytes = bytes
    let room = 4
    while (room < (merges.length / 3) * 2.5) room *= 2
    this.#mask = room - 1
    this.#slots = new Int32Array(room * 4).fill(-1)
    const slots = this.#slots
    for (let n = 0; n < merges.length; n += 3) {
      const [left, right] = [merges[n] ?? 0, merges[n + 1] ?? 0]
      let slot = hash(left, right) & this.#mask
      // A pair that is listed twice has its later rank, as in a map that is filled in order.
      while (slots[slot * 4] !== -1 && (slots[slot * 4] !== left || slots[slot * 4 + 1] !== right))
        slot = (slot + 1) & this.#mask
      slots[slot * 4] = left
      slots[slot * 4 + 1] = right
      slots[slot * 4 + 2] = n / 3
      slots[slot * 4 + 3] = merges[n + 2] ?? 0
    }
  }

  /** Ids of a short piece, one alone as a number; undefined for a piece that `long` must do. */
  short(bytes: Uint8Array, length: number): number | number[] | undefined {
    if (length > small) return undefined
    const [ids, found, slots] = [this.#ids, this.#found, this.#slots]
    for (let n = 0; n < length; n++) ids[n] = this.#bytes[bytes[n] ?? 0] ?? 0
    for (let n = 0; n + 1 < length; n++) found[n] = this.#find(ids[n] ?? 0, ids[n + 1] ?? 0)
    let left = length
    for (;;) {
      let best = none
      let at = -1
      for (let n = 0; n < left - 1; n++) {
        const slot = found[n] ?? -1
        if (slot < 0) continue
        const rank = slots[slot + 2] ?? none
        if (rank >= best) continue
        best = rank
        at = n
      }
      if (at < 0) break
      ids[at] = slots[(found[at] ?? 0) + 3] ?? 0
      ids.copyWithin(at + 1, at + 2, left)
      found.copyWithin(at, at + 1, left - 1)
      left--
      if (at > 0) found[at - 1] = this.#find(ids[at - 1] ?? 0, ids[at] ?? 0)
      if (at < left - 1) found[at] = this.#find(ids[at] ?? 0, ids[at + 1] ?? 0)
    }
    return left === 1 ? (ids[0] ?? 0) : Array.from(ids.subarray(0, left))
  }

  /** Ids of a piece of any length. Memory is some 26 bytes a byte. */
  *long(bytes: Uint8Array, length: number): Work<Int32Array> {
    const ids = new Int32Array(length)
    /** Of each place, the next one and the one before; of its pair, the slot. Places that are merged away have slot -1. */
    const [next, before, found] = [new Int32Array(length), new Int32Array(length), new Int32Array(length)]
    const slots = this.#slots
    for (let n = 0; n < length; n++) {
      ids[n] = this.#bytes[bytes[n] ?? 0] ?? 0
      next[n] = n + 1
      before[n] = n - 1
      if ((n & 0xfff) === 0 && spent()) yield
    }
    const heap = new Heap(length + (length >> 2) + 16)
    const look = (n: number): void => {
      const other = next[n] ?? length
      const slot = other < length ? this.#find(ids[n] ?? 0, ids[other] ?? 0) : -1
      found[n] = slot
      if (slot >= 0) heap.push((slots[slot + 2] ?? 0) * places + n)
    }
    for (let n = 0; n < length; n++) {
      look(n)
      if ((n & 0x3ff) === 0 && spent()) yield
    }
    let steps = 0
    for (let top = heap.pop(); top >= 0; top = heap.pop()) {
      if ((++steps & 0xff) === 0 && spent()) yield
      const n = top % places
      const slot = found[n] ?? -1
      // The pair has changed since: what it is now has an entry of its own.
      if (slot < 0 || slots[slot + 2] !== Math.floor(top / places)) continue
      const gone = next[n] ?? 0
      const after = next[gone] ?? length
      ids[n] = slots[slot + 3] ?? 0
      found[gone] = -1
      next[n] = after
      if (after < length) before[after] = n
      if (n > 0) look(before[n] ?? 0)
      look(n)
      if (heap.full) {
        heap.clear()
        for (let m = 0; m < length; m = next[m] ?? length) {
          const pair = found[m] ?? -1
          if (pair >= 0) heap.push((slots[pair + 2] ?? 0) * places + m)
          if ((++steps & 0x3ff) === 0 && spent()) yield
        }
      }
    }
    let count = 0
    for (let n = 0; n < length; n = next[n] ?? length) {
      ids[count++] = ids[n] ?? 0
      if ((count & 0xfff) === 0 && spent()) yield
    }
    return ids.slice(0, count)
  }

  #find(left: number, right: number): number {
    const slots = this.#slots
    for (let slot = hash(left, right) & this.#mask; ; slot = (slot + 1) & this.#mask) {
      const there = slots[slot * 4]
      if (there === left && slots[slot * 4 + 1] === right) return slot * 4
      if (there === -1) return -1
    }
  }
}

function hash(left: number, right: number): number {
  let h = Math.imul(left, 0x9e3779b1) ^ Math.imul(right + 0x7f4a7c15, 0x85ebca6b)
  h ^= h >>> 15
  return Math.imul(h, 0x2c1b3c6d) >>> 7
}

/** Numbers from 0, the least first. */
class Heap {
  readonly #room: Float64Array
  #size = 0

  constructor(room: number) {
    this.#room = new Float64Array(room)
  }
  /** No room for the two that one merge may add. */
  get full(): boolean {
    return this.#size + 2 > this.#room.length
  }
  clear(): void {
    this.#size = 0
  }
  push(value: number): void {
    const room = this.#room
    let at = this.#size++
    while (at > 0) {
      const up = (at - 1) >> 1
      const other = room[up] ?? 0
      if (other <= value) break
      room[at] = other
      at = up
    }
    room[at] = value
  }
  /** -1 when empty. */
  pop(): number {
    const room = this.#room
    if (this.#size === 0) return -1
    const top = room[0] ?? 0
    const value = room[--this.#size] ?? 0
    const size = this.#size
    let at = 0
    for (;;) {
      let down = 2 * at + 1
      if (down >= size) break
      if (down + 1 < size && (room[down + 1] ?? 0) < (room[down] ?? 0)) down++
      const other = room[down] ?? 0
      if (value <= other) break
      room[at] = other
      at = down
    }
    room[at] = value
    return top
  }
}
