// What families write, on its way to ids: control ids and plain text in order, encoded in one go.
import { setImmediate as others } from 'node:timers/promises'
import type { Tokenizer } from '../turn/ports.ts'
import { tellEncoded } from '../turn/trace.ts'
import type { Family, Pen } from './family.ts'

/** Control ids, and texts between them. */
export type Piece = number | string

export class Ink implements Pen {
  readonly pieces: Piece[] = []
  readonly #tokenizer: Tokenizer
  readonly #controls: RegExp
  #text: string

  /** `controls`: matches the names of the family's control tokens. `text`: plain text directly in front, not encoded yet. */
  constructor(tokenizer: Tokenizer, controls: RegExp, text = '') {
    this.#tokenizer = tokenizer
    this.#controls = controls
    this.#text = text
  }
  control(name: string): void {
    const id = this.#tokenizer.control(name)
    if (id === undefined) return this.text(name)
    this.flush()
    this.pieces.push(id)
  }
  text(text: string): void {
    this.#text += text
  }
  markup(text: string): void {
    // A pattern with one group: every second part is a control token.
    for (const [n, part] of text.split(this.#controls).entries())
      if (n % 2 === 1) this.control(part)
      else this.text(part)
  }
  ids(ids: ArrayLike<number>): void {
    this.flush()
    for (let n = 0; n < ids.length; n++) this.pieces.push(ids[n] ?? 0)
  }
  /** What stands behind the last control token: more may join it, so it is not encoded yet. */
  get pending(): string {
    return this.#text
  }
  /** Nothing joins the text any more. */
  flush(): void {
    if (this.#text !== '') this.pieces.push(this.#text)
    this.#text = ''
  }
}

/** Matches the control tokens that a family uses, as `markup` wants them. */
export function controlsOf({ needs, stops, markers }: Family): RegExp {
  const names = [...new Set([...needs, ...stops, ...markers])].toSorted((a, b) => b.length - a.length)
  return new RegExp(`(${names.map((name) => name.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)).join('|')})`)
}

/** UTF-16 units that are encoded before others get a turn: some 10 ms at worst. What is longer is sliced by the tokenizer. */
const atOnce = 65_536

/** All pieces as ids; a promise where there is so much text that it is encoded in slices. */
export function encodeAll(pieces: readonly Piece[], tokenizer: Tokenizer): number[] | Promise<number[]> {
  const out: number[] = []
  let units = 0
  for (let n = 0; n < pieces.length; n++) {
    const piece = pieces[n]
    if (typeof piece === 'number') out.push(piece)
    else if (piece !== undefined) {
      units += piece.length
      const ids = tokenizer.encode(piece)
      if (ids instanceof Promise) return encodeRest(out, ids, pieces, n + 1, tokenizer)
      pour(ids, out)
      if (units >= atOnce && pieces.length > 1) return encodeRest(out, [], pieces, n + 1, tokenizer)
    }
  }
  return out
}
async function encodeRest(
  out: number[],
  first: Promise<ArrayLike<number>> | readonly number[],
  pieces: readonly Piece[],
  from: number,
  tokenizer: Tokenizer,
): Promise<number[]> {
  pour(await first, out)
  let units = atOnce
  for (let n = from; n < pieces.length; n++) {
    const piece = pieces[n]
    if (typeof piece === 'number') out.push(piece)
    else if (piece !== undefined) {
      if (units >= atOnce) {
        await others()
        units = 0
      }
      units += piece.length
      pour(await tokenizer.encode(piece), out)
    }
  }
  return out
}
function pour(ids: ArrayLike<number>, out: number[]): void {
  tellEncoded(ids.length)
  for (let n = 0; n < ids.length; n++) out.push(ids[n] ?? 0)
}
