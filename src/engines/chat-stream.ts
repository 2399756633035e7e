// Chunks of a chat completion → engine-neutral deltas: reasoning in its spellings, text, refusals, calls, how it ended.
import { ApiError } from '../protocol/errors.ts'
import type { Callable } from '../protocol/tools.ts'
import type { Chunk, Delta, Finish } from '../turn/ports.ts'
import { ChatCalls } from './chat-calls.ts'
import { cut, garbage, streamError, type Who } from './chat-errors.ts'
import { Likeness, spellings } from './chat-likeness.ts'
import { ChatUsage } from './chat-usage.ts'
import { ThinkTags } from './think-tags.ts'

export type StreamRules = {
  readonly who: Who
  /** Offered tools by their flat names. */
  readonly tools: ReadonlyMap<string, Callable>
  /** How many calls are wanted at most. */
  readonly calls: 'none' | 'one' | 'many'
  readonly thinkTags: boolean | 'open'
}
type Words = 'text' | 'reasoning' | 'refusal'
const maxAfter = 16 * 1024 * 1024
const record = (v: unknown): Record<string, unknown> | undefined =>
  typeof v === 'object' && v !== null && !Array.isArray(v) ? (v as Record<string, unknown>) : undefined

export class ChatStream {
  readonly #rules: StreamRules
  readonly #calls: ChatCalls
  readonly #tags: ThinkTags | undefined
  readonly #usage = new ChatUsage()
  readonly #like = new Likeness()
  #deltas: Delta[] = []
  #open: 'message' | 'reasoning' | undefined = undefined
  /** What came between calls: said behind them, since items never overlap. */
  #after: { readonly type: Words; readonly text: string }[] = []
  #afterLength = 0
  #spoke = false
  #finish: Finish | undefined = undefined
  #told = false
  #over = false

