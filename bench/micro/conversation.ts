// An agent's conversation as the server holds it, grown turn by turn: a model that reasons and calls, a client that answers
// with what real files say. No socket and no events: the chain, its tokens, and the request that an engine would get.
import { memorySeal } from '../../src/access/seal.ts'
import type { VllmEngine } from '../../src/engines/vllm.ts'
import type { Item } from '../../src/protocol/items.ts'
import { type Create, parseCreate } from '../../src/protocol/request.ts'
import { Continuations } from '../../src/session/continuations.ts'
import { resolve } from '../../src/session/resolve.ts'
import { memoryStore } from '../../src/stores/memory.ts'
import { Chain } from '../../src/turn/chain.ts'
import { Log } from '../../src/turn/log.ts'
import { Output } from '../../src/turn/output.ts'
import type { Codec, Model } from '../../src/turn/ports.ts'
import { PrefixIndex } from '../../src/turn/prefix-index.ts'
import type { Start } from '../../src/turn/run.ts'
import { Settle } from '../../src/turn/settle.ts'
import { Voice } from '../../src/turn/voice.ts'
import { settings as usual, userMessage } from '../talk.ts'

const principal = { tenant: 'bench', key: 'bench', owner: 'bench/bench' }
const seal = memorySeal()
const settle = new Settle(memoryStore(), 1000, () => {})
const continued = new Continuations(1)

/** What lives as long as a server. */
export type Server = { readonly codec: Codec; readonly engine: VllmEngine; readonly index: PrefixIndex }
export const newIndex = (): PrefixIndex => new PrefixIndex({ keepBytes: 1024 ** 3, keepMs: 3_600_000 })

let turns = 0
/** Numbers everything, so that no two conversations and no two turns are the same. */
const next = (): string => String(++turns).padStart(8, '0')

/** What a model says in one turn: some 150 tokens. */
function said(text: string): Item[] {
  const n = next()
  const words = text.slice(0, 300).replaceAll(/\s+/g, ' ').trim()
  const cmd = `sed -n '1,80p' src/part-${n}.ts | grep -n ${JSON.stringify(words.slice(0, 60))}`
  return [
    {
      type: 'reasoning',
      summary: [],
      content: [{ type: 'reasoning_text', text: `Turn ${n}: I have seen ${words} and go on with the next file.` }],
    },
    { type: 'function_call', call_id: '', name: 'exec_command', arguments: JSON.stringify({ cmd, timeout_ms: 1000 }) },
  ]
}

export class Conversation {
  readonly #server: Server
  readonly #model: Model
  #chain: Chain
  #voice: Voice
  #create: Create
  /** Generated ids that belong to items of the turn that is under way. */
  #end = 0
  #made: Output | undefined

  private constructor(server: Server) {
    const { engine, codec } = server
    this.#server = server
    this.#model = { name: usual.model, engine, codec, context: undefined }
    this.#create = parseCreate(sent({ input: [userMessage(`Find out what makes project ${next()} slow.`)] }))
    this.#chain = Chain.root(principal.owner)
    this.#voice = this.#listen(this.#take(this.#create))
  }
  /** Encoded up to its first prompt. */
  static async begin(server: Server): Promise<Conversation> {
    const begun = new Conversation(server)
    await begun.#voice.encode()
    return begun
  }
  get tokens(): number {
    return this.#voice.encoded?.prompt.length ?? 0
  }
  get ids(): Uint32Array {
    return this.#voice.encoded?.prompt.view() ?? new Uint32Array(0)
  }
  get items(): Item[] {
    return this.#chain.all()
  }
  /** A turn of the model and the answer to its call, up to the next request. */
  async step(text: string): Promise<void> {
    await this.speak(text)
    await this.append(this.answer(text))
  }
  /** Until it has so many tokens. */
  async grow(tokens: number, text: () => string): Promise<void> {
    while (this.tokens < tokens) await this.step(text())
  }

