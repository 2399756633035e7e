// Rules brought into a shape that top-down parsers take: no rule without a finite text, no repetition of what may be
// empty, no left recursion (Paull's elimination, one cycle at a time).
import { ApiError } from '../protocol/errors.ts'
import {
  choice,
  empty,
  inside,
  isEmpty,
  isNothing,
  named,
  nothing,
  repeat,
  sequence,
  tooLarge,
} from './grammar-expression.ts'
import type { Expression, Rules } from './grammar-expression.ts'

/** More than so many cycles of left recursion, or pieces of one rule, are refused. */
const maxCycles = 200
const maxPieces = 2000
/** Ways to begin one rule, and all rules together. */
const maxWays = 50_000
const maxWaysInAll = 20_000_000
/** Parts that may be empty, in a row, inside a repetition: their number is squared. */
const maxEmpties = 64

type Table = Map<string, Expression>

/** The rules that `root` needs, normalised. Throws ApiError for rules that no finite text follows, or that cannot be rewritten. */
export function normalised(rules: Rules, root: string): ReadonlyMap<string, Expression> {
  const table: Table = new Map(reached((name) => rules.get(name), root).map((name) => [name, rules.get(name)]))
  dropEndless(table)
  if (isNothing(table.get(root) ?? nothing))
    throw new ApiError(
      'invalid_request',
      'The grammar or schema describes no finite text; nothing could be written that fits it.',
    )
  const empties = new Empties(table)
  for (const [name, e] of table) table.set(name, empties.lean(e))
  straighten(table, empties)
  // Texts without their empty one may have come to nothing.
  dropEndless(table)
  refuseManyWays(table, empties)
  return new Map(reached((name) => table.get(name) ?? nothing, root).map((name) => [name, table.get(name) ?? nothing]))
}

function reached(get: (name: string) => Expression, root: string): string[] {
  const seen = new Set([root])
  for (const name of seen) for (const other of named(get(name))) seen.add(other)
  return [...seen]
}

/** Names for which `holds` is true, where a rule's answer depends on those of the rules that it names. */
function fixpoint(table: Table, holds: (e: Expression, known: ReadonlySet<string>) => boolean): Set<string> {
  const known = new Set<string>()
  const users = new Map<string, string[]>()
  for (const [name, e] of table)
    for (const used of named(e)) {
      const list = users.get(used)
      if (list === undefined) users.set(used, [name])
      else list.push(name)
    }
  // A rule is looked at again when one that it names became known. Innermost rules mostly stand last.
  const queue = new Set([...table.keys()].toReversed())
  for (const name of queue) {
    queue.delete(name)
    if (known.has(name) || !holds(table.get(name) ?? nothing, known)) continue
    known.add(name)
    for (const user of users.get(name) ?? []) queue.add(user)
  }
  return known
}

/** Rules, and alternatives, that lead to no finite text become nothing. */
function dropEndless(table: Table): void {
  const finite = (e: Expression, known: ReadonlySet<string>): boolean => {
    if (e.type === 'rule') return known.has(e.name)
    if (e.type === 'sequence') return e.parts.every((part) => finite(part, known))
    if (e.type === 'choice') return e.parts.some((part) => finite(part, known))
    return e.type !== 'repeat' || e.min === 0 || finite(e.part, known)
  }
  const known = fixpoint(table, finite)
  const prune = (e: Expression): Expression => {
    if (e.type === 'rule') return known.has(e.name) ? e : nothing
    if (e.type === 'sequence') return sequence(...e.parts.map(prune))
    if (e.type === 'choice') return choice(...e.parts.map(prune))
    return e.type === 'repeat' ? repeat(prune(e.part), e.min, e.max) : e
  }
  for (const [name, e] of table) table.set(name, known.has(name) ? prune(e) : nothing)
}

/** What may be empty, and expressions without their empty text. */
class Empties {
  readonly #table: Table
  readonly #known: ReadonlySet<string>
  readonly #without = new Map<Expression, Expression>()
  readonly #rules = new Map<string, Expression>()

