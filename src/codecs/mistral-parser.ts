// What Mistral's models write: reasoning in [THINK], text, and behind [TOOL_CALLS] either a name with its arguments or a
// JSON list of calls. All generations are read alike, since models and servers mix them.
import { JsonEnd } from '../protocol/json-end.ts'
import type { Finish } from '../turn/ports.ts'
import type { Out, Parser } from './family.ts'
import { JsonCall } from './json-call.ts'
import { fieldsOf } from './json-fields.ts'
import { Words } from './words.ts'

/** Characters of a name, or of an id. */
const maxHead = 8 * 1024

export class MistralParser implements Parser {
  readonly #words = new Words()
  #thinking = false
  #calls: Calls | undefined = undefined

  marker(name: string, out: Out): void {
    switch (name) {
      case '[THINK]':
        this.#leave(out, true)
        this.#thinking = true
        return
      case '[/THINK]':
        this.#thinking = false
        return out.end()
      case '[TOOL_CALLS]':
        this.#leave(out, true)
        this.#calls = new Calls(out)
        return
      case '[CALL_ID]':
        return this.#calls?.id()
      case '[ARGS]':
        return this.#calls?.arguments()
      default:
        // What ends the turn; other control tokens say nothing.
        return this.#leave(out, false)
    }
  }
  text(text: string, out: Out): void {
    const rest = this.#calls ? this.#calls.push(text) : text
    if (rest === '') return
    this.#calls = undefined
    if (this.#thinking) out.reasoning(rest)
    else out.text(this.#words.push(rest))
  }
  end(out: Out, finish: Finish | undefined): void {
    this.#leave(out, false, finish === 'stop')
  }
  /** Another item begins, or the turn ends. `whole`: the model itself says so. */
  #leave(out: Out, next: boolean, whole = true): void {
    this.#calls?.end(whole)
    this.#calls = undefined
    const rest = this.#words.end(0)
    if (out.open === 'text') out.text(rest)
    if (next) {
      out.endBefore()
      this.#thinking = false
    }
  }
}

/** All that follows one [TOOL_CALLS]. */
class Calls {
  readonly #out: Out
  #state: 'name' | 'id' | 'arguments' | 'list' | 'over' = 'name'
  #name = ''
  #id = ''
  #end = new JsonEnd()
  /** Of a list: the call that is being read. It waits for its end, since its id stands there. */
  #held = ''
  #argued = false

  constructor(out: Out) {
    this.#out = out
  }
  id(): void {
    if (this.#state === 'name') this.#state = 'id'
  }
  arguments(): void {
    if (this.#state !== 'name' && this.#state !== 'id') return
    const id = this.#id.trim()
    this.#out.call(this.#name.trim(), id === '' ? undefined : id)
    this.#state = 'arguments'
  }
  /** Returns what no longer belongs to calls. */
  push(text: string): string {
    switch (this.#state) {
      case 'name':
        this.#name += text
        if (/^\s*[[{]/.test(this.#name)) {
          this.#state = 'list'
          return this.#list(this.#name)
        }
        return this.#until(this.#name, (front) => (this.#name = front))
      case 'id':
        this.#id += text
        return this.#until(this.#id, (front) => (this.#id = front))
      case 'arguments':
        return this.#argue(text)
      case 'list':
        return this.#list(text)
      case 'over':
        return text.trimStart()
    }
  }
  end(whole: boolean): void {
    if (this.#state === 'arguments') {
      if (!this.#argued && whole) this.#out.arguments('{}')
      else this.#out.breakOff()
    } else if (this.#state === 'name' || this.#state === 'id') {
      // A name alone is no call; one that was cut is nothing.
      const said = `${this.#name}${this.#id}`
      if (whole && said.trim() !== '') this.#out.text(said)
    } else if (this.#held !== '') {
      const call = new JsonCall(this.#out, whole ? {} : { refuses: () => {} })
      call.push(this.#held)
      call.end(false)
    }
    this.#state = 'over'
  }

  /** A brace begins the arguments where their marker is missing; without either, it is text before long. */
  #until(text: string, keep: (front: string) => void): string {
    const brace = text.indexOf('{')
    if (brace < 0) {
      if (text.length <= maxHead) return ''
      this.#state = 'over'
      return `${this.#name}${this.#id}`
    }
    keep(text.slice(0, brace))
    this.arguments()
    return this.#argue(text.slice(brace))
  }
  #argue(text: string): string {
    const json = this.#argued ? text : text.trimStart()
    if (json === '') return ''
    this.#argued = true
    const taken = this.#end.push(json)
    this.#out.arguments(json.slice(0, taken))
    if (!this.#end.complete) return ''
    this.#out.end()
    this.#state = 'over'
    return json.slice(taken).trimStart()
  }
  #list(text: string): string {
    let rest = text
    while (rest !== '') {
      if (this.#held === '') {
        const at = rest.search(/[^\s[,]/)
        if (at < 0) return ''
        rest = rest.slice(at)
        if (!rest.startsWith('{')) {
          this.#state = 'over'
          return rest.replace(/^\]?\s*/, '')
        }
      }
      const taken = this.#end.push(rest)
      this.#held += rest.slice(0, taken)
      rest = rest.slice(taken)
      if (this.#end.complete) this.#called()
    }
    return ''
  }
  #called(): void {
    const text = this.#held
    this.#held = ''
    this.#end = new JsonEnd()
    const fields = new Map(fieldsOf(text)?.map(({ name, value }) => [name, value]))
    const [name, args, id] = [fields.get('name'), fields.get('arguments') ?? fields.get('parameters'), fields.get('id')]
    if (!name?.startsWith('"')) return this.#out.text(text)
    this.#out.call(plain(name), id?.startsWith('"') ? plain(id) : undefined)
    this.#out.arguments(args === undefined ? '{}' : args.startsWith('"') ? plain(args) : args)
    this.#out.end()
  }
}
/** The text of a JSON string. */
const plain = (json: string): string => String(JSON.parse(json))
