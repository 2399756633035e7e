// A family and a tokenizer as a codec. Decides where an encoding goes on from: the tip of the last one, the user message
// behind which reasoning is dropped, or the start. engines-and-tokens: "never re-encode what you decoded".
import { setImmediate as others } from 'node:timers/promises'
import { type Naming, namingOf } from '../protocol/functions.ts'
import type { Item } from '../protocol/items.ts'
import { toolsJson } from '../protocol/known-tools.ts'
import type { Settings } from '../protocol/request.ts'
import { type Callable, callables, type Tool } from '../protocol/tools.ts'
import type { Chain, Generated } from '../turn/chain.ts'
import type { Broke, Codec, Constraint, Decoder, Encoded, Tokenizer } from '../turn/ports.ts'
import { TokenRun } from '../turn/tokens.ts'
import { Constraints } from './constrain.ts'
import { type Cycle, lastQuery, type Part } from './cycles.ts'
import { type Base, difference } from './differ.ts'
import { ItemDecoder } from './decoder.ts'
import { changes, Fold, type Mark, start, type State, type Way } from './fold.ts'
import type { Family, Head, Retention } from './family.ts'
import { controlsOf, encodeAll, Ink } from './ink.ts'
import { kindBehind, picturesIn, pieceOf, turnOf, unsupportedPicture } from './turns.ts'
import { wantOf } from './want.ts'

export type CodecOptions = {
  readonly retention?: Retention | undefined
  /** Ends its id: what a codec that is called otherwise has rendered, or heard from a model, is unknown to it. */
  readonly apart?: string | undefined
}
type Memo = { readonly base: Base; readonly state: State; readonly mark: Mark | undefined }
type From = {
  readonly run: TokenRun
  readonly state: State
  readonly mark: Mark | undefined
  readonly links: readonly Part[]
}
type Offer = { readonly tools: readonly Callable[]; readonly naming: Naming }

/** Throws an Error with a sentence when the tokenizer lacks a control token that the family cannot do without. */
export function familyCodec(family: Family, tokenizer: Tokenizer, options: CodecOptions = {}): FamilyCodec {
  return new FamilyCodec(family, tokenizer, options)
}

export class FamilyCodec implements Codec {
  readonly id: string
  readonly tokenizer: Tokenizer
  readonly stops: readonly number[]
  /** Heads, and items, rendered since the start: tests hold them against what was new. */
  readonly rendered = { heads: 0, items: 0 }
  readonly #family: Family
  readonly #retention: Retention
  readonly #controls: RegExp
  readonly #constraints = new Constraints()
  readonly #offers = new WeakMap<readonly Tool[], WeakMap<readonly Tool[], Offer>>()

  constructor(family: Family, tokenizer: Tokenizer, { retention = family.retention, apart = '' }: CodecOptions) {
    const missing = family.needs.filter((name) => tokenizer.control(name) === undefined)
    if (missing.length > 0)
      throw new Error(
        `the tokenizer lacks ${missing.map((m) => JSON.stringify(m)).join(', ')}, which the chat format '${family.name}' needs; choose another codec or tokenizer`,
      )
    this.#family = family
    this.#controls = controlsOf(family)
    this.#retention = retention
    this.tokenizer = tokenizer
    this.id = `${family.name}/${retention}/${tokenizer.id}${apart}`
    this.stops = family.stops.flatMap((name) => tokenizer.control(name) ?? [])
  }

