// Token ids of a conversation, grown by append and shared by everything that begins alike: turns, forks, prompts.
// Owns the ids and their JSON; what they mean is the codec's.

/** Ids, and their decimal digits joined by commas as far as somebody has asked for them. Written at the tip only. */
class Buffers {
  ids: Uint32Array
  used = 0
  json: Buffer = Buffer.alloc(0)
  /** Ids that are in `json`, and the bytes they take. */
  written = 0
  bytes = 0

  constructor(room: number) {
    this.ids = new Uint32Array(room)
  }
}

/**
 * A run of ids; immutable. Appending to the longest run of a family is done in place; to any other it copies, once.
 * Views stay valid for ever: what they show is never written again.
 */
export class TokenRun {
  readonly length: number
  readonly #buffers: Buffers
  /** Whole runs copied since the start, for tests: a plain loop copies nothing but to grow. */
  static copies = 0

  private constructor(buffers: Buffers, length: number) {
    this.#buffers = buffers
    this.length = length
  }
  static readonly empty: TokenRun = new TokenRun(new Buffers(0), 0)

  append(more: ArrayLike<number>): TokenRun {
    if (more.length === 0) return this
    let buffers = this.#buffers
    const end = this.length + more.length
    if (buffers.used !== this.length || buffers === TokenRun.empty.#buffers) {
      buffers = new Buffers(roomFor(end))
      buffers.ids.set(this.view())
      buffers.used = this.length
      TokenRun.copies++
    } else if (end > buffers.ids.length) {
      // Views of the old array stay what they are.
      const ids = new Uint32Array(roomFor(end))
      ids.set(this.view())
      buffers.ids = ids
    }
    buffers.ids.set(more, this.length)
    buffers.used = end
    return new TokenRun(buffers, end)
  }
  /** The first `length` ids. */
  cut(length: number): TokenRun {
    return length >= this.length ? this : new TokenRun(this.#buffers, Math.max(0, length))
  }
  view(): Uint32Array {
    return this.#buffers.ids.subarray(0, this.length)
  }
  /** The ids as JSON without brackets: `1,2,3`. Costs what is new since it was last asked for. */
  json(): Buffer {
    const buffers = this.#buffers
    if (buffers.written < this.length) write(buffers, this.length)
    if (buffers.written === this.length) return buffers.json.subarray(0, buffers.bytes)
    // Shorter than what was written: the digits behind it are counted back.
    let bytes = buffers.bytes
    for (let n = buffers.written - 1; n >= this.length; n--) bytes -= digits(buffers.ids[n] ?? 0) + (n > 0 ? 1 : 0)
    return buffers.json.subarray(0, bytes)
  }
  /** How many ids at the start are the same; at once where one is grown from the other. */
  common(other: TokenRun): number {
    const most = Math.min(this.length, other.length)
    if (this.#buffers === other.#buffers) return most
    const [a, b] = [this.view(), other.view()]
    let n = 0
    while (n < most && a[n] === b[n]) n++
    return n
  }
  /** Do both live in the same memory? */
  shares(other: TokenRun): boolean {
    return this.#buffers === other.#buffers
  }
  /** Bytes this run keeps in memory, shared with every run that grew from it. */
  get bytes(): number {
    return this.#buffers.ids.byteLength + this.#buffers.json.byteLength
  }
}

/** A quarter more than needed: large conversations are many, and each keeps what it has once grown. */
const roomFor = (length: number): number => Math.max(256, Math.ceil(length * 1.25))
const digits = (id: number): number =>
  id < 10
    ? 1
    : id < 100
      ? 2
      : id < 1000
        ? 3
        : id < 10_000
          ? 4
          : id < 100_000
            ? 5
            : id < 1_000_000
              ? 6
              : String(id).length

function write(buffers: Buffers, upTo: number): void {
  const { ids } = buffers
  let need = buffers.bytes
  for (let n = buffers.written; n < upTo; n++) need += digits(ids[n] ?? 0) + (n > 0 ? 1 : 0)
  if (need > buffers.json.length) {
    const json = Buffer.allocUnsafeSlow(roomFor(need))
    buffers.json.copy(json, 0, 0, buffers.bytes)
    buffers.json = json
  }
  const { json } = buffers
  let at = buffers.bytes
  for (let n = buffers.written; n < upTo; n++) {
    if (n > 0) json[at++] = 44
    let id = ids[n] ?? 0
    const end = at + digits(id)
    for (let place = end - 1; place >= at; place--) {
      json[place] = 48 + (id % 10)
      id = Math.floor(id / 10)
    }
    at = end
  }
  buffers.written = upTo
  buffers.bytes = at
}
