// Real text for agent loops: Continuo's own sources and prose, in slices that no other slice of the same seed repeats until
// everything was used. The same seed gives the same slices.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const mostChars = 4 * 1024 * 1024
const here = fileURLToPath(import.meta.url)
const root = dirname(dirname(here))

/** Sources as they lie beside this one, `.ts` in a clone and `.js` in the package, and what a reader is given first. */
function corpusText(): string {
  const sources = readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((file) => /(?<!\.d)\.[jt]s$/.test(file))
    .toSorted()
    .map((file) => join(root, file))
  const prose = ['README.md', 'CHANGELOG.md', 'LICENSE'].map((file) => join(dirname(root), file))
  let text = ''
  for (const file of [...prose, ...sources]) {
    if (text.length > mostChars) break
    try {
      text += `${readFileSync(file, 'utf8')}\n`
    } catch {
      // A package may come without its changelog.
    }
  }
  return text
}

/** Where a seed begins: far from where its neighbours do. */
const golden = 0x9e3779b1

let read: string | undefined
const corpus = (): string => (read ??= corpusText())

/** As vocabularies see it: this many characters of the corpus. */
export const sampleText = (chars: number): string =>
  corpus()
    .slice(Math.floor(corpus().length / 3))
    .slice(0, chars)

export class Texts {
  readonly #corpus = corpus()
  readonly #charsPerToken: number
  #at: number

  constructor(seed: number, charsPerToken: number) {
    this.#charsPerToken = charsPerToken
    this.#at = Math.imul(seed + 1, golden) >>> 0
  }
  /** About so many tokens. */
  take(tokens: number): string {
    let left = Math.max(1, Math.round(tokens * this.#charsPerToken))
    let text = ''
    while (left > 0) {
      const from = this.#at % this.#corpus.length
      const part = this.#corpus.slice(from, from + left)
      text += part
      left -= part.length
      this.#at = from + part.length
    }
    return text.replaceAll(/\p{Surrogate}/gu, '\ufffd')
  }
}
