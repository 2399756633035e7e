// A conversation, item by item, into what a family writes. Everything that one item leaves for the next is in `State`, so
// that going on from a state and starting anew give the same (law 1).
import type { Naming } from '../protocol/functions.ts'
import type { Item } from '../protocol/items.ts'
import type { Chain, Generated } from '../turn/chain.ts'
import type { Tokenizer } from '../turn/ports.ts'
import type { TokenRun } from '../turn/tokens.ts'
import type { Family, Head, Kind, Segment, Turn, TurnPiece } from './family.ts'
import { Ink } from './ink.ts'
import { owed } from './owed.ts'
import { answered, type Calls, callsBehind, noCalls } from './call-numbers.ts'
import { CallNames } from './call-names.ts'
import { type Cycle, cycleBehind, noCycle } from './cycles.ts'
import { beginsAnew, pieceOf, segmentOf, turnOf } from './turns.ts'

/** Where a fold left off. */
export type State = {
  /** Leading system messages in one text; undefined for none. */
  readonly lead: string | undefined
  readonly headed: boolean
  readonly before: Kind
  /** Items of the model that a client sent: one message that may still grow. */
  readonly turn: readonly TurnPiece[]
  /** Plain text behind the last control token, not encoded yet. */
  readonly text: string
  /** Behind the last user message stands something that a next one would rewrite. */
  readonly changes: boolean
  /** Kept for families that hold on to reasoning until an answer. */
  readonly cycle: Cycle
  /** Without those of `turn`. */
  readonly calls: Calls
  /** Items so far. */
  readonly items: number
}
/** The end of the newest user message, to which a conversation is cut back when its reasoning is dropped. */
export type Mark = { readonly link: Chain; readonly from: number; readonly tokens: TokenRun; readonly state: State }

export const start: State = {
  lead: undefined,
  headed: false,
  before: 'head',
  turn: [],
  text: '',
  changes: false,
  cycle: noCycle,
  calls: noCalls,
  items: 0,
}
export type Way = {
  readonly family: Family
  readonly tokenizer: Tokenizer
  readonly controls: RegExp
  readonly head: Omit<Head, 'system'>
  readonly instructions: string | null
  readonly naming: Naming
}

export class Fold {
  readonly ink: Ink
  /** The newest user message that this fold has written: where among the pieces, and the state behind it. */
  mark: { readonly piece: number; readonly link: Chain; readonly from: number; readonly state: State } | undefined
  /** The first item that was written without its reasoning. */
  dropped: number | undefined
  /** Items that were rendered, those with ids of their own left out. */
  rendered = 0
  /** Pieces at the start of each item, for whoever asks. */
  readonly starts: number[] = []
  readonly #way: Way
  readonly #names: CallNames
  #lead: string | undefined
  #headed: boolean
  #before: Kind
  #turn: TurnPiece[]
  #turnKept = true
  #changes: boolean
  #cycle: Cycle
  #calls: Calls
  #items: number
  #opened = false

