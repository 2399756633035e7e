// One call as GLM writes it: ls<arg_key>path</arg_key><arg_value>/</arg_value>, with or without line breaks. The tags are
// control tokens, so that one in a value is told from its end by what follows.
import type { Callable } from '../protocol/tools.ts'
import type { Out } from './family.ts'
import { type CallOptions, JsonCall } from './json-call.ts'
import { fieldsOf } from './json-fields.ts'
import type { CallReader } from './tag-parser.ts'
import { typesOfProperty } from './typed-value.ts'
import { ValueStream } from './value-stream.ts'

export const argTags = ['<arg_key>', '</arg_key>', '<arg_value>', '</arg_value>'] as const
/** Characters of a name, and of arguments that stand there without tags. */
const maxName = 8 * 1024
const maxStray = 1024 * 1024
const named = /^([\p{L}\p{N}_][\p{L}\p{N}_.:/-]*)(\s*)(.*)$/su

export class GlmCall implements CallReader {
  readonly #out: Out
  readonly #tools: ReadonlyMap<string, Callable>
  readonly #begins: () => void
  readonly #refuses: (text: string) => void
  #state: 'name' | 'between' | 'key' | 'value' | 'over' | 'refused' = 'name'
  /** Of a name or a key. */
  #held = ''
  /** What was read of a pair whose value has not begun. */
  #key: string | undefined = undefined
  #value: ValueStream | undefined = undefined
  /** Behind a value: what ends it, unless more text follows. */
  #gap = ''
  #tool: Callable | undefined = undefined
  #values = 0
  /** Text outside of tags: all the arguments as JSON, from models that mix formats. */
  #stray = ''
  #json: JsonCall | undefined = undefined

  constructor(
    out: Out,
    tools: ReadonlyMap<string, Callable>,
    { begins = () => {}, refuses = (text) => out.text(text) }: CallOptions = {},
  ) {
    this.#out = out
    this.#tools = tools
    this.#begins = begins
    this.#refuses = refuses
  }
  get complete(): boolean {
    return this.#json?.complete ?? this.#state === 'over'
  }
  get refused(): boolean {
    return this.#json?.refused ?? this.#state === 'refused'
  }
  get quotes(): boolean {
    return this.#json?.quotes ?? (this.#state === 'value' && this.#gap === '')
  }
  push(text: string): void {
    if (this.#json) return this.#json.push(text)
    switch (this.#state) {
      case 'name':
        this.#held += text
        return this.#name()
      case 'between':
        if (this.#stray.length < maxStray) this.#stray += text
        return
      case 'key':
        if (this.#held.length < maxName) this.#held += text
        return
      case 'value':
        return this.#inValue(text)
      case 'refused':
        return this.#refuses(text)
      default:
        return undefined
    }
  }
  /** False for what is no tag of arguments. */
  marker(name: string): boolean {
    if (!argTags.some((tag) => tag === name)) return false
    if (this.#json) this.#json.push(name)
    else if (this.#state === 'refused') this.#refuses(name)
    else if (this.#state === 'name' && !this.#named(name)) this.#refuse(name)
    else if (this.#state === 'value') this.#tagInValue(name)
    else if (this.#state !== 'over') this.#tag(name)
    return true
  }
  end(whole: boolean, at?: number, stopped = false): void {
    if (this.#json) return this.#json.end(whole, at)
    if (this.#state === 'refused') return
    const done = whole || stopped
    if (this.#state === 'name') {
      const name = this.#held.trim()
      if (!done || named.exec(name)?.[1] !== name || !(whole || this.#tools.has(name))) return this.#refuse()
      this.#begin(name)
    }
    if (this.#state === 'value' && (this.#gap.startsWith('</arg_value>') || (done && this.#gap !== '')))
      this.#endValue()
    if (this.#state === 'between' && this.#key === undefined && done) {
      this.#out.arguments(this.#values > 0 ? '}' : fieldsOf(this.#stray) ? this.#stray.trim() : '{}')
      this.#out.end(at)
    } else this.#out.breakOff(at)
    this.#state = 'over'
  }

  #name(): void {
    const text = this.#held.trimStart()
    if (text === '' && this.#held.length < maxName) return
    if (text.startsWith('{')) {
      this.#json = new JsonCall(this.#out, { begins: this.#begins, refuses: this.#refuses })
      return this.#json.push(this.#held)
    }
    const [, name = '', space = '', rest = ''] = named.exec(text) ?? []
    const ends = space.includes('\n') && this.#tools.has(name)
    if (name === '' || text.length > maxName || (rest !== '' && !ends && !rest.startsWith('{'))) return this.#refuse()
    if (rest === '' && !ends) return
    this.#begin(name)
    this.#stray = rest
  }
  /** A tag stands behind the name. */
  #named(tag: string): boolean {
    const name = this.#held.trim()
    if (tag !== '<arg_key>' || named.exec(name)?.[1] !== name) return false
    this.#begin(name)
    return true
  }
  #begin(name: string): void {
    this.#begins()
    this.#out.call(name)
    this.#tool = this.#tools.get(name)
    this.#state = 'between'
  }
  /** Outside of values. */
  #tag(name: string): void {
    if (name === '<arg_key>') {
      this.#state = 'key'
      this.#held = ''
    } else if (this.#state === 'key') {
      this.#key = this.#held.trim()
      this.#state = 'between'
    }
    if (name === '<arg_value>' && this.#key !== undefined) this.#beginValue(this.#key)
  }
  #beginValue(key: string): void {
    this.#out.arguments(`${this.#values++ === 0 ? '{' : ','}${JSON.stringify(key)}:`)
    const types = this.#tool && typesOfProperty(this.#tool.parameters, key)
    this.#value = new ValueStream(types, (json) => this.#out.arguments(json))
    this.#key = undefined
    this.#state = 'value'
  }
  /** In a value a tag is what the model quotes, but for the one that ends it and the key that follows that one. */
  #tagInValue(name: string): void {
    if (name === '<arg_key>' && this.#gap.startsWith('</arg_value>')) {
      this.#endValue()
      return this.#tag(name)
    }
    this.#value?.push(this.#gap)
    this.#gap = ''
    if (name === '</arg_value>') this.#gap = name
    else this.#value?.push(name)
  }
  #inValue(text: string): void {
    // Where the end of the value was left out, this one ends the call.
    if (this.#gap === '' && text === '</tool_call>') this.#gap = text
    else if (this.#gap !== '' && text.trim() === '' && this.#gap.length < maxName) this.#gap += text
    else {
      this.#value?.push(this.#gap + text)
      this.#gap = ''
    }
  }
  #endValue(): void {
    this.#value?.end()
    this.#gap = ''
    this.#state = 'between'
  }
  #refuse(more = ''): void {
    const text = this.#held + more
    this.#held = ''
    this.#state = 'refused'
    if (text !== '') this.#refuses(text)
  }
}
