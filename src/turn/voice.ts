// An engine as a turn sees it: whatever it takes, one way in and one way out. The only place that knows the difference
// between engines of items and engines of tokens.
import { ApiError } from '../protocol/errors.ts'
import type { Settings } from '../protocol/request.ts'
import type { Chain, Generated } from './chain.ts'
import type { Chunk, Codec, Constraint, Decoder, Delta, Encoded, Finish, Model, Prompt } from './ports.ts'
import type { TokenRun } from './tokens.ts'

/** Everything of one generation that is about tokens; for engines of items it only passes on. */
export class Voice {
  readonly #codec: Codec | undefined
  readonly #engine: string
  readonly #context: number | undefined
  readonly #chain: Chain
  readonly #settings: Settings
  readonly #constraint: Constraint | undefined
  #encoded: Encoded | undefined = undefined
  #decoder: Decoder | undefined = undefined
  #stopped = false
  #common = 0

  constructor(model: Model, chain: Chain, settings: Settings, constraint: Constraint | undefined) {
    this.#codec = model.codec
    this.#engine = model.engine.id
    this.#context = model.context
    this.#chain = chain
    this.#settings = settings
    this.#constraint = constraint
  }
  /** Encodes what is new; a promise where that takes long. Throws context_length_exceeded. */
  encode(): void | Promise<void> {
    if (!this.#codec) return undefined
    // Asked for first: encoding anew forgets it.
    const known = this.#chain.warm(this.#engine)?.at.generated?.run
    const encoded = encodeChain(this.#chain, this.#settings, this.#codec)
    return encoded instanceof Promise ? encoded.then((e) => this.#open(e, known)) : this.#open(encoded, known)
  }
  /** What was encoded; undefined for engines of items. */
  get encoded(): Encoded | undefined {
    return this.#encoded
  }
  get prompt(): Prompt | undefined {
    const codec = this.#codec
    const run = this.#encoded?.prompt
    if (!codec || !run) return undefined
    return {
      run,
      common: this.#common,
      tokenizer: codec.tokenizer,
      stops: codec.stops,
      constraint: this.#constraint,
      pictures: this.#chain.pictures > 0 ? codec.pictures(this.#chain) : [],
      written: (items) => codec.written(items, this.#settings, this.#chain),
    }
  }
  deltas(chunk: Chunk): readonly Delta[] {
    return this.#decoder ? this.#decoder.push(chunk) : (chunk.deltas ?? [])
  }
  /** What was held back, once the engine has ended. */
  rest(finish: Finish | undefined): readonly Delta[] {
    return this.#decoder?.end(finish) ?? []
  }
  /** The model has ended its turn, and the engine goes on all the same. */
  runsOn(chunk: Chunk): boolean {
    const before = this.#stopped
    this.#stopped = this.ended
    return before && (chunk.text !== undefined || (chunk.tokens?.length ?? 0) > 0)
  }
  get ended(): boolean {
    return this.#decoder?.stop !== undefined
  }
  /** Generated ids, and those of reasoning among them; undefined for engines of items, which count themselves. */
  get counted(): { readonly output: number; readonly reasoning: number } | undefined {
    const decoder = this.#decoder
    return decoder && { output: decoder.ids.length + (this.ended ? 1 : 0), reasoning: decoder.reasoning }
  }
  /** What the model wrote, up to `end` ids; everything, with the token that ended it, where that leaves nothing out. */
  generated(end: number): Generated | undefined {
    const [codec, encoded, decoder] = [this.#codec, this.#encoded, this.#decoder]
    if (!codec || !encoded || !decoder) return undefined
    const whole = this.ended && end >= decoder.ids.length
    const ids = Uint32Array.from(decoder.ids).slice(0, whole ? undefined : end)
    if (ids.length === 0) return undefined
    const opening = encoded.prompt.from(encoded.opens).slice()
    return { codec: codec.id, opening, ids, stop: whole ? decoder.stop : undefined, run: encoded.prompt.append(ids) }
  }
  /** As `end` for all ids there are: of an item that was broken off and is kept. */
  get all(): number {
    return this.#decoder?.ids.length ?? 0
  }

  #open(encoded: Encoded, known: TokenRun | undefined): void {
    const { length } = encoded.prompt
    if (this.#context !== undefined && length >= this.#context)
      throw new ApiError(
        'context_length_exceeded',
        `The prompt has ${length} tokens; this model takes ${this.#context} together with its answer.`,
        'input',
      )
    this.#encoded = encoded
    this.#common = known?.common(encoded.prompt) ?? 0
    this.#decoder = this.#codec?.decoder(this.#settings, this.#chain)
  }
}

/** Costs what is new since the nearest link that was encoded before. Remembered on the chain. */
export function encodeChain(chain: Chain, settings: Settings, codec: Codec): Encoded | Promise<Encoded> {
  let known: Chain | undefined = chain
  while (known && known.encoded === undefined) known = known.parent
  const encoded = codec.encode(chain, settings, known?.encoded)
  return encoded instanceof Promise ? encoded.then((e) => keep(chain, e)) : keep(chain, encoded)
}
function keep(chain: Chain, encoded: Encoded): Encoded {
  chain.encoded = encoded
  // Memos of a prompt that was taken back would hold its memory for as long as the conversation lives. One that only grew
  // into a fork leaves them: the next fork goes on from there too.
  if (encoded.grew) return encoded
  for (let link = chain.parent; link; link = link.parent) {
    if (link.encoded && !link.encoded.prompt.shares(encoded.prompt)) link.encoded = undefined
    if (link.generated?.run && !link.generated.run.shares(encoded.prompt)) link.generated.run = undefined
  }
  return encoded
}
