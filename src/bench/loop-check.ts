// Before times are compared, that the same was done: every mode gave the engine the same prompts, and the model the same
// calls and the same texts. What differs ends the run with an error that says where.
import type { Loop, Turned } from './loop-drive.ts'

/** Throws an Error that names the modes and the turn. Digests are compared where both have them. */
export function mustAgree(reference: Loop, other: Loop): void {
  const differ = (turn: number, what: string, is: unknown, was: unknown): never => {
    const [a, b] = [is, was].map((value) =>
      String(typeof value === 'string' ? value : JSON.stringify(value)).slice(0, 200),
    )
    throw new Error(
      `The modes ${reference.mode.name} and ${other.mode.name} did not do the same: in turn ${turn} ${what} ${a} in place of ${b}.`,
    )
  }
  if (reference.turns.length !== other.turns.length)
    differ(reference.turns.length, 'of the loop; the turns are', other.turns.length, reference.turns.length)
  for (const [n, was] of reference.turns.entries()) {
    const is = other.turns[n]
    if (!is) return
    for (const { what, of } of compared) {
      const [a, b] = [of(is), of(was)]
      if (a !== undefined && b !== undefined && JSON.stringify(a) !== JSON.stringify(b)) differ(n + 1, what, a, b)
    }
  }
}
const compared: readonly { readonly what: string; readonly of: (turn: Turned) => unknown }[] = [
  { what: 'the prompt was of tokens', of: ({ usage }) => usage.input },
  { what: 'the engine got another prompt, of digest', of: ({ marks }) => marks?.digest },
  { what: 'the model called', of: ({ calls }) => calls },
  { what: 'the model said', of: ({ text }) => text },
  { what: 'the tokens of the answer were', of: ({ usage }) => usage.output },
]
/** Throws an Error where the digests are not there that are to be compared. */
export function mustHaveDigests({ mode, turns }: Loop): void {
  const missing = turns.findIndex(({ marks }) => marks?.digest === undefined)
  if (missing >= 0) throw new Error(`Of ${mode.name} it is not known what the engine got in turn ${missing + 1}.`)
}
