// The two conversations that `explain` compares: from request bodies, or from responses in the store. They go through the
// doors that requests of clients go through; nothing is written anywhere.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { openSeal } from './access/seal.ts'
import type { Config } from './config.ts'
import { ApiError } from './protocol/errors.ts'
import { type Create, parseCreate, type Settings } from './protocol/request.ts'
import type { Response } from './protocol/response.ts'
import { createStore, openStore } from './registry.ts'
import { Continuations } from './session/continuations.ts'
import { resolve } from './session/resolve.ts'
import type { Chain } from './turn/chain.ts'
import type { Principal, Seal, Store, Stored } from './turn/ports.ts'
import { PrefixIndex } from './turn/prefix-index.ts'
import type { Start } from './turn/run.ts'
import { Settle } from './turn/settle.ts'

/** `name`: for sentences. `body`: parsed JSON of a request or a `response.create` frame. */
export type Given =
  | { readonly name: string; readonly body: Readonly<Record<string, unknown>> }
  | { readonly name: string; readonly response: string }
/** A prompt that was, or is to be, sent; what a model said in answer may be the last of its chain. */
export type Side = { readonly name: string; readonly settings: Settings; readonly chain: Chain }
export type Sides = {
  readonly first: Side
  readonly second: Side
  /** Reasoning and summaries that could not be unsealed here. */
  readonly sealed: number
}

/**
 * One response is compared with the one that it continues, else the two that are given with each other. Throws ApiError and
 * Error, each with a sentence that says what to do.
 */
export async function readSides(config: Config, given: readonly Given[]): Promise<Sides> {
  const [one, two] = given
  if (!one) throw new Error('Give two requests, or the id of a response.')
  const requests = new Map(given.map((side) => [side, 'body' in side ? parsed(side) : undefined]))
  const fromStore = given.some((side) => 'response' in side || needsStore(requests.get(side)))
  const principals = principalsOf(config)
  const seal = await openerOf(config, principals)
  const store = fromStore
    ? await openStore(config)
    : await createStore({ ...config, store: { ...config.store, kind: 'memory' } })
  const reader = new Reader(store, principals, seal)
  try {
    if (two) {
      const side = async (of: Given): Promise<Side> => {
        const request = requests.get(of)
        return request ? await reader.request(of.name, request) : await reader.response(of.name)
      }
      return { first: await side(one), second: await side(two), sealed: seal.failed }
    }
    if (!('response' in one))
      throw new Error(`${one.name} is one request; give a second one to compare it with, or the id of a response.`)
    return { ...(await reader.withParent(one.response)), sealed: seal.failed }
  } finally {
    await reader.close()
  }
}

function parsed({ name, body }: Extract<Given, { body: unknown }>): Create {
  try {
    return parseCreate(body)
  } catch (e) {
    throw e instanceof ApiError ? new Error(`${name} is no request that this server takes: ${e.message}`) : e
  }
}
const needsStore = (request: Create | undefined): boolean =>
  request !== undefined && (request.previous !== undefined || request.input.some((i) => i.type === 'item_reference'))

/** Everybody who may own what is stored. */
const principalsOf = ({ keys }: Config): Principal[] =>
  (keys.length > 0 ? keys : [{ tenant: 'local', id: 'local' }]).map(({ tenant, id }) => ({
    tenant,
    key: id,
    owner: `${tenant}/${id}`,
  }))

async function openerOf({ data, store }: Config, principals: readonly Principal[]): Promise<Opener> {
  const keyFile = join(data, 'seal.key')
  // Opening it would make it.
  const seal = store.kind === 'sqlite' && existsSync(keyFile) ? await openSeal({ keyFile }) : undefined
  return new Opener(
    seal,
    principals.map(({ tenant }) => tenant),
  )
}
/** Opens what this server sealed for any of its tenants, seals nothing, and counts what stays sealed. */
class Opener implements Seal {
  failed = 0
  readonly #seal: Seal | undefined
  readonly #tenants: ReadonlySet<string>
  constructor(seal: Seal | undefined, tenants: readonly string[]) {
    this.#seal = seal
    this.#tenants = new Set(tenants)
  }
  seal(): string {
    throw new Error('Nothing is sealed here.')
  }
  open(sealed: string, _: string, kind: 'reasoning' | 'compaction'): string | undefined {
    for (const tenant of this.#tenants)
      try {
        const text = this.#seal?.open(sealed, tenant, kind)
        if (text !== undefined) return text
      } catch {
        // Perhaps another tenant's.
      }
    this.failed++
    return undefined
  }
}

class Reader {
  readonly #store: Store
  readonly #settle: Settle
  readonly #index = new PrefixIndex({ keepBytes: 0, keepMs: 60_000 })
  readonly #principals: readonly Principal[]
  readonly #seal: Seal