  /** The model's turn, id by id as an engine gives them. */
  async speak(text: string): Promise<void> {
    const settings = this.#create.settings
    const id = `resp_${next()}`
    const output = new Output(id, this.#create, new Log(id, principal.owner, 1e7), principal, seal)
    const ids = await this.#server.codec.written(said(text), settings, this.#chain)
    const deltas = [...this.#voice.deltas({ tokens: Array.from(ids) }), ...this.#voice.rest('stop')]
    for (const delta of deltas) {
      output.apply(delta)
      if (delta.type === 'end') this.#end = delta.at ?? 0
    }
    this.#made = output
  }
  /** The client's answer to the call that was just made, as it comes: a request's bytes. */
  answer(text: string): Item[] {
    const call = this.#made?.items.at(-1)
    if (call?.type !== 'function_call') throw new Error('the model has not called')
    const { input } = parseCreate(
      sent({
        previous_response_id: 'resp',
        input: [{ type: 'function_call_output', call_id: call.call_id, output: `${next()}\n${text}` }],
      }),
    )
    return [...input]
  }
  /**
   * What is measured: the model's turn is kept with its ids, the answer appended, the new items encoded, and the engine's
   * request written. Resolves to its bytes.
   */
  async append(answer: readonly Item[]): Promise<number> {
    this.#chain = this.#kept().add({ response: `resp_${next()}`, from: 'input', items: answer })
    this.#voice = this.#listen(this.#chain)
    await this.#voice.encode()
    return this.#body()
  }
  /** A client that sends everything: its next request, in which all but the answer is known here. */
  resend(answer: readonly Item[]): string {
    this.#chain = this.#kept()
    const all = (this.#chain.since(undefined) ?? []).flatMap((link) => link.wire)
    return JSON.stringify({ ...usual, store: false, input: [...all, ...answer] })
  }
  /** What is measured: from that request's text to the engine's request. Resolves to its bytes. */
  async receive(text: string): Promise<number> {
    this.#create = parseCreate(JSON.parse(text))
    this.#voice = this.#listen(this.#take(this.#create))
    await this.#voice.encode()
    return this.#body()
  }
  /** Another answer to the newest call, encoded and written as the first was; the conversation stays where it is. */
  async fork(text: string): Promise<Chain> {
    const before = this.#chain.parent
    const item = this.#chain.items[0]
    if (!before || item?.type !== 'function_call_output') throw new Error('there is nothing to fork')
    const other = before.add({ response: `resp_${next()}`, from: 'input', items: [{ ...item, output: text }] })
    this.#voice = this.#listen(other)
    await this.#voice.encode()
    this.#body()
    return other
  }

  #kept(): Chain {
    const output = this.#made
    if (!output) throw new Error('the model has not spoken')
    const chain = this.#chain.add({
      response: output.id,
      from: 'model',
      items: output.seen,
      wire: output.items,
      generated: this.#voice.generated(this.#end),
    })
    this.#server.index.add(chain, false)
    return chain
  }
  #take(request: Create): Chain {
    const { known, held, seen, fresh } = now(
      resolve(request, principal, continued, { seal, settle, index: this.#server.index }),
    )
    this.#chain = known.add({
      response: `resp_${next()}`,
      from: 'input',
      items: seen.slice(held),
      wire: fresh.slice(held),
    })
    if (known.from !== 'root' && this.#chain.items.length !== 1) throw new Error('the history was not known')
    return this.#chain
  }
  #listen(chain: Chain): Voice {
    return new Voice(this.#model, chain, this.#create.settings, undefined)
  }
  #body(): number {
    const { prompt } = this.#voice
    if (!prompt) throw new Error('nothing is encoded')
    const call = {
      id: 'resp',
      chain: this.#chain,
      settings: this.#create.settings,
      principal,
      generate: true,
    }
    return this.#server.engine.body(call, prompt, 'generate').reduce((sum, part) => sum + part.length, 0)
  }
}
/** As it comes in: every string its own, nothing shared with another conversation. */
const sent = (body: object): unknown => JSON.parse(JSON.stringify({ ...usual, store: false, ...body }))
function now(start: Start | Promise<Start>): Start {
  if (start instanceof Promise) throw new Error('everything is in memory')
  return start
}
