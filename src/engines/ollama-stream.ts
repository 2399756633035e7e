// Lines of Ollama's /api/generate → text as generated, usage, how it ended.
import type { Chunk, EngineUsage, Finish } from '../turn/ports.ts'
import { cut, garbage, streamError, type Who } from './wire-refusal.ts'
import { isRecord, messageOf, parsed } from './wire-words.ts'
import { usageOf } from './wire-tokens.ts'

export class OllamaStream {
  readonly #who: Who
  #text = ''
  /** Where the model thinks in a field of its own: `before` it began, inside, or behind it. */
  #thought: 'before' | 'inside' | 'behind'
  /** It does so on this server. */
  #apart = false
  #ending: { readonly finish: Finish; readonly usage: EngineUsage | undefined } | undefined
  #told = false

  /** `thinks`: the prompt has opened the thought. */
  constructor(who: Who, thinks: boolean) {
    this.#who = who
    this.#thought = thinks ? 'inside' : 'before'
  }
  get over(): boolean {
    return this.#ending !== undefined
  }
  /** One line. Throws ApiError. */
  push(line: string): void {
    if (this.#ending) return
    const told = parsed(line)
    if (!isRecord(told)) throw garbage(this.#who)
    if (told['error'] != null) throw streamError(this.#who, messageOf(told) ?? '', told['status'])
    const { thinking, response, done } = told
    if (typeof thinking === 'string' && thinking !== '') this.#think(thinking)
    if (typeof response === 'string' && response !== '') this.#say(response)
    if (done === true) this.#end(told)
  }
  /** The far side has ended. Throws where it had more to say. */
  end(): void {
    if (!this.#ending) throw cut(this.#who)
  }
  /** What came since the last `take`, and at the end how it ended. */
  take(): Chunk | undefined {
    const text = this.#text
    this.#text = ''
    const ending = this.#told ? undefined : this.#ending
    if (text === '' && !ending) return undefined
    this.#told = ending !== undefined
    return {
      ...(text === '' ? {} : { text }),
      ...(ending ? { finish: ending.finish } : {}),
      ...(ending?.usage ? { usage: ending.usage } : {}),
    }
  }

  /** Versions that take the tags out although nothing asked them to: they are put back, the decoder looks for them. */
  #think(thinking: string): void {
    if (this.#thought === 'before') this.#text += '<think>'
    this.#thought = 'inside'
    this.#text += thinking
    this.#apart = true
  }
  #say(response: string): void {
    if (this.#apart && this.#thought === 'inside') {
      this.#text += '</think>'
      this.#thought = 'behind'
    }
    this.#text += response
  }
  #end(told: Readonly<Record<string, unknown>>): void {
    const { done_reason: reason } = told
    if (reason === 'load' || reason === 'unload') throw cut(this.#who)
    // Without a count of its own the turn's holds; what of the prompt was cached Ollama does not say.
    const usage = usageOf(told['prompt_eval_count'], 0, told['eval_count'])
    this.#ending = { finish: reason === 'length' ? 'length' : 'stop', usage }
  }
}
