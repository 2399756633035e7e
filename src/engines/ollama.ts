// Ollama as an engine: it takes no ids, so it is given the text of ours by POST /api/generate with `raw`, and gives text
// back. Whatever looks like a control token without being one is broken up on the way (ollama-text.ts).
import { z } from 'zod'
import { ApiError } from '../protocol/errors.ts'
import type { Settings } from '../protocol/request.ts'
import { callables, chosen } from '../protocol/tools.ts'
import { Arrivals } from '../turn/arrivals.ts'
import type { Chain } from '../turn/chain.ts'
import type { Call, Chunk, Constraint, Description, Engine, Prompt } from '../turn/ports.ts'
import { Holder, orAdvise } from './grammar-hold.ts'
import { type OllamaInput, type OllamaOptions, ollamaOptions } from './ollama-options.ts'
import { OllamaStream } from './ollama-stream.ts'
import { OllamaText } from './ollama-text.ts'
import { refusal } from './wire-refusal.ts'
import { who } from './wire-tokens.ts'
import { refusePictures } from './pictures.ts'
import { type Answer, type Exchange, Wire } from './wire.ts'

export { ollamaOptions }
export type { OllamaInput, OllamaOptions }

const tags = z.looseObject({ models: z.array(z.looseObject({ name: z.string() })) })
const shown = z.looseObject({
  model_info: z.record(z.string(), z.unknown()).optional(),
  parameters: z.string().optional(),
})

class Ollama implements Engine {
  readonly id: string
  readonly takes = 'tokens'
  readonly #options: OllamaOptions
  readonly #wire: Wire
  /** Formats: JSON schemas. */
  readonly #holder: Holder<Readonly<Record<string, unknown>>>

