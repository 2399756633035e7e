// Expressions and rules as GBNF text, within the limits of llama.cpp's reader: 2,000 repetitions at once, and a group
// counts with all that it holds, so whatever is repeated is one character, one token or one rule.
import { choice, repeat, sequence, tooLarge } from './grammar-expression.ts'
import type { Expression } from './grammar-expression.ts'
import { complement, last } from './grammar-ranges.ts'
import type { Ranges } from './grammar-ranges.ts'

/** Repetitions are written out by llama.cpp; longer ones are built of blocks of so many. */
const block = 1000
/** Characters of the text; elements that llama.cpp makes of it. */
const maxText = 2 * 1024 * 1024
const maxElements = 400_000

export function written(rules: ReadonlyMap<string, Expression>, root: string): string {
  return new Writer(rules).all(root)
}

class Writer {
  readonly #rules: ReadonlyMap<string, Expression>
  readonly #names = new Map<string, string>()
  readonly #taken: Set<string>
  readonly #lifted = new Map<Expression, string>()
  readonly #blocks = new Map<string, Expression>()
  readonly #lines: string[] = []
  readonly #queue: [string, Expression][] = []
  #size = 0
  #elements = 0

  constructor(rules: ReadonlyMap<string, Expression>) {
    this.#rules = rules
    this.#taken = new Set([...rules.keys(), 'root'])
  }
  all(root: string): string {
    this.#names.set(root, 'root')
    for (const [name, e] of this.#rules) this.#queue.push([name === root ? 'root' : this.#nameOf(name), e])
    // What is written lifts further rules out; they come behind.
    for (const [name, e] of this.#queue) {
      const line = `${name} ::= ${this.#choice(e)}\n`
      this.#count(line.length, 0)
      this.#lines.push(line)
    }
    return this.#lines.join('')
  }
  #nameOf(name: string): string {
    const known = this.#names.get(name)
    if (known !== undefined) return known
    const fresh = name === 'root' ? this.#fresh('root') : name
    this.#names.set(name, fresh)
    return fresh
  }
  #fresh(stem: string): string {
    for (let n = 2; ; n++) {
      const name = `${stem}-${n}`
      if (this.#taken.has(name)) continue
      this.#taken.add(name)
      return name
    }
  }
  #count(size: number, elements: number): void {
    this.#size += size
    this.#elements += elements
    if (this.#size > maxText || this.#elements > maxElements) throw tooLarge()
  }

  #choice(e: Expression): string {
    if (e.type !== 'choice') return this.#sequence(e)
    return e.parts.map((part) => this.#sequence(part)).join(' | ')
  }
  #sequence(e: Expression): string {
    return e.type === 'sequence' ? e.parts.map((part) => this.#item(part)).join(' ') : this.#item(e)
  }
  #item(e: Expression): string {
    if (e.type === 'choice' || e.type === 'sequence') return `(${this.#choice(e)})`
    return e.type === 'repeat' ? this.#repeat(e.part, e.min, e.max) : this.#atom(e)
  }
  #atom(e: Expression): string {
    this.#count(0, e.type === 'text' ? e.text.length : 1)
    if (e.type === 'text') return `"${Array.from(e.text, (c) => character(c, false)).join('')}"`
    if (e.type === 'set') return characters(e.ranges)
    if (e.type === 'token') return `${e.not ? '!' : ''}<[${e.id}]>`
    return e.type === 'rule' ? this.#nameOf(e.name) : this.#lift(e)
  }
  #lift(e: Expression): string {
    const known = this.#lifted.get(e)
    if (known !== undefined) return known
    if (this.#lifted.size > maxElements / 10) throw tooLarge()
    const name = this.#fresh('part')
    this.#lifted.set(e, name)
    this.#queue.push([name, e])
    return name
  }
  #repeat(part: Expression, min: number, max: number | undefined): string {
    const times = Math.max(min, max ?? 0)
    const small =
      part.type === 'rule' || part.type === 'token' || (part.type === 'set' && (part.ranges.length < 3 || times < 8))
    const one = small ? this.#atom(part) : this.#lift(part)
    if (times <= block) {
      this.#count(0, 4 * times)
      return `${one}${bounds(min, max)}`
    }
    if (times > block * block) throw tooLarge()
    // A rule of its own, so that a block is one symbol.
    const unit = part.type === 'rule' ? part : this.#rule(part)
    const many = this.#blockOf(unit)
    const must = sequence(
      repeat(many, Math.floor(min / block), Math.floor(min / block)),
      repeat(unit, min % block, min % block),
    )
    if (max === undefined) return this.#item(sequence(must, repeat(unit)))
    const more = max - min
    const whole = Math.floor(more / block)
    const may =
      whole === 0
        ? repeat(unit, 0, more)
        : choice(
            sequence(repeat(many, 0, whole - 1), repeat(unit, 0, block - 1)),
            sequence(repeat(many, whole, whole), repeat(unit, 0, more % block)),
          )
    return this.#item(sequence(must, may))
  }
  #blockOf(unit: Expression & { type: 'rule' }): Expression {
    const known = this.#blocks.get(unit.name)
    if (known !== undefined) return known
    const made = this.#rule({ type: 'repeat', part: unit, min: block, max: block })
    this.#blocks.set(unit.name, made)
    return made
  }
  #rule(e: Expression): Expression & { type: 'rule' } {
    const name = this.#lift(e)
    this.#names.set(name, name)
    return { type: 'rule', name }
  }
}

function bounds(min: number, max: number | undefined): string {
  if (max === undefined) return min === 0 ? '*' : min === 1 ? '+' : `{${min},}`
  if (min === 0 && max === 1) return '?'
  return min === max ? `{${min}}` : `{${min},${max}}`
}

const named: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '\\': '\\\\', '"': '\\"' }

function character(c: string, inClass: boolean): string {
  const short = named[c]
  if (short !== undefined) return short
  const point = c.codePointAt(0) ?? 0
  if (point >= 0xd800 && point < 0xe000) return '\\uFFFD'
  if (point < 0x20 || (point > 0x7e && point < 0xa0)) return `\\x${hex(point, 2)}`
  if (inClass && '[]-'.includes(c)) return `\\${c}`
  if (inClass && c === '^') return '\\x5E'
  return point > 0xff ? byNumber(point) : c
}
const hex = (point: number, length: number): string => point.toString(16).toUpperCase().padStart(length, '0')
const byNumber = (point: number): string => (point > 0xffff ? `\\U${hex(point, 8)}` : `\\u${hex(point, 4)}`)

function characters(ranges: Ranges): string {
  const top = ranges.at(-1)?.[1] === last
  const rest = complement(ranges)
  if (top && rest.length === 0) return '.'
  const shown = top ? rest : ranges
  const one = (point: number): string =>
    point >= 0xd800 && point < 0xe000 ? byNumber(point) : character(String.fromCodePoint(point), true)
  const parts = shown.map(([low, high]) =>
    low === high ? one(low) : high === low + 1 ? one(low) + one(high) : `${one(low)}-${one(high)}`,
  )
  return `[${top ? '^' : ''}${parts.join('')}]`
}
