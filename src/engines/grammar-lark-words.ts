// The words of a Lark grammar: names, strings, regular expressions, signs; and where a statement begins.
import { ApiError } from '../protocol/errors.ts'

export type Word = {
  readonly kind: 'name' | 'string' | 'regex' | 'number' | 'sign' | 'directive' | 'end'
  /** Of strings and regular expressions without the marks around them; strings with their escapes resolved. */
  readonly text: string
  /** Flags behind a string or a regular expression. */
  readonly flags: string
  readonly line: number
  /** The first word of its line. */
  readonly first: boolean
}

const maxWords = 20_000
const shapes = new RegExp(
  [
    /(?<newline>\r?\n)/,
    /(?<space>[ \t\f]+|\/\/[^\n]*|#[^\n]*)/,
    /(?<directive>%[A-Za-z_]+)/,
    /(?<name>[A-Za-z_][A-Za-z0-9_]*)/,
    /(?<number>[0-9]{1,9})/,
    /"(?<string>(?:[^"\\\n\r]|\\[^\n\r])*)"(?<insensitive>i?)/,
    /\/(?<regex>(?![*/])(?:[^/\\\n\r]|\\[^\n\r])+)\/(?<flags>[imslux]*)/,
    /(?<sign>\.\.|->|[:|()[\]{}?*+~,.!-])/,
  ]
    .map((shape) => shape.source)
    .join('|'),
  'y',
)

export function wordsOf(source: string, param: string | null): Word[] {
  const out: Word[] = []
  let line = 1
  let first = true
  shapes.lastIndex = 0
  while (shapes.lastIndex < source.length) {
    const at = shapes.lastIndex
    const groups = shapes.exec(source)?.groups
    if (groups === undefined)
      throw larkError(`\`${Array.from(source.slice(at, at + 2))[0]}\` has no meaning here`, line, param)
    if (groups['newline'] !== undefined) {
      line++
      first = true
      continue
    }
    if (groups['space'] !== undefined) continue
    if (out.length >= maxWords) throw larkError(`it has more than ${maxWords} words`, line, param)
    out.push({ ...wordOf(groups, line, param), line, first })
    first = false
  }
  out.push({ kind: 'end', text: '', flags: '', line, first: true })
  return out
}

function wordOf(
  groups: Partial<Record<string, string>>,
  line: number,
  param: string | null,
): Omit<Word, 'line' | 'first'> {
  const string = groups['string']
  if (string !== undefined)
    return { kind: 'string', text: unescaped(string, line, param), flags: groups['insensitive'] ?? '' }
  for (const kind of ['regex', 'directive', 'name', 'number', 'sign'] as const) {
    const text = groups[kind]
    if (text !== undefined)
      return { kind, text: kind === 'regex' ? text.replaceAll('\\/', '/') : text, flags: groups['flags'] ?? '' }
  }
  return { kind: 'end', text: '', flags: '' }
}

const escapes: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', f: '\f', v: '\v', b: '\b' }
function unescaped(source: string, line: number, param: string | null): string {
  return source.replaceAll(
    /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))/gsu,
    (all, ...found: unknown[]) => {
      const digits = found.slice(0, 3).find((part) => part !== undefined)
      if (digits !== undefined) {
        const point = Number.parseInt(String(digits), 16)
        if (point <= 0x10ffff) return String.fromCodePoint(point)
      }
      const letter = String(found[3])
      const known = escapes[letter]
      if (known !== undefined) return known
      if (/[A-Za-z0-9]/.test(letter)) throw larkError(`\`${String(all)}\` is no escape`, line, param)
      return letter
    },
  )
}

export function larkError(why: string, line: number, param: string | null, beyond = false): ApiError {
  return beyond
    ? new ApiError(
        'unsupported_parameter',
        `The Lark grammar uses ${why} in line ${line}; that is not taken here.`,
        param,
      )
    : new ApiError('invalid_request', `The Lark grammar is wrong in line ${line}: ${why}.`, param)
}
