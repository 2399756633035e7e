// The codec of every chat template that has no family of its own: the whole conversation is rendered for each turn, and what
// begins as before keeps its ids. Slower than a family (some 10 ms a hundred messages), and never wrong about the format.
import { createHash } from 'node:crypto'
import { type Naming, namingOf } from '../protocol/functions.ts'
import type { Item } from '../protocol/items.ts'
import { toolsJson } from '../protocol/known-tools.ts'
import type { Settings } from '../protocol/request.ts'
import { type Callable, callables, type Tool } from '../protocol/tools.ts'
import type { Chain } from '../turn/chain.ts'
import type { Broke, Codec, Constraint, Decoder, Encoded, Tokenizer } from '../turn/ports.ts'
import { TokenRun } from '../turn/tokens.ts'
import { tellEncoded } from '../turn/trace.ts'
import { Constraints } from './constrain.ts'
import { ItemDecoder } from './decoder.ts'
import { type Base, difference } from './differ.ts'
import type { Head } from './family.ts'
import { encodeAll, Ink } from './ink.ts'
import { type Dialect, DialectParser, plain } from './jinja-dialect.ts'
import { isMark } from './jinja-marks.ts'
import type { Mapping } from './jinja-messages.ts'
import { mappingOf, openingsOf, stopOf, write } from './jinja-probe.ts'
import { ChatTemplate, type Variables } from './jinja-template.ts'
import { kindBehind, pieceOf, segmentOf, textOfParts, turnOf, unsupportedPicture } from './turns.ts'
import { wantOf } from './want.ts'

export type JinjaOptions = {
  /** How the model writes calls and reasoning: a family, of which only that is used. Default: text, and <think>. */
  readonly dialect?: Dialect | undefined
  /** What is kept of old reasoning is the template's affair: anything but `template` is refused. */
  readonly retention?: 'template' | 'all' | 'tool_cycle' | undefined
  /** As of a tokenizer_config.json: `bos_token`, `eos_token` and what else the template may ask for. */
  readonly variables?: Variables | undefined
  /** As of familyCodec. */
  readonly apart?: string | undefined
  /** Of the same template: what was found out about it by trying is not tried again. */
  readonly like?: JinjaCodec | undefined
  /** Default: found out by trying. */
  readonly mapping?: Mapping | undefined
}
/** A control id, plain text, or ids that a model wrote. */
type Unit = number | string | Uint32Array
/** What stands in front of the opening. Arrays are shared by encodings that grow from one another; `count` is what counts. */
type Known = { readonly keys: string[]; readonly ends: number[]; readonly count: number }
type Memo = { readonly base: Base; readonly known: Known }

/** Openings that are kept, one for each effort. */
const maxOpenings = 32

/**
 * Throws an Error with a sentence for a template that cannot be read, renders nothing, does not end, or never says where the
 * model's turn ends. Limits of every render: see jinja-template.ts.
 */
export function jinjaCodec(template: string, tokenizer: Tokenizer, options: JinjaOptions = {}): JinjaCodec {
  return new JinjaCodec(template, tokenizer, options)
}

export class JinjaCodec implements Codec {
  readonly id: string
  readonly tokenizer: Tokenizer
  readonly stops: readonly number[]
  readonly #template: ChatTemplate
  readonly #mapping: Mapping
  readonly #dialect: Dialect
  readonly #stopNames: readonly string[]
  readonly #constraints = new Constraints()
  readonly #openings: Map<string | null, readonly string[]>

