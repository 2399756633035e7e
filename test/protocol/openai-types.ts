// Our wire types held against those of the `openai` package (7.59.0), by the compiler alone: the type check fails where
// one of these lines does. Nothing here runs.
import type * as Theirs from 'openai/resources/responses/responses'
import type { Body, Event, Loose } from '../../src/protocol/events.ts'
import type { Item } from '../../src/protocol/items.ts'
import type { Response } from '../../src/protocol/response.ts'
import type { PublishedEvent, StreamEvent } from '../../src/protocol/stream-events.ts'
import type { Tool } from '../../src/protocol/tools.ts'

// ── the language of the checks ───────────────────────────────────────────────────────────────────────────────────────
type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
type Holds<T extends true> = T
type Both<U> = (U extends unknown ? (u: U) => void : never) extends (i: infer I) => void ? I : never
type Last<U> = Both<U extends unknown ? () => U : never> extends () => infer L ? L : never
/** Members of a union, counted. */
type Count<U, N extends unknown[] = []> = [U] extends [never] ? N['length'] : Count<Exclude<U, Last<U>>, [...N, 1]>
type TypeOf<T> = T extends { type?: infer U } ? Exclude<U, null | undefined> : never
type ByType<T, K> = T extends { type: infer U } ? (K extends U ? T : never) : never
type KeysOf<T> = T extends unknown ? keyof T : never

// ── items ────────────────────────────────────────────────────────────────────────────────────────────────────────────
export type ThirtyThreeInputVariantsOf31Types = [
  Holds<Equal<Count<TypeOf<Theirs.ResponseInputItem>>, 31>>,
  // `message` has three variants and is counted once above.
  Holds<Equal<Count<Extract<Theirs.ResponseInputItem, { role: unknown; content: unknown }>>, 3>>,
  Holds<Equal<Exclude<TypeOf<Theirs.ResponseInputItem>, Item['type']>, never>>,
]
export type TwentyEightOutputTypes = [
  Holds<Equal<Count<TypeOf<Theirs.ResponseOutputItem>>, 28>>,
  Holds<Equal<Exclude<TypeOf<Theirs.ResponseOutputItem>, Item['type']>, never>>,
]
/** No item type of ours that is neither theirs for input nor for output. */
export type NoItemTypeIsInvented = Holds<
  Equal<Exclude<Item['type'], TypeOf<Theirs.ResponseInputItem> | TypeOf<Theirs.ResponseOutputItem>>, never>
>
/** Fields of theirs that an item of ours lacks, as `type.field`. */
type MissingFields<All extends { type?: unknown }> = {
  [K in Item['type']]: `${K}.${Exclude<KeysOf<ByType<Required<All>, K>>, KeysOf<ByType<Item, K>>> & string}`
}[Item['type']]
export type EveryFieldOfTheirItemsIsOurs = [
  Holds<Equal<MissingFields<Theirs.ResponseInputItem>, never>>,
  // Who made an item is an unknown field to us on these: kept, never read.
  Holds<
    Equal<
      MissingFields<Theirs.ResponseOutputItem>,
      `${'custom_tool_call_output' | 'function_call_output' | 'compaction'}.created_by`
    >
  >,
]

// ── tools ────────────────────────────────────────────────────────────────────────────────────────────────────────────
/** Two kinds have a dated name beside their plain one. */
type Kind<T> = T extends `web_search_preview${string}`
  ? 'web_search_preview'
  : T extends `web_search${string}`
    ? 'web_search'
    : T
export type SixteenToolKindsOf18Names = [
  Holds<Equal<Count<Kind<TypeOf<Theirs.Tool>>>, 16>>,
  Holds<Equal<Count<TypeOf<Theirs.Tool>>, 18>>,
  Holds<Equal<TypeOf<Theirs.Tool>, Tool['type']>>,
]
type MissingToolFields = {
  [K in Tool['type']]: `${K}.${Exclude<KeysOf<ByType<Theirs.Tool, K>>, KeysOf<ByType<Tool, K>>> & string}`
}[Tool['type']]
export type EveryFieldOfTheirToolsIsOurs = Holds<Equal<MissingToolFields, never>>

