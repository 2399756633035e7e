// What vLLM streams, from either of its endpoints, as ids: `/inference/v1/generate` and `/v1/completions` with
// `return_token_ids`. Both send `choices[0].token_ids` as deltas, the id that ended the turn among them, and usage alone.
import { ApiError } from '../protocol/errors.ts'
import type { Finish } from '../turn/ports.ts'
import { cut, garbage, streamError, nameOf, type Who } from './wire-refusal.ts'
import { isRecord, messageOf, parsed } from './wire-words.ts'
import { isIds, type Told, usageOf } from './wire-tokens.ts'

export class VllmStream {
  readonly #who: Who
  readonly #told: Told

  constructor(who: Who, told: Told) {
    this.#who = who
    this.#told = told
  }
  /** The data of one event, or the body of a server that does not stream. Throws ApiError. */
  push(data: string): void {
    const told = this.#told
    if (data.trim() === '[DONE]') {
      // Older servers say nothing of a request that was ended before it had sampled anything.
      if (told.finish === undefined) throw cut(this.#who)
      told.over = true
      return
    }
    const chunk = parsed(data)
    if (!isRecord(chunk)) throw garbage(this.#who)
    if (chunk['error'] != null || chunk['object'] === 'error') {
      const { error } = chunk
      throw streamError(this.#who, messageOf(chunk) ?? '', isRecord(error) ? error['code'] : chunk['code'])
    }
    this.#usage(chunk['usage'])
    const { choices } = chunk
    if (!Array.isArray(choices)) throw garbage(this.#who)
    const choice: unknown = choices.find((c: unknown) => isRecord(c) && (c['index'] ?? 0) === 0)
    if (!isRecord(choice) || told.finish !== undefined) return
    this.#tokens(choice)
    const reason = choice['finish_reason']
    if (typeof reason === 'string' && reason !== '') told.finish = this.#finishOf(reason)
  }

  #tokens(choice: Record<string, unknown>): void {
    const { token_ids: ids, text } = choice
    if (ids == null) {
      if (typeof text !== 'string' || text === '') return
      throw new ApiError(
        'server_error',
        `${nameOf(this.#who)} sends text without token ids; vLLM 0.10.2 or newer is needed.`,
      )
    }
    if (!isIds(ids)) throw garbage(this.#who)
    // A loop, not a spread: the whole of an answer that was not streamed may be here.
    for (const id of ids) this.#told.tokens.push(id)
  }
  #usage(usage: unknown): void {
    if (!isRecord(usage)) return
    const details = usage['prompt_tokens_details']
    const cached = isRecord(details) ? details['cached_tokens'] : 0
    this.#told.usage = usageOf(usage['prompt_tokens'], cached, usage['completion_tokens']) ?? this.#told.usage
  }
  #finishOf(reason: string): Finish {
    switch (reason) {
      case 'length':
        return 'length'
      case 'content_filter':
        return 'filter'
      case 'abort':
      case 'error':
        throw streamError(this.#who, `the server ended the request (${reason})`)
      default:
        return 'stop'
    }
  }
}
