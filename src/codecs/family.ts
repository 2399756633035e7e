// What one family of chat formats must say of itself; codec.ts makes a codec of it. A family renders segment by segment,
// each knowing only what stands in front of it, so that a conversation can be appended to for ever.
import type { Callable } from '../protocol/tools.ts'
import type { Constraint, Finish } from '../turn/ports.ts'

/**
 * What becomes of old reasoning. `all`: it stays. `tool_cycle`: a new user message drops the reasoning in front of it, as
 * the family's own template does.
 */
export type Retention = 'all' | 'tool_cycle'

/** What stands in front of a conversation. */
export type Head = {
  /** Instructions, and the system and developer messages that lead the conversation, joined by empty lines. */
  readonly system: string | undefined
  readonly tools: readonly Callable[]
  /** False: the request wants no reasoning. */
  readonly thinking: boolean
  /** `reasoning.effort` as the request has it. */
  readonly effort: string | null
  /** Day on which the conversation began, `2026-07-26`, so that midnight breaks no prefix. */
  readonly date: string
}
/** A picture as a data URL, in the place where it stands among the texts. */
export type Part = string | { readonly image: string }

/** Model-authored items that belong together: what one assistant message of a chat template holds. */
export type Turn = {
  /** In the order in which they were written. */
  readonly pieces: readonly TurnPiece[]
  /** All reasoning, joined by empty lines; all text, joined; all calls. */
  readonly reasoning: string
  readonly text: string
  readonly calls: readonly TurnCall[]
  /** Calls of the conversation in front of this turn. */
  readonly earlier: number
}
export type TurnPiece =
  | { readonly kind: 'reasoning'; readonly text: string }
  | { readonly kind: 'text'; readonly text: string; readonly phase: 'commentary' | 'final_answer' | undefined }
  | ({ readonly kind: 'call' } & TurnCall)
/** `arguments`: JSON text as the model or the client wrote it, of a custom tool `{"input": …}`. */
export type TurnCall = { readonly name: string; readonly callId: string; readonly arguments: string }

/** Which call of its turn, and of the conversation; both count from 0. */
export type CallNumber = { readonly inTurn: number; readonly inAll: number }

export type Segment =
  /** A system or developer message that does not lead. */
  | { readonly kind: 'system'; readonly text: string }
  | { readonly kind: 'user'; readonly parts: readonly Part[] }
  /** `name`: of the function that was called, where its call is known; `number`: which of the calls it was. */
  | {
      readonly kind: 'tool'
      readonly callId: string
      readonly name: string | undefined
      readonly number?: CallNumber | undefined
      readonly parts: readonly Part[]
    }
  | { readonly kind: 'assistant'; readonly turn: Turn }
/** What opens something and what closes it, by the names of control tokens. */
export type Pair = readonly [opens: string, closes: string]
export type Owed = {
  /** Closing markers, the innermost first. */
  readonly closers: readonly string[]
  /** What stands behind the last marker of a pair, other control tokens by name. */
  readonly text: string
}

export type Kind = 'head' | Segment['kind']

/** Where a family writes. Text is gathered until the next control token and encoded in one piece. */
export interface Pen {
  /** The control token of this name; as text where the tokenizer has none. */
  control(name: string): void
  /** Plain text: whatever it looks like, it makes no control token. */
  text(text: string): void
  /** The format's own words: control tokens in them by name. Never for anything that a client or a model wrote. */
  markup(text: string): void
}

export interface Family {
  readonly name: string
  readonly retention: Retention
  /** True where reasoning stays while a tool loop runs: a user message drops it only once the model has answered. */
  readonly untilAnswer?: boolean
  /** Control tokens without which this format cannot be written; a tokenizer that lacks one is refused at start. */
  readonly needs: readonly string[]
  /** Control tokens that end the model's turn, the usual one first. */
  readonly stops: readonly string[]
  /** Further markers that the parser wants to hear of: as ids where the tokenizer has them, else found in the text. */
  readonly markers: readonly string[]
  /** What opens and closes parts of the model's turn: they tell what one that broke off still owes. */
  readonly pairs?: readonly Pair[]
  /** Where pictures have a place in the format: in messages of these kinds, each as one placeholder. Default: nowhere. */
  readonly pictures?: readonly ('user' | 'tool')[]

  /** Everything in front of the first message. Written once. */
  head(pen: Pen, head: Head): void
  /**
   * One message, or one of a run. `before` is what stands in front of it. Of an assistant segment everything from its
   * opening to its end; `kept` says whether its reasoning is shown.
   */
  segment(pen: Pen, segment: Segment, before: Kind, kept: boolean, head: Head): void
  /** What ends `before` once it is known what follows: for messages that several tool outputs share. Default: nothing. */
  leave?(pen: Pen, before: Kind, next: Segment['kind']): void
  /** What opens the model's turn: a control token first, or nothing at all. */
  opening(pen: Pen, before: Kind, head: Head): void
  /** What a model writes behind the opening for this turn, with the control token that ends it. */
  spoken(pen: Pen, turn: Turn, head: Head, before: Kind): void
  /**
   * What stands behind ids that a model wrote. `end`: the token with which it ended its turn, which is not among them; of a
   * turn that broke off what it owes by `pairs`.
   */
  closed(pen: Pen, turn: Turn, end: string | Owed): void
  /** Does dropping reasoning change how this turn is written? Default: where it has some. */
  changes?(turn: Turn, head: Head): boolean

  /** One per generation. `before`, as in `opening`, is what the model goes on from. */
  parser(head: Head, before: Kind): Parser
  /** How this format writes what is wanted. Throws ApiError `unsupported_by_engine` for what it cannot hold the model to. */
  constrain(want: Want, head: Head, before: Kind): Constraint
}

/** What a request asks of the output: an answer that fits a schema, calls whose arguments do, or either. */
export type Want = {
  readonly answer: Readonly<Record<string, unknown>> | undefined
  /** The tools that may be called. */
  readonly tools: readonly Callable[]
  /** One call at least; one call at most. */
  readonly must: boolean
  readonly one: boolean
}

/** Hears of markers and of the text between them. */
export interface Parser {
  marker(name: string, out: Out): void
  text(text: string, out: Out): void
  /** The engine has ended without a token that ends the turn. */
  end(out: Out, finish: Finish | undefined): void
}
/** What a parser says. Opening an item ends the one before it. */
export interface Out {
  reasoning(text: string): void
  text(text: string, phase?: 'commentary' | 'final_answer'): void
  /** A call begins, under the name that the model knows. */
  call(name: string, callId?: string): void
  /** JSON text. */
  arguments(text: string): void
  /** The open item ends; the marker that was just heard belongs to it. `at`: where it does not, ids up to its end. */
  end(at?: number): void
  /** The open item ends; the marker that was just heard opens the next one. */
  endBefore(): void
  /** What was said ends broken off; `at` as of `end`. */
  breakOff(at?: number): void
  /** Ids so far. */
  readonly at: number
  /** Ids in front of the marker that was just heard. */
  readonly before: number
  readonly open: 'reasoning' | 'text' | 'call' | undefined
}
