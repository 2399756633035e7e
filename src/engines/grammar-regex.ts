// Regular expressions of clients as expressions: the part of Rust's and JavaScript's syntax that every engine can follow.
// What needs more than a finite automaton (look-around, back-references) is refused.
import { ApiError } from '../protocol/errors.ts'
import { choice, empty, optional, repeat, sequence, set, text } from './grammar-expression.ts'
import type { Expression } from './grammar-expression.ts'
import { bothCases, complement, digits, of, spaces, union, wordy } from './grammar-ranges.ts'
import type { Ranges } from './grammar-ranges.ts'

const maxNesting = 64
/** Characters and ranges whose other case is looked for. */
const maxFolds = 2000
export const maxRepeat = 20_000

/** Where a pattern comes from, for messages, and the request field it stands in. */
export type Origin = { readonly what: string; readonly param: string | null }

/**
 * `whole`: the text matches from end to end, anchors there say nothing. `search`: the pattern may stand anywhere in the
 * text, as JSON Schema has it. `flags`: i (both cases), s (a dot matches line ends too).
 */
export function regexOf(pattern: string, origin: Origin, mode: 'whole' | 'search' = 'whole', flags = ''): Expression {
  return new Reader(pattern, origin, mode, flags).read()
}

type Node = Expression | 'start' | 'end'
const classes: Readonly<Record<string, Ranges>> = {
  d: digits,
  w: wordy,
  s: spaces,
  D: complement(digits),
  W: complement(wordy),
  S: complement(spaces),
}
const controlsByLetter: Readonly<Record<string, number>> = { n: 10, r: 13, t: 9, f: 12, v: 11, 0: 0 }
const anyText = repeat(set(complement([])))

class Reader {
  readonly #points: readonly string[]
  readonly #origin: Origin
  readonly #mode: 'whole' | 'search'
  #at = 0
  #folds = 0
  #anyCase: boolean
  #dotAll: boolean

