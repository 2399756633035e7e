// vLLM by token ids: `POST /inference/v1/generate` (`vllm serve --enable-scale-out`), else `POST /v1/completions` with
// `return_token_ids`. Owns the choice between the two and what is asked of each. Read in the sources of vLLM 0.33.0.
// - Closing the connection aborts the request; nothing else has to be sent.
// - `max_tokens` is at least 1, so a warm-up samples one token, which is dropped; null is as many as fit.
// - Ids given back end with the one that ended the turn.
// - Cached tokens are told by servers with --enable-prompt-tokens-details; without it they count as none.
// - The first endpoint knows no sampling defaults of the model; the option `sampling` has them.
// - Images are not sent yet: the endpoint would take them as `content_parts`.
import { z } from 'zod'
import { ApiError } from '../protocol/errors.ts'
import type { Settings } from '../protocol/request.ts'
import { Arrivals } from '../turn/arrivals.ts'
import type { Chain } from '../turn/chain.ts'
import type { Call, Chunk, Constraint, Description, Engine, Prompt } from '../turn/ports.ts'
import { grammarOptions, Holder } from './grammar-hold.ts'
import { type Structured, structuredOf } from './structured.ts'
import { VllmStream } from './vllm-stream.ts'
import { isRecord, parsed } from './wire-words.ts'
import { bodyOf, boundOf, exchange, isIds, objectOf, samplingOf, saltOf, Told, tokenWire, who } from './wire-tokens.ts'
import { refusePictures } from './pictures.ts'
import { type Answer, type Exchange, Wire } from './wire.ts'

export const vllmOptions = z.strictObject({
  ...tokenWire,
  ...grammarOptions,
  /** The server's name of the model, or of an adapter. Default: the one it was started with. */
  model: z.string().min(1).max(256).optional(),
  /**
   * The server runs with --reasoning-parser. Counts for /v1/completions only, where such a server holds the output to a
   * schema from the end of the reasoning on; elsewhere it is told.
   */
  reasoningParser: z.boolean().default(false),
})
export type VllmInput = z.input<typeof vllmOptions>
type VllmOptions = z.output<typeof vllmOptions>

type Door = 'generate' | 'completions'
/** Of a call what its request is made of. */
type Asked = Pick<Call, 'id' | 'settings' | 'principal' | 'generate'>
/** The server itself begins the rule behind the reasoning. */
const gated = 'gated'
const paths: Readonly<Record<Door, string>> = { generate: '/inference/v1/generate', completions: '/v1/completions' }
/** Answers of a server that has no such endpoint, or has it switched off. */
const closed = new Set([403, 404, 405, 501])
const askMs = 10_000
/** Texts that are tokenised at once. */
const lot = 4

export class VllmEngine implements Engine {
  readonly id: string
  readonly takes = 'tokens'
  readonly #options: VllmOptions
  readonly #wire: Wire
  readonly #holder: Holder<Structured>
  /** Decided once, and again after a connection was lost: the server may be another one. */
  #door: Promise<Door> | undefined = undefined
  #context: number | undefined
  #asked = 0

