// Sets of characters as sorted, disjoint, inclusive ranges of code points. U+0000 is none: engines written in C take it for
// the end of a text, so nothing that asks for it can be written.

export type Range = readonly [number, number]
export type Ranges = readonly Range[]

const first = 1
export const last = 0x10ffff
export const everything: Ranges = [[first, last]]

/** The ranges sorted, and joined where they touch. */
export function union(...lists: readonly Ranges[]): Ranges {
  const out: [number, number][] = []
  for (const [low, high] of lists.flat().toSorted((a, b) => a[0] - b[0])) {
    const before = out.at(-1)
    if (before !== undefined && low <= before[1] + 1) before[1] = Math.max(before[1], high)
    else out.push([low, high])
  }
  return out
}
export function complement(ranges: Ranges): Ranges {
  const out: Range[] = []
  let from = first
  for (const [low, high] of union(ranges)) {
    if (low > from) out.push([from, low - 1])
    from = high + 1
  }
  if (from <= last) out.push([from, last])
  return out
}
export const intersect = (a: Ranges, b: Ranges): Ranges => complement(union(complement(a), complement(b)))
export const minus = (a: Ranges, b: Ranges): Ranges => complement(union(complement(a), b))
/** The characters of a text. */
export function of(characters: string): Ranges {
  const point = characters.codePointAt(0)
  if (point !== undefined && characters.length === (point > 0xffff ? 2 : 1)) return [[point, point]]
  return union(Array.from(characters, (c): Range => [c.codePointAt(0) ?? 0, c.codePointAt(0) ?? 0]))
}
export const span = (low: string, high: string): Ranges => [[low.codePointAt(0) ?? 0, high.codePointAt(0) ?? 0]]

export const digits: Ranges = [[0x30, 0x39]]
export const spaces: Ranges = [
  [0x09, 0x0d],
  [0x20, 0x20],
]
export const wordy: Ranges = union(digits, span('A', 'Z'), span('a', 'z'), of('_'))
export const controls: Ranges = [[0, 0x1f]]

/** Of longer ranges only so many characters are looked at: they hold both cases mostly. */
const folded = 512

/** Ranges with the other case of every letter. */
export function bothCases(ranges: Ranges): Ranges {
  const more: Range[] = []
  for (const [low, high] of ranges)
    for (let at = low; at <= Math.min(high, low + folded); at++) {
      const c = String.fromCodePoint(at)
      for (const other of [c.toLowerCase(), c.toUpperCase()]) {
        const point = other.codePointAt(0)
        if (point !== undefined && other.length === String.fromCodePoint(point).length) more.push([point, point])
      }
    }
  return union(ranges, more)
}
