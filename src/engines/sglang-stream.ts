// What SGLang's /generate streams, as ids. `output_ids` are all so far, or with --incremental-streaming-output those since
// the last event; `meta_info.completion_tokens` tells which. Refusals come as HTTP 200 and an event that says so.
import type { Finish } from '../turn/ports.ts'
import { cut, garbage, streamError, type Who } from './wire-refusal.ts'
import { isRecord, messageOf, parsed } from './wire-words.ts'
import { isIds, type Told, usageOf } from './wire-tokens.ts'

/** The server cannot go on in this session: it is gone, or its context is not what we think it is. */
export class SessionLost extends Error {}

export type SglangRules = {
  readonly who: Who
  /** In a session: ids of the whole prompt. Another count is another prompt. */
  readonly length: number | undefined
}

export class SglangStream {
  readonly #rules: SglangRules
  readonly #told: Told
  #count = 0

  constructor(rules: SglangRules, told: Told) {
    this.#rules = rules
    this.#told = told
  }
  /** Ids of output so far. */
  get count(): number {
    return this.#count
  }
  /** The data of one event. Throws ApiError, or SessionLost. */
  push(data: string): void {
    const told = this.#told
    const { who, length } = this.#rules
    if (data.trim() === '[DONE]') {
      if (told.finish === undefined) throw cut(who)
      told.over = true
      return
    }
    const event = parsed(data)
    if (!isRecord(event)) throw garbage(who)
    if (event['error'] != null) {
      const { error } = event
      throw this.#refused(messageOf(event) ?? '', isRecord(error) ? error['code'] : undefined)
    }
    const { output_ids: ids, meta_info: meta } = event
    if (!isRecord(meta)) throw garbage(who)
    const reason = meta['finish_reason']
    if (isRecord(reason) && reason['type'] === 'abort')
      throw this.#refused(String(reason['message'] ?? ''), reason['status_code'])
    if (length !== undefined && meta['prompt_tokens'] !== length)
      throw new SessionLost(`its prompt has ${String(meta['prompt_tokens'])} tokens in place of ${length}`)
    this.#ids(ids, meta['completion_tokens'])
    told.usage = usageOf(meta['prompt_tokens'], meta['cached_tokens'], meta['completion_tokens']) ?? told.usage
    if (reason != null) told.finish = this.#finishOf(reason)
  }

  #ids(ids: unknown, total: unknown): void {
    if (ids == null) return
    if (!isIds(ids) || typeof total !== 'number') throw garbage(this.#rules.who)
    // Deltas are fewer than all so far, but for the first, where it makes no difference.
    const from = ids.length >= total ? this.#count : 0
    for (let n = from; n < ids.length; n++) this.#told.tokens.push(ids[n] ?? 0)
    this.#count = Math.max(this.#count, from === 0 ? this.#count + ids.length : ids.length)
  }
  #refused(told: string, code: unknown): Error {
    if (this.#rules.length !== undefined && this.#count === 0 && /session|append/i.test(told))
      return new SessionLost(told)
    return streamError(this.#rules.who, told, code)
  }
  #finishOf(reason: unknown): Finish {
    const type = isRecord(reason) ? reason['type'] : reason
    return type === 'length' ? 'length' : 'stop'
  }
}