  constructor(options: OllamaOptions, id: string) {
    this.#options = options
    this.id = id
    this.#holder = new Holder(id, options.grammars, (rule) => this.#format(rule))
    const { apiKey } = options
    this.#wire = new Wire({
      ...options,
      url: options.url.replace(/\/(?:v1|api)\/*$/, ''),
      name: id,
      headers: { ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }), ...options.headers },
    })
  }
  admit(settings: Settings, chain: Chain, constraint?: Constraint): void {
    refusePictures(chain, this.id)
    if ((settings.top_logprobs ?? 0) > 0) throw this.#cannot('top_logprobs', 'no log probabilities are taken from it.')
    const all = callables(chain.tools, settings.tools)
    const { tools, must } = chosen(all, settings.tool_choice)
    if (must) throw this.#cannot('tool_choice', 'it cannot be made to call a tool; use auto.')
    if (tools.length > 0 && tools.length < all.length)
      throw this.#cannot('tool_choice', 'it cannot be kept from calling some of the tools; leave those out.')
    if (tools.length > 0 && settings.text.format.type !== 'text')
      throw this.#cannot('text.format', 'it can hold its answer to a schema only where no tool may be called.')
    this.#holder.admit(settings, chain, constraint)
  }
  generate(call: Call): AsyncIterable<Chunk> {
    const { prompt } = call
    if (!prompt) throw new Error('Ollama was called without a prompt of ids')
    const arrivals = new Arrivals(call.signal)
    const exchange = this.#ask(call, prompt, arrivals)
    return arrivals.until(() => exchange.destroy())
  }
  async probe(signal: AbortSignal): Promise<readonly string[]> {
    return (await this.#read('/api/tags', tags, this.#wire.get('/api/tags', signal))).models.map((m) => m.name)
  }
  /** The context only: templates are written in another language there, and no tokenizer is to be had. */
  async describe(signal: AbortSignal): Promise<Description> {
    const { model, context } = this.#options
    if (model === undefined) return { text: true, context }
    const told = await this.#read('/api/show', shown, this.#wire.ask('/api/show', { model }, signal))
    const info = told.model_info ?? {}
    const trained = info[`${String(info['general.architecture'])}.context_length`]
    const set = /^num_ctx\s+(\d+)/m.exec(told.parameters ?? '')?.[1]
    return {
      text: true,
      context: context ?? (set === undefined ? (typeof trained === 'number' ? trained : undefined) : Number(set)),
    }
  }
  close(): Promise<void> {
    return this.#wire.close()
  }

  #cannot(param: string, why: string): ApiError {
    return new ApiError('unsupported_by_engine', `The engine '${this.id}' cannot do '${param}': ${why}`, param)
  }
  async #read<T>(path: string, shape: z.ZodType<T>, asked: Promise<Answer>): Promise<T> {
    const answer = await asked
    if (answer.status !== 200) throw this.#refusal(answer, this.#options.model ?? '')
    let value: unknown
    try {
      value = JSON.parse(answer.text)
    } catch {
      // falls through: no shape at all
    }
    const parsed = shape.safeParse(value)
    if (parsed.success) return parsed.data
    throw new ApiError('server_error', `${this.#wire.who} answered ${path} as no Ollama does; check its URL.`)
  }
  #refusal(answer: Answer, model: string): ApiError {
    if (answer.status === 503)
      return new ApiError(
        'server_is_overloaded',
        `${this.#wire.who} has too many requests waiting; try again in a moment.`,
      )
    if (answer.status === 404)
      return new ApiError(
        'server_error',
        /model/i.test(answer.text)
          ? `${this.#wire.who} has no model '${model}' (HTTP 404); the operator must pull it.`
          : `${this.#wire.who} is no Ollama (HTTP 404); the operator must correct its URL.`,
      )
    return refusal(who(this.#wire), answer)
  }
  /**
   * What `format` can hold the output to: all of it, from its first token on, to a JSON schema (raw prompts honour it).
   * Throws `unsupported_by_engine` for the rest, since Ollama cannot switch it on later or inside a tag.
   */
  #format({ after, rule }: Constraint): Readonly<Record<string, unknown>> {
    if (rule.type === 'tags')
      throw this.#cannot(
        'tools',
        `it cannot hold calls to a schema or a grammar; use \`strict: false\` and no grammars. ${orAdvise(this.id)}`,
      )
    if (rule.content.type !== 'json') throw this.#cannot('text.format', 'it can hold its answer to a JSON schema only.')
    if (after !== undefined)
      throw this.#cannot(
        'text.format',
        'it cannot hold the answer of a model that reasons first to a JSON schema; use reasoning.effort `none`, where the model knows it.',
      )
    return rule.content.schema
  }
  #body(call: Call, prompt: Prompt, text: OllamaText, rest: Buffer): Buffer {
    const { settings, generate } = call
    const format = generate ? this.#holder.of(call, prompt) : undefined
    const { keepAlive, context } = this.#options
    const stop = prompt.stops.flatMap((id) => prompt.tokenizer.nameOf(id) ?? [])
    const options: Record<string, unknown> = { ...this.#options.options, stop }
    if (settings.temperature !== null) options['temperature'] = settings.temperature
    if (settings.top_p !== null) options['top_p'] = settings.top_p
    if (settings.presence_penalty) options['presence_penalty'] = settings.presence_penalty
    if (settings.frequency_penalty) options['frequency_penalty'] = settings.frequency_penalty
    if (context !== undefined) options['num_ctx'] = context
    // Zero would be no bound at all.
    if (!generate) options['num_predict'] = 1
    else if (settings.max_output_tokens !== null) options['num_predict'] = settings.max_output_tokens
    const fields = {
      ...{ model: this.#options.model ?? settings.model, raw: true, stream: true, options },
      // The markers of reasoning stay in the text, where the decoder looks for them.
      think: false,
      // Too long is an error: by default the beginning of the conversation is dropped, unsaid.
      ...{ truncate: false, shift: false },
      ...(keepAlive === undefined ? {} : { keep_alive: keepAlive }),
      ...(format ? { format } : {}),
    }
    return Buffer.concat([
      Buffer.from('{"prompt":"'),
      text.bytes,
      rest,
      Buffer.from(`",${JSON.stringify(fields).slice(1)}`),
    ])
  }
  #ask(call: Call, prompt: Prompt, arrivals: Arrivals): Exchange {
    const { generate, signal, settings } = call
    const { run, tokenizer, common } = prompt
    const known = call.warm?.value
    const before = known instanceof OllamaText && known.ids <= common ? known : OllamaText.empty
    const { text, rest } = before.follow(run, tokenizer)
    const think = tokenizer.control('<think>')
    const stream = new OllamaStream(
      who(this.#wire),
      think !== undefined && run.from(Math.max(0, run.length - 2)).includes(think),
    )
    const pass = (): Promise<void> | undefined => {
      const chunk = stream.take()
      if (!chunk || (!generate && !chunk.finish)) return undefined
      if (!chunk.finish) return arrivals.push(chunk)
      const { usage } = chunk
      return arrivals.push(
        generate
          ? { ...chunk, warm: text }
          : { finish: 'stop', warm: text, ...(usage ? { usage: { ...usage, output: 0 } } : {}) },
      )
    }
    const over = (): void => {
      void pass()
      arrivals.end()
    }
    const exchange = this.#wire.post('/api/generate', this.#body(call, prompt, text, rest), signal, {
      data: (line) => stream.push(line),
      read: () => {
        if (!stream.over) return pass()
        over()
        exchange.release()
        return undefined
      },
      end: () => {
        stream.end()
        over()
      },
      answer: (answer) => {
        if (answer.status !== 200 || answer.type !== 'application/json')
          throw this.#refusal(answer, this.#options.model ?? settings.model)
        stream.push(answer.text)
        stream.end()
        over()
      },
      fail: (error) => arrivals.fail(error),
    })
    return exchange
  }
}

/** An engine on an Ollama server. `id`: its name in the configuration. Throws a ZodError for options that are none. */
export function ollama(options: OllamaInput, id?: string): Engine {
  const parsed = ollamaOptions.parse(options)
  return new Ollama(parsed, id ?? new URL(parsed.url).host)
}
export default ollama