  constructor(options: VllmOptions, id: string) {
    this.#options = options
    this.id = id
    this.#context = options.context
    this.#holder = new Holder(id, options.grammars, (rule, { control, ends, opened, way }) =>
      structuredOf(rule, {
        engine: id,
        control: control && ((name) => control(name) !== undefined),
        stops: ends,
        opened,
        gated: way === gated,
      }),
    )
    const { apiKey, headers } = options
    this.#wire = new Wire({
      ...options,
      name: id,
      headers: { ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }), ...headers },
    })
    this.#wire.pool.on('disconnect', () => (this.#door = undefined))
  }
  admit(settings: Settings, chain: Chain, constraint?: Constraint): void {
    refusePictures(chain, this.id)
    if ((settings.top_logprobs ?? 0) > 0)
      throw new ApiError(
        'unsupported_by_engine',
        `The engine '${this.id}' gives no log probabilities yet.`,
        'top_logprobs',
      )
    this.#holder.admit(settings, chain, constraint)
  }
  generate(call: Call): AsyncIterable<Chunk> {
    const { prompt } = call
    if (!prompt) throw new ApiError('server_error', `The engine '${this.id}' takes tokens, and was given none.`)
    const arrivals = new Arrivals(call.signal)
    let running: Exchange | undefined
    let left = false
    const start = (first: boolean): void => {
      this.#decided().then(
        (door) => {
          if (left || call.signal.aborted) return
          try {
            running = this.#ask(call, prompt, door, arrivals, () => {
              if (first) start(false)
              return first
            })
          } catch (e) {
            arrivals.fail(e)
          }
        },
        (e: unknown) => arrivals.fail(e),
      )
    }
    start(true)
    return arrivals.until(() => {
      left = true
      running?.destroy()
    })
  }
  async probe(signal: AbortSignal): Promise<readonly string[]> {
    const cards = this.#cards(await this.#wire.get('/v1/models', signal))
    await this.#decided()
    return cards.flatMap((card) => (typeof card['id'] === 'string' ? [card['id']] : []))
  }
  /** `source` is the path or hub name the server loaded; a --tokenizer of its own is not told. */
  async describe(signal: AbortSignal): Promise<Description> {
    const cards = this.#cards(await this.#wire.get('/v1/models', signal))
    const { model } = this.#options
    const card = cards.find((c) => (model === undefined ? c['parent'] == null : c['id'] === model))
    if (!card)
      throw new ApiError('server_error', `${this.#wire.who} serves no model '${model ?? ''}'; correct \`model\`.`)
    // An adapter's root is its own folder: the tokenizer is that of the model it belongs to.
    const loaded = cards.find((c) => c['id'] === card['parent']) ?? card
    const { max_model_len: length } = loaded
    if (typeof length === 'number' && Number.isInteger(length) && length > 0) this.#context ??= length
    const root = loaded['root']
    // There with --enable-tokenizer-info-endpoint only.
    const info = await this.#wire.get('/tokenizer_info', signal)
    const config = info.status === 200 ? parsed(info.text) : undefined
    const template = isRecord(config) ? config['chat_template'] : undefined
    return {
      source: typeof root === 'string' ? root : undefined,
      context: this.#context,
      template: typeof template === 'string' ? template : undefined,
    }
  }
  /** The server takes the names of special tokens in a text for the tokens: texts must not have any. */
  async tokenize(texts: readonly string[], signal: AbortSignal): Promise<readonly (readonly number[])[]> {
    const out: (readonly number[])[] = []
    for (let at = 0; at < texts.length; at += lot)
      out.push(...(await Promise.all(texts.slice(at, at + lot).map((text) => this.#tokenize(text, signal)))))
    return out
  }
  close(): Promise<void> {
    return this.#wire.close()
  }

  async #tokenize(prompt: string, signal: AbortSignal): Promise<readonly number[]> {
    const does = 'tokenise (it may run with --tokens-only)'
    const answer = await this.#wire.ask('/tokenize', { ...this.#named, prompt, add_special_tokens: false }, signal)
    const { tokens } = objectOf(this.#wire, answer, does)
    if (!isIds(tokens)) throw new ApiError('server_error', `${this.#wire.who} does not ${does}.`)
    return tokens
  }
  get #named(): { model?: string } {
    const { model } = this.#options
    return model === undefined ? {} : { model }
  }
  #cards(answer: Answer): Record<string, unknown>[] {
    const { data } = objectOf(this.#wire, answer, 'list its models under this URL')
    if (Array.isArray(data)) return data.filter(isRecord)
    throw new ApiError('server_error', `${this.#wire.who} lists no models; check its URL.`)
  }

  #decided(): Promise<Door> {
    if (this.#door) return this.#door
    const deciding = this.#decide()
    this.#door = deciding
    deciding.catch(() => {
      if (this.#door === deciding) this.#door = undefined
    })
    return deciding
  }
  /** An empty request tells whether an endpoint is there, and costs nothing: a prompt may be a megabyte. */
  async #decide(): Promise<Door> {
    for (const door of ['generate', 'completions'] as const) {
      const answer = await this.#knock(paths[door])
      if (!closed.has(answer.status) && answer.status !== 401 && answer.status < 500) return door
      if (!closed.has(answer.status)) objectOf(this.#wire, answer, 'take tokens')
    }
    throw new ApiError(
      'server_error',
      `${this.#wire.who} has neither ${paths.generate} nor ${paths.completions}; vLLM 0.10.2 or newer is needed, at this URL.`,
    )
  }
  async #knock(path: string): Promise<Answer> {
    const late = AbortSignal.timeout(askMs)
    try {
      return await this.#wire.ask(path, {}, late)
    } catch (e) {
      if (!late.aborted) throw e
      throw new ApiError('server_error', `${this.#wire.who} did not answer within ${askMs} ms.`)
    }
  }
  #ask(call: Call, prompt: Prompt, door: Door, arrivals: Arrivals, retry: () => boolean): Exchange {
    const told = new Told()
    const stream = new VllmStream(who(this.#wire), told)
    return exchange(
      this.#wire,
      {
        path: paths[door],
        body: this.body(call, prompt, door, this.#structured(call, prompt, door)),
        silent: !call.generate,
        lingerMs: this.#options.lingerMs,
        told,
        push: (data) => stream.push(data),
        again: (_, answer) => {
          // The server was started anew with other endpoints. A 404 may also name an unknown model: then it comes again.
          if (answer === undefined || !closed.has(answer.status)) return false
          this.#door = undefined
          return retry()
        },
      },
      call.signal,
      arrivals,
    )
  }
  /** The request's bytes: those of earlier turns are used as they are. */
  body(call: Asked, prompt: Prompt, door: Door, held?: Structured): readonly Buffer[] {
    const { settings } = call
    const bound = call.generate ? boundOf(settings, prompt.run.length, this.#context) : 1
    const sampling = {
      ...samplingOf(settings, this.#options.sampling),
      // Left out, it would be 16 on older servers.
      max_tokens: bound,
      stop_token_ids: prompt.stops,
      ...(held ? { structured_outputs: spell(held) } : {}),
    }
    const request = {
      ...this.#named,
      request_id: `${call.id}-${++this.#asked}`,
      stream: true,
      stream_options: { include_usage: true },
      ...(this.#options.cacheSalt ? { cache_salt: saltOf(call.principal.tenant) } : {}),
    }
    if (door === 'completions')
      return bodyOf('prompt', prompt.run.json(), { ...request, ...sampling, return_token_ids: true })
    return bodyOf('token_ids', prompt.run.json(), {
      ...request,
      // Text is not wanted, so none is made. Reasoning, where there is some, is part of the rule.
      sampling_params: { ...sampling, detokenize: false },
      ...(held ? { reasoning_ended: true } : {}),
    })
  }
  #structured(call: Call, prompt: Prompt, door: Door): Structured | undefined {
    const way = door === 'completions' && this.#options.reasoningParser ? gated : ''
    return call.generate ? this.#holder.of(call, prompt, way) : undefined
  }
}
function spell(structured: Structured): Record<string, unknown> {
  switch (structured.type) {
    case 'json':
      return { json: structured.schema }
    case 'regex':
      return { regex: structured.pattern }
    case 'grammar':
      return { grammar: structured.grammar }
    case 'tag':
      return { structural_tag: structured.tag }
  }
}

/** An engine on a vLLM server. Throws a ZodError for options that are none. */
export function vllm(options: VllmInput, id: string): VllmEngine {
  return new VllmEngine(vllmOptions.parse(options), id)
}
export default vllm
