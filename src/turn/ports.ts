// Every plug-in interface of the product, method by method. Values that cross a port are immutable.
import type { ApiError } from '../protocol/errors.ts'
import type { Event } from '../protocol/events.ts'
import type { Item } from '../protocol/items.ts'
import type { Settings } from '../protocol/request.ts'
import type { Response } from '../protocol/response.ts'
import type { Chain, Encoded, Warm } from './chain.ts'
import type { TokenRun } from './tokens.ts'

export type { Broke, Encoded, Generated, Warm } from './chain.ts'

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
/** One network read, or several merged. Engines that take items fill `deltas`; those that take tokens `tokens`, or `text`. */
export type Chunk = {
  readonly deltas?: readonly Delta[]
  /** Ids as sampled, in order; the one that ends the turn is among them where the engine tells it. */
  readonly tokens?: readonly number[]
  /** For engines that take tokens and give none back: text as generated, markers included. Never beside `tokens`. */
  readonly text?: string
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
  | { readonly type: 'reasoning' | 'refusal'; readonly text: string }
  /** `phase`: what kind of message this is, for formats that tell; the same for all of one item. */
  | { readonly type: 'text'; readonly text: string; readonly phase?: 'commentary' | 'final_answer' | undefined }
  | {
      readonly type: 'call'
      readonly kind: 'function' | 'custom'
      readonly name: string
      readonly namespace?: string | undefined
      readonly callId?: string | undefined
    }
  | { readonly type: 'arguments'; readonly text: string }
  | {
      /** The open item ends; `whole` is false where it was broken off. */
      readonly type: 'end'
      readonly whole: boolean
      /** Of a codec: generated ids that belong to this item and all before it; the marker that opens the next is not among them. */
      readonly at?: number
    }
export type Call = {
  /** The response's id, for the engine's own logs. */
  readonly id: string
  readonly principal: Principal
  readonly chain: Chain
  readonly settings: Settings
  readonly warm: Warm | undefined
  /** For engines that take tokens, and only for them: what to send. */
  readonly prompt: Prompt | undefined
  /** False: something of the conversation, or of this turn, was sent with `store: false`, and must not be written anywhere. */
  readonly mayStore: boolean
  /** False: bring the prompt into the engine's cache, generate nothing. */
  readonly generate: boolean
  /** After it fires the iterable must end or throw at once, whatever the engine waits for. `Arrivals` does that. */
  readonly signal: AbortSignal
}
export interface Engine {
  readonly id: string
  /** What it is given: the chain's items, or a `prompt` of ids made by the model's codec. */
  readonly takes: 'items' | 'tokens'
  /**
   * Called before `response.created`. Throws ApiError `unsupported_by_engine` for what this engine can neither do nor
   * have done for it. Must not wait for the engine. `constraint`: of an engine that takes tokens.
   */
  admit(settings: Settings, chain: Chain, constraint?: Constraint): void
  /** One generation. May throw ApiError, at once or while read. `return()` must not wait for the far side. */
  generate(call: Call): AsyncIterable<Chunk>
  /** Reaches the engine by the path that `generate` takes and lists the models it serves. Throws with a sentence that says what to do. */
  probe(signal: AbortSignal): Promise<readonly string[]>
  /** Engines that take tokens: what they know of their model. Throws with a sentence that says what to do. */
  describe?(signal: AbortSignal): Promise<Description>
  /** Ids by the engine's own tokenizer, special tokens off, nothing added; for the self-test. */
  tokenize?(texts: readonly string[], signal: AbortSignal): Promise<readonly (readonly number[])[]>
  close(): Promise<void>
}
/** What an engine tells of the model it serves; whatever it does not know is undefined. */
export type Description = {
  /** Jinja source. */
  readonly template?: string | undefined
  /** A `tokenizer.json`, parsed; or the folder or hub name to read one from. */
  readonly tokenizer?: unknown
  readonly source?: string | undefined
  /** Tokens of prompt and output together. */
  readonly context?: number | undefined
  /** It is sent the text of the ids, and sends text: ids of bytes do, and no tokenizer is needed. */
  readonly text?: true
}
/** A model as the registry composes it. `codec` exactly where the engine takes tokens. */
export type Model = {
  readonly name: string
  readonly engine: Engine
  readonly codec?: Codec | undefined
  /** Tokens the prompt may have, where known. */
  readonly context: number | undefined
}

// ── tokens ───────────────────────────────────────────────────────────────────────────────────────────────────────────
/** Ids of one vocabulary. A control token is one that the tokenizer lists as added, special or not: `<|im_end|>`, `<think>`. */
export interface Tokenizer {
  /** Names the vocabulary, by its content: ids of one are never given to another. */
  readonly id: string
  /** Every id is below it. */
  readonly size: number
  /**
   * Ids of plain text; whatever it looks like, no control id is among them. Lone surrogates become U+FFFD; nothing throws.
   * A promise only for texts that would hold the event loop for more than some 10 ms: they are cut into slices.
   */
  encode(text: string): ArrayLike<number> | Promise<ArrayLike<number>>
  /** The id of a control token by its text. */
  control(name: string): number | undefined
  /** The text of a control token; undefined for every other id. */
  nameOf(id: number): string | undefined
  /** Text of plain ids as they come; an incomplete character waits for the next id. Control and unknown ids give ''. */
  stream(): TextStream
  /** All ids as text, control tokens by name. Bytes that are no UTF-8 become U+FFFD. */
  decode(ids: ArrayLike<number>): string
}
export interface TextStream {
  push(id: number): string
  /** What was incomplete, as U+FFFD. */
  end(): string
}
/** A chat format with its tokenizer: renders conversations, parses what the model writes. */
export interface Codec {
  /** Format, retention and vocabulary. Generated ids of a link are used again by the codec of the same id only. */
  readonly id: string
  readonly tokenizer: Tokenizer
  /** Ids that end the model's turn. */
  readonly stops: readonly number[]
  /**
   * What the engine is to be sent for `chain`. `cached`: the encoding of the nearest ancestor that has one, perhaps under
   * other settings or of another codec; what of it holds is decided here. With it or without, the result is the same
   * (law 1). Generated ids are taken from the links as they are; closing a turn that broke off, dropping old reasoning
   * and every other fix-up happen here.
   * Throws ApiError `unsupported_by_engine` for items that the format has no place for (images).
   */
  encode(chain: Chain, settings: Settings, cached?: Encoded): Encoded | Promise<Encoded>
  /**
   * The same ids from scratch, and at which of them each item starts: for checks and explanations. Costs the whole history,
   * in slices between which others run.
   */
  layout(chain: Chain, settings: Settings): Promise<{ readonly ids: Uint32Array; readonly starts: readonly number[] }>
  /** One per generation. */
  decoder(settings: Settings, chain: Chain): Decoder
  /** What a model would write behind the prompt for these items, with the id that ends its turn: for engines that follow a script. */
  written(items: readonly Item[], settings: Settings, chain: Chain): ArrayLike<number> | Promise<ArrayLike<number>>
  /** Data URLs of the pictures whose placeholders stand in the prompt, in their order. Costs the whole history. */
  pictures(chain: Chain): readonly string[]
  /** What the output must look like; undefined where anything goes. Throws ApiError `unsupported_by_engine` for what the format cannot say. */
  constraint(settings: Settings, chain: Chain): Constraint | undefined
}
export interface Decoder {
  /** Deltas of this chunk; the array is used again by the next call. Anything behind the turn's end is dropped. */
  push(chunk: Chunk): readonly Delta[]
  /** The engine has ended: what was held back, and the end of whatever is open. */
  end(finish: Finish | undefined): readonly Delta[]
  /** Ids generated so far, without the one that ended the turn; those of an engine that sends text are encoded here. */
  readonly ids: ArrayLike<number>
  /** Ids of reasoning among them. */
  readonly reasoning: number
  /** The control token with which the model ended its turn: whatever an engine sends behind it is dropped. */
  readonly stop: string | undefined
}
/** What an engine that takes tokens is given. */
export type Prompt = {
  /** Valid for as long as the call. */
  readonly run: TokenRun
  /** Ids at the start that are the same as those of the call that gave `warm` back, its output included. 0 without `warm`. */
  readonly common: number
  readonly tokenizer: Tokenizer
  /** Ids that end the model's turn. */
  readonly stops: readonly number[]
  readonly constraint: Constraint | undefined
  /** Data URLs for the placeholders in `run`, in their order. */
  readonly pictures: readonly string[]
  /** As Codec.written, for this call. */
  written(items: readonly Item[]): ArrayLike<number> | Promise<ArrayLike<number>>
}

/** What the output must look like, for an engine to hold it to while it samples. In its texts control tokens stand by name. */
export type Constraint = {
  /** The rule begins behind this control token (`</think>`); undefined: with the first token. */
  readonly after: string | undefined
  readonly rule: Rule
}
export type Rule =
  /** All that the model writes, up to the token that ends its turn. */
  | { readonly type: 'whole'; readonly content: Content }
  /**
   * Text with tags in it: whatever begins like a tag must be one. `must`: one or more tags and nothing else. `one`: at
   * most one tag, and the turn ends behind it. `otherwise`: no free text, but either tags as with `must`, or this.
   */
  | {
      readonly type: 'tags'
      readonly tags: readonly Tag[]
      readonly must: boolean
      readonly one: boolean
      readonly otherwise?: Content
    }
export type Tag = { readonly begin: string; readonly content: Content; readonly end: string }
export type Content =
  | { readonly type: 'json'; readonly schema: Readonly<Record<string, unknown>> }
  /** Any text that does not hold what ends the tag. */
  | { readonly type: 'text' }
  /** A client's own grammar. `quoted`: what it describes stands inside a JSON string, escaped. */
  | { readonly type: 'regex' | 'lark'; readonly definition: string; readonly quoted: boolean }
  /** Arguments as tagged values, each by the schema of its property: strings as they are, the rest as JSON. */
  | { readonly type: 'xml'; readonly style: 'qwen' | 'glm'; readonly schema: Readonly<Record<string, unknown>> }
  | { readonly type: 'sequence'; readonly parts: readonly (string | Content)[] }

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
