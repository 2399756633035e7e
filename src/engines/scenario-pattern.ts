// Texts that match a regular expression, for the `pattern` of a JSON schema: a small parser that knows what people write
// there. A client's pattern is never run where it could take more than polynomial time.

type Atom =
  | { readonly kind: 'set'; readonly chars: string }
  | { readonly kind: 'group'; readonly options: readonly Seq[] }
type Term = { readonly atom: Atom; readonly min: number; readonly max: number }
type Seq = readonly Term[]

const printable =
  'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@ ,+=#%&!?*()[]{}<>~^$|;\'"`\\\n\t'
const classes: Record<string, (c: string) => boolean> = {
  d: (c) => /\d/.test(c),
  w: (c) => /\w/.test(c),
  s: (c) => /\s/.test(c),
}
const controls: Record<string, string> = { n: '\n', t: '\t', r: '\r', f: '\f', v: '\v', '0': '\0' }
const longest = 10_000

/** A pattern that was understood. */
export type Pattern = {
  /** A text that matches, at least `min` and if possible at most `max` characters; `salt` gives another one. */
  sample(min: number, max: number, salt: number): string
  /** Undefined where running it could take too long; then only `sample` is to be trusted. */
  readonly test: ((text: string) => boolean) | undefined
}

const known = new Map<string, Pattern | undefined>()

/** Undefined for what is no regular expression, or one this parser does not understand. */
export function patternOf(source: string): Pattern | undefined {
  if (known.has(source)) return known.get(source)
  if (known.size >= 256) known.clear()
  const made = make(source)
  known.set(source, made)
  return made
}

function make(source: string): Pattern | undefined {
  if (source.length > 2000) return undefined
  let regexp: RegExp
  try {
    regexp = new RegExp(source, 'u')
  } catch {
    return undefined
  }
  let parsed: Parsed
  try {
    parsed = parse(source)
  } catch {
    return undefined
  }
  const { options, sure, open } = parsed
  const cost = costOf(options, false)
  const quick = sure && cost !== undefined && cost <= 3 && source.length <= 500
  return {
    test: quick ? (text) => text.length > 256 || regexp.test(text) : undefined,
    sample(min, max, salt) {
      let best = ''
      for (const option of options)
        for (let extra = 0; extra <= Math.min(min, longest); extra++) {
          let text = write([option], extra, salt)
          if (open && text.length < min) text = text.padEnd(min, 'a')
          if (best === '') best = text
          if (text.length > max) break
          if (text.length >= min) return text
          if (extra > 0 && text === write([option], extra - 1, salt)) break
        }
      return best
    },
  }
}

/** How many unbounded repeats stand beside each other; undefined where repeats stand in each other. */
function costOf(options: readonly Seq[], repeated: boolean): number | undefined {
  if (repeated && options.length > 1) return undefined
  let sum = 0
  for (const seq of options)
    for (const term of seq) {
      const loops = term.max > 1 || term.min !== term.max
      if (loops && repeated) return undefined
      if (term.atom.kind === 'group') {
        const inner = costOf(term.atom.options, repeated || loops)
        if (inner === undefined) return undefined
        sum += inner
      }
      if (term.max > 16) sum++
    }
  return sum
}

function write(options: readonly Seq[], extra: number, salt: number): string {
  const seq = options[0] ?? []
  let text = ''
  for (const { atom, min, max } of seq) {
    const times = Math.min(max, min + extra, longest)
    for (let n = 0; n < times && text.length < longest; n++) {
      if (atom.kind === 'group') text += write(rotated(atom.options, salt), extra, salt)
      else text += atom.chars[(salt * (n + 1)) % atom.chars.length] ?? ''
    }
  }
  return text
}
const rotated = (options: readonly Seq[], salt: number): readonly Seq[] => options.slice(salt % options.length)

type Parsed = { options: readonly Seq[]; sure: boolean; open: boolean }