  constructor(store: Store, principals: readonly Principal[], seal: Seal) {
    this.#store = store
    this.#settle = new Settle(store, 0, () => {})
    this.#principals = principals
    this.#seal = seal
  }
  /** As whichever owner's it is. */
  async request(name: string, request: Create): Promise<Side> {
    let refused: unknown
    for (const principal of this.#principals)
      try {
        return sideOf(name, request.settings, await this.#start(request, principal))
      } catch (e) {
        if (!(e instanceof ApiError)) throw e
        refused ??= e
      }
    throw new Error(`${name} cannot be continued from the store of this configuration: ${sentence(refused)}`)
  }
  async response(id: string): Promise<Side> {
    const [record, principal] = await this.#find(id)
    return sideOf(id, settingsOf(record.response), await this.#start(requestOf(record), principal))
  }
  /** Against what the engine knew behind the response that it follows. */
  async withParent(id: string): Promise<{ first: Side; second: Side }> {
    const [record, principal] = await this.#find(id)
    if (record.parent === undefined)
      throw new Error(
        `${id} is the first of its conversation: it has no previous_response_id, or its client sends everything each time. Give two ids, or two request bodies.`,
      )
    const parent = await this.#settle.load(record.parent, principal.owner)
    if (!parent) throw new Error(`${record.parent}, which ${id} follows, was not stored or is deleted.`)
    const start = await this.#start(requestOf(record), principal)
    return {
      first: { name: record.parent, settings: settingsOf(parent.response), chain: start.named },
      second: sideOf(id, settingsOf(record.response), start),
    }
  }
  async close(): Promise<void> {
    this.#index.close()
    await this.#store.close()
  }

  async #find(id: string): Promise<readonly [Stored, Principal]> {
    for (const principal of this.#principals) {
      const record = await this.#settle.load(id, principal.owner)
      if (record) return [record, principal]
    }
    throw new Error(
      `No response ${id.slice(0, 100)} is in the store: it was made with store: false, was deleted, or belongs to another configuration (-c, --data).`,
    )
  }
  async #start(request: Create, principal: Principal): Promise<Start> {
    const near = { settle: this.#settle, seal: this.#seal, index: this.#index }
    return await resolve(request, principal, new Continuations(1), near)
  }
}

function sideOf(name: string, settings: Settings, { named, seen, fresh, compact }: Start): Side {
  const input = { response: name, from: 'input' as const }
  const chain = seen.length > 0 ? named.add({ ...input, items: seen, wire: fresh }) : named
  return { name, settings, chain: compact ? chain.add({ ...input, items: [compact.ask] }) : chain }
}
/** The request again that made this response. */
function requestOf({ response, input, parent }: Stored): Create {
  return {
    settings: settingsOf(response),
    input,
    previous: parent,
    lane: undefined,
    store: true,
    generate: true,
    stream: false,
    rollout: false,
    window: false,
  }
}
/** A response says again what its request said. */
function settingsOf(response: Response): Settings {
  const { model, instructions, tools, tool_choice, parallel_tool_calls, max_output_tokens, max_tool_calls } = response
  const { temperature, top_p, top_logprobs, presence_penalty, frequency_penalty, reasoning, text } = response
  const { truncation, service_tier, prompt_cache_key, safety_identifier, metadata, user = null } = response
  return {
    ...{ model, instructions, tools, tool_choice, parallel_tool_calls, max_output_tokens, max_tool_calls },
    ...{ temperature, top_p, top_logprobs, presence_penalty, frequency_penalty, reasoning, text },
    ...{ truncation, service_tier, prompt_cache_key, safety_identifier, metadata, user, include: [] },
  }
}
const sentence = (e: unknown): string => (e instanceof Error ? e.message : String(e))
