// Rows in columns for a terminal: numbers to the right, words to the left, and what is too wide wrapped inside its column.
export type Aligned = 'left' | 'right'

/** Control characters could redraw the terminal, and line ends would break a row. */
export function flat(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]+/gu, ' ').trim()
}
export const widthOf = (text: string): number => Array.from(text).length

/**
 * Head, rule and rows. Where they are wider than `columns`, the widest columns of words give way, to 12 characters at
 * least.
 */
export function table(head: readonly string[], rows: readonly (readonly string[])[], columns = Infinity): string {
  const count = Math.max(head.length, ...rows.map((row) => row.length))
  const cells = [head, ...rows].map((row) => Array.from({ length: count }, (_, n) => flat(row[n] ?? '')))
  const [, ...body] = cells
  const aligned = Array.from({ length: count }, (_, n): Aligned =>
    isNumeric(body.map((row) => row[n] ?? '')) ? 'right' : 'left',
  )
  const widths = fitted(
    Array.from({ length: count }, (_, n) => Math.max(1, ...cells.map((row) => widthOf(row[n] ?? '')))),
    columns,
  )
  const lines = (row: readonly string[]): string[] => {
    const wrapped = row.map((cell, n) => wrap(cell, widths[n] ?? 1))
    const height = Math.max(1, ...wrapped.map((cell) => cell.length))
    return Array.from({ length: height }, (_, line) =>
      wrapped
        .map((cell, n) => padded(cell[line] ?? '', widths[n] ?? 1, aligned[n] ?? 'left'))
        .join('  ')
        .trimEnd(),
    )
  }
  const [first = [], ...others] = cells
  return [...lines(first), widths.map((w) => '─'.repeat(w)).join('  '), ...others.flatMap(lines)].join('\n')
}
/** A column of which something is a number, and all else is empty or a dash. */
function isNumeric(cells: readonly string[]): boolean {
  const number = /^[≤≥<+−-]?\s?[\d∞]/
  return (
    cells.some((cell) => number.test(cell)) && cells.every((cell) => cell === '' || cell === '–' || number.test(cell))
  )
}
/** Takes from the widest column, character by character. */
function fitted(natural: readonly number[], columns: number): number[] {
  const widths = [...natural]
  const total = (): number => widths.reduce((sum, w) => sum + w + 2, -2)
  let over = total() - columns
  while (over > 0) {
    const widest = Math.max(...widths)
    if (widest <= 12) break
    const n = widths.indexOf(widest)
    // Down to the next one, or by what is needed.
    const next = Math.max(12, ...widths.filter((w) => w < widest))
    const less = Math.max(1, Math.min(over, widest - next))
    widths[n] = widest - less
    over -= less
  }
  return widths
}
function padded(text: string, width: number, aligned: Aligned): string {
  const room = ' '.repeat(Math.max(0, width - widthOf(text)))
  return aligned === 'right' ? room + text : text + room
}

/** Lines of at most `width` characters, broken between words where there are any. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (let word of flat(text).split(' ')) {
    const joined = line === '' ? word : `${line} ${word}`
    if (widthOf(joined) <= width) {
      line = joined
      continue
    }
    if (line !== '') lines.push(line)
    const letters = Array.from(word)
    let at = 0
    for (; letters.length - at > width; at += width) lines.push(letters.slice(at, at + width).join(''))
    word = letters.slice(at).join('')
    line = word
  }
  return [...lines, line]
}
