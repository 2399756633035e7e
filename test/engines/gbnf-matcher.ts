// A small reader and matcher of GBNF after llama.cpp's own: sets of stacks, moved on character by character, or token by
// token. Refuses what llama.cpp refuses: undefined rules, left recursion, repetitions past its limit.
import { appendFileSync } from 'node:fs'

type Terminal =
  | { readonly kind: 'class'; readonly not: boolean; readonly ranges: readonly (readonly [number, number])[] }
  | { readonly kind: 'token'; readonly not: boolean; readonly id: number }
type Symbol = Terminal | { readonly kind: 'rule'; readonly name: string }
type Line = readonly Symbol[]
/** What is still to come: a place in a line, then what comes behind the rule that the line belongs to. */
type Stack =
  | { readonly id: number; readonly line: Line; readonly at: number; readonly next: Stack | undefined }
  | undefined

const limit = 2000
/** A file that all grammars and texts are written to, for a run through llama.cpp itself. */
const record = process.env['GBNF_RECORD']
let recorded: string | undefined
const block = (kind: string, text: string) => `${kind} ${Buffer.byteLength(text)}\n${text}\n`

class Reader {
  readonly rules = new Map<string, Line[]>()
  readonly #text: string
  #at = 0
  #made = 0
  constructor(text: string) {
    this.#text = text
  }
  read(): ReadonlyMap<string, readonly Line[]> {
    while (this.#at < this.#text.length) {
      const name = this.#take(/[A-Za-z0-9-]+/y, 'a name')
      this.#take(/ ::= /y, '::=')
      if (this.rules.has(name)) throw new Error(`${name} is defined twice`)
      this.#lines(name)
      this.#take(/\n/y, 'a line end')
    }
    for (const lines of this.rules.values())
      for (const symbol of lines.flat())
        if (symbol.kind === 'rule' && !this.rules.has(symbol.name)) throw new Error(`${symbol.name} is not defined`)
    return this.rules
  }
  #try(shape: RegExp): RegExpExecArray | undefined {
    shape.lastIndex = this.#at
    const found = shape.exec(this.#text)
    if (found === null) return undefined
    this.#at = shape.lastIndex
    return found
  }
  #take(shape: RegExp, what: string): string {
    const found = this.#try(shape)
    if (found === undefined) throw new Error(`${what} is missing at ${this.#text.slice(this.#at, this.#at + 60)}`)
    return found[0]
  }
  #fresh(name: string): string {
    return `${name}_${++this.#made}`
  }
  #lines(name: string): void {
    const lines: Line[] = []
    do lines.push(this.#line(name))
    while (this.#try(/ \| /y))
    this.rules.set(name, lines)
  }
  #line(name: string): Line {
    const out: Symbol[] = []
    for (;;) {
      const before = this.#made
      const one = this.#symbols(name)
      if (one === undefined) return out
      const weight = Math.max(1, this.#made - before)
      const times = this.#try(/[*+?]|\{(\d+)(,?)(\d*)\}/y)
      if (times === undefined) out.push(...one)
      else out.push(...this.#repeated(name, one, times, weight))
      this.#try(/ (?!\|)/y)
    }
  }
  #symbols(name: string): Symbol[] | undefined {
    if (this.#try(/\(/y)) {
      const inner = this.#fresh(name)
      this.#lines(inner)
      this.#take(/\)/y, ')')
      return [{ kind: 'rule', name: inner }]
    }
    const token = this.#try(/(!?)<\[(\d+)\]>/y)
    if (token) return [{ kind: 'token', not: token[1] === '!', id: Number(token[2]) }]
    if (this.#try(/\./y)) return [{ kind: 'class', not: true, ranges: [] }]
    const text = this.#try(/"((?:[^"\\]|\\.)*)"/y)
    if (text) return characters(text[1] ?? '').map((c) => ({ kind: 'class', not: false, ranges: [[c, c]] }))
    const set = this.#try(/\[(\^?)((?:[^\]\\]|\\.)*)\]/y)
    if (set) return [{ kind: 'class', not: set[1] === '^', ranges: rangesOf(set[2] ?? '') }]
    const rule = this.#try(/[A-Za-z0-9-]+/y)
    return rule && [{ kind: 'rule', name: rule[0] }]
  }
  #repeated(name: string, one: Symbol[], found: RegExpExecArray, weight: number): Symbol[] {
    if (one.length === 0) throw new Error('a repetition of nothing')
    const [sign, low, comma, high] = found
    const min = low === undefined ? (sign === '+' ? 1 : 0) : Number(low)
    const max =
      low === undefined ? (sign === '?' ? 1 : undefined) : comma === '' ? min : high ? Number(high) : undefined
    if (Math.max(min, max ?? 0) * weight > limit) throw new Error(`${found[0]} is past llama.cpp's limit`)
    const out = Array.from({ length: min }, () => one).flat()
    let tail: Symbol | undefined
    for (let n = 0; n < (max === undefined ? 1 : max - min); n++) {
      const own: Symbol = { kind: 'rule', name: this.#fresh(name) }
      const rest: Symbol | undefined = max === undefined ? own : tail
      this.rules.set(own.name, [rest === undefined ? one : [...one, rest], []])
      tail = own
    }
    return tail === undefined ? out : [...out, tail]
  }
}

const escapes: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' }
function characters(text: string): number[] {
  const out: number[] = []
  for (const [all, two, four, eight, one] of text.matchAll(/\\x(..)|\\u(....)|\\U(.{8})|\\(.)|[^]/gu)) {
    const digits = two ?? four ?? eight
    out.push(
      digits === undefined
        ? ((one === undefined ? all : (escapes[one] ?? one)).codePointAt(0) ?? 0)
        : Number.parseInt(digits, 16),
    )
  }
  return out
}
function rangesOf(text: string): [number, number][] {
  const member = String.raw`(?:\\x..|\\u....|\\U.{8}|\\.|[^\\])`
  return [...text.matchAll(new RegExp(`(${member})(?:-(${member}))?`, 'gu'))].map(([, low = '', high = low]) => [
    characters(low)[0] ?? 0,
    characters(high)[0] ?? 0,
  ])
}

export class Gbnf {
  readonly text: string
  readonly #rules: ReadonlyMap<string, readonly Line[]>
  readonly #control: ReadonlyMap<string, number>
  readonly #stacks = new Map<string, Stack>()
  readonly #lines = new Map<Line, number>()
  readonly #start: readonly Stack[]

  /** `control`: ids of the names that stand for a token where they are met in a text. */
  constructor(text: string, control: Readonly<Record<string, number>> = {}) {
    this.text = text
    this.#rules = new Reader(text).read()
    this.#control = new Map(Object.entries(control))
    this.#refuseLeftRecursion()
    this.#start = this.#advanced((this.#rules.get('root') ?? []).map((line) => this.#stack(line, 0, undefined)))
    this.#note('G', text)
  }
  accepts(text: string): boolean {
    let stacks = this.#start
    const names = [...this.#control.keys()].map((name) => name.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
    const parts = names.length === 0 ? Array.from(text) : (text.match(new RegExp(`${names.join('|')}|[^]`, 'gu')) ?? [])
    for (const part of parts) stacks = this.#step(stacks, part, this.#control.get(part) ?? -1)
    const yes = stacks.includes(undefined)
    if (this.#control.size > 0 || !this.text.includes('<[')) this.#note(yes ? 'Y' : 'N', text)
    return yes
  }
  #note(kind: string, text: string): void {
    if (record === undefined) return
    // Texts follow the grammar that they are tried on.
    if (recorded !== this.text) appendFileSync(record, block('G', this.text))
    recorded = this.text
    if (kind !== 'G') appendFileSync(record, block(kind, text))
  }
  #step(stacks: readonly Stack[], part: string, id: number): readonly Stack[] {
    const out = new Set<Stack>()
    for (const stack of stacks) {
      const top = stack?.line[stack.at]
      if (stack === undefined || top === undefined || top.kind === 'rule') continue
      if (top.kind === 'token') {
        if ((top.id === id) !== top.not) for (const one of this.#advanced([this.#behind(stack)])) out.add(one)
        continue
      }
      let now: readonly Stack[] = [stack]
      for (const c of part) now = this.#character(now, c.codePointAt(0) ?? 0)
      for (const one of now) out.add(one)
    }
    return [...out]
  }
  #character(stacks: readonly Stack[], c: number): readonly Stack[] {
    const next: Stack[] = []
    for (const stack of stacks) {
      const top = stack?.line[stack.at]
      if (stack === undefined || top?.kind !== 'class') continue
      if (top.ranges.some(([low, high]) => low <= c && c <= high) !== top.not) next.push(this.#behind(stack))
    }
    return this.#advanced(next)
  }
  #behind(stack: NonNullable<Stack>): Stack {
    return this.#stack(stack.line, stack.at + 1, stack.next)
  }
  #stack(line: Line, at: number, next: Stack): Stack {
    if (at >= line.length) return next
    let number = this.#lines.get(line)
    if (number === undefined) this.#lines.set(line, (number = this.#lines.size))
    const key = `${number}:${at}:${next?.id ?? ''}`
    const known = this.#stacks.get(key)
    if (known !== undefined) return known
    const made = { id: this.#stacks.size, line, at, next }
    this.#stacks.set(key, made)
    return made
  }
  /** With all rules at the top opened. */
  #advanced(stacks: readonly Stack[]): readonly Stack[] {
    const seen = new Set(stacks)
    const out: Stack[] = []
    for (const stack of seen) {
      const top = stack?.line[stack.at]
      if (stack === undefined || top?.kind !== 'rule') out.push(stack)
      else for (const line of this.#rules.get(top.name) ?? []) seen.add(this.#stack(line, 0, this.#behind(stack)))
    }
    return out
  }
  #refuseLeftRecursion(): void {
    const empty = new Set<string>()
    for (let before = -1; before < empty.size;) {
      before = empty.size
      for (const [name, lines] of this.#rules)
        if (lines.some((line) => line.every((s) => s.kind === 'rule' && empty.has(s.name)))) empty.add(name)
    }
    const corners = (name: string): string[] =>
      (this.#rules.get(name) ?? []).flatMap((line) => {
        const stop = line.findIndex((s) => s.kind !== 'rule' || !empty.has(s.name))
        return line.slice(0, stop < 0 ? line.length : stop + 1).flatMap((s) => (s.kind === 'rule' ? [s.name] : []))
      })
    const done = new Set<string>()
    for (const start of this.#rules.keys()) {
      const path: { name: string; left: string[] }[] = [{ name: start, left: corners(start) }]
      for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
        const next = top.left.pop()
        if (next === undefined) done.add(path.pop()?.name ?? '')
        else if (path.some((one) => one.name === next)) throw new Error(`left recursion of ${next}`)
        else if (!done.has(next)) path.push({ name: next, left: corners(next) })
      }
    }
  }
}
