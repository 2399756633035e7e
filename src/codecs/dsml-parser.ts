// What DeepSeek V3.2 writes. The token ｜DSML｜ makes a tag of the text around it; the values between the tags become JSON
// again. V4 names the list of calls otherwise and is read as well.
import { JsonEnd } from '../protocol/json-end.ts'
import type { Finish } from '../turn/ports.ts'
import type { Out, Parser } from './family.ts'
import { jsonOfText } from './typed-value.ts'
import { Words } from './words.ts'

/** Characters of a tag. */
const maxTag = 8 * 1024
const dsml = '｜DSML｜'
/** Up to the first > outside of quotes. */
const whole = /^(?:[^">]|"[^"]*")*>/
const tags = ['function_calls', 'tool_calls', 'invoke', 'parameter']
const nameIn = /^(?:invoke|parameter)\s+name="([^"]*)"/

export class DsmlParser implements Parser {
  readonly #words = new Words()
  #where: 'thinking' | 'text' | 'calls' | 'call' | 'value'
  /** What may open a tag together with the marker: `<` or `</`. */
  #edge = ''
  /** A tag behind its marker, until its > is there. */
  #tag: { closes: boolean; text: string; at: number } | undefined = undefined
  #call: Arguments | undefined = undefined

  /** `thinking`: the prompt has opened the reasoning already. */
  constructor(thinking: boolean) {
    this.#where = thinking ? 'thinking' : 'text'
  }
  marker(name: string, out: Out): void {
    if (name === dsml) return this.#dsml(out)
    this.#settle(out)
    switch (name) {
      case '<think>':
        this.#leave(out, 'before')
        this.#where = 'thinking'
        return
      case '</think>':
        this.#words.end()
        if (this.#where === 'thinking') this.#where = 'text'
        return out.end()
      default:
        // What ends the turn; other control tokens say nothing.
        return this.#leave(out, 'turn')
    }
  }
  text(text: string, out: Out): void {
    if (this.#tag) {
      this.#tag.text += text
      return this.#read(out)
    }
    const all = this.#edge + text
    this.#edge = /<\/?$/.exec(all)?.[0] ?? ''
    this.#say(all.slice(0, all.length - this.#edge.length), out)
  }
  end(out: Out, finish: Finish | undefined): void {
    // A tag that is cut is not said, nor is what may have opened one.
    if (finish !== 'stop' && out.open !== 'text') this.#edge = ''
    const tag = this.#tag
    const cut = tag !== undefined && tags.some((name) => name.startsWith(tag.text) || tag.text.startsWith(name))
    if (cut) this.#tag = undefined
    this.#settle(out)
    this.#leave(out, 'turn', cut && !tag.closes ? tag.at : undefined)
  }

  #dsml(out: Out): void {
    this.#settle(out, true)
    // A marker without its bracket is quoted.
    if (this.#edge === '') return this.#say(dsml, out)
    this.#tag = { closes: this.#edge === '</', text: '', at: out.before }
    this.#edge = ''
    // Text ends here, in front of the marker, and not where the tag turns out to be one.
    if (!this.#tag.closes && (this.#where === 'text' || this.#where === 'thinking')) this.#leave(out, 'before')
  }
  /** What was held back is no tag. `edge`: but it may yet open one. */
  #settle(out: Out, edge = false): void {
    const tag = this.#tag
    this.#tag = undefined
    if (tag) {
      this.#say(`${tag.closes ? '</' : '<'}${dsml}`, out)
      // Its end may open another one, as if it had come as text.
      this.text(tag.text, out)
    }
    if (edge) return
    const rest = this.#edge
    this.#edge = ''
    this.#say(rest, out)
  }
  #read(out: Out): void {
    const tag = this.#tag
    if (!tag) return
    const found = whole.exec(tag.text)?.[0]
    if (found === undefined && tag.text.length <= maxTag) return
    const known = found !== undefined && found.length <= maxTag && this.#known(found, tag.closes, out)
    if (!known) return this.#settle(out, true)
    this.#tag = undefined
    const rest = tag.text.slice(found.length)
    if (rest !== '') this.text(rest, out)
  }
  /** False for a tag that is none where it stands. */
  #known(tag: string, closes: boolean, out: Out): boolean {
    if (this.#where === 'value') {
      if (!closes || !/^parameter\s*>/.test(tag)) return false
      this.#call?.valueEnds()
      this.#where = 'call'
      return true
    }
    if (closes) {
      if (/^invoke\s*>/.test(tag)) this.#called(out)
      else if (/^(?:function|tool)_calls\s*>/.test(tag)) this.#leave(out, 'turn')
      else return false
      return true
    }
    const name = nameIn.exec(tag)?.[1]
    if (/^(?:function|tool)_calls\s*>/.test(tag)) this.#open(out)
    else if (name === undefined) return false
    else if (tag.startsWith('invoke')) {
      this.#open(out)
      this.#call = new Arguments(out, name)
      this.#where = 'call'
    } else if (this.#call) {
      this.#call.value(name, !/\sstring="false"/.test(tag))
      this.#where = 'value'
    } else return false
    return true
  }
  #say(text: string, out: Out): void {
    if (text === '') return
    if (this.#where === 'value') return this.#call?.push(text)
    // Between tags stands white space; anything else is lost nowhere.
    if (this.#where === 'call' || this.#where === 'calls') {
      if (text.trim() === '' || this.#call) return
      this.#where = 'text'
    }
    const piece = this.#words.push(text)
    if (this.#where === 'thinking') out.reasoning(piece)
    else out.text(piece)
  }
  /** Calls begin: the two line breaks in front are the format's. */
  #open(out: Out): void {
    if (this.#where === 'calls') return
    this.#leave(out, 'before')
    this.#where = 'calls'
  }
  #called(out: Out): void {
    if (!this.#call) return
    this.#call.end()
    this.#call = undefined
    this.#where = 'calls'
    out.end()
  }
  /** `at`: ids up to the end of a call that is open, default all. */
  #leave(out: Out, next: 'before' | 'turn', at?: number): void {
    if (this.#call) {
      this.#call = undefined
      out.breakOff(at)
    }
    const rest = this.#words.end(next === 'before' ? 2 : 0)
    if (out.open === 'text') out.text(rest)
    if (next === 'before') out.endBefore()
    if (this.#where !== 'thinking' || next === 'before') this.#where = 'text'
  }
}

/** The values of one call, as a JSON object. */
class Arguments {
  readonly #out: Out
  #values = 0
  #kind: 'string' | 'json' | 'other' = 'string'
  /** A value that is neither a string nor in brackets, until its end. */
  #held = ''
  #end = new JsonEnd()

  constructor(out: Out, name: string) {
    this.#out = out
    out.call(name)
  }
  value(name: string, string: boolean): void {
    this.#out.arguments(`${this.#values++ === 0 ? '{' : ', '}${JSON.stringify(name)}: ${string ? '"' : ''}`)
    this.#kind = string ? 'string' : 'other'
    this.#held = ''
    this.#end = new JsonEnd()
  }
  push(text: string): void {
    if (this.#kind === 'string') return this.#out.arguments(JSON.stringify(text).slice(1, -1))
    if (this.#kind === 'json') return this.#bracketed(text)
    this.#held += text
    if (!/^\s*[{[]/.test(this.#held)) return
    this.#kind = 'json'
    this.#bracketed(this.#held.trimStart())
  }
  valueEnds(): void {
    if (this.#kind === 'string') return this.#out.arguments('"')
    if (this.#kind === 'json') return
    const value = this.#held.trim()
    // What is no JSON after all: True is meant as true, the rest as a string.
    this.#out.arguments(isJson(value) ? value : jsonOfText(value, undefined))
  }
  end(): void {
    this.#out.arguments(this.#values === 0 ? '{}' : '}')
  }
  #bracketed(text: string): void {
    this.#out.arguments(text.slice(0, this.#end.push(text)))
  }
}
function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