  constructor(
    source: string,
    tokenizer: Tokenizer,
    { dialect = plain, retention, variables = {}, mapping, apart = '', like }: JinjaOptions,
  ) {
    if (retention !== undefined && retention !== 'template')
      throw new Error(`a chat template decides itself what it keeps: leave out \`retention: ${retention}\``)
    this.tokenizer = tokenizer
    this.#dialect = dialect
    this.#template = like ? like.#template : new ChatTemplate(source, tokenizer, variables)
    this.#mapping = like ? like.#mapping : (mapping ?? mappingOf(this.#template))
    this.#openings = like ? like.#openings : new Map<string | null, readonly string[]>()
    this.#stopNames = like ? like.#stopNames : this.#stopsOf(variables)
    if (this.#stopNames.length === 0)
      throw new Error(
        "no control token of the tokenizer ends the model's turn in this chat template; give the model's tokenizer_config.json with its `eos_token`, or another codec",
      )
    this.stops = this.#stopNames.flatMap((name) => tokenizer.control(name) ?? [])
    const what = createHash('sha256').update(JSON.stringify([source, this.#mapping, variables, dialect.name]))
    this.id = `jinja-${what.digest('base64url').slice(0, 16)}/template/${tokenizer.id}${apart}`
  }

  #stopsOf(variables: Variables): readonly string[] {
    const ends = [stopOf(this.#template, this.#mapping), tokenName(variables['eos_token'])]
    const { stops } = this.#dialect
    // Harmony ends messages within a turn by the token that a history shows at its end.
    const own = stops.includes('<|return|>') ? [] : ends
    return [...new Set([...own, ...stops])].filter(
      (name): name is string => name !== undefined && this.tokenizer.control(name) !== undefined,
    )
  }
  encode(chain: Chain, settings: Settings, cached?: Encoded): Encoded | Promise<Encoded> {
    const asked = baseOf(chain, settings)
    // A door: the state is our own where the codec is.
    const memo = cached?.codec === this.id ? (cached.state as Memo) : undefined
    // As in codec.ts: held once.
    const base = memo && sameBase(memo.base, asked) ? memo.base : asked
    if (cached && memo && cached.upto === chain && sameBase(memo.base, base)) return cached
    const before = memo?.known

    const text = this.#write(chain, base)
    const opens = this.#opens(text, base.effort)
    const units = this.#units(text.slice(0, opens), chain)
    const keys = units.map(keyOf)
    let same = 0
    if (before) while (same < Math.min(before.count, keys.length) && before.keys[same] === keys[same]) same++
    const from = same > 0 ? (before?.ends[same - 1] ?? 0) : 0
    const fresh = units.slice(same).map((unit) => this.#ids(unit))
    const opening = encodeAll(this.#template.marks.pieces(text.slice(opens)), this.tokenizer)
    const finish = (all: readonly ArrayLike<number>[], tail: readonly number[]): Encoded => {
      const known = grown(before, same, keys, all)
      const tokens = append(chain, cached?.tokens.cut(from) ?? TokenRun.empty, flat(all))
      const prompt = tokens.append(tail)
      const broke = cached && memo ? brokeAt(chain, cached, memo.base, base, prompt) : undefined
      return {
        codec: this.id,
        upto: chain,
        tokens,
        prompt,
        opens: tokens.length,
        grew: false,
        state: { base, known },
        broke,
      }
    }
    if (opening instanceof Promise || fresh.some((ids) => ids instanceof Promise))
      return Promise.resolve(opening).then(async (tail) => finish(await allOf(fresh), tail))
    return finish(fresh as ArrayLike<number>[], opening)
  }
  /** An item starts at the control token, or the text between two, in which its first words stand: one render tells no more. */
  async layout(chain: Chain, settings: Settings): Promise<{ ids: Uint32Array; starts: number[] }> {
    const text = this.#write(chain, baseOf(chain, settings))
    const items = chain.all().map((item) => wordsOf(item))
    const ids: number[] = []
    const starts: number[] = []
    for (const [n, unit] of this.#units(text, chain).entries()) {
      const shown = typeof unit === 'number' ? '' : typeof unit === 'string' ? unit : this.tokenizer.decode(unit)
      while (starts.length < items.length && shown.includes(items[starts.length] ?? '')) starts.push(ids.length)
      for (const id of await encodeAll(
        [unit].flatMap((u) => (typeof u === 'object' ? [...u] : u)),
        this.tokenizer,
      ))
        ids.push(id)
      if (n % 256 === 255) await new Promise((resolve) => setImmediate(resolve))
    }
    while (starts.length < items.length) starts.push(ids.length)
    return { ids: Uint32Array.from(ids), starts }
  }
  decoder(settings: Settings, chain: Chain): Decoder {
    const { head, tools } = this.#asked(settings, chain)
    const before = kindBehind(chain)
    const inner = this.#dialect.parser({ ...head, thinking: false }, before)
    const parser = new DialectParser(inner, this.#stopNames, this.#dialect.stops[0], this.#opened(settings, chain))
    const { source } = this.#template
    const markers = ['<think>', '</think>', ...this.#dialect.needs, ...this.#dialect.markers].filter(
      (name) => this.tokenizer.control(name) !== undefined || source.includes(name),
    )
    const spelling = { stops: this.#stopNames, markers, needs: [] }
    return new ItemDecoder(spelling, parser, this.tokenizer, tools, settings.tool_choice === 'none')
  }
  written(items: readonly Item[], settings: Settings, chain: Chain): number[] | Promise<number[]> {
    const { head, naming } = this.#asked(settings, chain)
    const { needs, markers, stops } = this.#dialect
    const tags = markers.includes('</think>') || needs.includes('</think>')
    const ink = new Ink(this.tokenizer, controls([...needs, ...markers, ...stops, '<think>', '</think>']))
    const turn = turnOf(items.flatMap((item) => pieceOf(item, naming) ?? []))
    const opened = this.#opened(settings, chain)
    if (tags && (opened || turn.reasoning !== '')) {
      if (!opened) ink.markup('<think>\n')
      ink.text(turn.reasoning)
      ink.markup('\n</think>\n\n')
    }
    const rest = tags ? { ...turn, reasoning: '', pieces: turn.pieces.filter((p) => p.kind !== 'reasoning') } : turn
    this.#dialect.spoken(ink, rest, { ...head, thinking: !tags && head.thinking }, kindBehind(chain))
    ink.flush()
    const { pieces } = ink
    const last = pieces.at(-1)
    const ends = stops.map((name) => this.tokenizer.control(name))
    if (typeof last === 'number' && ends.includes(last)) pieces.pop()
    const [stop] = this.stops
    if (stop !== undefined) pieces.push(typeof last === 'number' && this.stops.includes(last) ? last : stop)
    return encodeAll(pieces, this.tokenizer)
  }
  pictures(): readonly string[] {
    return []
  }
  constraint(settings: Settings, chain: Chain): Constraint | undefined {
    if (chain.pictures > 0) throw unsupportedPicture('a chat template of its own', [])
    const before = kindBehind(chain)
    return this.#constraints.of(settings, chain.tools, before, () => {
      const { head, tools } = this.#asked(settings, chain)
      const want = wantOf(settings, tools)
      if (!want) return undefined
      const { source } = this.#template
      const thinking = this.#opened(settings, chain) || (head.thinking && source.includes('<think>'))
      return this.#dialect.constrain(want, { ...head, thinking }, before)
    })
  }

  /** The settled text of a conversation, with what opens the model's turn. */
  #write(chain: Chain, base: Base): string {
    const tools = callables(base.brought, base.tools)
    const { instructions, effort } = base
    const asked = { items: chain.all(), instructions, tools, effort, date: chain.began, opened: true }
    return write(this.#template, this.#mapping, asked)
  }
  /** Where the opening of the model's turn begins: at a control token, or nowhere. */
  #opens(text: string, effort: string | null): number {
    for (const opening of this.#openingsFor(effort))
      if (isMark(opening) && text.endsWith(opening)) return text.length - opening.length
    return text.length
  }
  #openingsFor(effort: string | null): readonly string[] {
    let found = this.#openings.get(effort)
    if (!found) {
      if (this.#openings.size >= maxOpenings) this.#openings.clear()
      this.#openings.set(effort, (found = openingsOf(this.#template, this.#mapping, effort, 0)))
    }
    return found
  }
  /** Does the prompt leave the model inside its reasoning? */
  #opened(settings: Settings, chain: Chain): boolean {
    const found = this.#openingsFor(settings.reasoning?.effort ?? null)
    const opening = (kindBehind(chain) === 'tool' ? found[1] : undefined) ?? found[0] ?? ''
    const shown = this.#template.marks.shown(opening)
    return shown.lastIndexOf('<think>') > shown.lastIndexOf('</think>')
  }
  #asked(settings: Settings, chain: Chain): { head: Head; tools: readonly Callable[]; naming: Naming } {
    const base = baseOf(chain, settings)
    const tools = callables(base.brought, base.tools)
    const { effort, thinking, date } = base
    return { head: { system: undefined, tools, effort, thinking, date }, tools, naming: namingOf(tools) }
  }
  /**
   * A model's own ids stand wherever the template writes what they say, from the control token that opened its turn to the
   * one that ends it. This looks at the conversation and at the text only, never at what was encoded before (law 1).
   */
  #units(text: string, chain: Chain): Unit[] {
    const { marks } = this.#template
    const units: Unit[] = []
    let done = 0
    for (const { generated } of chain.since(undefined) ?? []) {
      if (generated?.codec !== this.id || generated.opening.length === 0) continue
      const ids = Uint32Array.from([...generated.opening, ...generated.ids])
      const said = marks.text(ids)
      if (said === undefined || !isMark(said)) continue
      let at = text.indexOf(said, done)
      while (at >= 0 && !isMark(text.charAt(at + said.length))) at = text.indexOf(said, at + 1)
      if (at < 0) continue
      units.push(...marks.pieces(text.slice(done, at)), ids)
      done = at + said.length
    }
    return [...units, ...marks.pieces(text.slice(done))]
  }
  #ids(unit: Unit): ArrayLike<number> | Promise<ArrayLike<number>> {
    if (typeof unit === 'number') return [unit]
    if (typeof unit !== 'string') return unit
    const ids = this.tokenizer.encode(unit)
    return ids instanceof Promise ? ids.then(told) : told(ids)
  }
}
function told(ids: ArrayLike<number>): ArrayLike<number> {
  tellEncoded(ids.length)
  return ids
}

function baseOf(chain: Chain, settings: Settings): Base {
  const effort = settings.reasoning?.effort ?? null
  const { instructions, tools } = settings
  const date = new Date(chain.began).toISOString().slice(0, 10)
  return { instructions, tools, brought: chain.tools, thinking: effort !== 'none', effort, date }
}
const sameTools = (a: readonly Tool[], b: readonly Tool[]): boolean => a === b || toolsJson(a) === toolsJson(b)
const sameBase = (a: Base, b: Base): boolean =>
  a.instructions === b.instructions &&
  a.effort === b.effort &&
  a.date === b.date &&
  sameTools(a.tools, b.tools) &&
  sameTools(a.brought, b.brought)

async function allOf<T>(values: readonly (T | Promise<T>)[]): Promise<T[]> {
  const out: T[] = []
  for (const value of values) out.push(await value)
  return out
}
/** Says what a unit is in a few bytes; of slices of a text, which would hold on to all of it, nothing is kept. */
function keyOf(unit: Unit): string {
  if (typeof unit === 'number') return String(unit)
  const hash = createHash('sha1').update(unit)
  return (typeof unit === 'string' ? 't' : 'i') + hash.digest('base64')
}
function grown(before: Known | undefined, same: number, keys: string[], fresh: readonly ArrayLike<number>[]): Known {
  // The array is gone on with only where nobody else has: then it ends where `before` does.
  const shared = before !== undefined && before.count === same && before.keys.length === same
  const [all, ends] = shared ? [before.keys, before.ends] : [keys.slice(0, same), before?.ends.slice(0, same) ?? []]
  let end = ends.at(-1) ?? 0
  for (const [n, ids] of fresh.entries()) {
    all.push(keys[same + n] ?? '')
    ends.push((end += ids.length))
  }
  return { keys: all, ends, count: same + fresh.length }
}
function flat(all: readonly ArrayLike<number>[]): Uint32Array {
  const out = new Uint32Array(all.reduce((sum, ids) => sum + ids.length, 0))
  let at = 0
  for (const ids of all) {
    out.set(ids, at)
    at += ids.length
  }
  return out
}
/** Grown from what the engine already has behind its newest turn, where that is how it goes on: nothing is copied then. */
function append(chain: Chain, run: TokenRun, more: Uint32Array): TokenRun {
  let link: Chain | undefined = chain
  while (link && link.generated?.run === undefined) link = link.parent
  const known = link?.generated?.run
  const rest = known ? known.length - run.length : 0
  if (known && rest > 0 && rest <= more.length && known.common(run) === run.length) {
    const view = known.view()
    let n = 0
    while (n < rest && view[run.length + n] === more[n]) n++
    if (n === rest) return known.append(more.subarray(rest))
  }
  return run.append(more)
}
function brokeAt(chain: Chain, cached: Encoded, was: Base, base: Base, prompt: TokenRun): Broke | undefined {
  let link: Chain | undefined = chain
  while (link && link !== cached.upto && link.generated?.run === undefined) link = link.parent
  const known = (link === cached.upto ? undefined : link?.generated?.run) ?? cached.tokens
  const at = known.common(prompt)
  if (at >= known.length) return undefined
  const why = difference(was, base) ?? 'the chat template writes the history otherwise than before'
  return { at, item: undefined, why }
}
/** The first words of an item that a template is likely to show. */
function wordsOf(item: Item): string {
  const piece = pieceOf(item, namingOf([]))
  const segment = segmentOf(item, () => undefined)
  const text =
    piece?.kind === 'call'
      ? piece.name
      : (piece?.text ??
        (segment?.kind === 'system' ? segment.text : segment && 'parts' in segment ? textOfParts(segment.parts) : ''))
  return text.trim().slice(0, 40).split('\n')[0] ?? ''
}
const tokenName = (value: unknown): string | undefined =>
  typeof value === 'object' && value !== null && 'content' in value
    ? String(value.content)
    : typeof value === 'string'
      ? value
      : undefined
function controls(names: readonly string[]): RegExp {
  const all = [...new Set(names)].toSorted((a, b) => b.length - a.length)
  return new RegExp(`(${all.map((name) => name.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)).join('|')})`)
}