// ── events ───────────────────────────────────────────────────────────────────────────────────────────────────────────
export type FiftyNineEventTypes = [
  Holds<Equal<Count<TypeOf<Theirs.ResponseStreamEvent>>, 59>>,
  Holds<Equal<TypeOf<Theirs.ResponseStreamEvent>, PublishedEvent['type']>>,
]
type Steers = 'response.steer.accepted' | 'response.steer.pending' | 'response.steer.failed'
export type OnSocketsSteeringIsAdded = Holds<
  Equal<TypeOf<Theirs.ResponsesServerEvent>, PublishedEvent['type'] | Steers>
>
export type OurAdditionsAreNamed = Holds<
  Equal<
    Exclude<StreamEvent['type'], TypeOf<Theirs.ResponsesServerEvent>>,
    'keepalive' | 'response.inject.failed' | 'response.done'
  >
>
export type WhatWeWriteIsReadable = Holds<[Event | Loose] extends [StreamEvent] ? true : false>
type MissingEventFields = {
  [
    K in PublishedEvent['type']
  ]: `${K}.${Exclude<KeysOf<ByType<Theirs.ResponseStreamEvent, K>>, KeysOf<ByType<StreamEvent, K>>> & string}`
}[PublishedEvent['type']]
export type EveryFieldOfTheirEventsIsOurs = Holds<Equal<MissingEventFields, never>>

/** Their values of a field, ours in its place where ours carries items, tools or whole responses (held below). */
type Unfit<Ours, Their> = {
  [K in Exclude<keyof Ours & keyof Their, 'type'>]-?: [Exclude<Ours[K], undefined>] extends [
    Exclude<Their[K], undefined>,
  ]
    ? never
    : K
}[Exclude<keyof Ours & keyof Their, 'type'>]
type EventUnfit = {
  [
    K in Body['type'] & TypeOf<Theirs.ResponsesServerEvent>
  ]: `${K}.${Unfit<ByType<Event, K>, ByType<Theirs.ResponsesServerEvent, K>> & string}`
}[Body['type'] & TypeOf<Theirs.ResponsesServerEvent>]
type Wholes = 'created' | 'in_progress' | 'completed' | 'incomplete' | 'failed'
export type OurEventsFitTheirs = Holds<
  Equal<
    EventUnfit,
    // Items and responses are wider than theirs; annotations and logprobs are passed on unread.
    | `response.${Wholes}.response`
    | `response.output_item.${'added' | 'done'}.item`
    | `response.content_part.${'added' | 'done'}.part`
    | `response.output_text.${'delta' | 'done'}.logprobs`
  >
>
type OurError = Extract<Loose, { type: 'error' }>
export type OurErrorFrameFitsTheirs = Holds<OurError extends Theirs.ResponsesServerEvent.ResponseWsError ? true : false>

// ── the response ─────────────────────────────────────────────────────────────────────────────────────────────────────
export type OurResponseFitsTheirs = [
  // Read-only here, and wider: items resent from elsewhere, tools of newer clients, reasons and codes of our own.
  Holds<
    Equal<
      Unfit<Response, Theirs.Response>,
      'output' | 'tools' | 'tool_choice' | 'incomplete_details' | 'error' | 'service_tier' | 'usage' | 'reasoning'
    >
  >,
  // On the wire of the original though not in its types (recorded), and the mark of an interrupted turn.
  Holds<
    Equal<
      Exclude<keyof Response, keyof Theirs.Response>,
      'store' | 'frequency_penalty' | 'presence_penalty' | 'end_turn'
    >
  >,
]
type Needed<T> = { [K in keyof T]-?: undefined extends T[K] ? never : K }[keyof T]
/** Computed by their client, and a list of programs that only they run. */
export type NothingTheyNeedIsLacking = Holds<
  Equal<Exclude<Needed<Theirs.Response>, keyof Response>, 'output_text' | 'access_programs'>
>
