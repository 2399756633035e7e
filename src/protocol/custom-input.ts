// A custom tool's free text, taken out of the JSON arguments that engines stream for it: {"input": "..."}.
// Engines know only functions, so such a tool is lowered to one with a single string; this raises the stream again.

// Arguments that are neither plainly free text nor plainly the object are held until `end`, but not without limit.
const maxHeld = 1024 * 1024
const opening = /^\s*\{\s*"input"\s*:\s*"/
const escapes: Record<string, string> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', '"': '"', '\\': '\\', '/': '/' }

// The opening is this near the start or the object is an odd one, which only JSON.parse of the whole can read.
const nearby = 1024

type Where = 'before' | 'odd' | 'inside' | 'after' | 'raw'

/**
 * Decodes the `input` string of streamed arguments. The pieces of `push` and `end` joined are the tool's input, however
 * the arguments were cut, and no piece ends inside a surrogate pair. Arguments that are no such object come out as they
 * are. What follows the string is ignored; a half escape at the end of a cut stream is dropped, since it stands for no
 * character.
 */
export class CustomInput {
  private where: Where = 'before'
  /** Text not decoded yet: everything so far while `before`, else at most a broken escape. */
  private held = ''
  /** A high surrogate that waits for its other half. */
  private high = ''

  /** Takes a piece of the arguments and returns what is new of the input; often ''. */
  push(piece: string): string {
    switch (this.where) {
      case 'after':
        return ''
      case 'raw':
        return this.whole(piece)
      case 'inside':
        return this.whole(this.decode(this.held + piece))
      case 'before':
        return this.whole(this.begin(this.held + piece))
      case 'odd':
        this.held += piece
        return this.held.length > maxHeld ? this.whole(this.giveUp()) : ''
    }
  }

  /** Returns what was held back. Call once, after the last piece. */
  end(): string {
    const rest = this.where === 'before' || this.where === 'odd' ? raise(this.held) : ''
    const high = this.high
    this.where = 'after'
    this.held = this.high = ''
    return high + rest
  }

  private begin(text: string): string {
    const open = opening.exec(text.slice(0, nearby))
    if (open !== null) {
      this.where = 'inside'
      return this.decode(text.slice(open[0].length))
    }
    this.held = text
    // Free text in place of JSON need not wait: an object begins with a brace.
    if (/^\s*[^\s{]/.test(text)) return this.giveUp()
    if (text.length > nearby) this.where = 'odd'
    return ''
  }

  private giveUp(): string {
    this.where = 'raw'
    const text = this.held
    this.held = ''
    return text
  }

  private decode(text: string): string {
    let out = ''
    let from = 0
    this.held = ''
    for (let i = 0; i < text.length; i++) {
      const c = text.charCodeAt(i)
      if (c === 0x22) {
        this.where = 'after'
        return out + text.slice(from, i)
      }
      if (c !== 0x5c) continue
      out += text.slice(from, i)
      const escape = readEscape(text, i)
      if (escape === undefined) {
        this.held = text.slice(i)
        return out
      }
      out += escape.value
      i += escape.length - 1
      from = i + 1
    }
    return out + text.slice(from)
  }

  /** Keeps the pair together: a piece is sent as an event of its own, and half a pair is no valid UTF-8. */
  private whole(text: string): string {
    if (text === '') return ''
    const all = this.high + text
    const last = all.charCodeAt(all.length - 1)
    this.high = last >= 0xd800 && last <= 0xdbff ? all.slice(-1) : ''
    return this.high === '' ? all : all.slice(0, -1)
  }
}

/** The escape at `at`; undefined while it is incomplete. Models write escapes that JSON has not: those stay as written. */
function readEscape(text: string, at: number): { value: string; length: number } | undefined {
  const kind = text[at + 1]
  if (kind === undefined) return undefined
  if (kind !== 'u') return { value: escapes[kind] ?? `\\${kind}`, length: 2 }
  const digits = text.slice(at + 2, at + 6)
  if (!/^[0-9a-fA-F]*$/.test(digits)) return { value: '\\u', length: 2 }
  return digits.length < 4 ? undefined : { value: String.fromCharCode(Number.parseInt(digits, 16)), length: 6 }
}

/** Whole arguments at once, for an object that is written otherwise: other keys first, an escaped key. */
function raise(text: string): string {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && 'input' in value && typeof value.input === 'string')
      return value.input
  } catch {
    // No JSON: free text.
  }
  return text
}
