// What Llama 3 writes: text, or calls as bare JSON at the start of a turn (or behind <|python_tag|>), several with `;`
// between them. JSON that names no offered tool is an answer like any other.
import { JsonEnd } from '../protocol/json-end.ts'
import type { Finish } from '../turn/ports.ts'
import type { Out, Parser } from './family.ts'

/** Characters held back until it is known whether they are a call, and of a call in an unusual form. */
const maxHead = 4 * 1024
const maxOdd = 64 * 1024
const lead = /^[\s;]*\{\s*(?:"type"\s*:\s*"function"\s*,\s*)?"name"\s*:\s*"([^"\\]*)("?)/
const leads = ['{"name":"', '{"type":"function","name":"']
const opens = /^\s*,\s*"(?:parameters|arguments)"\s*:\s*(?=\{)/
const openings = [',"parameters":{', ',"arguments":{']
const tight = (text: string): string => text.replace(/\s+/g, '')

export class Llama3Parser implements Parser {
  readonly #names: readonly string[]
  /** `start`: a call may begin. `odd`: a call whose arguments stand elsewhere than usual. `tail`: behind the arguments. */
  #state: 'start' | 'odd' | 'arguments' | 'tail' | 'text' | 'header' = 'start'
  #held = ''
  /** Text that follows a call: the blanks between them are not its own. */
  #behind = false
  #object = new JsonEnd()
  #arguments = new JsonEnd()
  /** In the tail: something was there. */
  #closing = false

  constructor(names: readonly string[]) {
    this.#names = names
  }
  marker(name: string, out: Out): void {
    switch (name) {
      case '<|python_tag|>':
        return this.#next('start', out)
      // A header that the model wrote itself; its words are no text.
      case '<|start_header_id|>':
        return this.#next('header', out)
      case '<|end_header_id|>':
        if (this.#state === 'header') this.#state = 'start'
        return
      case '<|eot_id|>':
      case '<|eom_id|>':
      case '<|end_of_text|>':
        return this.#settle(out, false)
      default:
      // Other control tokens say nothing.
    }
  }
  text(text: string, out: Out): void {
    let rest = text
    // Every round ends a call or takes all that is left.
    while (rest !== '') rest = this.#take(rest, out)
  }
  end(out: Out, finish: Finish | undefined): void {
    this.#settle(out, finish !== 'stop')
  }

  /** Returns what follows a call that has ended. */
  #take(text: string, out: Out): string {
    switch (this.#state) {
      case 'header':
        return ''
      case 'text':
        out.text(text)
        return ''
      case 'arguments': {
        const taken = this.#arguments.push(text)
        out.arguments(text.slice(0, taken))
        if (!this.#arguments.complete) return ''
        this.#state = 'tail'
        return text.slice(taken)
      }
      case 'tail': {
        if (!this.#closing) {
          const at = text.search(/\S/)
          if (at < 0) return ''
          if (text[at] === ';') {
            // The brace that closes the call was forgotten.
            this.#called(out)
            return text.slice(at)
          }
          this.#closing = true
        }
        const taken = this.#object.push(text)
        if (this.#object.complete) this.#called(out)
        return text.slice(taken)
      }
      case 'odd':
        return this.#oddly(text, out)
      case 'start':
        this.#held += text
        return this.#begin(out)
    }
  }
  #next(state: 'start' | 'header', out: Out): void {
    this.#settle(out, false)
    out.endBefore()
    this.#behind = false
    this.#state = state
  }
  #begin(out: Out): string {
    const held = this.#held
    const found = lead.exec(held)
    if (!found) {
      const begun = tight(held).replace(/^;+/, '')
      if (held.length > maxHead || !leads.some((one) => one.startsWith(begun))) this.#words(out)
      return ''
    }
    const [all, name = '', quote] = found
    if (quote === '') {
      if (all.length < held.length || held.length > maxHead || !this.#names.some((one) => one.startsWith(name)))
        this.#words(out)
      return ''
    }
    if (!this.#names.includes(name)) {
      this.#words(out)
      return ''
    }
    const rest = held.slice(all.length)
    const open = opens.exec(rest)
    if (open) {
      this.#held = ''
      this.#state = 'arguments'
      this.#arguments = new JsonEnd()
      this.#object = new JsonEnd()
      this.#object.push('{')
      this.#closing = false
      out.call(name)
      return rest.slice(open[0].length)
    }
    const begun = tight(rest)
    if (held.length <= maxHead && openings.some((one) => one.startsWith(begun))) return ''
    this.#state = 'odd'
    this.#object = new JsonEnd()
    this.#held = ''
    return this.#oddly(held.replace(/^[\s;]+/, ''), out)
  }
  /** No parameters, parameters that are null or a string, further keys: known only at its end. */
  #oddly(text: string, out: Out): string {
    const taken = this.#object.push(text)
    this.#held += text.slice(0, taken)
    if (!this.#object.complete) {
      if (this.#held.length > maxOdd) this.#words(out)
      return ''
    }
    const call = callOf(this.#held)
    if (!call) {
      this.#words(out)
      return text.slice(taken)
    }
    out.call(call.name)
    out.arguments(call.arguments)
    this.#called(out)
    return text.slice(taken)
  }
  #called(out: Out): void {
    out.end()
    this.#held = ''
    this.#behind = true
    this.#state = 'start'
  }
  /** It is no call. */
  #words(out: Out): void {
    const words = this.#behind ? this.#held.replace(/^[\s;]+/, '') : this.#held
    this.#held = ''
    this.#state = 'text'
    out.text(words)
  }
  /** Nothing belongs to what is open any more. `cut`: the model had more to say. */
  #settle(out: Out, cut: boolean): void {
    if (this.#state === 'arguments') out.breakOff()
    else if (this.#state === 'tail') out.end()
    else if (this.#state === 'start' || this.#state === 'odd') {
      const found = cut ? lead.exec(this.#held) : undefined
      if (found?.[2] === '"' && this.#names.includes(found[1] ?? '')) {
        out.call(found[1] ?? '')
        out.breakOff()
      } else this.#words(out)
    }
    this.#held = ''
    this.#state = 'text'
  }
}

function callOf(text: string): { name: string; arguments: string } | undefined {
  try {
    const value = JSON.parse(text) as Readonly<Record<string, unknown>>
    const args = value['parameters'] ?? value['arguments'] ?? {}
    if (typeof value['name'] !== 'string') return undefined
    return { name: value['name'], arguments: typeof args === 'string' ? args : JSON.stringify(args) }
  } catch {
    return undefined
  }
}
