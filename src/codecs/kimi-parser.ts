// Reads what Kimi K2 writes: <think>…</think>, text, and a section of calls, each an id, a token, and JSON arguments.
import type { Callable } from '../protocol/tools.ts'
import { JsonEnd } from '../protocol/json-end.ts'
import type { Finish } from '../turn/ports.ts'
import type { Out, Parser } from './family.ts'
import { Words } from './words.ts'

export const sectionBegin = '<|tool_calls_section_begin|>'
export const sectionEnd = '<|tool_calls_section_end|>'
export const callBegin = '<|tool_call_begin|>'
export const argumentBegin = '<|tool_call_argument_begin|>'
export const callEnd = '<|tool_call_end|>'

/** Characters of an id. */
const maxId = 8 * 1024

/** The name in an id that this format would give: `functions.ls:0`, or `ls:0`. */
export const nameInId = (id: string): string | undefined => /^(?:functions\.)?([^\s:]+):\d+$/.exec(id)?.[1]

export class KimiParser implements Parser {
  readonly #tools: readonly string[]
  readonly #stops: readonly string[]
  readonly #words = new Words()
  /** Ids of this turn's calls. */
  readonly #ids = new Set<string>()
  #where: 'thinking' | 'text' | 'section' = 'text'
  #call: KimiCall | undefined = undefined

  constructor(tools: readonly Callable[], stops: readonly string[]) {
    this.#tools = tools.map(({ flat }) => flat)
    this.#stops = stops
  }
  marker(name: string, out: Out): void {
    if (this.#stops.includes(name)) return this.#over(out, true)
    switch (name) {
      case '<think>':
        if (out.open === 'text' || this.#call) return this.text(name, out)
        this.#where = 'thinking'
        return
      case '</think>':
        if (this.#where !== 'thinking') return out.open === 'text' || this.#call ? this.text(name, out) : undefined
        this.#words.end()
        this.#where = 'text'
        return out.end()
      case sectionBegin:
        // Also in the middle of reasoning: the model has made up its mind.
        this.#leave(out)
        this.#where = 'section'
        return
      case callBegin:
        this.#leave(out)
        this.#where = 'section'
        this.#call = new KimiCall(out, this.#tools, this.#ids)
        return
      case argumentBegin:
        return this.#call ? this.#call.argue() : this.#quoted(name, out)
      case callEnd:
        if (!this.#call) return this.#quoted(name, out)
        this.#call.end(true)
        this.#call = undefined
        return
      case sectionEnd:
        if (this.#where !== 'section') return this.#quoted(name, out)
        this.#leave(out)
        this.#where = 'text'
        return
      default:
        // Control tokens of other trades say nothing.
        return undefined
    }
  }
  text(text: string, out: Out): void {
    if (this.#call) return this.#call.push(text)
    // Between calls stands white space; anything else is an answer whose section was left open.
    const words = this.#where === 'section' ? text.trimStart() : text
    if (words === '') return
    if (this.#where === 'section') this.#where = 'text'
    const piece = this.#words.push(words)
    if (this.#where === 'thinking') out.reasoning(piece)
    else out.text(piece)
  }
  end(out: Out, finish: Finish | undefined): void {
    this.#over(out, finish === 'stop')
  }

  /** What ends something that is not open is a word. */
  #quoted(name: string, out: Out): void {
    if (out.open === 'text' || out.open === 'reasoning') this.text(name, out)
  }
  /** Something else begins at the marker that was just heard. */
  #leave(out: Out): void {
    this.#call?.end(true, out.before)
    this.#call = undefined
    const rest = this.#words.end(0)
    if (out.open === 'text') out.text(rest)
    out.endBefore()
  }
  #over(out: Out, stopped: boolean): void {
    this.#call?.end(stopped)
    this.#call = undefined
    const rest = this.#words.end(0)
    if (out.open === 'text') out.text(rest)
  }
}

/** functions.ls:0, the token in front of the arguments, {…}. Arguments stream. */
class KimiCall {
  readonly #out: Out
  readonly #tools: readonly string[]
  readonly #ids: Set<string>
  #id = ''
  #state: 'id' | 'before' | 'arguments' = 'id'
  readonly #end = new JsonEnd()

  constructor(out: Out, tools: readonly string[], ids: Set<string>) {
    this.#out = out
    this.#tools = tools
    this.#ids = ids
  }
  push(text: string): void {
    if (this.#state === 'arguments') return this.#argue(text)
    if (this.#state === 'before') return this.#first(text)
    // The token in front of the arguments was left out.
    const brace = text.indexOf('{')
    this.#id = (this.#id + (brace < 0 ? text : text.slice(0, brace))).slice(0, maxId)
    if (brace < 0) return
    this.argue()
    this.#first(text.slice(brace))
  }
  /** The arguments begin. */
  argue(): void {
    if (this.#state !== 'id') return
    this.#begin()
    this.#state = 'before'
  }
  /** `whole`: the model has ended it. `at`: ids up to its end, default all. */
  end(whole: boolean, at?: number): void {
    if (this.#state === 'id') {
      // An id that may go on is no name yet.
      if (this.#id.trim() === '' || !whole) return
      this.#begin()
    }
    if (this.#state !== 'arguments' && whole) this.#out.arguments('{}')
    if (this.#end.complete || (this.#state !== 'arguments' && whole)) this.#out.end(at)
    else this.#out.breakOff(at)
  }

  #first(text: string): void {
    const json = text.trimStart()
    if (json === '') return
    this.#state = 'arguments'
    this.#argue(json)
  }
  #argue(text: string): void {
    const taken = this.#end.push(text)
    if (taken > 0) this.#out.arguments(text.slice(0, taken))
  }
  /** An id that the format knows goes to the client, and comes back with the output; not where it names two calls. */
  #begin(): void {
    const id = this.#id.trim()
    const name = nameInId(id)
    if (name === undefined) return this.#out.call(this.#guess(id))
    this.#out.call(name, this.#ids.has(id) ? undefined : id)
    this.#ids.add(id)
  }
  /** `functions_ls_0`, `functionsls0`, `3`: what models write where clients have rewritten their ids. */
  #guess(id: string): string {
    const behind = id.replace(/^functions?[._:]?/, '')
    const names = [id, behind, id.replace(/[:_.]?\d+$/, ''), behind.replace(/[:_.]?\d+$/, '')]
    const known = names.find((name) => this.#tools.includes(name))
    const [only] = this.#tools.length === 1 ? this.#tools : []
    return known ?? (/^(?:call)?\W?\d*$/.test(behind) ? only : undefined) ?? (names[3] || id)
  }
}
