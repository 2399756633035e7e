// What of a request an engine holds its output to: checked before the response begins, made once for as long as the codec
// gives the same constraint. Owns the option `grammars`, and which field of the request a refusal names.
import { z } from 'zod'
import { ApiError } from '../protocol/errors.ts'
import type { Settings } from '../protocol/request.ts'
import type { Chain } from '../turn/chain.ts'
import type { Call, Constraint, Content, Prompt } from '../turn/ports.ts'
import { openingOf } from './gbnf.ts'
import { advised, alike, answerOf } from './grammar-advice.ts'
import { checkClientGrammar, checkClientSchema } from './grammar-check.ts'

export const grammarOptions = {
  /**
   * `hold`: the output is held to strict tools and to grammars of custom tools, and a request whose tools it cannot be held
   * to is refused. `advise`: the model is only told of them; a `text.format` and a forced `tool_choice` still hold.
   */
  grammars: z.enum(['hold', 'advise']).default('hold'),
}
export type Grammars = 'hold' | 'advise'

/** What a rule is made with. Nothing is known of the prompt where it is only checked. */
export type How = {
  readonly control: ((name: string) => number | undefined) | undefined
  readonly stops: readonly number[]
  /** Their names. */
  readonly ends: readonly string[]
  /** The prompt has begun the reasoning that the rule stands behind. */
  readonly opened: boolean
  /** What else the engine tells rules apart by. */
  readonly way: string
}
const unknown: How = { control: undefined, stops: [], ends: [], opened: false, way: '' }

type Entry<T> = { readonly rule: Constraint | undefined; readonly made: Map<string, T> }
/** Ways in which one rule is made. */
const most = 8
/** Ids at the end of a prompt among which the token stands that begins the reasoning. */
const tail = 8

export class Holder<T> {
  readonly #engine: string
  readonly #grammars: Grammars
  readonly #make: (rule: Constraint, how: How) => T
  readonly #entries = new WeakMap<Constraint, Entry<T>>()
  /** How the newest rule was made: most likely the next one is, too. */
  #usual: { readonly key: string; readonly how: How } = { key: '', how: unknown }

  /** `make` throws ApiError `unsupported_by_engine` for what the engine cannot be held to. */
  constructor(engine: string, grammars: Grammars, make: (rule: Constraint, how: How) => T) {
    this.#engine = engine
    this.#grammars = grammars
    this.#make = make
  }
  /** Throws ApiError with the field that asks for what this engine cannot do, or must not see. */
  admit(settings: Settings, chain: Chain, constraint: Constraint | undefined): void {
    if (constraint) this.#entry(settings, chain, constraint)
  }
  /** What to tell the engine; undefined where it may write anything. */
  of({ settings, chain }: Pick<Call, 'settings' | 'chain'>, prompt: Prompt, way = ''): T | undefined {
    const { constraint, tokenizer, stops } = prompt
    if (!constraint) return undefined
    const { rule, made } = this.#entry(settings, chain, constraint)
    if (!rule) return undefined
    const opened = rule.after !== undefined && isOpen(prompt, openingOf(rule.after))
    const key = `${tokenizer.id} ${stops.join()} ${opened} ${way}`
    const known = made.get(key)
    if (known !== undefined) return known
    const control = (name: string): number | undefined => tokenizer.control(name)
    const how = { control, stops, ends: stops.flatMap((id) => tokenizer.nameOf(id) ?? []), opened, way }
    this.#usual = { key, how }
    return keep(made, key, this.#made(rule, how, settings))
  }

  #entry(settings: Settings, chain: Chain, constraint: Constraint): Entry<T> {
    const known = this.#entries.get(constraint)
    if (known) return known
    const rule = this.#grammars === 'advise' ? advised(constraint, settings, chain) : constraint
    const entry: Entry<T> = { rule, made: new Map() }
    if (rule) {
      this.#checked(rule, settings)
      const { key, how } = this.#usual
      keep(entry.made, key, this.#made(rule, how, settings))
    }
    this.#entries.set(constraint, entry)
    return entry
  }
  #checked(rule: Constraint, settings: Settings): void {
    for (const [content, field] of contentsOf(rule, settings)) {
      try {
        check(content, field)
      } catch (e) {
        throw this.#named(e, field)
      }
    }
  }
  #made(rule: Constraint, how: How, settings: Settings): T {
    try {
      return this.#make(rule, how)
    } catch (e) {
      if (e instanceof ApiError && e.param !== null) throw e
      // Which part of it was it? Where none alone, all together are too much.
      for (const [content, field] of contentsOf(rule, settings)) {
        try {
          this.#make({ after: undefined, rule: { type: 'whole', content } }, how)
        } catch (e) {
          throw this.#named(e, field)
        }
      }
      throw this.#named(e, rule.rule.type === 'whole' ? 'text.format' : 'tools')
    }
  }
  #named(e: unknown, field: Field): unknown {
    if (!(e instanceof ApiError)) return e
    const more = field === 'tools' && this.#grammars === 'hold' && e.code !== 'invalid_request'
    return new ApiError(e.code, more ? `${e.message} ${orAdvise(this.#engine)}` : e.message, e.param ?? field)
  }
}
/** For refusals of what would be taken as advice. */
export const orAdvise = (engine: string): string =>
  `With \`grammars: advise\` the engine '${engine}' only tells the model of strict tools and grammars.`

type Field = 'text.format' | 'tools'
/** What the output is held to, with the field that asks for it. */
function contentsOf({ rule }: Constraint, settings: Settings): [Content, Field][] {
  if (rule.type === 'whole') return [[rule.content, 'text.format']]
  const answer = answerOf(settings)
  const out = rule.tags.map(({ content }): [Content, Field] => {
    // Formats whose every message is a tag have the answer in one of them.
    const own = answer !== undefined && content.type === 'json' && alike(content.schema, answer)
    return [content, own ? 'text.format' : 'tools']
  })
  return rule.otherwise ? [...out, [rule.otherwise, 'text.format']] : out
}
function check(content: Content, field: Field): void {
  if (content.type === 'json' || content.type === 'xml') checkClientSchema(content.schema, field)
  else if (content.type === 'regex' || content.type === 'lark')
    checkClientGrammar({ type: 'grammar', syntax: content.type, definition: content.definition }, field)
  else if (content.type === 'sequence')
    for (const part of content.parts) if (typeof part !== 'string') check(part, field)
}
/** Behind the token nothing stands but white space. */
function isOpen({ run, tokenizer }: Prompt, opening: string): boolean {
  return tokenizer.decode(run.view().subarray(-tail)).trimEnd().endsWith(opening)
}
function keep<T>(made: Map<string, T>, key: string, value: T): T {
  if (made.size >= most) made.clear()
  made.set(key, value)
  return value
}
