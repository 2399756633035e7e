// Every plug-in interface of the product, method by method. Values that cross a port are immutable.
import type { ApiError } from '../protocol/errors.ts'
import type { Event } from '../protocol/events.ts'
import type { Item } from '../protocol/items.ts'
import type { Settings } from '../protocol/request.ts'
import type { Response } from '../protocol/response.ts'
import type { Chain, Warm } from './chain.ts'

export type { Warm } from './chain.ts'

// ── who asks ─────────────────────────────────────────────────────────────────────────────────────────────────────────
/** Who made a request. `owner` names the key and owns every response, item, chain and log; secrets are not part of it. */
export type Principal = {
  readonly tenant: string
  readonly key: string
  /** `tenant/key`: the value that is compared. */
  readonly owner: string
}

// ── where events go ──────────────────────────────────────────────────────────────────────────────────────────────────
/** One event in a log. Its JSON is made at most once, however many read it, and never for readers that need none. */
export type Entry = {
  readonly event: Event
  /** Without `stream_id`: lane, SSE framing and compression belong to the outlet. */
  json(): string
}
/** A reader of one response's log: the socket that asked, a second one that resumes, an HTTP body. The turn never writes to it. */
export interface Outlet {
  /** Takes an entry into its buffer. Never throws, never waits. */
  send(entry: Entry): void
  /** Writes the buffer at once. A promise only when the client is slow; it also resolves when the client goes. Never rejects. */
  flush(): Promise<void> | undefined
  /** The request ends without a response: an error frame, or an HTTP status. Called at most once, and before any `send`. */
  refuse(error: ApiError): void
  /** No entry follows although no terminal event was sent: this reader fell out of the log. */
  end(error?: ApiError): void
}

// ── what generates ───────────────────────────────────────────────────────────────────────────────────────────────────
export type EngineUsage = {
  readonly input: number
  readonly cached: number
  readonly output: number
  readonly reasoning: number
  /** Our own count, because the engine gave none or an impossible one. */
  readonly estimated?: boolean
}
export type Finish = 'stop' | 'length' | 'filter'
/** One network read, or several merged. */
export type Chunk = {
  readonly deltas?: readonly Delta[]
  /** Totals of this generation. May come more than once (the last one counts) or never (cut, failed). */
  readonly usage?: EngineUsage
  readonly finish?: Finish
  /** A hint the engine wants back on the next turn of this chain. */
  readonly warm?: unknown
}
/**
 * Engine-neutral pieces of output. Items never overlap: a piece of another item may come only after `end`.
 * `arguments` is raw text: JSON for a function, the free input for a custom tool.
 */
export type Delta =
  | { readonly type: 'text' | 'reasoning' | 'refusal'; readonly text: string }
  | {
      readonly type: 'call'
      readonly kind: 'function' | 'custom'
      readonly name: string
      readonly namespace?: string | undefined
      readonly callId?: string | undefined
    }
  | { readonly type: 'arguments'; readonly text: string }
  /** The open item ends; `whole` is false where it was broken off. */
  | { readonly type: 'end'; readonly whole: boolean }
export type Call = {
  /** The response's id, for the engine's own logs. */
  readonly id: string
  readonly principal: Principal
  readonly chain: Chain
  readonly settings: Settings
  readonly warm: Warm | undefined
  /** False: bring the prompt into the engine's cache, generate nothing. */
  readonly generate: boolean
  /** After it fires the iterable must end or throw at once, whatever the engine waits for. `Arrivals` does that. */
  readonly signal: AbortSignal
}
export interface Engine {
  readonly id: string
  /**
   * Called before `response.created`. Throws ApiError `unsupported_by_engine` for what this engine can neither do nor
   * have done for it. Must not wait for the engine.
   */
  admit(settings: Settings, chain: Chain): void
  /** One generation. May throw ApiError, at once or while read. `return()` must not wait for the far side. */
  generate(call: Call): AsyncIterable<Chunk>
  /** Reaches the engine by the path that `generate` takes and lists the models it serves. Throws with a sentence that says what to do. */
  probe(signal: AbortSignal): Promise<readonly string[]>
  close(): Promise<void>
}
/** A model as the registry composes it. */
export type Model = {
  readonly name: string
  readonly engine: Engine
  /** Tokens the prompt may have, where known. */
  readonly context: number | undefined
}

// ── around the model ─────────────────────────────────────────────────────────────────────────────────────────────────
export type Verdict = {
  readonly ok: boolean
  /** Rolling context, kept on the chain and given to the next check. */
  readonly context: string
}
export interface Classifier {
  readonly name: string
  readonly looksAt: 'input' | 'output' | 'both'
  /** Sees only what is new. A throw counts as a flag. */
  check(text: string, context: string | undefined, signal: AbortSignal): Promise<Verdict>
}
/** Authenticated encryption of what clients carry for us: reasoning and summaries. Bound to the tenant. */
export interface Seal {
  /** `kind` is bound too: sealed reasoning cannot be passed off as a summary. */
  seal(text: string, tenant: string, kind: 'reasoning' | 'compaction'): string
  /** The text; undefined for a string that this server never sealed. Throws `invalid_encrypted_content` for a forged or foreign one. */
  open(sealed: string, tenant: string, kind: 'reasoning' | 'compaction'): string | undefined
}

// ── what stays ───────────────────────────────────────────────────────────────────────────────────────────────────────
export type StoredLink = { readonly from: 'input' | 'model'; readonly items: readonly Item[] }
/** Enough to continue from the store alone. `links` are as the client saw them, every item with an id. */
export type Stored = {
  readonly response: Response
  readonly owner: string
  /** What this response added to the conversation. */
  readonly links: readonly StoredLink[]
  /** The response that the first link follows; undefined at the root. It need not be stored: then this one leads nowhere. */
  readonly parent: string | undefined
  /** The request's own input, for GET …/input_items. */
  readonly input: readonly Item[]
}
export type Page = { readonly limit: number; readonly order: 'asc' | 'desc'; readonly after: string | undefined }
export type ItemPage = { readonly items: readonly Item[]; readonly more: boolean }
/** Semantic operations only. Every read names the owner: foreign, deleted and unknown ids answer alike. */
export interface Store {
  /** All or none, durable when it resolves. Saving an id again replaces it. */
  save(records: readonly Stored[]): Promise<void>
  load(id: string, owner: string): Promise<Stored | undefined>
  /** A response's own input items. Undefined for an unknown response; throws `item_not_found` for an unknown `after`. */
  input(id: string, owner: string, page: Page): Promise<ItemPage | undefined>
  /** Any stored item, input or output, by its id; the newest where an id was used twice. */
  item(id: string, owner: string): Promise<Item | undefined>
  /** False where there was none. Its items go with it. */
  remove(id: string, owner: string): Promise<boolean>
  /** Does a write and a read by the real paths. Throws with a sentence that says what to do. */
  check(): Promise<void>
  close(): Promise<void>
}
export interface Ledger {
  /** Durable before it resolves. Throws an ApiError to refuse. Awaited before `response.created`, so a refusal can be an HTTP status. */
  reserve(intent: { readonly id: string; readonly principal: Principal; readonly settings: Settings }): Promise<Permit>
}
export interface Permit {
  /** Exactly once per permit, in `finally`, with what was really used. Never throws. */
  settle(usage: EngineUsage): void
}
