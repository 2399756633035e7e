// Text as Unicode wants it: well-formed, and in normalisation form C, in time that grows as the text does. String.normalize sorts the marks on one letter by
// insertion: 20,000 of them take it 0.3 s, and a million for ever. https://unicode.org/reports/tr15/
import { atOnce, spent, type Work } from './slices.ts'

/** Below U+0300 nothing changes. */
const high = /[^\0-\u02ff]/
const manyMarks = /\p{M}{30,}/gu
const isMark = /\p{M}/u
/** What may become one with the character before it; Kirat Rai vowels are letters that do. */
const joins = /[\p{M}\u1161-\u1175\u11a8-\u11c2\u{16d40}-\u{16d7f}]/u
const window = 16 * 1024
/** Marks of one class behind one letter that are tried: no letter composes with as many. */
const tried = 8

/** Node has had both for long; the library of ES2023 has not. */
type Surrogates = { isWellFormed(): boolean; toWellFormed(): string }
/** Lone surrogates as U+FFFD. */
export function wellFormed(text: string): string {
  const string = text as unknown as Surrogates
  return string.isWellFormed() ? text : string.toWellFormed()
}

/** Of a text as people write it; see `nfcLong`. */
export function nfc(text: string): string {
  if (!high.test(text)) return text
  return text.replace(manyMarks, (marks) => atOnce(ordered(marks))).normalize('NFC')
}

/** The same of any text. */
export function* nfcLong(text: string): Work<string> {
  const out: string[] = []
  for (let at = 0; at < text.length;) {
    const end = yield* cut(text, at)
    const part = text.slice(at, end)
    out.push(part.length > 2 * window ? yield* stacked(part) : nfc(part))
    at = end
    if (spent()) yield
  }
  return out.join('')
}

/** Where a part that begins at `from` may end: nothing behind it becomes one with what is in it. */
function* cut(text: string, from: number): Work<number> {
  const edge = from + window
  if (edge >= text.length) return text.length
  for (let at = edge; at > from; at--) if (parts(text, at)) return at
  for (let at = edge + 1; at < text.length; at++) {
    if (parts(text, at)) return at
    if ((at & 0xff) === 0 && spent()) yield
  }
  return text.length
}
function parts(text: string, at: number): boolean {
  const code = text.codePointAt(at) ?? 0
  if (code >= 0xdc00 && code < 0xe000) return false
  const char = String.fromCodePoint(code)
  if (!joins.test(char)) return true
  // Jamo that follow their like are not composed.
  const before = text.charCodeAt(at - 1)
  return !isMark.test(char) && before >= 0x11a8 && before <= 0x11c2
}

/** Marks in canonical order, decomposed. Stable, as that order is. */
function* ordered(text: string): Work<string> {
  const out: string[] = []
  for (const group of yield* groups(text)) out.push(group.starter, ...classesOf(group).flatMap(([, marks]) => marks))
  return out.join('')
}

/** NFC of a long run of marks, with whatever they stand on. */
function* stacked(text: string): Work<string> {
  const out: string[] = []
  let small = ''
  for (const group of yield* groups(text)) {
    if (spent()) yield
    const classes = classesOf(group)
    if (group.count <= window) {
      small += group.starter + classes.flatMap(([, marks]) => marks).join('')
      // Behind a mark a starter stays by itself.
      if (small.length > window && group.count > 0) {
        out.push(small.normalize('NFC'))
        small = ''
      }
      continue
    }
    out.push(small.normalize('NFC'))
    small = ''
    const head = group.starter + classes.flatMap(([, marks]) => marks.slice(0, tried)).join('')
    const rest = Array.from(head.normalize('NFC'))
    if (group.starter !== '') out.push(rest.shift() ?? '')
    for (const [order, marks] of classes) {
      out.push(...rest.filter((char) => orderOf(char) === order))
      for (let at = tried; at < marks.length; at += window) {
        out.push(marks.slice(at, at + window).join(''))
        if (spent()) yield
      }
    }
  }
  out.push(small.normalize('NFC'))
  return out.join('')
}

/** A starter (class 0) and the marks on it, by their class. */
type Group = { readonly starter: string; readonly marks: Map<number, string[]>; count: number }
const classesOf = (group: Group): [order: number, marks: string[]][] => [...group.marks].sort(([a], [b]) => a - b)

function* groups(text: string): Work<Group[]> {
  let group: Group = { starter: '', marks: new Map(), count: 0 }
  const out = [group]
  let steps = 0
  for (const char of text) {
    for (const part of decomposed(char)) {
      const order = orderOf(part)
      if (order === 0) out.push((group = { starter: part, marks: new Map(), count: 0 }))
      else {
        const marks = group.marks.get(order)
        if (marks) marks.push(part)
        else group.marks.set(order, [part])
        group.count++
      }
    }
    if ((++steps & 0xff) === 0 && spent()) yield
  }
  return out
}

const decompositions = new Map<string, readonly string[]>()
function decomposed(char: string): readonly string[] {
  let known = decompositions.get(char)
  if (known === undefined) {
    known = Array.from(char.normalize('NFD'))
    // As many as there are marks, and what they stand on.
    if (decompositions.size < 10_000) decompositions.set(char, known)
  }
  return known
}

/**
 * A number that sorts as the canonical combining class does; 0 for class 0. JavaScript does not tell the class, but
 * whether two marks change places when they are normalised.
 */
const orders = new Map<string, number>()
const known: { readonly mark: string; readonly order: number }[] = []
/** Of the lowest class and of the highest. */
const [lowest, highest] = ['\u0334', '\u0345']

function orderOf(char: string): number {
  if (!isMark.test(char)) return 0
  let order = orders.get(char)
  if (order === undefined) {
    order = swaps(char, lowest) || swaps(highest, char) ? place(char) : 0
    orders.set(char, order)
  }
  return order
}
function place(char: string): number {
  const at = known.findIndex(({ mark }) => !swaps(char, mark))
  const next = at < 0 ? undefined : known[at]
  if (next && !swaps(next.mark, char)) return next.order
  const before = known[(at < 0 ? known.length : at) - 1]?.order ?? 0
  const order = next ? (before + next.order) / 2 : before + 1
  known.splice(at < 0 ? known.length : at, 0, { mark: char, order })
  return order
}
/** Is the class of `first` the higher one? */
const swaps = (first: string, second: string): boolean =>
  (first + second).normalize('NFD') === second + first && first !== second
