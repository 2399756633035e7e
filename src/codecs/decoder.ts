// What a model writes, as ids or as text, into deltas: markers are told from text here, a family's parser says what they
// mean. Markers are matched on ids where the tokenizer has them, so that a quoted one is text.
import { CustomInput } from '../protocol/custom-input.ts'
import type { Callable } from '../protocol/tools.ts'
import type { Chunk, Decoder, Delta, Finish, TextStream, Tokenizer } from '../turn/ports.ts'
import type { Family, Out, Parser } from './family.ts'
import { Seek } from './seek.ts'

/** The control tokens of a format. */
export type Spelling = Pick<Family, 'needs' | 'stops' | 'markers'>

export class ItemDecoder implements Decoder {
  readonly ids: number[] = []
  reasoning = 0
  stop: string | undefined = undefined
  readonly #parser: Parser
  readonly #tokenizer: Tokenizer
  readonly #stops: ReadonlySet<string>
  readonly #names: readonly string[]
  /** Markers that have no id of their own. */
  readonly #inText: Seek | undefined
  /** All markers, for engines that send text. */
  #all: Seek | undefined = undefined
  readonly #out: Speech
  #stream: TextStream
  /** Ids in front of the marker that was just heard, and in front of text that may become one. */
  #before = 0
  #held = 0

  constructor(family: Spelling, parser: Parser, tokenizer: Tokenizer, tools: readonly Callable[], mute: boolean) {
    this.#parser = parser
    this.#tokenizer = tokenizer
    this.#out = new Speech(
      tools,
      mute,
      () => this.ids.length,
      () => this.#before,
    )
    this.#stops = new Set(family.stops)
    this.#names = [...new Set([...family.stops, ...family.markers, ...family.needs])]
    const without = this.#names.filter((name) => tokenizer.control(name) === undefined)
    this.#inText = without.length > 0 ? new Seek(without) : undefined
    this.#stream = tokenizer.stream()
  }
  push(chunk: Chunk): readonly Delta[] {
    this.#out.deltas.length = 0
    const { tokens, text } = chunk
    if (tokens) for (let n = 0; n < tokens.length && this.stop === undefined; n++) this.#id(tokens[n] ?? 0)
    else if (text !== undefined && text !== '' && this.stop === undefined) this.#raw(text)
    return this.#out.deltas
  }
  end(finish: Finish | undefined): readonly Delta[] {
    this.#out.deltas.length = 0
    if (this.stop === undefined) {
      this.#rawText(this.#all?.end() ?? '')
      this.#flush()
      this.#words(this.#inText?.end() ?? '')
      this.#parser.end(this.#out, finish)
      if (finish === 'stop') this.#out.end()
      else this.#out.breakOff()
    }
    return this.#out.deltas
  }

  #id(id: number): void {
    if (this.#out.open === 'reasoning') this.reasoning++
    const name = this.#tokenizer.nameOf(id)
    if (name === undefined) {
      this.ids.push(id)
      this.#plain(this.#stream.push(id))
    } else {
      this.#flush()
      this.#before = this.ids.length
      this.#marker(name, id)
    }
  }
  /** Text of an engine that gives no ids. */
  #raw(text: string): void {
    this.#all ??= new Seek(this.#names)
    for (const found of this.#all.push(text)) {
      if (this.stop !== undefined) return
      if (!found.marker) {
        this.#rawText(found.text)
        continue
      }
      this.#before = this.ids.length
      const id = this.#tokenizer.control(found.text)
      if (id === undefined && !this.#stops.has(found.text)) this.#spell(found.text)
      this.#marker(found.text, id)
    }
  }
  #rawText(text: string): void {
    if (text === '') return
    this.#spell(text)
    this.#words(text)
  }
  #spell(text: string): void {
    // Never a promise for the tokenizers of text engines, whose ids are bytes.
    const ids = this.#tokenizer.encode(text)
    if (!(ids instanceof Promise)) for (let n = 0; n < ids.length; n++) this.ids.push(ids[n] ?? 0)
  }
  #plain(text: string): void {
    if (text === '') return
    if (!this.#inText) return this.#words(text)
    if (!this.#inText.holding) this.#held = this.ids.length - 1
    for (const found of this.#inText.push(text)) {
      if (this.stop !== undefined) return
      if (found.marker) {
        this.#before = this.#held
        this.#marker(found.text, undefined)
      } else this.#words(found.text)
    }
  }
  #words(text: string): void {
    if (text !== '') this.#parser.text(text, this.#out)
  }
  #flush(): void {
    const rest = this.#stream.end()
    this.#stream = this.#tokenizer.stream()
    this.#plain(rest)
  }
  #marker(name: string, id: number | undefined): void {
    if (this.#stops.has(name)) {
      this.#parser.marker(name, this.#out)
      this.stop = name
      this.#out.end()
      return
    }
    if (id !== undefined) this.ids.push(id)
    this.#parser.marker(name, this.#out)
  }
}

/** What a parser says, as deltas. */
class Speech implements Out {
  readonly deltas: Delta[] = []
  open: 'reasoning' | 'text' | 'call' | undefined = undefined
  readonly #tools: ReadonlyMap<string, Callable>
  /** Calls made although none are wanted are not read. */
  readonly #mute: boolean
  readonly #count: () => number
  readonly #front: () => number
  #custom: CustomInput | undefined = undefined

  constructor(tools: readonly Callable[], mute: boolean, count: () => number, front: () => number) {
    this.#tools = new Map(tools.map((tool) => [tool.flat, tool]))
    this.#mute = mute
    this.#count = count
    this.#front = front
  }
  get at(): number {
    return this.#count()
  }
  get before(): number {
    return this.#front()
  }
  reasoning(text: string): void {
    this.#say('reasoning', text)
  }
  text(text: string, phase?: 'commentary' | 'final_answer'): void {
    this.#say('text', text, phase)
  }
  call(name: string, callId?: string): void {
    this.end()
    this.open = 'call'
    const tool = this.#tools.get(name)
    this.#custom = tool?.kind === 'custom' ? new CustomInput() : undefined
    if (this.#mute) return
    // A name that was never offered goes on as it is: the client knows best what to answer.
    this.deltas.push({
      type: 'call',
      kind: tool?.kind ?? 'function',
      name: tool?.name ?? name,
      namespace: tool?.namespace,
      callId,
    })
  }
  arguments(text: string): void {
    const raised = this.#custom ? this.#custom.push(text) : text
    if (raised !== '' && !this.#mute) this.deltas.push({ type: 'arguments', text: raised })
  }
  end(at = this.at): void {
    this.#close(true, at)
  }
  endBefore(): void {
    this.#close(true, this.before)
  }
  breakOff(at = this.at): void {
    this.#close(false, at)
  }
  #say(kind: 'reasoning' | 'text', text: string, phase?: 'commentary' | 'final_answer'): void {
    if (text === '') return
    if (this.open !== kind) {
      this.end()
      this.open = kind
    }
    this.deltas.push(kind === 'text' && phase ? { type: kind, text, phase } : { type: kind, text })
  }
  #close(whole: boolean, at: number): void {
    const { open } = this
    if (open === undefined) return
    this.open = undefined
    // Arguments that broke off before the input began hold none of it.
    const rest = whole ? (this.#custom?.end() ?? '') : ''
    this.#custom = undefined
    if (open === 'call' && this.#mute) return
    if (rest !== '') this.deltas.push({ type: 'arguments', text: rest })
    this.deltas.push({ type: 'end', whole, at })
  }
}
