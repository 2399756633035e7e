// One call as JSON, as many formats write it: {"name": "ls", "arguments": {"path": "/"}}. Arguments stream as they come,
// in the very text that the model wrote.
import { JsonEnd } from '../protocol/json-end.ts'
import type { Out } from './family.ts'

/** Characters until the arguments begin, and of a call whose keys stand in another order. */
const maxHead = 8 * 1024
const maxOdd = 1024 * 1024
const string = String.raw`"((?:[^"\\]|\\.)*)"`
const opening = new RegExp(
  String.raw`^\s*\{\s*"name"\s*:\s*${string}\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=[{["])`,
  's',
)

export type CallOptions = {
  /** Just before the call is said: what came before it ends here. */
  readonly begins?: () => void
  /** What turned out to be no call. Default: it is text. */
  readonly refuses?: (text: string) => void
}

export class JsonCall {
  readonly #out: Out
  readonly #begins: () => void
  readonly #refuses: (text: string) => void
  /** Text until the arguments begin, or of arguments that are a string. */
  #held = ''
  #state: 'head' | 'arguments' | 'string' | 'odd' | 'over' | 'refused' = 'head'
  readonly #end = new JsonEnd()
  #quoted = false
  #last = ''

  constructor(out: Out, { begins = () => {}, refuses = (text) => out.text(text) }: CallOptions = {}) {
    this.#out = out
    this.#begins = begins
    this.#refuses = refuses
  }
  /** Have the arguments come to their end? What follows is closing braces and white space. */
  get complete(): boolean {
    return this.#state === 'over'
  }
  /** It can be no call: its text has gone to `refuses`, and so does what follows. */
  get refused(): boolean {
    return this.#state === 'refused'
  }
  /** Is a marker heard now part of a string? A raw line break is none of a string: there, something was left out. */
  get quotes(): boolean {
    return this.#state === 'arguments' && this.#quoted && this.#last !== '\n'
  }
  push(text: string): void {
    if (this.#state === 'refused') return this.#refuses(text)
    if (this.#state === 'arguments') return this.#argue(text)
    if (this.#state === 'over') return
    this.#held += text
    if (this.#state === 'string') return
    if (this.#held.length > maxOdd || /^\s*[^\s{]/.test(this.#held)) return this.#refuse()
    if (this.#state === 'odd') return
    const found = opening.exec(this.#held)
    if (!found) {
      if (this.#held.length > maxHead) this.#state = 'odd'
      return
    }
    this.#call(unquoted(found[1] ?? ''))
    const rest = this.#held.slice(found[0].length)
    this.#state = rest.startsWith('"') ? 'string' : 'arguments'
    this.#held = rest.startsWith('"') ? rest : ''
    if (this.#state === 'arguments') this.#argue(rest)
  }
  /** The call ends here. `whole`: its closing marker was seen, or none is needed. `at`: ids up to its end, default all. */
  end(whole: boolean, at?: number): void {
    if (this.#state === 'head' || this.#state === 'odd') this.#odd(whole, at)
    else if (this.#state === 'string') {
      this.#out.arguments(stringValue(this.#held))
      this.#close(whole, at)
    } else if (this.#state !== 'refused') this.#close(this.#end.complete, at)
    if (!this.refused) this.#state = 'over'
  }

  #call(name: string): void {
    this.#begins()
    this.#out.call(name)
  }
  #argue(text: string): void {
    const taken = this.#end.push(text)
    if (taken > 0) this.#out.arguments(text.slice(0, taken))
    for (let n = 0; n < taken; n++) {
      const char = text[n] ?? ''
      // A backslash makes a plain character of what follows it.
      if (this.#quoted && this.#last === '\\') this.#last = ''
      else {
        if (char === '"') this.#quoted = !this.#quoted
        this.#last = char
      }
    }
    if (this.#end.complete) this.#state = 'over'
  }
  #close(whole: boolean, at: number | undefined): void {
    if (whole) this.#out.end(at)
    else this.#out.breakOff(at)
  }
  /** Keys in another order, no arguments, or no call at all: then it is text, so that nothing is lost. */
  #odd(whole: boolean, at: number | undefined): void {
    const call = parsed(this.#held)
    if (call) {
      this.#call(call.name)
      this.#out.arguments(call.arguments)
      return this.#close(true, at)
    }
    const name = new RegExp(String.raw`"name"\s*:\s*${string}`, 's').exec(this.#held)
    if (name && !whole) {
      this.#call(unquoted(name[1] ?? ''))
      return this.#close(false, at)
    }
    if (this.#held.trim() !== '') this.#refuse()
  }
  #refuse(): void {
    const text = this.#held
    this.#held = ''
    this.#state = 'refused'
    this.#refuses(text)
  }
}

function parsed(text: string): { name: string; arguments: string } | undefined {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null || !('name' in value) || typeof value.name !== 'string')
      return undefined
    const args = 'arguments' in value ? value.arguments : 'parameters' in value ? value.parameters : {}
    return { name: value.name, arguments: typeof args === 'string' ? args : JSON.stringify(args ?? {}) }
  } catch {
    return undefined
  }
}
function unquoted(text: string): string {
  try {
    return String(JSON.parse(`"${text}"`))
  } catch {
    return text
  }
}
/** Arguments that are JSON inside a JSON string: the text in it, also where its end is missing. */
function stringValue(text: string): string {
  const whole = new RegExp(`^${string}`, 's').exec(text)
  return whole ? unquoted(whole[1] ?? '') : unquoted(text.slice(1).replace(/\\$/, ''))
}