function parse(source: string): Parsed {
  const chars = Array.from(source)
  let at = 0
  let sure = true
  let depth = 0

  const alternatives = (): Seq[] => {
    if (++depth > 50) throw new Error('too deep')
    const options: Seq[] = [sequence()]
    while (chars[at] === '|') {
      at++
      options.push(sequence())
    }
    depth--
    return options
  }
  const sequence = (): Seq => {
    const terms: Term[] = []
    while (at < chars.length && chars[at] !== '|' && chars[at] !== ')') {
      const atom = one()
      const [min, max] = repeat()
      if (atom) terms.push({ atom, min, max })
    }
    return terms
  }
  const one = (): Atom | undefined => {
    const c = chars[at++]
    if (c === '^' || c === '$') return undefined
    if (c === '(') return group()
    if (c === '[') return bracket()
    if (c === '.') return { kind: 'set', chars: printable.slice(0, 64) }
    if (c === '\\') return escaped()
    return { kind: 'set', chars: c ?? '' }
  }
  const group = (): Atom | undefined => {
    let looks = false
    if (chars[at] === '?') {
      at++
      if (chars[at] === ':') at++
      else if (chars[at] === '<' && chars[at + 1] !== '=' && chars[at + 1] !== '!') at = chars.indexOf('>', at) + 1
      else {
        looks = true
        at += chars[at] === '<' ? 2 : 1
      }
    }
    const options = alternatives()
    if (chars[at++] !== ')') throw new Error('open group')
    if (!looks) return { kind: 'group', options }
    sure = false
    return undefined
  }
  const escaped = (): Atom | undefined => {
    const c = chars[at] ?? ''
    if (/[1-9bBk]/.test(c)) {
      sure = false
      at++
      return undefined
    }
    return { kind: 'set', chars: printableOf(member()) }
  }
  /** What an escape stands for; `at` is behind the backslash. */
  const member = (): ((c: string) => boolean) | string => {
    const c = chars[at++] ?? ''
    const inside = classes[c.toLowerCase()]
    if (inside) return c === c.toLowerCase() ? inside : (x) => !inside(x)
    if (c === 'p' || c === 'P') {
      const end = chars.indexOf('}', at)
      const property = new RegExp(`\\${c}${chars.slice(at, end + 1).join('')}`, 'u')
      at = end + 1
      return (x) => property.test(x)
    }
    if (c === 'x' || (c === 'u' && chars[at] !== '{')) return code(c === 'x' ? 2 : 4)
    if (c === 'u') {
      const end = chars.indexOf('}', at)
      const text = chars.slice(at + 1, end).join('')
      at = end + 1
      return String.fromCodePoint(Number.parseInt(text, 16))
    }
    return controls[c] ?? c
  }
  const code = (digits: number): string => {
    const text = chars.slice(at, at + digits).join('')
    at += digits
    return String.fromCodePoint(Number.parseInt(text, 16))
  }
  const bracket = (): Atom => {
    const negated = chars[at] === '^'
    if (negated) at++
    const tests: ((c: string) => boolean)[] = []
    let own = ''
    while (chars[at] !== ']') {
      if (at >= chars.length) throw new Error('open class')
      const from = chars[at++] === '\\' ? member() : (chars[at - 1] ?? '')
      if (typeof from !== 'string') tests.push(from)
      else if (chars[at] === '-' && chars[at + 1] !== ']') {
        at++
        const to = chars[at++] === '\\' ? member() : (chars[at - 1] ?? '')
        if (typeof to !== 'string') throw new Error('odd range')
        own += from
        tests.push((c) => c >= from && c <= to)
      } else {
        own += from
        tests.push((c) => c === from)
      }
    }
    at++
    const within = (c: string): boolean => tests.some((t) => t(c)) !== negated
    const set = printableOf(within)
    return { kind: 'set', chars: set === '' ? own : set }
  }
  const repeat = (): [number, number] => {
    const c = chars[at]
    let range: [number, number] = [1, 1]
    if (c === '*') range = [0, Infinity]
    else if (c === '+') range = [1, Infinity]
    else if (c === '?') range = [0, 1]
    else if (c === '{') {
      const end = chars.indexOf('}', at)
      const [low = '', high] = chars
        .slice(at + 1, end)
        .join('')
        .split(',')
      range = [Number(low), high === undefined ? Number(low) : high === '' ? Infinity : Number(high)]
      at = end
    } else return range
    at++
    if (chars[at] === '?') at++
    return range
  }
  const options = alternatives()
  if (at < chars.length) throw new Error('odd end')
  return { options, sure, open: !source.endsWith('$') }
}

function printableOf(within: ((c: string) => boolean) | string): string {
  return typeof within === 'string' ? within : Array.from(printable).filter(within).join('')
}
