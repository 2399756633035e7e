// What DeepSeek V3, R1 and V3.1 write: reasoning in <think>, text, and calls between tokens, plain or fenced.
import { JsonEnd } from '../protocol/json-end.ts'
import type { Finish } from '../turn/ports.ts'
import type { Out, Parser } from './family.ts'
import { Words } from './words.ts'

/** Characters between the separator and the arguments. */
const maxHead = 8 * 1024

export class DeepseekParser implements Parser {
  readonly #words = new Words()
  #thinking: boolean
  #call: TokenCall | undefined = undefined

  /** `thinking`: the prompt has opened the reasoning already. */
  constructor(thinking: boolean) {
    this.#thinking = thinking
  }
  marker(name: string, out: Out): void {
    switch (name) {
      case '<think>':
        this.#leave(out)
        this.#thinking = true
        return
      case '</think>':
        this.#words.end()
        this.#thinking = false
        return out.end()
      case '<｜tool▁calls▁begin｜>':
        return this.#leave(out)
      case '<｜tool▁call▁begin｜>':
        this.#leave(out)
        this.#call = new TokenCall(out)
        return
      case '<｜tool▁sep｜>':
        return this.#call?.separate()
      case '<｜tool▁call▁end｜>':
        return this.#called(true)
      default:
        // What ends the turn; other control tokens say nothing.
        return this.#leave(out, false)
    }
  }
  text(text: string, out: Out): void {
    if (this.#call) return this.#call.push(text)
    const piece = this.#words.push(text)
    if (this.#thinking) out.reasoning(piece)
    else out.text(piece)
  }
  end(out: Out, finish: Finish | undefined): void {
    if (finish === 'stop') this.#called(true)
    else if (this.#call?.named === false) this.#call = undefined
    this.#leave(out, false)
  }
  /** Another item begins, or the turn ends. */
  #leave(out: Out, next = true): void {
    this.#called(false, next)
    const rest = this.#words.end(next ? Infinity : 0)
    if (out.open === 'text') out.text(rest)
    if (next) out.endBefore()
    this.#thinking = this.#thinking && !next
  }
  #called(whole: boolean, next = false): void {
    this.#call?.end(whole, next)
    this.#call = undefined
  }
}

/** NAME, separator, {…}; or type, separator, NAME, a fence around {…}. Arguments stream. */
class TokenCall {
  readonly #out: Out
  #front = ''
  #held = ''
  #state: 'front' | 'head' | 'arguments' | 'over' = 'front'
  readonly #end = new JsonEnd()

  constructor(out: Out) {
    this.#out = out
  }
  separate(): void {
    if (this.#state === 'front') this.#state = 'head'
  }
  push(text: string): void {
    if (this.#state === 'front') this.#front += text
    else if (this.#state === 'head') this.#begin(text)
    else if (this.#state === 'arguments') this.#argue(text)
  }
  /** `whole`: the token that ends a call was seen. `next`: in its place one that opens something else. */
  end(whole: boolean, next = false): void {
    if (this.#state === 'front' || this.#state === 'head') return this.#odd(whole)
    if (!this.#end.complete) this.#out.breakOff()
    else if (next) this.#out.endBefore()
    else this.#out.end()
  }

  #begin(text: string): void {
    this.#held += text
    if (this.#held.length > maxHead) return
    const at = this.#held.search(/[{[]/)
    if (at < 0) return
    this.#out.call(this.#name(this.#held.slice(0, at)))
    this.#state = 'arguments'
    this.#argue(this.#held.slice(at))
  }
  #argue(text: string): void {
    const taken = this.#end.push(text)
    if (taken > 0) this.#out.arguments(text.slice(0, taken))
    if (this.#end.complete) this.#state = 'over'
  }
  /** Is it known what it calls? One that was cut before that is nothing. */
  get named(): boolean {
    return this.#state === 'arguments' || this.#state === 'over' || this.#nameSoFar(false) !== ''
  }
  /** What stands between the separator and the arguments is white space, or the name with the fence. */
  #name(between: string): string {
    const name = between.replace(/\s*```(?:json)?\s*$/, '').trim()
    return name === '' ? this.#front.trim() : name
  }
  /** No arguments: a call without any, or no call at all, which is then text, so that nothing is lost. */
  #odd(whole: boolean): void {
    const name = this.#nameSoFar(whole)
    if (name === '') return this.#out.text(`${this.#front}${this.#held}`)
    this.#out.call(name)
    if (!whole) return this.#out.breakOff()
    this.#out.arguments('{}')
    this.#out.end()
  }
  #nameSoFar(whole: boolean): string {
    if (this.#state === 'front') return ''
    const front = this.#front.trim()
    const inFence = /^\s*([\w.-]+)\s*\n\s*(?:```(?:json)?\s*)*$/.exec(`${this.#held}${whole ? '\n' : ''}`)?.[1]
    return inFence ?? (this.#held.trim() === '' && front !== 'function' ? front : '')
  }
}