  constructor(pattern: string, origin: Origin, mode: 'whole' | 'search', flags: string) {
    this.#points = Array.from(pattern)
    this.#origin = origin
    this.#mode = mode
    this.#anyCase = flags.includes('i')
    this.#dotAll = flags.includes('s')
  }
  read(): Expression {
    const all = this.#choice(0)
    if (this.#at < this.#points.length) throw this.#wrong('a `)` closes nothing')
    return all
  }
  #wrong(why: string, beyond = false): ApiError {
    const { what, param } = this.#origin
    const place = `at character ${this.#at + 1}`
    return beyond
      ? new ApiError(
          'unsupported_parameter',
          `The regular expression of ${what} has ${why} ${place}; no engine here follows it.`,
          param,
        )
      : new ApiError('invalid_request', `The regular expression of ${what} is wrong ${place}: ${why}.`, param)
  }
  #peek(ahead = 0): string | undefined {
    return this.#points[this.#at + ahead]
  }
  #eat(expected: string): boolean {
    for (let n = 0; n < expected.length; n++) if (this.#peek(n) !== expected[n]) return false
    this.#at += expected.length
    return true
  }

  #choice(depth: number): Expression {
    if (depth > maxNesting) throw this.#wrong(`it is nested past ${maxNesting} levels`)
    const parts: Expression[] = []
    const { anyCase, dotAll } = { anyCase: this.#anyCase, dotAll: this.#dotAll }
    do parts.push(this.#branch(depth))
    while (this.#eat('|'))
    this.#anyCase = anyCase
    this.#dotAll = dotAll
    return choice(...parts)
  }
  /** Anchors stand at the ends of the branches of the outermost level, and nowhere else. */
  #branch(depth: number): Expression {
    const nodes: Node[] = []
    while (this.#at < this.#points.length && this.#peek() !== '|' && this.#peek() !== ')') {
      const node = this.#atom(depth)
      const anchor = node === 'start' || node === 'end'
      nodes.push(anchor ? node : this.#quantified(node))
    }
    let from = 0
    let to = nodes.length
    while (nodes[from] === 'start') from++
    while (to > from && nodes[to - 1] === 'end') to--
    const inner = nodes.slice(from, to)
    const kept = inner.filter((node) => node !== 'start' && node !== 'end')
    const anchored = from > 0 || to < nodes.length
    if (kept.length < inner.length || (anchored && depth > 0 && this.#mode === 'search'))
      throw this.#wrong('an anchor that does not stand at an end of the pattern', true)
    if (anchored && depth > 0) throw this.#wrong('an anchor inside a group', true)
    if (this.#mode === 'whole' || depth > 0) return sequence(...kept)
    return sequence(from > 0 ? empty : anyText, ...kept, to < nodes.length ? empty : anyText)
  }
  #quantified(atom: Expression): Expression {
    let out = atom
    for (let n = 0; ; n++) {
      const bounds = this.#bounds()
      if (bounds === undefined) return out
      if (n > 0) throw this.#wrong('a repetition of a repetition without a group')
      // Which match is tried first makes no difference to what matches.
      if (this.#eat('?')) void 0
      else if (this.#peek() === '+') throw this.#wrong('a possessive repetition', true)
      out = bounds[0] === 0 && bounds[1] === 1 ? optional(out) : repeat(out, ...bounds)
    }
  }
  #bounds(): [number, number | undefined] | undefined {
    if (this.#eat('*')) return [0, undefined]
    if (this.#eat('+')) return [1, undefined]
    if (this.#eat('?')) return [0, 1]
    if (this.#peek() !== '{') return undefined
    const found = /^\{(\d{1,9})(,(\d{1,9})?)?\}/.exec(this.#points.slice(this.#at, this.#at + 24).join(''))
    if (found === null) throw this.#wrong('a `{` that opens no repetition; write \\{ for the character')
    this.#at += found[0].length
    const min = Number(found[1])
    const max = found[2] === undefined ? min : found[3] === undefined ? undefined : Number(found[3])
    if (max !== undefined && max < min) throw this.#wrong('a repetition with its bounds the wrong way round')
    if (Math.max(min, max ?? 0) > maxRepeat) throw this.#wrong(`a repetition of more than ${maxRepeat} times`)
    return [min, max]
  }

  #atom(depth: number): Node {
    const c = this.#peek()
    if (c === '(') return this.#group(depth)
    if (c === '[') return this.#characters(this.#class())
    if (c === '*' || c === '+' || c === '?' || c === '{') throw this.#wrong(`a \`${c}\` behind nothing`)
    this.#at++
    if (c === '^') return 'start'
    if (c === '$') return 'end'
    if (c === '.') return set(this.#dotAll ? complement([]) : complement(of('\n')))
    if (c === '\\') {
      if (this.#eat('A')) return 'start'
      if (this.#eat('z') || this.#eat('Z')) return 'end'
      return this.#characters(this.#escape(false))
    }
    return this.#characters(of(c ?? ''))
  }
  #characters(ranges: Ranges): Expression {
    const all = this.#anyCase ? this.#bothCases(ranges) : ranges
    const [only] = all
    if (all.length === 1 && only !== undefined && only[0] === only[1]) return text(String.fromCodePoint(only[0]))
    return set(all)
  }
  #bothCases(ranges: Ranges): Ranges {
    this.#folds += ranges.length
    if (this.#folds > maxFolds) throw this.#wrong(`more than ${maxFolds} ranges of characters in any case`)
    return bothCases(ranges)
  }
  #group(depth: number): Expression {
    this.#at++
    const { anyCase, dotAll } = { anyCase: this.#anyCase, dotAll: this.#dotAll }
    if (this.#eat('?')) {
      const name = /^P?<([A-Za-z_]\w*)>/.exec(this.#points.slice(this.#at, this.#at + 80).join(''))
      const flags = /^([a-zA-Z]*)(-[a-zA-Z]+)?(:|\))/.exec(this.#points.slice(this.#at, this.#at + 20).join(''))
      if (name !== null) this.#at += name[0].length
      else if (flags !== null) {
        this.#flags(flags[1] ?? '', flags[2] ?? '')
        this.#at += flags[0].length
        // `(?i)` holds up to the end of the group that it stands in.
        if (flags[3] === ')') return empty
      } else throw this.#wrong('look-around or a group of a kind of its own', true)
    }
    const inner = this.#choice(depth + 1)
    if (!this.#eat(')')) throw this.#wrong('a group is not closed')
    this.#anyCase = anyCase
    this.#dotAll = dotAll
    return inner
  }
  #flags(on: string, off: string): void {
    if (/[^isu]/.test(on) || /[^-isu]/.test(off)) throw this.#wrong('a flag other than i and s', true)
    if (on.includes('i')) this.#anyCase = true
    if (on.includes('s')) this.#dotAll = true
    if (off.includes('i')) this.#anyCase = false
    if (off.includes('s')) this.#dotAll = false
  }

  #class(): Ranges {
    this.#at++
    const not = this.#eat('^')
    let all: Ranges = []
    const lists: Ranges[] = []
    for (let first = true; first || this.#peek() !== ']'; first = false) {
      if (this.#peek() === undefined) throw this.#wrong('a `[` is not closed')
      if (this.#peek() === '[' && this.#peek(1) === ':') throw this.#wrong('a class by name', true)
      if (this.#peek() === '&' && this.#peek(1) === '&') throw this.#wrong('an intersection of classes', true)
      const low = this.#member()
      if (this.#peek() !== '-' || this.#peek(1) === ']' || this.#peek(1) === undefined) {
        lists.push(low)
        continue
      }
      this.#at++
      const high = this.#member()
      const [from, to] = [single(low), single(high)]
      if (from === undefined || to === undefined || from > to) throw this.#wrong('a range of characters that is none')
      lists.push([[from, to]])
    }
    this.#at++
    all = union(...lists)
    // Both cases first: what is left out is left out in both.
    if (this.#anyCase) all = this.#bothCases(all)
    return not ? complement(all) : all
  }
  #member(): Ranges {
    const c = this.#peek() ?? ''
    this.#at++
    return c === '\\' ? this.#escape(true) : of(c)
  }
  #escape(inClass: boolean): Ranges {
    const c = this.#peek()
    if (c === undefined) throw this.#wrong('it ends in a backslash')
    this.#at++
    const named = classes[c]
    if (named !== undefined) return named
    const control = controlsByLetter[c]
    if (control !== undefined && !(c === '0' && /\d/.test(this.#peek() ?? ''))) return [[control, control]]
    if (c === 'x') return this.#hex(2)
    if (c === 'u') return this.#hex(4)
    if (c === 'U') return this.#hex(8)
    if (inClass && c === 'b') return [[8, 8]]
    if (/[1-9k]/.test(c)) throw this.#wrong('a back-reference', true)
    if (c === 'p' || c === 'P') throw this.#wrong('a Unicode property', true)
    if (/[A-Za-z0-9]/.test(c)) throw this.#wrong(`\`\\${c}\``, true)
    return of(c)
  }
  #hex(length: number): Ranges {
    const ahead = this.#points.slice(this.#at, this.#at + 12).join('')
    const found = /^\{([0-9A-Fa-f]{1,8})\}/.exec(ahead) ?? new RegExp(`^([0-9A-Fa-f]{${length}})`).exec(ahead)
    const point = Number.parseInt(found?.[1] ?? '', 16)
    if (found === null || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
      throw this.#wrong('an escape that names no character')
    this.#at += found[0].length
    return [[point, point]]
  }
}

function single(ranges: Ranges): number | undefined {
  const [only] = ranges
  return ranges.length === 1 && only !== undefined && only[0] === only[1] ? only[0] : undefined
}
