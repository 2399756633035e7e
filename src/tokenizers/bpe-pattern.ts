// The regular expressions of tokenizer files: Oniguruma's dialect, read into a small tree and written for this RegExp.
// What it does not know it refuses by name. https://github.com/kkos/oniguruma/blob/master/doc/RE

export type Pattern =
  /** One character of a set, as RegExp source with the flag `v`. */
  | { readonly type: 'set'; readonly source: string }
  | { readonly type: 'sequence' | 'choice'; readonly parts: readonly Pattern[] }
  /** As many as can be had, fewer where the rest needs it. */
  | { readonly type: 'repeat'; readonly part: Pattern; readonly min: number; readonly max: number }
  | { readonly type: 'look'; readonly part: Pattern; readonly negative: boolean }

/** RegExp source for the flag `v`. */
export function sourceOf(pattern: Pattern): string {
  switch (pattern.type) {
    case 'set':
      return pattern.source
    case 'sequence':
      return pattern.parts.map((part) => (part.type === 'choice' ? `(?:${sourceOf(part)})` : sourceOf(part))).join('')
    case 'choice':
      return pattern.parts.map(sourceOf).join('|')
    case 'look':
      return `(?${pattern.negative ? '!' : '='}${sourceOf(pattern.part)})`
    case 'repeat': {
      const { part, min, max } = pattern
      const body = part.type === 'set' ? part.source : `(?:${sourceOf(part)})`
      return `${body}{${min},${max === Infinity ? '' : max}}`
    }
  }
}

/** A text that stands for itself. */
export const literal = (text: string): Pattern => ({
  type: 'sequence',
  parts: Array.from(text, (char) => ({ type: 'set', source: `[${point(char)}]` })),
})

/** UTF-16 units that an attempt to match can look at, where no run of a repeated set is longer than `run`. */
export function reachOf(pattern: Pattern, run: number): number {
  switch (pattern.type) {
    case 'set':
      return 2
    case 'sequence':
      return pattern.parts.reduce((sum, part) => sum + reachOf(part, run), 0)
    case 'choice':
      return pattern.parts.reduce((most, part) => Math.max(most, reachOf(part, run)), 0)
    case 'look':
      return reachOf(pattern.part, run)
    case 'repeat':
      return pattern.max === Infinity ? run + 2 : pattern.max * reachOf(pattern.part, run)
  }
}

/** Characters of the shortest text that matches. */
function shortest(pattern: Pattern): number {
  switch (pattern.type) {
    case 'set':
      return 1
    case 'sequence':
      return pattern.parts.reduce((sum, part) => sum + shortest(part), 0)
    case 'choice':
      return pattern.parts.reduce((least, part) => Math.min(least, shortest(part)), Infinity)
    case 'look':
      return 0
    case 'repeat':
      return pattern.min * shortest(pattern.part)
  }
}