  encode(chain: Chain, settings: Settings, cached?: Encoded): Encoded | Promise<Encoded> {
    const asked = this.#base(chain, settings)
    const before = cached?.codec === this.id ? (cached.state as Memo) : undefined
    // Each request says it all again, in strings of its own; every link would hold them.
    const base = before && sameBase(before.base, asked) ? before.base : asked
    if (cached && before && cached.upto === chain && sameBase(before.base, base)) return cached

    const way = this.#way(chain, base)
    const from = (before && cached && this.#goOn(chain, base, cached, before)) ?? {
      run: TokenRun.empty,
      state: start,
      mark: undefined,
      links: (chain.since(undefined) ?? []).map((link) => ({ link, from: 0 })),
    }
    const fold = new Fold(way, from.state)
    const run = this.#fold(fold, from, cached)
    this.rendered.items += fold.rendered
    if (!from.state.headed) this.rendered.heads++

    const { state } = fold
    const tip = new Fold(way, state)
    tip.open()
    const place = tip.ink.pieces.length
    tip.opening()
    const { pieces } = fold.ink
    const at = fold.mark?.piece ?? 0
    const parts = [pieces.slice(0, at), pieces.slice(at), tip.ink.pieces.slice(0, place), tip.ink.pieces.slice(place)]
    return whenAll(
      parts.map((part) => encodeAll(part, this.tokenizer)),
      ([first = [], second = [], third = [], fourth = []]) => {
        const marked = run.append(first)
        const tokens = marked.append(second)
        const opened = tokens.append(third)
        const prompt = opened.append(fourth)
        const mark = fold.mark ? { ...fold.mark, tokens: marked } : from.mark
        const broke = cached && before ? this.#broke(chain, cached, before.base, base, prompt, fold) : undefined
        const memo: Memo = { base, state, mark: this.#retention === 'all' ? undefined : mark }
        const grew = cached !== undefined && (from.run === cached.tokens || run !== from.run)
        return { codec: this.id, upto: chain, tokens, prompt, opens: opened.length, grew, state: memo, broke }
      },
    )
  }
  decoder(settings: Settings, chain: Chain): Decoder {
    const base = this.#base(chain, settings)
    const { tools } = this.#offer(base)
    const head = headOf(base, tools)
    return new ItemDecoder(
      this.#family,
      this.#family.parser(head, kindBehind(chain)),
      this.tokenizer,
      tools,
      settings.tool_choice === 'none',
    )
  }
  written(items: readonly Item[], settings: Settings, chain: Chain): number[] | Promise<number[]> {
    const base = this.#base(chain, settings)
    const { tools, naming } = this.#offer(base)
    const ink = new Ink(this.tokenizer, this.#controls)
    const turn = turnOf(
      items.flatMap((item) => pieceOf(item, naming) ?? []),
      this.#callsIn(chain),
    )
    this.#family.spoken(ink, turn, headOf(base, tools), kindBehind(chain))
    ink.flush()
    return encodeAll(ink.pieces, this.tokenizer)
  }
  constraint(settings: Settings, chain: Chain): Constraint | undefined {
    const places = this.#family.pictures ?? []
    if (chain.pictures > 0 && this.pictures(chain).length < chain.pictures)
      throw unsupportedPicture(`the chat format '${this.#family.name}'`, places)
    const before = kindBehind(chain)
    return this.#constraints.of(settings, chain.tools, before, () => {
      const base = this.#base(chain, settings)
      const { tools } = this.#offer(base)
      const want = wantOf(settings, tools)
      return want && this.#family.constrain(want, headOf(base, tools), before)
    })
  }
  pictures(chain: Chain): readonly string[] {
    return picturesIn(chain, this.#family.pictures ?? [])
  }
  async layout(chain: Chain, settings: Settings): Promise<{ ids: Uint32Array; starts: number[] }> {
    const base = this.#base(chain, settings)
    const links = (chain.since(undefined) ?? []).map((link) => ({ link, from: 0 }))
    const fold = new Fold(this.#way(chain, base), start)
    this.#fold(fold, { run: TokenRun.empty, state: start, mark: undefined, links }, undefined)
    fold.opening()
    const { starts, ink } = fold
    const ids: number[] = []
    const at: number[] = []
    for (let n = 0; n < ink.pieces.length; n++) {
      while (at.length < starts.length && (starts[at.length] ?? 0) <= n) at.push(ids.length)
      for (const id of await encodeAll(ink.pieces.slice(n, n + 1), this.tokenizer)) ids.push(id)
      if (n % 256 === 255) await others()
    }
    while (at.length < starts.length) at.push(ids.length)
    return { ids: Uint32Array.from(ids), starts: at }
  }

  /** Writes the links, and returns the run that the pieces are to be appended to. */
  #fold(fold: Fold, from: From, cached: Encoded | undefined): TokenRun {
    const last = this.#retention === 'all' ? undefined : lastQuery(from.links, this.#cycle(from.state))
    let run = from.run
    for (const [n, { link, from: first }] of from.links.entries()) {
      const kept = (item: number): boolean => !last || n > last.link || (n === last.link && item >= last.item)
      const { generated } = link
      if (generated?.codec === this.id && (kept(0) || !this.#changes(link))) {
        // The plain loop: the model's own ids are already behind the prompt that it was given.
        if (
          n === 0 &&
          cached &&
          link.parent === cached.upto &&
          from.run === cached.tokens &&
          follows(generated, cached)
        ) {
          fold.open()
          fold.ink.pieces.length = 0
          run = generated.run
          fold.behind(link, generated)
        } else fold.generated(link, generated)
        continue
      }
      for (let item = first; item < link.items.length; item++) {
        const it = link.items[item]
        if (it) fold.item(it, link, item, kept(item))
      }
      fold.rendered += link.items.length - first
    }
    return run
  }
  /** Where to go on from an earlier encoding; undefined where nothing of it holds. */
  #goOn(chain: Chain, base: Base, cached: Encoded, { base: was, state, mark }: Memo): From | undefined {
    const fresh = sameBase(was, base) ? chain.since(cached.upto) : undefined
    if (!fresh) return undefined
    const links = fresh.map((link) => ({ link, from: 0 }))
    if (this.#retention === 'all' || !state.changes || !lastQuery(links, this.#cycle(state)))
      return { run: cached.tokens, state, mark, links }
    if (!mark) return undefined
    const since = chain.since(mark.link)
    if (!since) return undefined
    return {
      run: mark.tokens,
      state: mark.state,
      mark,
      links: [{ link: mark.link, from: mark.from }, ...since.map((link) => ({ link, from: 0 }))],
    }
  }
  #broke(chain: Chain, cached: Encoded, was: Base, base: Base, prompt: TokenRun, fold: Fold): Broke | undefined {
    // What opened a turn that the model never took is no loss.
    const known = newestRun(chain, cached) ?? cached.tokens
    const at = known.common(prompt)
    if (at >= known.length) return undefined
    const why = difference(was, base)
    if (why !== undefined) return { at, item: undefined, why }
    if (fold.dropped !== undefined)
      return { at, item: fold.dropped, why: 'a new user message drops the reasoning in front of it' }
    return { at, item: undefined, why: 'the history was written differently before' }
  }
  #callsIn(chain: Chain): number {
    const { encoded } = chain
    const known = encoded?.codec === this.id ? (encoded.state as Memo).state : undefined
    if (known) return known.calls.made + turnOf(known.turn).calls.length
    return chain.all().filter((item) => pieceOf(item, plainNames)?.kind === 'call').length
  }
  #cycle({ cycle }: State): Cycle | undefined {
    return this.#family.untilAnswer === true ? cycle : undefined
  }
  #changes(link: Chain): boolean {
    // Whether a turn changes does not depend on settings in any family that keeps to its template.
    return changes(this.#family, turnOf(link.items.flatMap((item) => pieceOf(item, plainNames) ?? [])), noHead)
  }
  #base(chain: Chain, settings: Settings): Base {
    const effort = settings.reasoning?.effort ?? null
    return {
      instructions: settings.instructions,
      tools: settings.tools,
      brought: chain.tools,
      thinking: effort !== 'none',
      effort,
      date: new Date(chain.began).toISOString().slice(0, 10),
    }
  }
  #way(chain: Chain, base: Base): Way {
    const { tools, naming } = this.#offer(base)
    return {
      family: this.#family,
      tokenizer: this.tokenizer,
      controls: this.#controls,
      head: headOf(base, tools),
      instructions: base.instructions,
      naming,
    }
  }
  #offer({ tools, brought }: Base): Offer {
    let byBrought = this.#offers.get(tools)
    if (!byBrought) this.#offers.set(tools, (byBrought = new WeakMap()))
    let offer = byBrought.get(brought)
    if (!offer) {
      const all = callables(brought, tools)
      byBrought.set(brought, (offer = { tools: all, naming: namingOf(all) }))
    }
    return offer
  }
}

