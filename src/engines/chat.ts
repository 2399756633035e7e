// Any server that speaks chat completions as an engine: vLLM, SGLang, llama-server, Ollama, LM Studio, OpenRouter…
// Stateless on the far side: every turn sends the whole conversation, from messages that were serialised before.
import { ApiError } from '../protocol/errors.ts'
import type { Settings } from '../protocol/request.ts'
import { Arrivals } from '../turn/arrivals.ts'
import type { Chain } from '../turn/chain.ts'
import type { Call, Chunk, Engine } from '../turn/ports.ts'
import { refusal, type Who } from './chat-errors.ts'
import { ChatMessages } from './chat-messages.ts'
import { type ChatInput, type ChatOptions, chatOptions } from './chat-options.ts'
import { admit, fieldsOf, type Offer, offerOf } from './chat-request.ts'
import { ChatStream } from './chat-stream.ts'
import { type Answer, type Exchange, Wire } from './wire.ts'

export { chatOptions }
export type { ChatInput, ChatOptions }

export class ChatEngine implements Engine {
  readonly id: string
  readonly takes = 'items'
  readonly messages: ChatMessages
  readonly #options: ChatOptions
  readonly #wire: Wire

  constructor(options: ChatOptions) {
    this.#options = options
    this.id = options.name ?? new URL(options.url).host
    const { can, reasoningField, apiKey } = options
    this.messages = new ChatMessages({
      developerRole: can.developer_role,
      system: can.developer_role ? 'any' : can.system,
      reasoningField,
      images: can.images,
      files: can.files,
    })
    this.#wire = new Wire({
      ...options,
      name: this.id,
      headers: { ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }), ...options.headers },
    })
  }
  admit(settings: Settings, chain: Chain): void {
    this.#offer(settings, chain)
  }
  #offer(settings: Settings, chain: Chain): Offer {
    const offer = offerOf(settings, chain, this.#options.can)
    admit(this.id, settings, offer, this.messages.needs(chain, offer.naming), this.#options.can)
    return offer
  }
  generate(call: Call): AsyncIterable<Chunk> {
    const { generate, signal } = call
    if (!generate && !this.#options.prefill) return nothing
    // Once more: items may have joined the chain since.
    const offer = this.#offer(call.settings, call.chain)
    const arrivals = new Arrivals(signal)
    const exchange = this.#ask(call, offer, arrivals)
    return arrivals.until(() => exchange.destroy())
  }
  async probe(signal: AbortSignal): Promise<readonly string[]> {
    const answer = await this.#wire.get('/models', signal)
    // Some servers list no models and serve one all the same.
    if (answer.status === 404) return []
    if (answer.status !== 200) throw refusal(this.#who(this.#options.model ?? ''), answer)
    return modelsOf(answer, this.#wire.who)
  }
  close(): Promise<void> {
    return this.#wire.close()
  }

  #who(model: string): Who {
    return { name: this.id, host: this.#wire.host, model }
  }
  /** The request's bytes: what was serialised in earlier turns is only copied. */
  body(call: Pick<Call, 'settings' | 'chain' | 'generate'>, offer: Offer): Buffer {
    const { settings } = call
    const { can } = this.#options
    const { lead, pieces } = this.messages.render(call.chain, offer.naming)
    const system = [settings.instructions ?? '', lead].filter((text) => text !== '').join('\n\n')
    const parts: Buffer[] = []
    if (system !== '')
      parts.push(Buffer.from(JSON.stringify({ role: can.developer_role ? 'developer' : 'system', content: system })))
    for (const piece of pieces) parts.push(piece)
    const rest = {
      ...fieldsOf(settings, offer, can, !call.generate),
      ...this.#options.body,
      stream: true,
      ...(can.stream_options ? { stream_options: { include_usage: true } } : {}),
    }
    delete (rest as { messages?: unknown }).messages
    const model = JSON.stringify(this.#options.model ?? settings.model)
    const comma = Buffer.from(',')
    const all: Buffer[] = [Buffer.from(`{"model":${model},"messages":[`)]
    for (const [n, part] of parts.entries()) {
      if (n > 0) all.push(comma)
      all.push(part)
    }
    all.push(Buffer.from(`],${JSON.stringify(rest).slice(1)}`))
    return Buffer.concat(all)
  }
  #ask(call: Call, offer: Offer, arrivals: Arrivals): Exchange {
    const who = this.#who(this.#options.model ?? call.settings.model)
    const stream = new ChatStream({
      who,
      tools: offer.byFlat,
      calls: offer.calls,
      thinkTags: this.#options.thinkTags,
    })
    let linger: NodeJS.Timeout | undefined
    const pass = (): Promise<void> | undefined => {
      const chunk = stream.take()
      return chunk && call.generate ? arrivals.push(chunk) : undefined
    }
    const over = (): void => {
      clearTimeout(linger)
      void pass()
      arrivals.end()
    }
    const exchange = this.#wire.post('/chat/completions', this.body(call, offer), call.signal, {
      data: (text) => stream.push(text),
      read: () => {
        if (stream.over) {
          over()
          exchange.release()
          return undefined
        }
        if (stream.finished && linger === undefined)
          linger = setTimeout(() => {
            stream.giveUp()
            over()
            exchange.destroy()
          }, this.#options.lingerMs)
        return pass()
      },
      end: () => {
        stream.end()
        over()
      },
      answer: (answer) => {
        if (answer.status !== 200 || answer.type !== 'application/json') throw refusal(who, answer)
        stream.push(answer.text)
        stream.end()
        over()
      },
      fail: (error) => {
        clearTimeout(linger)
        // Finished, but for its usage: a connection that breaks now has cost nothing.
        if (stream.finished && !stream.over) {
          stream.giveUp()
          over()
        } else arrivals.fail(error)
      },
    })
    call.signal.addEventListener('abort', () => clearTimeout(linger), { once: true })
    return exchange
  }
}

const nothing: AsyncIterable<Chunk> = {
  [Symbol.asyncIterator]: () => ({ next: () => Promise.resolve({ value: undefined, done: true as const }) }),
}

function modelsOf(answer: Answer, who: string): string[] {
  try {
    const { data } = JSON.parse(answer.text) as { data?: unknown }
    if (Array.isArray(data))
      return data.flatMap((m: unknown) => {
        const id = typeof m === 'object' && m !== null ? (m as { id?: unknown }).id : undefined
        return typeof id === 'string' ? [id] : []
      })
  } catch {
    // falls through: no list
  }
  throw new ApiError('server_error', `${who} answered /models with no list of models; check that its URL ends in /v1.`)
}

/** An engine on a chat-completions server. Throws a ZodError for options that are none. */
export function chat(options: ChatInput): ChatEngine {
  return new ChatEngine(chatOptions.parse(options))
}
export default chat