  constructor(table: Table) {
    this.#table = table
    this.#known = fixpoint(table, (e, known) => canBeEmpty(e, known))
  }
  may(e: Expression): boolean {
    return canBeEmpty(e, this.#known)
  }
  /** The same language with no repetition of what may be empty. */
  lean(e: Expression): Expression {
    if (e.type === 'sequence') return sequence(...e.parts.map((part) => this.lean(part)))
    if (e.type === 'choice') return choice(...e.parts.map((part) => this.lean(part)))
    if (e.type !== 'repeat') return e
    const part = this.lean(e.part)
    return this.may(part) ? repeat(this.without(part), 0, e.max) : repeat(part, e.min, e.max)
  }
  /** All texts of `e` but the empty one. */
  without(e: Expression): Expression {
    if (!this.may(e)) return e
    const done = this.#without.get(e)
    if (done !== undefined) return done
    const out = this.#withoutEmpty(e)
    this.#without.set(e, out)
    return out
  }
  #withoutEmpty(e: Expression): Expression {
    if (e.type === 'choice') return choice(...e.parts.map((part) => this.without(part)))
    if (e.type === 'repeat') return repeat(this.without(e.part), 1, e.max)
    if (e.type === 'sequence') {
      if (e.parts.length > maxEmpties) throw tooLarge()
      return choice(...e.parts.map((part, n) => sequence(this.without(part), ...e.parts.slice(n + 1))))
    }
    if (e.type !== 'rule') return nothing
    const known = this.#rules.get(e.name)
    if (known !== undefined) return known
    let name = `${e.name}-some`
    while (this.#table.has(name)) name += '-x'
    const rule: Expression = { type: 'rule', name }
    this.#rules.set(e.name, rule)
    this.#table.set(name, nothing)
    this.#table.set(name, this.without(this.lean(this.#table.get(e.name) ?? nothing)))
    return rule
  }
}

function canBeEmpty(e: Expression, known: ReadonlySet<string>): boolean {
  if (e.type === 'rule') return known.has(e.name)
  if (e.type === 'sequence') return e.parts.every((part) => canBeEmpty(part, known))
  if (e.type === 'choice') return e.parts.some((part) => canBeEmpty(part, known))
  if (e.type === 'repeat') return e.min === 0 || canBeEmpty(e.part, known)
  return isEmpty(e)
}

/** Rules that a text of `e` may begin with. */
function corners(e: Expression, empties: Empties, into = new Set<string>()): Set<string> {
  if (e.type === 'rule') into.add(e.name)
  for (const part of inside(e)) {
    corners(part, empties, into)
    if (e.type === 'sequence' && !empties.may(part)) break
  }
  return into
}

function straighten(table: Table, empties: Empties): void {
  const edges = new Map<string, ReadonlySet<string>>()
  for (const [name, e] of table) edges.set(name, corners(e, empties))
  for (let n = 0; ; n++) {
    const name = onCycle(edges)
    if (name === undefined) return
    if (n >= maxCycles) throw leftRecursion(name)
    // Rules from which `name` comes back as a first part.
    const back = new Set([name])
    for (const target of back) for (const [from, to] of edges) if (to.has(target)) back.add(from)
    const split = new Split(name, back, table, empties)
    const { tails, bases } = split.of(table.get(name) ?? nothing)
    if (bases.length === 0) throw leftRecursion(name)
    const again = tails.filter((tail) => !isEmpty(tail)).map((tail) => empties.without(tail))
    table.set(name, sequence(choice(...bases), repeat(choice(...again))))
    for (const [one, e] of table) if (one === name || !edges.has(one)) edges.set(one, corners(e, empties))
  }
}

/** A rule, taken apart: the texts that begin with the rule itself (what follows it), and all others. */
type Parts = { readonly tails: readonly Expression[]; readonly bases: readonly Expression[] }
class Split {
  readonly #name: string
  readonly #back: ReadonlySet<string>
  readonly #table: Table
  readonly #empties: Empties
  readonly #open = new Set<string>()
  #left = maxPieces