const plainNames = namingOf([])
const noHead: Head = { system: undefined, tools: [], thinking: true, effort: null, date: '' }
const headOf = ({ thinking, effort, date }: Base, tools: readonly Callable[]): Head => ({
  system: undefined,
  tools,
  thinking,
  effort,
  date,
})

function sameBase(a: Base, b: Base): boolean {
  return (
    a.instructions === b.instructions &&
    a.thinking === b.thinking &&
    a.effort === b.effort &&
    a.date === b.date &&
    sameTools(a.tools, b.tools) &&
    sameTools(a.brought, b.brought)
  )
}
const sameTools = (a: readonly Tool[], b: readonly Tool[]): boolean => a === b || toolsJson(a) === toolsJson(b)

/** What was generated stands behind this very prompt: the link in front may have been encoded under other settings since. */
const follows = (generated: Generated, { prompt }: Encoded): generated is Generated & { readonly run: TokenRun } =>
  generated.run !== undefined && generated.run.common(prompt) === prompt.length

/** What the engine knew after the newest turn that followed `cached`. */
function newestRun(chain: Chain, cached: Encoded): TokenRun | undefined {
  for (let link: Chain | undefined = chain; link && link !== cached.upto; link = link.parent)
    if (link.generated?.run) return link.generated.run
  return undefined
}
/** Now where nothing has to be waited for. */
function whenAll<T>(
  all: readonly (number[] | Promise<number[]>)[],
  then: (ids: readonly number[][]) => T,
): T | Promise<T> {
  if (all.some((ids) => ids instanceof Promise)) return Promise.all(all.map((ids) => Promise.resolve(ids))).then(then)
  return then(all as readonly number[][])
}
