// One pattern of a tokenizer file, matched in two ways with the same result: by RegExp, and by a matcher of our own that
// can stop in the middle. RegExp overflows its stack on megabytes of one class of characters, and holds the loop.
import { reachOf, sourceOf, type Pattern } from './bpe-pattern.ts'
import { atOnce, spent, type Work } from './slices.ts'

/** Half the run of one set that RegExp may be given. */
const step = 1024
/** Longest run, in UTF-16 units, of a text of which `hasLongRun` says no. */
export const longestRun = 2 * step
const mostSets = 31
const mostCode = 20_000

/** Another way, when this one fails: to `next` at `at`; a loop gives back one character at a time, down to `least`. */
type Choice = { readonly next: number; at: number; readonly least: number; readonly loop: boolean }
type Instruction =
  | { readonly op: 'set'; readonly bit: number }
  | { readonly op: 'loop'; readonly bit: number; readonly min: number }
  | { readonly op: 'fork'; other: number }
  | { readonly op: 'jump'; to: number }
  | { readonly op: 'look'; readonly negative: boolean; end: number }
  | { readonly op: 'done' }

export class Matcher {
  /** Global, for texts without long runs. */
  readonly regexp: RegExp
  /** An attempt from here looks no further, in a text without long runs. */
  readonly reach: number
  readonly #sets: RegExp[] = []
  readonly #bits = new Map<string, number>()
  /** For each block of 256 characters, the sets that each one is in; made when one is met. */
  readonly #pages: (Uint32Array | undefined)[] = []
  readonly #code: Instruction[] = []
  #loops = 0

  constructor(pattern: Pattern) {
    this.regexp = new RegExp(sourceOf(pattern), 'gv')
    this.reach = reachOf(pattern, longestRun)
    this.#compile(pattern)
    this.#code.push({ op: 'done' })
  }

  /** Is there a run of one repeated set that RegExp should not see? May say so from `longestRun / 2`. */
  hasLongRun(text: string, from: number, to: number): boolean {
    for (let at = from; at + step < to; at += step) {
      let sets = this.#loops & this.#setsAt(text, at) & this.#setsAt(text, at + step)
      for (let n = at + 1; sets !== 0 && n < at + step; n++) sets &= this.#setsAt(text, n)
      if (sets !== 0) return true
    }
    return false
  }

  /** The end of the match that begins exactly at `from`; -1 where there is none. `to` is the end of all text. */
  match(text: string, from: number, to: number): Work<number> {
    return this.#run(0, text, from, to)
  }

  *#run(begin: number, text: string, from: number, to: number): Work<number> {
    const choices: Choice[] = []
    let [pc, at, steps] = [begin, from, 0]
    for (;;) {
      const code = this.#code[pc++] ?? done
      let ok = true
      if (code.op === 'done') return at
      if (code.op === 'set') {
        ok = at < to && (this.#setsAt(text, at) & code.bit) !== 0
        if (ok) at += width(text, at)
      } else if (code.op === 'loop') {
        let count = 0
        let least = at
        while (at < to && (this.#setsAt(text, at) & code.bit) !== 0) {
          at += width(text, at)
          if (++count === code.min) least = at
          if ((++steps & 0xfff) === 0 && spent()) yield
        }
        ok = count >= code.min
        if (ok && at > least) choices.push({ next: pc, at, least, loop: true })
      } else if (code.op === 'fork') choices.push({ next: code.other, at, least: at, loop: false })
      else if (code.op === 'jump') pc = code.to
      else {
        ok = atOnce(this.#run(pc, text, at, to)) >= 0 !== code.negative
        pc = code.end
      }
      if (ok) continue
      const choice = choices.at(-1)
      if (choice === undefined) return -1
      if (choice.loop) choice.at -= isLow(text.charCodeAt(choice.at - 1)) ? 2 : 1
      ;[pc, at] = [choice.next, choice.at]
      if (at <= choice.least) choices.pop()
      if ((++steps & 0xfff) === 0 && spent()) yield
    }
  }

  #compile(pattern: Pattern): void {
    const code = this.#code
    if (code.length > mostCode) throw new Error('a pattern with too many repeats')
    switch (pattern.type) {
      case 'set':
        code.push({ op: 'set', bit: this.#bit(pattern.source) })
        return
      case 'sequence':
        for (const part of pattern.parts) this.#compile(part)
        return
      case 'choice': {
        const jumps: { op: 'jump'; to: number }[] = []
        pattern.parts.forEach((part, n) => {
          const fork = { op: 'fork' as const, other: 0 }
          const last = n === pattern.parts.length - 1
          if (!last) code.push(fork)
          this.#compile(part)
          const jump = { op: 'jump' as const, to: 0 }
          if (!last) code.push(jump)
          jumps.push(jump)
          fork.other = code.length
        })
        for (const jump of jumps) jump.to = code.length
        return
      }
      case 'look': {
        const look = { op: 'look' as const, negative: pattern.negative, end: 0 }
        code.push(look)
        this.#compile(pattern.part)
        code.push(done)
        look.end = code.length
        return
      }
      case 'repeat': {
        const { part, min, max } = pattern
        if (max === Infinity && part.type === 'set') {
          const bit = this.#bit(part.source)
          this.#loops |= bit
          code.push({ op: 'loop', bit, min })
          return
        }
        for (let n = 0; n < min; n++) this.#compile(part)
        const forks = Array.from({ length: max - min }, () => ({ op: 'fork' as const, other: 0 }))
        for (const fork of forks) {
          code.push(fork)
          this.#compile(part)
        }
        for (const fork of forks) fork.other = code.length
      }
    }
  }
  #bit(source: string): number {
    let bit = this.#bits.get(source)
    if (bit !== undefined) return bit
    if (this.#sets.length === mostSets) throw new Error(`a pattern of more than ${mostSets} sets of characters`)
    bit = 1 << this.#sets.length
    this.#sets.push(new RegExp(source, 'v'))
    this.#bits.set(source, bit)
    return bit
  }
  /** The sets that the character at (or around) `at` is in, one bit each. */
  #setsAt(text: string, at: number): number {
    let code = text.charCodeAt(at)
    if (code >= 0xd800 && code < 0xe000) code = text.codePointAt(isLow(code) ? at - 1 : at) ?? code
    const page = this.#pages[code >> 8] ?? this.#page(code >> 8)
    return page[code & 0xff] ?? 0
  }
  #page(number: number): Uint32Array {
    const page = new Uint32Array(256)
    for (let n = 0; n < 256; n++) {
      const char = String.fromCodePoint((number << 8) | n)
      this.#sets.forEach((set, bit) => (page[n] = (page[n] ?? 0) | (set.test(char) ? 1 << bit : 0)))
    }
    this.#pages[number] = page
    return page
  }
}

const done = { op: 'done' } as const
const isLow = (code: number): boolean => code >= 0xdc00 && code < 0xe000
const width = (text: string, at: number): number => {
  const code = text.charCodeAt(at)
  return code >= 0xd800 && code < 0xdc00 ? 2 : 1
}
