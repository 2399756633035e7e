// Tokens that say when they were written, and a reader that finds them in any stream: of events, of frames, of chunks. It
// parses nothing else, so that it costs the same whatever carries them.

const mark = 0x40
/** Characters of a stamp: `@`, and microseconds in five digits of 64; about as long as a token of real text. */
export const stampLength = 6
const digitsOf = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
/** Microseconds after which stamps begin anew: 18 minutes, far longer than a token is under way. */
const round = 64 ** (stampLength - 1)

/** On the clock that all processes of a machine share. */
export function micros(): number {
  const [seconds, nanos] = process.hrtime()
  return seconds * 1e6 + Math.floor(nanos / 1000)
}
export function stampOf(us: number): string {
  let text = ''
  for (let rest = us % round, n = 1; n < stampLength; n++, rest = Math.floor(rest / 64))
    text = digitsOf.charAt(rest % 64) + text
  return `@${text}`
}

/** Finds stamps in what arrives, also where one is cut in two. `count`: those wanted; what follows is not looked at. */
export class Stamps {
  readonly #count: number
  #rest: Buffer = Buffer.alloc(0)
  /** Milliseconds from written to found, one for each. */
  readonly latencies: number[] = []
  firstWritten = 0
  lastWritten = 0
  firstFound = 0
  lastFound = 0

  constructor(count: number) {
    this.#count = count
  }
  get done(): boolean {
    return this.latencies.length >= this.#count
  }
  push(bytes: Buffer): void {
    const now = micros()
    const all = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes])
    let at = all.indexOf(mark)
    while (at >= 0 && at + stampLength <= all.length) {
      if (this.done) return
      const said = digits(all, at + 1, at + stampLength)
      // The head of a frame can look like a mark.
      if (said === undefined) {
        at = all.indexOf(mark, at + 1)
        continue
      }
      const us = now - ((((now - said) % round) + round) % round)
      if (this.latencies.length === 0) [this.firstWritten, this.firstFound] = [us, now]
      this.lastWritten = us
      this.lastFound = now
      this.latencies.push((now - us) / 1000)
      at = all.indexOf(mark, at + stampLength)
    }
    this.#rest = at < 0 ? Buffer.alloc(0) : Buffer.from(all.subarray(at))
  }
}

const valueOf: readonly (number | undefined)[] = Array.from({ length: 256 }, (_, code) => {
  const value = digitsOf.indexOf(String.fromCharCode(code))
  return value < 0 ? undefined : value
})
function digits(bytes: Buffer, from: number, to: number): number | undefined {
  let value = 0
  for (let n = from; n < to; n++) {
    const digit = valueOf[bytes[n] ?? 0]
    if (digit === undefined) return undefined
    value = value * 64 + digit
  }
  return value
}
