// Lark grammars of clients, in the dialect of custom tools: rules and terminals, parsed and turned into expressions.
// The language is that of the grammar without a lexer: where a lexer would take the longest match, or a keyword before a
// name, both readings are accepted.
import { choice, empty, nothing, repeat, sequence, set, text } from './grammar-expression.ts'
import type { Expression, Rules } from './grammar-expression.ts'
import { larkError, wordsOf } from './grammar-lark-words.ts'
import type { Word } from './grammar-lark-words.ts'
import { quoted } from './grammar-quoted.ts'
import { bothCases, of } from './grammar-ranges.ts'
import { maxRepeat, regexOf } from './grammar-regex.ts'
import { commonTerminals } from './grammar-terminals.ts'

const maxNesting = 64
const maxRules = 2000

/** A definition as written: its names are looked up only when all are known. */
type Term =
  | { readonly type: 'name'; readonly word: Word }
  | { readonly type: 'plain'; readonly expression: Expression }
  | { readonly type: 'sequence'; readonly parts: readonly Term[] }
  | { readonly type: 'choice'; readonly parts: readonly Term[] }
  | { readonly type: 'repeat'; readonly part: Term; readonly min: number; readonly max: number | undefined }
type Lark = {
  readonly definitions: ReadonlyMap<string, Term>
  readonly ignored: readonly Term[]
}

export type LarkOptions = { readonly param: string | null; readonly quoted: boolean }

/** Adds the grammar's rules to `rules`; the reference to its start. Throws ApiError for what is wrong or outside the dialect. */
export function larkOf(source: string, rules: Rules, options: LarkOptions): Expression {
  return new Builder(new Reader(source, options.param).read(), rules, options).start()
}

const isTerminal = (name: string): boolean => /^_*[A-Z]/.test(name)

class Reader {
  readonly #words: readonly Word[]
  readonly #param: string | null
  #at = 0
  readonly #definitions = new Map<string, Term>()
  readonly #ignored: Term[] = []

