// Token ids of a conversation, grown by append and shared by everything that begins alike: turns, forks, prompts.
// Owns the ids and their JSON; what they mean is the codec's.

/** Ids behind those of `base`, and their decimal digits joined by commas as far as somebody has asked for them. Written at the tip only. */
class Buffers {
  readonly base: TokenRun | undefined
  /** How many bases are in front of each other. */
  readonly depth: number
  ids: Uint32Array
  used = 0
  json: Buffer = Buffer.alloc(0)
  /** Ids that are in `json`, and the bytes they take. */
  written = 0
  bytes = 0

  constructor(room: number, base?: TokenRun, depth = 0) {
    this.base = base
    this.depth = depth
    this.ids = new Uint32Array(room)
  }
}
/** A shorter run is copied by what grows from it beside another; a longer one is shared, up to so many times. */
const sharedFrom = 4096
const deepest = 8

/**
 * A run of ids; immutable. Appending to the longest run of a family is done in place. Beside it a fork begins: a long run is
 * shared by all its forks, a short one copied. Views stay valid for ever: what they show is never written again.
 */
export class TokenRun {
  readonly length: number
  readonly #buffers: Buffers
  /** Bytes of its own digits in the buffers; they never change. */
  #bytes: number | undefined = undefined
  /** Whole runs copied since the start, for tests: a plain loop copies nothing but to grow. */
  static copies = 0

  private constructor(buffers: Buffers, length: number) {
    this.#buffers = buffers
    this.length = length
  }
  // Not by its name: TypeScript 7.0 compiles that to a variable that is not set yet.
  static readonly empty: TokenRun = new this(new Buffers(0), 0)

  append(more: ArrayLike<number>): TokenRun {
    if (more.length === 0) return this
    let buffers = this.#buffers
    if (buffers.used !== this.#own || buffers === TokenRun.empty.#buffers) buffers = this.#fork(more.length)
    const own = this.length - (buffers.base?.length ?? 0)
    const end = own + more.length
    if (end > buffers.ids.length) {
      // Views of the old array stay what they are.
      const ids = new Uint32Array(roomFor(end))
      ids.set(buffers.ids.subarray(0, own))
      buffers.ids = ids
    }
    buffers.ids.set(more, own)
    buffers.used = end
    return new TokenRun(buffers, this.length + more.length)
  }
  /** The first `length` ids. */
  cut(length: number): TokenRun {
    if (length >= this.length) return this
    const { base } = this.#buffers
    return base && length <= base.length ? base.cut(length) : new TokenRun(this.#buffers, Math.max(0, length))
  }
  /** All ids; those of a fork are put together for it. */
  view(): Uint32Array {
    const { base, ids } = this.#buffers
    if (!base) return ids.subarray(0, this.length)
    const all = new Uint32Array(this.length)
    this.#into(all)
    return all
  }
  /** The ids from this place on. */
  from(place: number): Uint32Array {
    const { base, ids } = this.#buffers
    const before = base?.length ?? 0
    return place >= before ? ids.subarray(place - before, this.#own) : this.view().subarray(place)
  }
  /** The id at this place; undefined behind the end. */
  at(place: number): number | undefined {
    if (place >= this.length) return undefined
    const { base, ids } = this.#buffers
    const before = base?.length ?? 0
    return place < before ? base?.at(place) : ids[place - before]
  }
  /** The ids as JSON without brackets, in parts: `1,2,3`. Costs what is new since it was last asked for. */
  json(): readonly Buffer[] {
    const buffers = this.#buffers
    const own = this.#own
    if (buffers.written < own) write(buffers, own)
    if (this.#bytes === undefined) {
      this.#bytes = buffers.bytes
      // Shorter than what was written: the digits behind it are counted back.
      for (let n = buffers.written - 1; n >= own; n--) this.#bytes -= digits(buffers.ids[n] ?? 0) + comma(buffers, n)
    }
    const mine = buffers.json.subarray(0, this.#bytes)
    return buffers.base ? [...buffers.base.json(), mine] : [mine]
  }
  /** How many ids at the start are the same; at once as far as both live in the same memory. */
  common(other: TokenRun): number {
    const most = Math.min(this.length, other.length)
    let n = this.#shared(other)
    if (n >= most) return most
    const [a, b, first] = [this.from(n), other.from(n), n]
    while (n < most && a[n - first] === b[n - first]) n++
    return n
  }
  /** Has one of them grown, or forked, from the memory that the other lives in? */
  shares(other: TokenRun): boolean {
    return this.#within(other.#buffers) || other.#within(this.#buffers)
  }
  /** Bytes this run keeps in memory, shared with every run that grew from it. */
  get bytes(): number {
    return this.#buffers.ids.byteLength + this.#buffers.json.byteLength + (this.#buffers.base?.bytes ?? 0)
  }

  get #own(): number {
    return this.length - (this.#buffers.base?.length ?? 0)
  }
  #fork(more: number): Buffers {
    const { depth } = this.#buffers
    if (this.length >= sharedFrom && depth < deepest) return new Buffers(roomFor(more), this, depth + 1)
    const copy = new Buffers(roomFor(this.length + more))
    this.#into(copy.ids)
    copy.used = this.length
    TokenRun.copies++
    return copy
  }
  #into(all: Uint32Array): void {
    const { base, ids } = this.#buffers
    if (base) base.#into(all)
    all.set(ids.subarray(0, this.#own), base?.length ?? 0)
  }
  #within(buffers: Buffers): boolean {
    for (let at: TokenRun | undefined = this; at; at = at.#buffers.base) if (at.#buffers === buffers) return true
    return false
  }
  /** Ids at the start that are the very same memory. */
  #shared(other: TokenRun): number {
    for (let a: TokenRun | undefined = this; a; a = a.#buffers.base)
      for (let b: TokenRun | undefined = other; b; b = b.#buffers.base)
        if (a.#buffers === b.#buffers) return Math.min(a.length, b.length)
    return 0
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

/** In front of all but the very first id. */
const comma = ({ base }: Buffers, n: number): 0 | 1 => (n > 0 || base ? 1 : 0)

function write(buffers: Buffers, upTo: number): void {
  const { ids } = buffers
  let need = buffers.bytes
  for (let n = buffers.written; n < upTo; n++) need += digits(ids[n] ?? 0) + comma(buffers, n)
  if (need > buffers.json.length) {
    const json = Buffer.allocUnsafeSlow(roomFor(need))
    buffers.json.copy(json, 0, 0, buffers.bytes)
    buffers.json = json
  }
  const { json } = buffers
  let at = buffers.bytes
  for (let n = buffers.written; n < upTo; n++) {
    if (comma(buffers, n) === 1) json[at++] = 44
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