  constructor(rules: StreamRules) {
    this.#rules = rules
    this.#calls = new ChatCalls(rules.tools, rules.calls === 'many', (delta) => this.#emit(delta))
    this.#tags = rules.thinkTags === false ? undefined : new ThinkTags(rules.thinkTags === 'open')
  }
  /** Nothing more is wanted of this stream. */
  get over(): boolean {
    return this.#over
  }
  /** The model has finished; usage may still come. */
  get finished(): boolean {
    return this.#finish !== undefined
  }
  /** The data of one event, or the whole body of a server that does not stream. Throws ApiError. */
  push(data: string): void {
    if (this.#over) return
    const said = this.#like.said(data)
    if (said) {
      if (this.#finish !== undefined) return
      return said.field === 'content' ? this.#content(said.text) : this.#say('reasoning', said.text)
    }
    if (data.trim() === '[DONE]') {
      if (this.#finish === undefined) this.#close('stop')
      this.#over = true
      return
    }
    const chunk = this.#parse(data)
    this.#like.learn(data, chunk)
    if (chunk['error'] != null) throw streamError(this.#rules.who, chunk['error'])
    if (chunk['object'] === 'error') throw streamError(this.#rules.who, chunk)
    const choices = Array.isArray(chunk['choices']) ? chunk['choices'] : []
    const choice = record(choices.find((c) => (record(c)?.['index'] ?? 0) === 0))
    this.#usage.add(chunk['usage'], choice === undefined)
    if (choice === undefined || this.#finish !== undefined) return
    this.#delta(record(choice['delta']) ?? record(choice['message']) ?? {})
    if (this.#calls.satisfied) {
      this.#close('stop')
      this.#over = true
      return
    }
    const reason = choice['finish_reason']
    if (typeof reason === 'string' && reason !== '') this.#close(this.#finishOf(reason))
  }
  /** The far side has ended. Throws where it had more to say. */
  end(): void {
    if (this.#over) return
    if (this.#finish === undefined) throw cut(this.#rules.who)
    this.#over = true
  }
  /** Waited long enough for usage. */
  giveUp(): void {
    if (this.#finish !== undefined) this.#over = true
  }
  /** What came since the last `take`, and at the end how it ended. */
  take(): Chunk | undefined {
    const deltas = this.#deltas
    this.#deltas = []
    const last = this.#over && !this.#told
    if (deltas.length === 0 && !last) return undefined
    const chunk: { -readonly [K in keyof Chunk]: Chunk[K] } = {}
    if (deltas.length > 0) chunk.deltas = deltas
    if (!last) return chunk
    this.#told = true
    if (this.#finish) chunk.finish = this.#finish
    const usage = this.#usage.take(this.#spoke)
    if (usage) chunk.usage = usage
    return chunk
  }

  #parse(data: string): Record<string, unknown> {
    let value: unknown
    try {
      value = JSON.parse(data)
    } catch {
      throw garbage(this.#rules.who)
    }
    const chunk = record(value)
    if (chunk === undefined) throw garbage(this.#rules.who)
    return chunk
  }
  #delta(delta: Record<string, unknown>): void {
    // The same thought under two names is one thought.
    for (const field of spellings) {
      const text = delta[field]
      if (typeof text !== 'string' || text === '') continue
      this.#say('reasoning', text)
      break
    }
    const { content, refusal, tool_calls: calls, function_call: legacy } = delta
    if (typeof content === 'string') this.#content(content)
    else if (Array.isArray(content)) for (const part of content) this.#part(record(part) ?? {})
    if (typeof refusal === 'string') this.#say('refusal', refusal)
    if (this.#rules.calls === 'none') return
    const made = Array.isArray(calls) ? calls : record(legacy) ? [{ index: 0, function: legacy }] : []
    if (made.length === 0) return
    if (!this.#calls.begun) {
      this.#flushTags()
      this.#endItem(true)
    }
    this.#calls.push(made)
  }
  #part(part: Record<string, unknown>): void {
    const { text, thinking } = part
    if (typeof text === 'string') this.#content(text)
    else if (typeof thinking === 'string') this.#say('reasoning', thinking)
    else if (Array.isArray(thinking))
      for (const t of thinking) this.#say('reasoning', String(record(t)?.['text'] ?? ''))
  }
  #content(text: string): void {
    if (!this.#tags) return this.#say('text', text)
    for (const spoken of this.#tags.push(text)) this.#say(spoken.type, spoken.text)
  }
  #flushTags(): void {
    for (const spoken of this.#tags?.end() ?? []) this.#say(spoken.type, spoken.text)
  }
  #say(type: Words, text: string): void {
    if (text === '') return
    if (this.#calls.begun && this.#finish === undefined) {
      this.#after.push({ type, text })
      this.#afterLength += text.length
      if (this.#afterLength > maxAfter) throw new ApiError('server_error', 'The engine mixes calls with too much text.')
      return
    }
    this.#item(type, text)
  }
  #item(type: Words, text: string): void {
    const kind = type === 'reasoning' ? 'reasoning' : 'message'
    if (this.#open !== kind) this.#endItem(true)
    this.#open = kind
    this.#emit({ type, text })
  }
  #endItem(whole: boolean): void {
    if (this.#open === undefined) return
    this.#open = undefined
    this.#emit({ type: 'end', whole })
  }
  /** Ends what is open; from here on only usage counts. */
  #close(finish: Finish): void {
    this.#flushTags()
    const whole = finish === 'stop'
    const after = this.#after.filter((a, _, all) => all.some((b) => b.type === a.type && b.text.trim() !== ''))
    this.#after = []
    this.#calls.end(whole || after.length > 0)
    for (const { type, text } of after) this.#item(type, text)
    this.#endItem(whole)
    this.#finish = finish
  }
  #finishOf(reason: string): Finish {
    switch (reason) {
      case 'length':
      case 'max_tokens':
      case 'model_length':
        return 'length'
      case 'content_filter':
        return 'filter'
      case 'error':
      case 'abort':
      case 'insufficient_system_resource':
        throw streamError(this.#rules.who, { message: `finish_reason ${reason}` })
      default:
        return 'stop'
    }
  }
  #emit(delta: Delta): void {
    if (delta.type !== 'end') this.#spoke = true
    const last = this.#deltas.at(-1)
    if (last && 'text' in delta && 'text' in last && last.type === delta.type)
      this.#deltas[this.#deltas.length - 1] = { type: delta.type, text: last.text + delta.text } as Delta
    else this.#deltas.push(delta)
  }
}