  constructor(name: string, back: ReadonlySet<string>, table: Table, empties: Empties) {
    this.#name = name
    this.#back = back
    this.#table = table
    this.#empties = empties
  }
  of(e: Expression): Parts {
    if (--this.#left < 0) throw leftRecursion(this.#name)
    if (![...corners(e, this.#empties)].some((name) => this.#back.has(name))) return { tails: [], bases: [e] }
    if (e.type === 'rule') return this.#rule(e.name)
    if (e.type === 'choice') return join(e.parts.map((part) => this.of(part)))
    if (e.type === 'repeat') {
      const rest = repeat(e.part, Math.max(0, e.min - 1), e.max === undefined ? undefined : e.max - 1)
      return join([{ tails: [], bases: e.min === 0 ? [empty] : [] }, this.of(sequence(e.part, rest))])
    }
    if (e.type !== 'sequence') return { tails: [], bases: [e] }
    const [first = empty, ...others] = e.parts
    const rest = sequence(...others)
    const { tails, bases } = this.of(first)
    const follow = bases.flatMap((base): Parts[] => {
      if (!this.#empties.may(base)) return [{ tails: [], bases: [sequence(base, rest)] }]
      const some = this.#empties.without(base)
      return [{ tails: [], bases: isNothing(some) ? [] : [sequence(some, rest)] }, this.of(rest)]
    })
    return join([{ tails: tails.map((tail) => sequence(tail, rest)), bases: [] }, ...follow])
  }
  #rule(name: string): Parts {
    if (name === this.#name) return { tails: [empty], bases: [] }
    // Another rule of the cycle: its own text in its place. One that comes back to itself past this rule is a second cycle.
    if (this.#open.has(name)) throw leftRecursion(name)
    this.#open.add(name)
    const out = this.of(this.#table.get(name) ?? nothing)
    this.#open.delete(name)
    return out
  }
}
const join = (all: readonly Parts[]): Parts => ({
  tails: all.flatMap((parts) => parts.tails),
  bases: all.flatMap((parts) => parts.bases),
})

/**
 * Ways to begin a rule: through which first parts, of first parts. They are what llama.cpp walks through one by one when it
 * reads a grammar (two rules that name each other's parts twice, thirty deep, take it minutes), and what it keeps as stacks.
 */
function refuseManyWays(table: Table, empties: Empties): void {
  const ways = new Map<string, number>()
  const of = (e: Expression): number => {
    if (e.type === 'rule') return 1 + (ways.get(e.name) ?? 0)
    if (e.type !== 'sequence') return inside(e).reduce((sum, part) => sum + of(part), 0)
    const stop = e.parts.findIndex((part) => !empties.may(part))
    return e.parts.slice(0, stop < 0 ? undefined : stop + 1).reduce((sum, part) => sum + of(part), 0)
  }
  const all = (e: Expression): number => {
    const times = e.type === 'repeat' ? Math.max(1, e.min, e.max ?? 0) : 1
    return inside(e).reduce((sum, part) => sum + all(part), times * of(e))
  }
  let total = 0
  for (const name of innermostFirst(table, empties)) {
    const e = table.get(name) ?? nothing
    ways.set(name, of(e))
    total += all(e)
    if (of(e) > maxWays || total > maxWaysInAll) throw tooLarge()
  }
}
/** Rules in an order in which those that one begins with stand before it. */
function innermostFirst(table: Table, empties: Empties): string[] {
  const out = new Set<string>()
  for (const start of table.keys()) {
    if (out.has(start)) continue
    const path = [{ name: start, left: [...corners(table.get(start) ?? nothing, empties)] }]
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const next = top.left.pop()
      if (next === undefined) {
        out.add(top.name)
        path.pop()
      } else if (!out.has(next)) path.push({ name: next, left: [...corners(table.get(next) ?? nothing, empties)] })
    }
  }
  return [...out]
}

/** A rule that stands on a cycle; undefined where there is none. */
function onCycle(edges: ReadonlyMap<string, ReadonlySet<string>>): string | undefined {
  const state = new Map<string, 'open' | 'done'>()
  for (const start of edges.keys()) {
    if (state.has(start)) continue
    const path: { name: string; next: Iterator<string> }[] = []
    const open = (name: string): void => {
      state.set(name, 'open')
      path.push({ name, next: (edges.get(name) ?? new Set<string>())[Symbol.iterator]() })
    }
    open(start)
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const step = top.next.next()
      if (step.done === true) {
        state.set(top.name, 'done')
        path.pop()
      } else if (state.get(step.value) === 'open') return step.value
      else if (!state.has(step.value)) open(step.value)
    }
  }
  return undefined
}

const leftRecursion = (name: string): ApiError =>
  new ApiError(
    'unsupported_by_engine',
    `The grammar's rule '${name}' begins with itself in a way that cannot be rewritten; put a repetition in its place.`,
  )
