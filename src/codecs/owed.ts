// What a turn that broke off still owes the format: the markers that would have closed what its ids have opened.
import type { Tokenizer } from '../turn/ports.ts'
import type { Owed, Pair, Pen } from './family.ts'

/** `runs`: what opened the model's turn, and what it wrote. A pair may stand within any other. */
export function owed(runs: readonly Uint32Array[], pairs: readonly Pair[], tokenizer: Tokenizer): Owed {
  const closing = new Map(pairs)
  const open: string[] = []
  let rest: number[] = []
  for (const ids of runs)
    for (const id of ids) {
      const name = tokenizer.nameOf(id)
      const closer = name === undefined ? undefined : closing.get(name)
      const at = name === undefined ? -1 : open.lastIndexOf(name)
      // What closes something closes all that was opened within it.
      if (at >= 0) open.length = at
      else if (closer !== undefined) open.push(closer)
      if (at >= 0 || closer !== undefined) rest = []
      else rest.push(id)
    }
  return { closers: open.reverse(), text: tokenizer.decode(rest) }
}

/** Closes what is open; `as` is how the format writes a closing marker. `end`: as of Family.closed. */
export function settle(pen: Pen, end: string | Owed, as: (closer: string) => string = (closer) => closer): void {
  if (typeof end === 'string') return
  let { text } = end
  for (const closer of end.closers) {
    complete(pen, text, as(closer))
    text = as(closer)
  }
}
/** Writes `end` behind `text`, but for what of it stands there already. */
export function complete(pen: Pen, text: string, end: string): void {
  let there = Math.min(end.length, text.length)
  while (!text.endsWith(end.slice(0, there))) there--
  pen.markup(end.slice(there))
}
