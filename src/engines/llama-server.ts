// llama.cpp's own server as an engine: token ids in and out of POST /completion, the prefix kept in the server's slots.
// The prompt's bytes are those of its TokenRun; a chain returns to the slot that computed it while that is free.
import { z } from 'zod'
import { ApiError } from '../protocol/errors.ts'
import type { Settings } from '../protocol/request.ts'
import { Arrivals } from '../turn/arrivals.ts'
import type { Chain } from '../turn/chain.ts'
import type { Call, Chunk, Constraint, Description, Engine, Prompt } from '../turn/ports.ts'
import { gbnfOf, tagTriggers } from './gbnf.ts'
import { Holder, type How } from './grammar-hold.ts'
import { type LlamaServerInput, type LlamaServerOptions, llamaServerOptions } from './llama-server-options.ts'
import { LlamaServerStream } from './llama-server-stream.ts'
import { bodyOf, who } from './wire-tokens.ts'
import { refusal } from './wire-refusal.ts'
import { refusePictures } from './pictures.ts'
import { type Answer, type Exchange, Wire } from './wire.ts'

export { llamaServerOptions }
export type { LlamaServerInput, LlamaServerOptions }

/** Of the last frame; the prompt's whole text is in it otherwise. */
const lastFields = ['id_slot', 'stop', 'stop_type', 'tokens', 'content', 'truncated', 'timings'].concat([
  'tokens_cached',
  'tokens_evaluated',
  'tokens_predicted',
])
const models = z.looseObject({ data: z.array(z.looseObject({ id: z.string() })) })
const props = z.looseObject({
  chat_template: z.string().optional(),
  default_generation_settings: z.looseObject({ n_ctx: z.number().int().positive().optional() }).optional(),
})
const tokenized = z.looseObject({ tokens: z.array(z.number().int().nonnegative()) })
/** How llama.cpp numbers what starts a lazy grammar. */
const trigger = { token: 0, word: 1 } as const

class LlamaServer implements Engine {
  readonly id: string
  readonly takes = 'tokens'
  readonly #options: LlamaServerOptions
  readonly #wire: Wire
  readonly #slots = new Slots()
  readonly #holder: Holder<Record<string, unknown>>

