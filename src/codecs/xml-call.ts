// One call as tagged values: <function=ls>\n<parameter=path>\n/\n</parameter>\n</function>. Its arguments go on as JSON:
// strings while they are written, other values when they are complete, each as its schema says.
import type { Callable } from '../protocol/tools.ts'
import type { Out } from './family.ts'
import { type CallOptions, JsonCall } from './json-call.ts'
import { typesOfProperty } from './typed-value.ts'
import { ValueStream } from './value-stream.ts'

/** Characters of a name, and of arguments that stand there without tags. */
const maxName = 8 * 1024
const maxStray = 1024 * 1024
const functionTag = '<function='
const functionEnd = '</function>'
const valueTag = '<parameter='
const valueEnd = '</parameter>'
const callEnd = '</tool_call>'
/** What may end a value: its own tag, and those with which models that leave it out go on. */
const closers = [valueEnd, functionEnd, callEnd]
const ends = [...closers, ...closers.map((tag) => `\n${tag}`), `\n${valueTag}`]
const lastEnd = new RegExp(`^\\n?(?:${closers.join('|')})\\s*$`)
const anyEnd = new RegExp(`\\n?(?:${closers.join('|')})|\\n${valueTag}`, 'g')

export class XmlCall {
  readonly #out: Out
  readonly #tools: ReadonlyMap<string, Callable>
  readonly #options: Required<CallOptions>
  #state: 'head' | 'between' | 'value' | 'over' | 'refused' = 'head'
  #held = ''
  #json: JsonCall | undefined = undefined
  #tool: Callable | undefined = undefined
  readonly #given = new Set<string>()
  /** Text where parameters should stand: all the arguments as JSON, from models that mix formats. */
  #stray = ''
  #value: ValueStream | undefined = undefined
  /** Nothing of the value came yet. */
  #fresh = false

