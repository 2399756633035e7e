// Reads <think>…</think>, text, <tool_call>…</tool_call>: what Qwen and Hermes write. What stands in a call is another's.
import type { Callable } from '../protocol/tools.ts'
import type { Finish } from '../turn/ports.ts'
import type { Out, Parser } from './family.ts'
import type { CallOptions } from './json-call.ts'
import { Seek } from './seek.ts'
import { Words } from './words.ts'

/** What reads one call. */
export interface CallReader {
  push(text: string): void
  /** `whole`: its closing marker was heard. `stopped`: the model went on without it. `at`: ids up to the call's end. */
  end(whole: boolean, at?: number, stopped?: boolean): void
  readonly complete: boolean
  readonly refused: boolean
  /** Is a marker heard now something that the model quotes? */
  readonly quotes: boolean
  /** Takes a marker of its own; false for one of somebody else. */
  marker?(name: string): boolean
}
export type TagFormat = {
  /** The prompt has opened the reasoning already. */
  readonly thinking?: boolean
  /** Line breaks that the format puts between text and a call. */
  readonly breaks: number
  /** Control tokens that end the turn. */
  readonly stops: readonly string[]
  readonly call: (out: Out, options: CallOptions) => CallReader
  /** What a line begins with where a model leaves <tool_call> out. */
  readonly bare?: readonly string[]
  /** Further control tokens of the format, which are words where they have no meaning. */
  readonly words?: readonly string[]
}

export class TagParser implements Parser {
  readonly #format: TagFormat
  readonly #words = new Words()
  readonly #bare: Seek | undefined
  #thinking: boolean
  #call: CallReader | undefined = undefined
  /** The opening marker of this call was left out. */
  #isBare = false
  /** Ids in front of a call that has not said what it calls. */
  #mark: number | undefined = undefined
  /** What could have become a call and was cut is not worth its text. */
  #ending = false
  /** Does a line begin here? */
  #line = true
  /** Ids in front of what comes next, and of text that may become a bare call. */
  #front = 0

  constructor(format: TagFormat) {
    this.#format = format
    this.#thinking = format.thinking === true
    this.#bare = format.bare?.length ? new Seek(format.bare) : undefined
  }
  marker(name: string, out: Out): void {
    this.#marker(name, out)
    if (this.#bare?.holding !== true) this.#front = out.at
  }
  text(text: string, out: Out): void {
    this.#text(text, out)
    if (this.#bare?.holding !== true) this.#front = out.at
  }
  end(out: Out, finish: Finish | undefined): void {
    this.#over(out, finish === 'stop')
  }

  #marker(name: string, out: Out): void {
    if (this.#format.stops.includes(name)) return this.#over(out, true)
    if (this.#call?.marker?.(name) === true) {
      if (this.#call.refused) this.#call = undefined
      return
    }
    if (this.#call?.quotes === true) return this.#call.push(name)
    if (name.endsWith('think>') && this.#mark !== undefined) this.#close(false, out)
    switch (name) {
      case '<think>':
        // Reasoning stands in front of everything; elsewhere the model speaks of the marker.
        if (out.open === 'text' || this.#call) return this.#text(name, out)
        this.#thinking = true
        return
      case '</think>':
        if (!this.#thinking || this.#call) return out.open === 'text' ? this.#text(name, out) : undefined
        this.#words.end()
        this.#thinking = false
        this.#line = true
        return out.end()
      case '<tool_call>':
        this.#call?.end(false, out.before, true)
        this.#unseek(out)
        return this.#open(out, this.#mark ?? out.before, name)
      case '</tool_call>':
        if (this.#call) return this.#close(true, out)
        return out.open === undefined ? undefined : this.#text(name, out)
      case '<tool_response>':
      case '</tool_response>':
        return this.#text(name, out)
      default:
        // Control tokens of other trades say nothing.
        return this.#format.words?.includes(name) === true ? this.#text(name, out) : undefined
    }
  }
  #text(text: string, out: Out): void {
    const call = this.#call
    if (!call) return this.#plain(text, out)
    if (this.#isBare && call.complete && text.trim() !== '') {
      this.#close(true, out, this.#front)
      return this.#plain(text, out)
    }
    call.push(text)
    if (call.refused) this.#call = undefined
  }

  /** A call begins that may yet turn out to be text; what stands before it ends when it does not. */
  #open(out: Out, at: number, lead: string): void {
    let said = false
    this.#mark = at
    this.#isBare = lead === ''
    this.#call = this.#format.call(out, {
      begins: () => {
        const rest = this.#words.end(this.#format.breaks)
        if (out.open === 'text') out.text(rest)
        out.end(at)
        this.#mark = undefined
        this.#thinking = false
      },
      refuses: (text) => {
        if (this.#ending) return
        this.#say(said ? text : lead + text, out)
        said = true
        this.#mark = undefined
      },
    })
  }
  #close(whole: boolean, out: Out, at?: number): void {
    const call = this.#call
    this.#call = undefined
    call?.end(whole, at)
    // Markers without a call between them are text.
    const empty = this.#mark !== undefined
    if (empty) this.#say('<tool_call>', out)
    if (whole && !this.#isBare && (empty || call?.refused === true)) this.#say('</tool_call>', out)
    this.#mark = undefined
    this.#line = true
  }
  #plain(text: string, out: Out): void {
    if (!this.#bare || this.#thinking) return this.#say(text, out)
    const found = this.#bare.push(text)
    for (const [n, part] of found.entries()) {
      if (!part.marker || !this.#line) {
        this.#say(part.text, out)
        continue
      }
      this.#open(out, this.#front, '')
      const rest = found.slice(n + 1).map((p) => p.text)
      return this.#text(part.text + rest.join('') + this.#bare.end(), out)
    }
  }
  #unseek(out: Out): void {
    if (this.#bare?.holding === true) this.#say(this.#bare.end(), out)
  }
  #say(text: string, out: Out): void {
    if (text !== '') this.#line = text.endsWith('\n')
    const piece = this.#words.push(text)
    if (this.#thinking) out.reasoning(piece)
    else out.text(piece)
  }
  /** The turn ends. `stopped`: by the model's own will. */
  #over(out: Out, stopped: boolean): void {
    this.#unseek(out)
    this.#ending = true
    this.#call?.end(false, undefined, stopped)
    this.#call = undefined
    const mark = this.#mark
    const rest = this.#words.end(mark === undefined ? 0 : this.#format.breaks)
    if (out.open === 'text') out.text(rest)
    if (mark === undefined) return
    if (stopped) out.end(mark)
    else out.breakOff(mark)
  }
}
/** How a call begins in formats that name the function in its tag. */
export const bareCalls = (tools: readonly Callable[]): string[] => tools.map(({ flat }) => `<function=${flat}>`)