  constructor(options: LlamaServerOptions, id: string) {
    this.#options = options
    this.id = id
    this.#holder = new Holder(id, options.grammars, grammarOf)
    const { apiKey } = options
    this.#wire = new Wire({
      ...options,
      // The path of its OpenAI door is so usual that it is taken as well.
      url: options.url.replace(/\/v1\/*$/, ''),
      name: id,
      headers: { ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }), ...options.headers },
    })
  }
  admit(settings: Settings, chain: Chain, constraint?: Constraint): void {
    refusePictures(chain, this.id)
    if ((settings.top_logprobs ?? 0) > 0)
      throw new ApiError(
        'unsupported_by_engine',
        `The engine '${this.id}' cannot do 'top_logprobs': no log probabilities are taken from it.`,
        'top_logprobs',
      )
    this.#holder.admit(settings, chain, constraint)
  }
  generate(call: Call): AsyncIterable<Chunk> {
    const { prompt } = call
    if (!prompt) throw new Error('llama-server was called without a prompt of ids')
    const arrivals = new Arrivals(call.signal)
    const exchange = this.#ask(call, prompt, arrivals)
    return arrivals.until(() => exchange.destroy())
  }
  async probe(signal: AbortSignal): Promise<readonly string[]> {
    return (await this.#read('/v1/models', models, this.#wire.get('/v1/models', signal))).data.map((m) => m.id)
  }
  /** The template that the model's file brings, and the tokens of one slot. Its tokenizer is not to be had from the server. */
  async describe(signal: AbortSignal): Promise<Description> {
    const { model, context } = this.#options
    const path = model === undefined ? '/props' : `/props?model=${encodeURIComponent(model)}`
    const told = await this.#read('/props', props, this.#wire.get(path, signal))
    return { template: told.chat_template, context: context ?? told.default_generation_settings?.n_ctx }
  }
  async tokenize(texts: readonly string[], signal: AbortSignal): Promise<readonly (readonly number[])[]> {
    const { model } = this.#options
    const all: number[][] = []
    for (const content of texts) {
      const body = { content, add_special: false, parse_special: false, ...(model === undefined ? {} : { model }) }
      all.push((await this.#read('/tokenize', tokenized, this.#wire.ask('/tokenize', body, signal))).tokens)
    }
    return all
  }
  close(): Promise<void> {
    return this.#wire.close()
  }

  async #read<T>(path: string, shape: z.ZodType<T>, asked: Promise<Answer>): Promise<T> {
    const answer = await asked
    if (answer.status !== 200) throw this.#refusal(answer)
    let value: unknown
    try {
      value = JSON.parse(answer.text)
    } catch {
      // falls through: no shape at all
    }
    const parsed = shape.safeParse(value)
    if (parsed.success) return parsed.data
    throw new ApiError('server_error', `${this.#wire.who} answered ${path} as no llama-server does; check its URL.`)
  }
  /** llama-server's own refusals in plain words; the rest as any server's. */
  #refusal(answer: Answer): ApiError {
    const { status, text } = answer
    if (status === 503 && /loading model/i.test(text))
      return new ApiError(
        'server_error',
        `${this.#wire.who} is still loading its model; try again in a moment.`,
        null,
        5,
      )
    if (status === 400 && /initialize samplers|grammar/i.test(text))
      return new ApiError(
        'unsupported_by_engine',
        `${this.#wire.who} cannot hold its output to this schema or grammar.`,
      )
    return refusal(who(this.#wire), answer, 'answer as a llama-server does')
  }
  /** The request's bytes: the ids' digits are those of the run. */
  #body(call: Call, prompt: Prompt, slot: number | undefined): readonly Buffer[] {
    const { settings, generate } = call
    const { model, body } = this.#options
    const fields: Record<string, unknown> = { ...body }
    if (settings.temperature !== null) fields['temperature'] = settings.temperature
    if (settings.top_p !== null) fields['top_p'] = settings.top_p
    if (settings.presence_penalty) fields['presence_penalty'] = settings.presence_penalty
    if (settings.frequency_penalty) fields['frequency_penalty'] = settings.frequency_penalty
    if (!generate) fields['n_predict'] = 0
    else if (settings.max_output_tokens !== null) fields['n_predict'] = settings.max_output_tokens
    if (slot !== undefined) fields['id_slot'] = slot
    if (model !== undefined) fields['model'] = model
    Object.assign(fields, {
      ...(generate ? this.#holder.of(call, prompt) : {}),
      stream: true,
      return_tokens: true,
      return_progress: true,
      cache_prompt: true,
      response_fields: lastFields,
    })
    delete fields['prompt']
    // A stop string would be found in plain text too, and its beginning held back: the stream looks for the ids.
    delete fields['stop']
    return bodyOf('prompt', prompt.run.json(), fields)
  }
  #ask(call: Call, prompt: Prompt, arrivals: Arrivals): Exchange {
    const { generate, signal } = call
    const stream = new LlamaServerStream(who(this.#wire), prompt)
    const place = this.#slots.take(call.warm?.value)
    const pass = (): Promise<void> | undefined => {
      const chunk = stream.take()
      if (!chunk) return undefined
      if (generate) return arrivals.push(chunk)
      // A prefill: the server samples one token all the same.
      const { tokens: _, usage, ...rest } = chunk
      return rest.finish
        ? arrivals.push({ ...rest, finish: 'stop', ...(usage ? { usage: { ...usage, output: 0 } } : {}) })
        : undefined
    }
    const over = (): void => {
      place.free()
      void pass()
      arrivals.end()
    }
    if (signal.aborted) place.free()
    else signal.addEventListener('abort', place.free, { once: true })
    let exchange: Exchange
    try {
      exchange = this.#wire.post('/completion', this.#body(call, prompt, place.slot), signal, {
        data: (text) => stream.push(text),
        read: () => {
          if (!stream.over) return pass()
          over()
          // Behind its last frame the server ends by itself; where it goes on, it is made to stop.
          if (stream.ended) exchange.release()
          else exchange.destroy()
          return undefined
        },
        end: () => {
          stream.end()
          over()
        },
        answer: (answer) => {
          if (answer.status !== 200 || answer.type !== 'application/json') throw this.#refusal(answer)
          stream.push(answer.text)
          stream.end()
          over()
        },
        fail: (error) => {
          place.free()
          arrivals.fail(error)
        },
      })
    } catch (e) {
      place.free()
      throw e
    }
    return { destroy: () => (place.free(), exchange.destroy()), release: () => exchange.release() }
  }
}

/**
 * Which slots our own calls are in. A call that names a busy slot waits for it although others are free; one that names
 * none gets the free slot with the longest common prefix. So a slot is named only while none of our calls can be in it:
 * where a call without a name went is known only when it ends.
 */
class Slots {
  readonly #named = new Set<number>()
  #unnamed = 0

  take(warm: unknown): { readonly slot: number | undefined; readonly free: () => void } {
    const slot = typeof warm === 'number' && this.#unnamed === 0 && !this.#named.has(warm) ? warm : undefined
    if (slot === undefined) this.#unnamed++
    else this.#named.add(slot)
    let held = true
    const free = (): void => {
      if (!held) return
      held = false
      if (slot === undefined) this.#unnamed--
      else this.#named.delete(slot)
    }
    return { slot, free }
  }
}

/** The fields that hold the output to a constraint. Always our own GBNF: no text of a client is a grammar as it stands. */
function grammarOf(rule: Constraint, { control, stops, opened }: How): Record<string, unknown> {
  const words = tagTriggers(rule)
  const grammar = gbnfOf(rule, { control, stops, opened, lazy: words.length > 0 })
  if (words.length === 0) return { grammar }
  const triggers = words.map((value) => {
    const token = control?.(value)
    return token === undefined ? { type: trigger.word, value } : { type: trigger.token, value, token }
  })
  return { grammar, grammar_lazy: true, grammar_triggers: triggers, preserved_tokens: words }
}

/** An engine on a llama-server. `id`: its name in the configuration. Throws a ZodError for options that are none. */
export function llamaServer(options: LlamaServerInput, id?: string): Engine {
  const parsed = llamaServerOptions.parse(options)
  return new LlamaServer(parsed, id ?? new URL(parsed.url).host)
}
export default llamaServer
