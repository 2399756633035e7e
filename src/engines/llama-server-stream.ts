// Frames of llama-server's /completion → ids as sampled, usage, how it ended. Owns what the server leaves out of its
// frames: ids inside a character, and the end of a turn that it does not take for one.
import { ApiError } from '../protocol/errors.ts'
import type { Chunk, EngineUsage, Finish, Prompt } from '../turn/ports.ts'
import { cut, garbage, streamError, type Who } from './wire-refusal.ts'
import { isRecord, messageOf, parsed } from './wire-words.ts'
import { usageOf } from './wire-tokens.ts'

type Frame = Readonly<Record<string, unknown>>
const record = (v: unknown): Frame | undefined => (isRecord(v) ? v : undefined)
const count = (v: unknown): number | undefined =>
  typeof v === 'number' && Number.isInteger(v) && v >= 0 && v < 2 ** 31 ? v : undefined
const tokensOf = (frame: Frame): number => (Array.isArray(frame['tokens']) ? frame['tokens'].length : 0)
/** Every character is one byte: nothing can have been held back. */
const ascii = /^[\0-\x7f]*$/

export class LlamaServerStream {
  readonly #who: Who
  readonly #prompt: Pick<Prompt, 'tokenizer' | 'stops'>
  #ids: number[] = []
  #held: number | undefined = undefined
  /** Tokens sampled so far, as the server counts them. */
  #sampled = 0
  #cached = 0
  /** The model has ended its turn; the server may not know that it did. */
  #stopped = false
  #ending:
    | { readonly finish: Finish; readonly usage: EngineUsage | undefined; readonly slot: number | undefined }
    | undefined
  #told = false

  constructor(who: Who, prompt: Pick<Prompt, 'tokenizer' | 'stops'>) {
    this.#who = who
    this.#prompt = prompt
  }
  /** Nothing more is wanted of this stream. */
  get over(): boolean {
    return this.#ending !== undefined
  }
  /** The server has ended the generation by itself. */
  get ended(): boolean {
    return this.#ending?.slot !== undefined
  }
  /** The data of one event, or the whole body of an answer that is no stream. Throws ApiError. */
  push(data: string): void {
    if (this.#ending) return
    const frame = parsed(data)
    if (!isRecord(frame)) throw garbage(this.#who)
    if (frame['error'] != null) throw streamError(this.#who, messageOf(frame) ?? '', record(frame['error'])?.['code'])
    const progress = record(frame['prompt_progress'])
    if (progress) {
      // Such a frame has one id, 0, that nobody sampled.
      this.#cached = count(progress['cache']) ?? 0
      return
    }
    const last = frame['stop'] === true
    if (this.#stopped && !last) return this.#end('stop', this.#soFar(frame), undefined)
    const ids = this.#idsOf(frame)
    const end = ids.findIndex((id) => this.#prompt.stops.includes(id))
    const told = this.#sampled + tokensOf(frame)
    const sampled = count(frame['tokens_predicted']) ?? told
    this.#take(end < 0 ? ids : ids.slice(0, end + 1), last && frame['stop_type'] === 'eos' && sampled === told)
    this.#stopped ||= end >= 0
    this.#sampled = sampled
    if (last) this.#finish(frame)
  }
  /** The far side has ended. Throws where it had more to say. */
  end(): void {
    if (this.#ending) return
    if (!this.#stopped) throw cut(this.#who)
    this.#end('stop', undefined, undefined)
  }
  /** What came since the last `take`, and at the end how it ended. */
  take(): Chunk | undefined {
    const tokens = this.#ids
    this.#ids = []
    const ending = this.#told ? undefined : this.#ending
    if (tokens.length === 0 && !ending) return undefined
    const chunk: { -readonly [K in keyof Chunk]: Chunk[K] } = tokens.length > 0 ? { tokens } : {}
    if (!ending) return chunk
    this.#told = true
    chunk.finish = ending.finish
    if (ending.usage) chunk.usage = ending.usage
    if (ending.slot !== undefined) chunk.warm = ending.slot
    return chunk
  }

  /**
   * A control token waits for the frame behind it: where the model ended with one that ends no turn of this format (a
   * grammar allows whatever the server takes for an end), it is no part of what was said. It is in no cache either.
   */
  #take(ids: readonly number[], ended: boolean): void {
    const { tokenizer, stops } = this.#prompt
    const all = this.#held === undefined ? ids : [this.#held, ...ids]
    this.#held = undefined
    const last = all.at(-1)
    const waits = last !== undefined && !stops.includes(last) && tokenizer.nameOf(last) !== undefined
    this.#ids.push(...(waits ? all.slice(0, -1) : all))
    if (waits && !ended) this.#held = last
  }
  /**
   * The frame's ids and those that should have come before them: the server sends nothing while its text ends inside a
   * character, and then the last id alone, with the text of them all. Where their plain encoding has as many ids and the
   * same last one, it is what was sampled. Otherwise it stands for the same text, and the next prompt leaves the
   * server's cache there.
   */
  #idsOf(frame: Frame): readonly number[] {
    const tokens = frame['tokens'] ?? []
    if (!Array.isArray(tokens) || !tokens.every((id) => count(id) !== undefined)) throw garbage(this.#who)
    const ids = tokens as readonly number[]
    const missing = (count(frame['tokens_predicted']) ?? 0) - this.#sampled - ids.length
    const [only] = ids
    let text = frame['content']
    if (missing <= 0 || only === undefined || ids.length > 1 || typeof text !== 'string' || ascii.test(text)) return ids
    const { tokenizer } = this.#prompt
    const control = tokenizer.nameOf(only)
    if (control !== undefined && text.endsWith(control)) text = text.slice(0, -control.length)
    const plain = tokenizer.encode(String(text))
    // Not of a text this short.
    if (plain instanceof Promise) return ids
    const all = Array.from(plain as ArrayLike<number>)
    return control === undefined ? all : [...all, only]
  }
  #finish(frame: Frame): void {
    const timings = record(frame['timings']) ?? {}
    const evaluated = count(timings['prompt_n'])
    const cached = count(timings['cache_n'])
    const sampled = count(timings['predicted_n']) ?? this.#sampled
    const input =
      evaluated === undefined || cached === undefined ? count(frame['tokens_evaluated']) : evaluated + cached
    const kept = count(frame['tokens_cached'])
    // Truncated is also what ends at the window's edge. Fewer tokens than went in and came out: some were thrown away.
    if (frame['truncated'] === true && input !== undefined && kept !== undefined && kept < input + sampled - 1)
      throw new ApiError(
        'context_length_exceeded',
        `The engine '${this.#who.name}' ran out of context and dropped part of the conversation; shorten or compact it, or start llama-server without --context-shift.`,
      )
    const usage = usageOf(input, cached ?? this.#cached, sampled)
    const finish = frame['stop_type'] === 'limit' && !this.#stopped ? 'length' : 'stop'
    this.#end(finish, usage, count(frame['id_slot']))
  }
  /** The server goes on behind the turn's end: what it counted up to there. */
  #soFar(frame: Frame): EngineUsage | undefined {
    return usageOf(frame['tokens_evaluated'], this.#cached, this.#sampled)
  }
  #end(finish: Finish, usage: EngineUsage | undefined, slot: number | undefined): void {
    if (this.#held !== undefined) this.#ids.push(this.#held)
    this.#held = undefined
    this.#ending = { finish, usage, slot }
  }
}