  constructor(
    out: Out,
    tools: ReadonlyMap<string, Callable>,
    { begins = () => {}, refuses = (text) => out.text(text) }: CallOptions = {},
  ) {
    this.#out = out
    this.#tools = tools
    this.#options = { begins, refuses }
  }
  get complete(): boolean {
    return this.#json?.complete ?? this.#state === 'over'
  }
  get refused(): boolean {
    return this.#json?.refused ?? this.#state === 'refused'
  }
  /** Is a marker heard now part of a value? Not where the value seems to have ended. */
  get quotes(): boolean {
    return this.#json?.quotes ?? (this.#state === 'value' && !this.#ended)
  }
  push(text: string): void {
    if (this.#json) return this.#json.push(text)
    if (this.#state === 'refused') return this.#options.refuses(text)
    if (this.#state === 'over') return
    this.#held += text
    while (this.#step());
  }
  /** `whole`: its closing marker was heard; `stopped`: the model left it out. `at`: ids up to its end, default all. */
  end(whole: boolean, at?: number, stopped = false): void {
    if (this.#json) return this.#json.end(whole, at)
    if (this.#state === 'refused') return
    if (this.#state === 'head') return this.#refuse()
    const done = whole || stopped
    if (this.#state === 'value') {
      if (done && this.#ended) this.#endValue('')
      else {
        this.#say(this.#held)
        // A value that was cut is shown as far as it is a string for sure.
        return this.#out.breakOff(at)
      }
    }
    if (this.#state === 'between' && done) this.#over()
    if (this.#state === 'over') this.#out.end(at)
    else this.#out.breakOff(at)
    this.#state = 'over'
  }

  /** What is held ends the value, if nothing follows but what ends the call. */
  get #ended(): boolean {
    return lastEnd.test(this.#held)
  }
  /** Takes one step through what is held. False where more is needed. */
  #step(): boolean {
    switch (this.#state) {
      case 'head':
        return this.#head()
      case 'between':
        return this.#between()
      case 'value':
        return this.#inValue()
      default:
        return false
    }
  }
  #head(): boolean {
    const text = this.#held.trimStart()
    if (text.startsWith('{')) {
      this.#json = new JsonCall(this.#out, this.#options)
      this.#json.push(this.#held)
      return false
    }
    const name = nameIn(text, functionTag)
    if (name === undefined) {
      if (this.#held.length > maxName || !couldBe(text, functionTag)) this.#refuse()
      return false
    }
    this.#options.begins()
    this.#out.call(name)
    this.#tool = this.#tools.get(name)
    this.#held = text.slice(functionTag.length + name.length + 1)
    this.#state = 'between'
    return true
  }
  #between(): boolean {
    const text = this.#held.trimStart()
    if (text.startsWith(functionEnd)) {
      this.#over()
      return false
    }
    const name = nameIn(text, valueTag)
    if (name !== undefined) {
      this.#held = text.slice(valueTag.length + name.length + 1)
      this.#beginValue(name)
      return true
    }
    if (text === '' || (text.length < maxName && (couldBe(text, valueTag) || couldBe(text, functionEnd)))) return false
    // Neither a value nor the end.
    const next = text.indexOf('<', 1)
    const rest = next < 0 ? '' : text.slice(next)
    if (this.#stray.length < maxStray) this.#stray += this.#held.slice(0, this.#held.length - rest.length)
    this.#held = rest
    return this.#held !== ''
  }
  #beginValue(name: string): void {
    this.#out.arguments(`${this.#given.size === 0 ? '{' : ','}${JSON.stringify(name)}:`)
    this.#given.add(name)
    const types = this.#tool && typesOfProperty(this.#tool.parameters, name)
    this.#value = new ValueStream(types, (json) => this.#out.arguments(json))
    this.#fresh = true
    this.#state = 'value'
  }
  #inValue(): boolean {
    if (this.#fresh) {
      if (this.#held === '') return false
      // The format's own line break.
      if (this.#held.startsWith('\n')) this.#held = this.#held.slice(1)
      this.#fresh = false
    }
    anyEnd.lastIndex = 0
    const found = anyEnd.exec(this.#held)
    if (!found) {
      const rest = heldBack(this.#held)
      this.#say(this.#held.slice(0, this.#held.length - rest))
      this.#held = this.#held.slice(this.#held.length - rest)
      return false
    }
    const before = this.#held.slice(0, found.index)
    const after = this.#held.slice(found.index + found[0].length)
    const ending = this.#endsAt(found[0], after)
    if (ending === undefined) {
      this.#say(before)
      this.#held = this.#held.slice(found.index)
      return false
    }
    if (ending) {
      this.#endValue(before)
      this.#held = found[0].endsWith(valueEnd) ? after : this.#held.slice(found.index)
      return true
    }
    this.#say(before + found[0])
    this.#held = after
    return true
  }
  /** Does this tag end the value? What follows tells; undefined while it has not come. */
  #endsAt(tag: string, after: string): boolean | undefined {
    if (tag.endsWith(valueTag)) {
      const name = nameIn(valueTag + after, valueTag)
      if (name === undefined) return after.length > maxName || after.includes('\n') ? false : undefined
      return this.#expects(name)
    }
    const next = after.trimStart()
    if (!tag.endsWith(valueEnd)) return next === '' && after.length < maxName ? undefined : false
    if (next.startsWith(functionEnd) || next.startsWith(valueTag)) return true
    const open = functionEnd.startsWith(next) || valueTag.startsWith(next)
    return open && after.length < maxName ? undefined : false
  }
  #expects(name: string): boolean {
    const properties = this.#tool?.parameters['properties']
    return (
      typeof properties === 'object' && properties !== null && Object.hasOwn(properties, name) && !this.#given.has(name)
    )
  }
  #say(text: string): void {
    this.#value?.push(text)
  }
  #endValue(rest: string): void {
    this.#say(rest)
    this.#value?.end()
    this.#state = 'between'
  }
  #over(): void {
    const stray = this.#stray.trim()
    if (this.#given.size > 0) this.#out.arguments('}')
    else this.#out.arguments(isObject(stray) ? stray : '{}')
    this.#state = 'over'
  }
  #refuse(): void {
    const text = this.#held
    this.#held = ''
    this.#state = 'refused'
    if (text !== '') this.#options.refuses(text)
  }
}

/** `<function=ls>` → `ls`; undefined while it is not complete, or is none. */
function nameIn(text: string, tag: string): string | undefined {
  if (!text.startsWith(tag)) return undefined
  const end = text.indexOf('>', tag.length)
  const name = text.slice(tag.length, end)
  return end < 0 || name.includes('\n') || name.length > maxName ? undefined : name
}
const couldBe = (text: string, tag: string): boolean => tag.startsWith(text) || text.startsWith(tag)
/** Characters at the end that may belong to what ends a value. */
function heldBack(text: string): number {
  const longest = Math.max(...ends.map((end) => end.length)) - 1
  for (let length = Math.min(longest, text.length); length > 0; length--) {
    const tail = text.slice(-length)
    if (ends.some((end) => end.startsWith(tail))) return length
  }
  return 0
}
function isObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
  } catch {
    return false
  }
}