const point = (char: string): string => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`
const controls: Readonly<Record<string, string>> = { r: '\r', n: '\n', t: '\t', f: '\f', v: '\v', a: '\x07', e: '\x1b' }
const classes: Readonly<Record<string, string>> = {
  s: '\\p{White_Space}',
  S: '\\P{White_Space}',
  d: '\\p{Nd}',
  D: '\\P{Nd}',
}
/** Names that Oniguruma reads as POSIX brackets, with sets of its own. */
const posix = /^(alnum|alpha|ascii|blank|cntrl|digit|graph|lower|print|punct|space|upper|word|xdigit)$/i
/** Texts that stand for one letter, whatever its case: `ß` matches `(?i:ss)`. */
const folded = /ss|st|ff|fi|fl/i
const longestSource = 10_000
const mostRepeats = 1000

/** Throws an Error that names what cannot be had. */
export function parsePattern(source: string): Pattern {
  if (source.length > longestSource) throw new Error(`a pattern of ${source.length} characters`)
  const pattern = new Parser(source).whole()
  if (shortest(pattern) === 0) throw new Error(`the pattern ${source}, which matches nothing at all`)
  return pattern
}

class Parser {
  #chars: readonly string[]
  #at = 0
  #depth = 0

  constructor(source: string) {
    this.#chars = Array.from(source)
  }
  whole(): Pattern {
    const pattern = this.#choice(false)
    if (this.#at < this.#chars.length) throw this.#refusal(')')
    return pattern
  }

  #peek(ahead = 0): string {
    return this.#chars[this.#at + ahead] ?? ''
  }
  #next(): string {
    const char = this.#chars[this.#at++]
    if (char === undefined) throw new Error('a pattern that breaks off')
    return char
  }
  #take(text: string): boolean {
    for (let n = 0; n < text.length; n++) if (this.#peek(n) !== text[n]) return false
    this.#at += text.length
    return true
  }
  #refusal(what: string): Error {
    return new Error(`${what} in the pattern ${this.#chars.join('').slice(0, 200)}`)
  }

  #choice(anyCase: boolean): Pattern {
    if (++this.#depth > 50) throw this.#refusal('groups nested more than 50 deep')
    const parts = [this.#sequence(anyCase)]
    while (this.#take('|')) parts.push(this.#sequence(anyCase))
    this.#depth--
    return parts.length === 1 && parts[0] ? parts[0] : { type: 'choice', parts }
  }
  #sequence(anyCase: boolean): Pattern {
    const begun = this.#at
    const parts: Pattern[] = []
    while (this.#at < this.#chars.length && this.#peek() !== '|' && this.#peek() !== ')')
      parts.push(...this.#quantified(this.#atom(anyCase)))
    const text = this.#chars.slice(begun, this.#at).join('')
    if (anyCase && folded.test(text)) throw this.#refusal(`(?i:…${text}…)`)
    return { type: 'sequence', parts }
  }

  #atom(anyCase: boolean): Pattern {
    const char = this.#next()
    if (char === '(') return this.#group(anyCase)
    if (char === '[') return { type: 'set', source: this.#set(anyCase) }
    if (char === '.') return { type: 'set', source: '[^\\n]' }
    if (/[*+?^$]/.test(char)) throw this.#refusal(char)
    const one = char === '\\' ? this.#escape() : point(char)
    return { type: 'set', source: `[${anyCase ? this.#bothCases(one, one) : one}]` }
  }
  #group(anyCase: boolean): Pattern {
    const look = this.#take('?=') ? false : this.#take('?!') ? true : undefined
    const ignore = look === undefined && this.#take('?i:')
    if (look === undefined && !ignore && !this.#take('?:') && this.#peek() === '?')
      throw this.#refusal(`(?${this.#peek(1)}`)
    const part = this.#choice(anyCase || ignore)
    if (!this.#take(')')) throw new Error('a pattern that breaks off')
    if (look === undefined) return part
    if (reachOf(part, Infinity) === Infinity) throw this.#refusal('a look-ahead without an end')
    return { type: 'look', part, negative: look }
  }

  #quantified(part: Pattern): Pattern[] {
    const bounds = this.#bounds()
    if (bounds === undefined) return [part]
    const { min, max, interval } = bounds
    if (part.type === 'look') throw this.#refusal('a look-ahead repeated')
    // A loop in a loop can take for ever.
    if (max === Infinity && part.type !== 'set') throw this.#refusal('a group repeated without an end')
    const loop: Pattern = { type: 'repeat', part, min, max }
    if (this.#peek() === '?' || (interval && this.#peek() === '+'))
      throw this.#refusal(`a quantifier with ${this.#peek()}`)
    if (!this.#take('+')) {
      if (this.#bounds() !== undefined) throw this.#refusal('a quantifier of a quantifier')
      return [loop]
    }
    // Possessive: of one set, all that there are is what is followed by no more of it.
    if (part.type !== 'set') throw this.#refusal('a possessive group')
    const no: Pattern = { type: 'look', part, negative: true }
    if (max === Infinity) return [{ type: 'sequence', parts: [loop, no] }]
    return [{ type: 'choice', parts: [part, no] }]
  }
  #bounds(): { min: number; max: number; interval: boolean } | undefined {
    if (this.#take('*')) return { min: 0, max: Infinity, interval: false }
    if (this.#take('+')) return { min: 1, max: Infinity, interval: false }
    if (this.#take('?')) return { min: 0, max: 1, interval: false }
    const found = /^\{(\d*)(?:(,)(\d*))?\}/.exec(this.#chars.slice(this.#at, this.#at + 20).join(''))
    if (!found || (found[1] === '' && !found[3])) return undefined
    this.#at += found[0].length
    const min = Number(found[1])
    const max = found[2] === undefined ? min : found[3] ? Number(found[3]) : Infinity
    if (min > max || min > mostRepeats || (max !== Infinity && max > mostRepeats)) throw this.#refusal(found[0])
    return { min, max, interval: true }
  }

  /** What stands behind a backslash, as it is written inside a set. */
  #escape(): string {
    const char = this.#next()
    const control = controls[char]
    if (control !== undefined) return point(control)
    const known = classes[char]
    if (known !== undefined) return known
    if (char === 'p' || char === 'P') return this.#property(char === 'P')
    if (char === 'x' || char === 'u') return this.#hex(char)
    if (/[\p{L}\p{N}]/u.test(char)) throw this.#refusal(`\\${char}`)
    return point(char)
  }
  #hex(kind: 'x' | 'u'): string {
    const ahead = this.#chars.slice(this.#at, this.#at + 12).join('')
    const found = (kind === 'u' ? /^([\da-f]{4})/i : /^(?:([\da-f]{2})|\{([\da-f]{1,6})\})/i).exec(ahead)
    const value = Number.parseInt(found?.[1] ?? found?.[2] ?? '', 16)
    if (!found || value > 0x10ffff) throw this.#refusal(`\\${kind}`)
    this.#at += found[0].length
    return point(String.fromCodePoint(value))
  }
  #property(negative: boolean): string {
    const found = /^\{(\^?)(\w+)\}/.exec(this.#chars.slice(this.#at, this.#at + 60).join(''))
    const name = found?.[2] ?? ''
    if (!found || posix.test(name)) throw this.#refusal(`\\p${found?.[0] ?? ''}`)
    this.#at += found[0].length
    const letter = negative !== (found[1] === '^') ? 'P' : 'p'
    for (const source of [`\\${letter}{${name}}`, `\\${letter}{Script=${name}}`]) if (compiles(source)) return source
    throw this.#refusal(`\\p{${name}}`)
  }

  /** A set from behind its `[`. Operands of `&&` reach as far as they can. */
  #set(anyCase: boolean): string {
    if (++this.#depth > 50) throw this.#refusal('sets nested more than 50 deep')
    const not = this.#take('^') ? '^' : ''
    if (this.#peek() === ']') throw this.#refusal('[]')
    const operands = ['']
    while (!this.#take(']'))
      if (this.#take('&&')) operands.push('')
      else operands.push((operands.pop() ?? '') + this.#member(anyCase))
    if (operands.includes('')) throw this.#refusal('&& of nothing')
    this.#depth--
    return `[${not}${operands.length === 1 ? operands[0] : operands.map((o) => `[${o}]`).join('&&')}]`
  }
  #member(anyCase: boolean): string {
    const char = this.#next()
    if (char === '[') {
      if (this.#peek() === ':') throw this.#refusal('[:')
      return this.#set(anyCase)
    }
    const low = char === '\\' ? this.#escape() : point(char)
    if (this.#peek() !== '-' || this.#peek(1) === ']') return anyCase ? this.#bothCases(low, low) : low
    this.#at++
    const next = this.#next()
    if (next === '[') throw this.#refusal('-[')
    const high = next === '\\' ? this.#escape() : point(next)
    if (valueOf(low) === undefined || valueOf(high) === undefined) throw this.#refusal('a range of sets')
    return anyCase ? this.#bothCases(low, high) : `${low}-${high}`
  }
  /** Both cases of the letters from `low` to `high`: of ASCII only, and the two signs that fold to it. */
  #bothCases(low: string, high: string): string {
    const [from, to] = [valueOf(low), valueOf(high)]
    if (from === undefined || to === undefined) {
      if (/^\\p\{L/i.test(low)) throw this.#refusal(`${low} in (?i:)`)
      return low
    }
    if (to > 0x7f) throw this.#refusal('(?i:) of letters that are not ASCII')
    let out = `${low}-${high}`
    for (let code = from; code <= to; code++) {
      const char = String.fromCharCode(code)
      if (!/[a-z]/i.test(char)) continue
      out += point(char.toLowerCase()) + point(char.toUpperCase())
      if (/s/i.test(char)) out += '\\u{17f}'
      if (/k/i.test(char)) out += '\\u{212a}'
    }
    return out
  }
}

const valueOf = (member: string): number | undefined => {
  const found = /^\\u\{([\da-f]+)\}$/.exec(member)
  return found ? Number.parseInt(found[1] ?? '', 16) : undefined
}
function compiles(source: string): boolean {
  try {
    return new RegExp(source, 'v').source !== ''
  } catch {
    return false
  }
}
