// Which control tokens a rendered text holds. What the template itself writes is marked before it is rendered: in its own
// texts every name of a control token becomes one private-use character, and only these become ids. What clients and
// models wrote can therefore never make one, wherever it stands, whatever the template does with it: joins, cuts, trims,
// escapes, prints in the middle of its own words. Private-use characters of theirs are spelt out and put back at the end.
import type { Tokenizer } from '../turn/ports.ts'
import type { Piece } from './ink.ts'

const first = 0xe000
/** Stands in front of a private-use character's number, in five digits. */
const spelt = '\uf8ff'
/** Around the name of a role that the template joins to something. */
const role = '\uf8fe'
const most = 0x18f0
const roles = ['user', 'assistant', 'system', 'tool', 'developer', 'model', 'observation', 'function']

export class Marks {
  readonly #tokenizer: Tokenizer
  readonly #byName = new Map<string, string>()
  readonly #byMark = new Map<string, string>()
  /** What stands around a role in control tokens whose names the template puts together, `<|` and `|>`. */
  readonly #fronts: readonly string[]
  readonly #backs: readonly string[]
  readonly #any: RegExp | undefined

  /** `texts`: all that the template may write of its own: its literals, and variables like `bos_token`. */
  constructor(tokenizer: Tokenizer, texts: readonly string[]) {
    this.#tokenizer = tokenizer
    const all = texts.join('\n')
    const names: string[] = []
    const pairs: (readonly [string, string])[] = []
    for (let id = 0; id < tokenizer.size; id++) {
      const name = tokenizer.nameOf(id)
      // White space is trimmed and counted by templates; as a token it means the same.
      if (name === undefined || name.length < 2 || name.trim() === '') continue
      if (all.includes(name)) names.push(name)
      for (const word of roles) {
        const at = name.indexOf(word)
        if (at > 0 && at + word.length < name.length) pairs.push([name.slice(0, at), name.slice(at + word.length)])
      }
    }
    if (names.length > most - 200) throw new Error('the chat template uses too many control tokens')
    for (const name of names) this.#mark(name)
    const joined = pairs.filter(
      ([front, back]) => texts.some((t) => t.endsWith(front)) && texts.some((t) => t.startsWith(back)),
    )
    this.#fronts = longestFirst(joined.map(([front]) => front))
    this.#backs = longestFirst(joined.map(([, back]) => back))
    for (const piece of [...this.#fronts, ...this.#backs]) this.#mark(piece)
    this.#any = names.length > 0 ? new RegExp(longestFirst(names).map(escaped).join('|'), 'g') : undefined
  }
  /** Does the template put names of control tokens together from pieces? */
  get joins(): boolean {
    return this.#fronts.length > 0
  }
  /** Text of the template. */
  own(text: string): string {
    const clean = this.foreign(text)
    const out = this.#any ? clean.replaceAll(this.#any, (name) => this.#byName.get(name) ?? name) : clean
    const back = this.#backs.find((piece) => out.startsWith(piece))
    const rest = back === undefined ? out : (this.#byName.get(back) ?? '') + out.slice(back.length)
    const front = this.#fronts.find((piece) => rest.endsWith(piece))
    return front === undefined ? rest : rest.slice(0, -front.length) + (this.#byName.get(front) ?? '')
  }
  /** Text of a client or a model. */
  foreign(text: string): string {
    return text.replaceAll(/[\ue000-\uf8ff]/g, (char) => spelt + String(char.charCodeAt(0)))
  }
  /** The name of a role, where the template joins it to something. */
  role(name: string): string {
    return this.joins ? role + name + role : name
  }
  isRole(text: string): boolean {
    return roles.includes(text)
  }
  /** Names that were put together are marked, what only looked like it is text again. */
  settle(rendered: string): string {
    if (!this.joins) return rendered
    const marks = (pieces: readonly string[]): string => pieces.map((p) => this.#byName.get(p) ?? '').join('')
    const name = new RegExp(`([${marks(this.#fronts)}])${role}([a-z]+)${role}([${marks(this.#backs)}])`, 'g')
    const made = rendered.replaceAll(name, (found, front: string, word: string, back: string) => {
      const whole = (this.#byMark.get(front) ?? '') + word + (this.#byMark.get(back) ?? '')
      return this.#tokenizer.control(whole) === undefined ? found : (this.#byName.get(whole) ?? this.#mark(whole))
    })
    const loose = new RegExp(`[${marks(this.#fronts)}${marks(this.#backs)}${role}]`, 'g')
    return made.replaceAll(loose, (mark) => this.#byMark.get(mark) ?? '')
  }
  /** A settled text as control ids and plain text. */
  pieces(settled: string): Piece[] {
    const out: Piece[] = []
    for (const part of settled.split(marked)) {
      const name = part.length === 1 ? this.#byMark.get(part) : undefined
      const id = name === undefined ? undefined : this.#tokenizer.control(name)
      if (id !== undefined) out.push(id)
      else if (part !== '') out.push(plain(part))
    }
    return out
  }
  /** Ids as a settled text; undefined where a control token is among them that the template does not write. */
  text(ids: ArrayLike<number>): string | undefined {
    let stream = this.#tokenizer.stream()
    let out = ''
    let words = ''
    for (let n = 0; n < ids.length; n++) {
      const id = ids[n] ?? 0
      const name = this.#tokenizer.nameOf(id)
      if (name === undefined) words += stream.push(id)
      else {
        const mark = this.#byName.get(name)
        if (mark === undefined) return undefined
        out += this.foreign(words + stream.end()) + mark
        words = ''
        stream = this.#tokenizer.stream()
      }
    }
    return out + this.foreign(words + stream.end())
  }
  /** The mark of a control token that the template writes. */
  of(name: string): string | undefined {
    return this.#byName.get(name)
  }
  /** As a reader sees it: control tokens by name. */
  shown(settled: string): string {
    return settled
      .split(marked)
      .map((part) => (part.length === 1 ? this.#byMark.get(part) : undefined) ?? plain(part))
      .join('')
  }
  /** The name of the first control token in a settled text. */
  firstIn(settled: string): string | undefined {
    const found = /[\ue000-\uf8fd]/.exec(settled)?.[0]
    return found === undefined ? undefined : this.#byMark.get(found)
  }

  #mark(name: string): string {
    const known = this.#byName.get(name)
    if (known !== undefined) return known
    const mark = String.fromCharCode(first + this.#byName.size)
    this.#byName.set(name, mark)
    this.#byMark.set(mark, name)
    return mark
  }
}

/** Splits around marks, and keeps them. */
const marked = /([\ue000-\uf8fd])/
export const isMark = (char: string): boolean => /^[\ue000-\uf8fd]/.test(char)
const plain = (text: string): string =>
  text.replaceAll(/\uf8ff(\d{5})/g, (_, code: string) => String.fromCharCode(Number(code)))
const longestFirst = (texts: readonly string[]): string[] => [...new Set(texts)].toSorted((a, b) => b.length - a.length)
const escaped = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)
