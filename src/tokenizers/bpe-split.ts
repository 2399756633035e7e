// Text into pieces by the splits of a tokenizer file, one behind the other, and the pieces into ids: at once for texts as
// people write them, in slices for those that would hold the event loop.
import type { Split } from './bpe-file.ts'
import { longestRun, Matcher } from './bpe-matcher.ts'
import type { Pieces } from './bpe-pieces.ts'
import { spent, type Work } from './slices.ts'

/** UTF-16 units that are encoded without a look at the clock. */
const window = 16 * 1024
/** Of texts as people write them, that may take somewhat longer before they are cut. */
const ordinary = 64 * 1024

type Step = { readonly matcher: Matcher; readonly gaps: boolean }

export class Splitter {
  readonly #steps: readonly Step[]
  readonly #pieces: Pieces

  constructor(splits: readonly Split[], pieces: Pieces) {
    this.#steps = splits.map(({ pattern, gaps }) => ({ matcher: new Matcher(pattern), gaps }))
    this.#pieces = pieces
  }

  /** What to expect of a text: `short` is done at once, `ordinary` most likely within some 10 ms. */
  sizeOf(text: string): 'short' | 'ordinary' | 'long' {
    if (text.length > ordinary || this.#hasLongRun(0, text, 0, text.length)) return 'long'
    return text.length > window ? 'ordinary' : 'short'
  }
  #hasLongRun(first: number, text: string, from: number, to: number): boolean {
    if (to - from <= longestRun) return false
    return this.#steps.some(({ matcher }, n) => n >= first && matcher.hasLongRun(text, from, to))
  }

  /** Appends the ids of `text`; of a text without long runs. */
  encode(text: string, out: number[], first = 0): void {
    const step = this.#steps[first]
    if (step === undefined) return this.#pieces.encode(text, out)
    const last = first === this.#steps.length - 1
    const { regexp } = step.matcher
    const found: string[] = []
    const emit = (piece: string): void => {
      if (last) this.#pieces.encode(piece, out)
      else found.push(piece)
    }
    let end = 0
    regexp.lastIndex = 0
    for (let match = regexp.exec(text); match !== null; match = regexp.exec(text)) {
      if (match.index > end && step.gaps) emit(text.slice(end, match.index))
      emit(match[0])
      end = match.index + match[0].length
    }
    if (end < text.length && step.gaps) emit(end === 0 ? text : text.slice(end))
    for (const piece of found) this.encode(piece, out, first + 1)
  }

  /** The same of any text. */
  *encodeLong(text: string): Work<Uint32Array> {
    const ids = new Chunks()
    yield* this.#part(0, text, 0, text.length, ids)
    return yield* ids.joined()
  }

  *#part(first: number, text: string, from: number, to: number, ids: Chunks): Work<void> {
    const step = this.#steps[first]
    if (to - from <= longestRun || (to - from <= window && !this.#hasLongRun(first, text, from, to))) {
      if (to > from) this.encode(text.slice(from, to), ids.open, first)
      if (spent()) yield
      return
    }
    if (step === undefined) return ids.add(yield* this.#pieces.long(text.slice(from, to)))
    const { matcher, gaps } = step
    const size = Math.max(window, 4 * matcher.reach)
    let gap = from
    let at = from
    while (at < to) {
      if (spent()) yield
      const edge = Math.min(to, at + size)
      if (matcher.hasLongRun(text, at, edge)) {
        const end = yield* matcher.match(text, at, to)
        if (end < 0) at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1
        else {
          if (gaps && at > gap) yield* this.#part(first + 1, text, gap, at, ids)
          yield* this.#part(first + 1, text, at, end, ids)
          gap = at = end
        }
        continue
      }
      // An attempt that begins before `limit` sees nothing of the edge, so what it finds here it finds in the whole text.
      const limit = edge === to ? to : edge - matcher.reach
      for (const [begin, end] of matchesOf(matcher.regexp, text.slice(at, edge), at, limit)) {
        if (gaps && begin > gap) yield* this.#part(first + 1, text, gap, begin, ids)
        if (end - begin > longestRun) yield* this.#part(first + 1, text, begin, end, ids)
        else {
          this.encode(text.slice(begin, end), ids.open, first + 1)
          if (spent()) yield
        }
        gap = at = end
      }
      at = Math.max(at, limit)
    }
    if (gaps) yield* this.#part(first + 1, text, gap, to, ids)
  }
}

function matchesOf(regexp: RegExp, text: string, offset: number, limit: number): [begin: number, end: number][] {
  const found: [number, number][] = []
  regexp.lastIndex = 0
  for (let match = regexp.exec(text); match !== null; match = regexp.exec(text)) {
    const begin = offset + match.index
    if (begin >= limit) break
    found.push([begin, begin + match[0].length])
  }
  return found
}

/** Ids on their way to one array. */
class Chunks {
  /** Ids may be appended. */
  open: number[] = []
  readonly #full: ArrayLike<number>[] = []

  add(ids: ArrayLike<number>): void {
    this.#full.push(this.open, ids)
    this.open = []
  }
  *joined(): Work<Uint32Array> {
    this.add([])
    const out = new Uint32Array(this.#full.reduce((sum, { length }) => sum + length, 0))
    let at = 0
    for (const ids of this.#full) {
      out.set(ids, at)
      at += ids.length
      if (spent()) yield
    }
    return out
  }
}