  constructor(source: string, param: string | null) {
    this.#words = wordsOf(source, param)
    this.#param = param
  }
  read(): Lark {
    while (this.#word().kind !== 'end') {
      if (this.#word().kind === 'directive') this.#directive()
      else this.#definition()
    }
    return { definitions: this.#definitions, ignored: this.#ignored }
  }
  #word(ahead = 0): Word {
    const last = this.#words.length - 1
    return this.#words[Math.min(this.#at + ahead, last)] ?? { kind: 'end', text: '', flags: '', line: 0, first: true }
  }
  #wrong(why: string, beyond = false): Error {
    return larkError(why, this.#word().line, this.#param, beyond)
  }
  #is(sign: string, ahead = 0): boolean {
    return this.#word(ahead).kind === 'sign' && this.#word(ahead).text === sign
  }
  #eat(sign: string): boolean {
    if (!this.#is(sign)) return false
    this.#at++
    return true
  }
  #need(sign: string): void {
    if (!this.#eat(sign)) throw this.#wrong(`\`${sign}\` is missing before \`${this.#word().text}\``)
  }
  #name(): Word {
    const word = this.#word()
    if (word.kind !== 'name') throw this.#wrong(`a name is missing before \`${word.text}\``)
    this.#at++
    return word
  }
  #number(): number {
    const word = this.#word()
    if (word.kind !== 'number') throw this.#wrong('a number is missing')
    if (Number(word.text) > maxRepeat) throw this.#wrong(`a repetition of more than ${maxRepeat} times`)
    this.#at++
    return Number(word.text)
  }

  /** `?name`, `!name` and priorities say how a tree is built: nothing about the text. */
  #definition(): void {
    while (this.#eat('?') || this.#eat('!')) void 0
    const name = this.#name()
    if (this.#is('{')) throw this.#wrong('a template', true)
    if (this.#is('[')) throw this.#wrong('attributes of a rule', true)
    if (this.#eat('.')) {
      this.#eat('-')
      this.#number()
    }
    this.#need(':')
    this.#define(name, this.#choice(0))
    if (!this.#opens()) throw this.#wrong(`\`${this.#word().text}\` has no meaning here`)
  }
  #define(name: Word, term: Term): void {
    if (this.#definitions.has(name.text)) throw this.#wrong(`\`${name.text}\` is defined twice`)
    if (this.#definitions.size >= maxRules) throw this.#wrong(`it has more than ${maxRules} rules`)
    this.#definitions.set(name.text, term)
  }
  /** Whether a statement begins here: at the start of a line, a name with a colon, or a directive. */
  #opens(): boolean {
    const word = this.#word()
    if (word.kind === 'end' || word.kind === 'directive') return true
    if (!word.first) return false
    let n = 0
    while (this.#is('?', n) || this.#is('!', n)) n++
    if (this.#word(n).kind !== 'name') return false
    if (this.#is(':', n + 1) || this.#is('{', n + 1)) return true
    return this.#is('.', n + 1) && (this.#is(':', n + 3) || this.#is('-', n + 2))
  }
  #directive(): void {
    const word = this.#word()
    this.#at++
    if (word.text === '%ignore') this.#ignored.push(this.#choice(0))
    else if (word.text === '%import') this.#import()
    else {
      this.#at--
      throw this.#wrong(`\`${word.text}\``, true)
    }
  }
  #import(): void {
    const from = this.#word()
    if (from.kind !== 'name' || from.text !== 'common')
      throw this.#wrong('an import of something else than `common`', true)
    this.#at++
    if (this.#eat('(')) {
      do this.#terminal(this.#name())
      while (this.#eat(','))
      this.#need(')')
      return
    }
    this.#need('.')
    const name = this.#name()
    this.#terminal(name, this.#eat('->') ? this.#name() : name)
  }
  #terminal(name: Word, as = name): void {
    const pattern = commonTerminals.get(name.text)
    if (pattern === undefined)
      throw this.#wrong(`\`common.${name.text}\`, which is none of the common terminals,`, true)
    const expression = regexOf(pattern, { what: 'a common terminal', param: this.#param })
    this.#define(as, { type: 'plain', expression })
  }

  #choice(depth: number): Term {
    if (depth > maxNesting) throw this.#wrong(`it is nested past ${maxNesting} levels`)
    const parts: Term[] = []
    this.#eat('|')
    do parts.push(this.#sequence(depth))
    while (this.#eat('|'))
    const [first] = parts
    return parts.length === 1 && first !== undefined ? first : { type: 'choice', parts }
  }
  #sequence(depth: number): Term {
    const parts: Term[] = []
    while (!this.#is('|') && !this.#is(')') && !this.#is(']') && !this.#is('->') && !this.#opens())
      parts.push(this.#repeated(depth))
    if (this.#eat('->')) this.#name()
    return { type: 'sequence', parts }
  }
  #repeated(depth: number): Term {
    const part = this.#atom(depth)
    // A `?` at the start of a line may belong to the rule that is defined there.
    if (this.#opens()) return part
    if (this.#eat('?')) return { type: 'repeat', part, min: 0, max: 1 }
    if (this.#eat('*')) return { type: 'repeat', part, min: 0, max: undefined }
    if (this.#eat('+')) return { type: 'repeat', part, min: 1, max: undefined }
    if (this.#eat('~')) {
      const min = this.#number()
      return this.#bounded(part, min, this.#eat('..') ? this.#number() : min)
    }
    if (this.#is('{') && this.#word(1).kind === 'number') {
      this.#at++
      const min = this.#number()
      const max = !this.#eat(',') ? min : this.#is('}') ? undefined : this.#number()
      this.#need('}')
      return this.#bounded(part, min, max)
    }
    return part
  }
  #bounded(part: Term, min: number, max: number | undefined): Term {
    if (max !== undefined && max < min) throw this.#wrong('a repetition has its bounds the wrong way round')
    return { type: 'repeat', part, min, max }
  }
  #atom(depth: number): Term {
    const word = this.#word()
    if (word.kind === 'name') {
      if (this.#is('{', 1) && this.#word(2).kind !== 'number') throw this.#wrong('a template', true)
      this.#at++
      return { type: 'name', word }
    }
    if (word.kind === 'string') return this.#string(word)
    if (word.kind === 'regex') {
      if (/[mlx]/.test(word.flags)) throw this.#wrong('a flag other than i, s and u', true)
      const origin = { what: `the Lark grammar, line ${word.line},`, param: this.#param }
      const expression = regexOf(word.text, origin, 'whole', word.flags)
      this.#at++
      return { type: 'plain', expression }
    }
    const close = this.#is('(') ? ')' : ']'
    if (!this.#eat('(') && !this.#eat('[')) throw this.#wrong(`\`${word.text}\` has no meaning here`)
    const inner = this.#choice(depth + 1)
    this.#need(close)
    return close === ')' ? inner : { type: 'repeat', part: inner, min: 0, max: 1 }
  }
  #string(word: Word): Term {
    this.#at++
    if (this.#is('..')) {
      this.#at++
      const high = this.#word()
      const [from, to] = [only(word.text), only(high.text)]
      if (high.kind !== 'string' || from === undefined || to === undefined || to < from)
        throw this.#wrong('a range that is not of one character to a later one')
      this.#at++
      return { type: 'plain', expression: set([[from, to]]) }
    }
    if (word.flags !== 'i') return { type: 'plain', expression: text(word.text) }
    return { type: 'plain', expression: sequence(...Array.from(word.text, (c) => set(bothCases(of(c))))) }
  }
}

/** The code point of a text of one character. */
function only(value: string): number | undefined {
  const [first, ...rest] = Array.from(value)
  return rest.length === 0 ? first?.codePointAt(0) : undefined
}

class Builder {
  readonly #lark: Lark
  readonly #rules: Rules
  readonly #options: LarkOptions
  readonly #terminals = new Map<string, Expression>()
  readonly #named = new Map<string, string>()
  readonly #open = new Set<string>()
  #ignored: Expression = empty

  constructor(lark: Lark, rules: Rules, options: LarkOptions) {
    this.#lark = lark
    this.#rules = rules
    this.#options = options
  }
  start(): Expression {
    if (!this.#lark.definitions.has('start')) throw this.#wrong('it has no rule `start`', 1)
    const ignored = this.#lark.ignored.map((term) => this.#written(this.#terminal(term)))
    this.#ignored = this.#rules.add('ignored', repeat(choice(...ignored)))
    const start = this.#reference('start', 1)
    // Rules are made one after the other, so that long chains of them nest nothing.
    for (const [name, own] of this.#named) {
      const term = this.#lark.definitions.get(name)
      this.#rules.set(own, term === undefined ? nothing : this.#rule(term))
    }
    return sequence(this.#ignored, start)
  }
  #wrong(why: string, line: number): Error {
    return larkError(why, line, this.#options.param)
  }
  #written(e: Expression): Expression {
    return this.#options.quoted ? quoted(e) : e
  }
  #reference(name: string, line: number): Expression {
    if (!this.#lark.definitions.has(name)) throw this.#wrong(`\`${name}\` is not defined`, line)
    const own = this.#named.get(name) ?? this.#rules.reserve(`lark-${name.replaceAll('_', '-')}`)
    this.#named.set(name, own)
    return { type: 'rule', name: own }
  }
  #rule(term: Term): Expression {
    if (term.type === 'plain') return this.#followed(this.#written(term.expression))
    if (term.type === 'sequence') return sequence(...term.parts.map((part) => this.#rule(part)))
    if (term.type === 'choice') return choice(...term.parts.map((part) => this.#rule(part)))
    if (term.type === 'repeat') return repeat(this.#rule(term.part), term.min, term.max)
    const { text: name, line } = term.word
    if (!isTerminal(name)) return this.#reference(name, line)
    return this.#followed(this.#byName(name, line))
  }
  /** What is ignored may stand behind every terminal, and at the start. */
  #followed(e: Expression): Expression {
    return sequence(e, this.#ignored)
  }
  #terminal(term: Term): Expression {
    if (term.type === 'plain') return term.expression
    if (term.type === 'sequence') return sequence(...term.parts.map((part) => this.#terminal(part)))
    if (term.type === 'choice') return choice(...term.parts.map((part) => this.#terminal(part)))
    if (term.type === 'repeat') return repeat(this.#terminal(term.part), term.min, term.max)
    const { text: name, line } = term.word
    if (!isTerminal(name)) throw this.#wrong(`a terminal names the rule \`${name}\``, line)
    return this.#byName(name, line)
  }
  /** A terminal is one rule, however often it is named: terminals that double each other stay small. */
  #byName(name: string, line: number): Expression {
    const known = this.#terminals.get(name)
    if (known !== undefined) return known
    const term = this.#lark.definitions.get(name)
    if (term === undefined) throw this.#wrong(`\`${name}\` is not defined`, line)
    if (this.#open.has(name)) throw this.#wrong(`the terminal \`${name}\` names itself`, line)
    if (this.#open.size > maxNesting) throw this.#wrong(`terminals are nested past ${maxNesting} levels`, line)
    this.#open.add(name)
    const out = this.#rules.add(`lark-${name}`, this.#written(this.#terminal(term)))
    this.#open.delete(name)
    this.#terminals.set(name, out)
    return out
  }
}