  constructor(way: Way, state: State) {
    this.#way = way
    this.#names = new CallNames(way.naming)
    this.ink = new Ink(way.tokenizer, way.controls, state.text)
    this.#lead = state.lead
    this.#headed = state.headed
    this.#before = state.before
    this.#turn = [...state.turn]
    this.#changes = state.changes
    this.#cycle = state.cycle
    this.#calls = state.calls
    this.#items = state.items
  }
  get state(): State {
    return {
      lead: this.#lead,
      headed: this.#headed,
      before: this.#before,
      turn: [...this.#turn],
      text: this.ink.pending,
      changes: this.#changes || (this.#turn.length > 0 && this.#rewritten()),
      cycle: this.#cycle,
      calls: this.#calls,
      items: this.#items,
    }
  }
  /** `kept`: no user message follows that would drop its reasoning. */
  item(item: Item, link: Chain, n: number, kept: boolean): void {
    this.starts.push(this.ink.pieces.length)
    const { family, naming } = this.#way
    if (family.untilAnswer === true) this.#cycle = cycleBehind(this.#cycle, item)
    const piece = pieceOf(item, naming)
    this.#names.met(item, link, n)
    if (piece) {
      if (beginsAnew(this.#turn, piece)) this.#say()
      this.#turn.push(piece)
      this.#turnKept = kept
    } else {
      const segment = segmentOf(item, (callId) => this.#names.of(callId))
      if (segment) this.#segment(segment)
      if (segment?.kind === 'user' && this.#cycle.last !== 'called') {
        this.#changes = false
        this.mark = {
          piece: this.ink.pieces.length,
          link,
          from: n + 1,
          state: { ...this.state, items: this.#items + 1 },
        }
      }
    }
    this.#items++
  }
  /** A link with the ids that the model wrote for it. */
  generated(link: Chain, generated: Generated): void {
    this.open()
    this.ink.ids(generated.opening)
    this.ink.ids(generated.ids)
    this.behind(link, generated)
  }
  /** Going on directly behind a link's generated ids. */
  behind(link: Chain, { opening, ids, stop }: Generated): void {
    const { family, naming, head, tokenizer } = this.#way
    const turn = this.#turnOf(link.items.flatMap((item) => pieceOf(item, naming) ?? []))
    this.ink.flush()
    for (const [n, item] of link.items.entries()) {
      this.#names.met(item, link, n)
      this.starts.push(this.ink.pieces.length)
      if (family.untilAnswer === true) this.#cycle = cycleBehind(this.#cycle, item)
    }
    family.closed(this.ink, turn, stop ?? owed([opening, ids], family.pairs ?? [], tokenizer))
    this.#before = 'assistant'
    this.#opened = false
    this.#items += link.items.length
    if (changes(family, turn, this.#head(head))) this.#changes = true
  }
  /** Up to where the model's turn opens. */
  open(): void {
    if (this.#opened) return
    this.#opened = true
    this.#say()
    this.#writeHead()
    this.#way.family.leave?.(this.ink, this.#before, 'assistant')
    this.ink.flush()
  }
  /** What opens the model's turn. */
  opening(): void {
    this.open()
    const { family, head } = this.#way
    family.opening(this.ink, this.#before, this.#head(head))
    this.ink.flush()
  }

  #segment(segment: Segment): void {
    if (segment.kind === 'system' && !this.#headed && this.#turn.length === 0) {
      this.#lead = both(this.#lead, segment.text)
      return
    }
    this.#say()
    if (segment.kind !== 'tool') return this.#write(segment, true)
    const { number, calls } = answered(this.#calls, segment.callId)
    this.#calls = calls
    this.#write({ ...segment, number }, true)
  }
  /** The client's own assistant message is complete. */
  #say(): void {
    if (this.#turn.length === 0) return
    const turn = this.#turnOf(this.#turn)
    if (this.#rewritten()) {
      this.#changes = true
      if (!this.#turnKept) this.dropped ??= this.#items - this.#turn.length
    }
    this.#turn = []
    this.#write({ kind: 'assistant', turn }, this.#turnKept)
  }
  /** A turn that is complete. */
  #turnOf(pieces: readonly TurnPiece[]): Turn {
    const turn = turnOf(pieces, this.#calls.made)
    this.#calls = callsBehind(this.#calls, turn)
    return turn
  }
  #rewritten(): boolean {
    const { family, head } = this.#way
    return changes(family, turnOf(this.#turn), this.#head(head))
  }
  #write(segment: Segment, kept: boolean): void {
    const { family, head } = this.#way
    this.#writeHead()
    family.leave?.(this.ink, this.#before, segment.kind)
    family.segment(this.ink, segment, this.#before, kept, this.#head(head))
    this.#before = segment.kind
  }
  #writeHead(): void {
    if (this.#headed) return
    this.#way.family.head(this.ink, this.#head(this.#way.head))
    this.#headed = true
  }
  #head(head: Omit<Head, 'system'>): Head {
    const { instructions } = this.#way
    if (instructions === null || instructions === '') return { ...head, system: this.#lead }
    return { ...head, system: this.#lead === undefined ? instructions : both(instructions, this.#lead) }
  }
}
/** Neither is copied: heads are asked for with every message, and may be long. */
const both = (a: string | undefined, b: string): string => (a === undefined ? b : `${a}\n\n${b}`)

export const changes = (family: Family, turn: ReturnType<typeof turnOf>, head: Head): boolean =>
  family.changes ? family.changes(turn, head) : turn.reasoning !== ''
