// Expressions over characters: what regexes, Lark grammars, JSON schemas and tags are turned into, and GBNF is written from.
import { ApiError } from '../protocol/errors.ts'
import { minus, type Ranges } from './grammar-ranges.ts'

export type Expression =
  | { readonly type: 'text'; readonly text: string }
  /** One character of these. */
  | { readonly type: 'set'; readonly ranges: Ranges }
  /** One token by its id; `not`: any one but it. */
  | { readonly type: 'token'; readonly id: number; readonly not: boolean }
  | { readonly type: 'sequence'; readonly parts: readonly Expression[] }
  /** One of the parts; without parts it matches nothing at all. */
  | { readonly type: 'choice'; readonly parts: readonly Expression[] }
  | { readonly type: 'repeat'; readonly part: Expression; readonly min: number; readonly max: number | undefined }
  | { readonly type: 'rule'; readonly name: string }

export const nothing: Expression = { type: 'choice', parts: [] }
export const empty: Expression = { type: 'text', text: '' }
/** Throws for a text with U+0000: llama.cpp ends its process over a grammar that asks for it. */
export function text(value: string): Expression {
  if (value.includes('\0'))
    throw new ApiError(
      'invalid_request',
      'A schema or grammar asks for the character U+0000, which no engine can write.',
    )
  return { type: 'text', text: value }
}
/** One of these characters but U+0000. */
export function set(given: Ranges): Expression {
  const ranges = given.some(([low]) => low === 0) ? minus(given, []) : given
  return ranges.length === 0 ? nothing : { type: 'set', ranges }
}
export const token = (id: number, not = false): Expression => ({ type: 'token', id, not })
export const isNothing = (e: Expression): boolean => e.type === 'choice' && e.parts.length === 0
export const isEmpty = (e: Expression): boolean => e.type === 'text' && e.text === ''

export function sequence(...given: readonly Expression[]): Expression {
  const parts: Expression[] = []
  for (const part of given) {
    if (isNothing(part)) return nothing
    for (const one of part.type === 'sequence' ? part.parts : [part]) {
      const last = parts.at(-1)
      if (isEmpty(one)) continue
      if (one.type === 'text' && last?.type === 'text') parts[parts.length - 1] = text(last.text + one.text)
      else parts.push(one)
    }
  }
  const [first] = parts
  return first === undefined ? empty : parts.length === 1 ? first : { type: 'sequence', parts }
}
export function choice(...given: readonly Expression[]): Expression {
  const parts: Expression[] = []
  const names = new Set<string>()
  for (const part of given)
    for (const one of part.type === 'choice' ? part.parts : [part]) {
      // The same rule twice would be walked through twice.
      if (one.type === 'rule' && names.has(one.name)) continue
      if (one.type === 'rule') names.add(one.name)
      parts.push(one)
    }
  const [first] = parts
  return first === undefined ? nothing : parts.length === 1 ? first : { type: 'choice', parts }
}
export function repeat(part: Expression, min = 0, max?: number): Expression {
  if (max !== undefined && max < min) return nothing
  if (isEmpty(part) || max === 0) return empty
  if (isNothing(part)) return min === 0 ? empty : nothing
  return min === 1 && max === 1 ? part : { type: 'repeat', part, min, max }
}
export const optional = (part: Expression): Expression => repeat(part, 0, 1)

/** Rules under unique names that GBNF can write, at most `limit` of them. */
export class Rules {
  readonly #rules = new Map<string, Expression>()
  readonly #next = new Map<string, number>()
  readonly #limit: number

  constructor(limit = 20_000) {
    this.#limit = limit
  }
  /** A name of its own, to be given its expression by `set`. */
  reserve(hint: string): string {
    if (this.#rules.size >= this.#limit) throw tooLarge()
    const stem =
      hint
        .replaceAll(/[^A-Za-z0-9]+/g, '-')
        .replaceAll(/^-|-$/g, '')
        .slice(0, 40) || 'rule'
    for (;;) {
      const n = (this.#next.get(stem) ?? 0) + 1
      this.#next.set(stem, n)
      const name = n === 1 ? stem : `${stem}-${n}`
      if (this.#rules.has(name)) continue
      this.#rules.set(name, nothing)
      return name
    }
  }
  set(name: string, expression: Expression): void {
    this.#rules.set(name, expression)
  }
  get(name: string): Expression {
    return this.#rules.get(name) ?? nothing
  }
  /** The expression as a rule, and a reference to it. */
  add(hint: string, expression: Expression): Expression {
    if (expression.type === 'rule' || isNothing(expression) || isEmpty(expression)) return expression
    const name = this.reserve(hint)
    this.set(name, expression)
    return { type: 'rule', name }
  }
  names(): string[] {
    return [...this.#rules.keys()]
  }
}

export const tooLarge = (): ApiError =>
  new ApiError(
    'unsupported_by_engine',
    'The grammar made of this schema or grammar is too large for the engine; make it simpler.',
  )

/** The parts that an expression holds itself. */
export function inside(e: Expression): readonly Expression[] {
  return e.type === 'sequence' || e.type === 'choice' ? e.parts : e.type === 'repeat' ? [e.part] : []
}
/** The rules that an expression names, each once. */
export function named(e: Expression, into = new Set<string>()): Set<string> {
  if (e.type === 'rule') into.add(e.name)
  for (const part of inside(e)) named(part, into)
  return into
}
