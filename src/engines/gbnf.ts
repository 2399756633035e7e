// A constraint as a GBNF grammar, for engines that sample by one: llama-server and embedded llama.cpp.
import type { Constraint, Content, Rule, Tag } from '../turn/ports.ts'
import { Rules, choice, empty, optional, sequence } from './grammar-expression.ts'
import type { Expression } from './grammar-expression.ts'
import { larkOf } from './grammar-lark.ts'
import { normalised } from './grammar-normal.ts'
import { quoted } from './grammar-quoted.ts'
import { regexOf } from './grammar-regex.ts'
import { JsonSchema } from './gbnf-json.ts'
import { taggedOf } from './gbnf-tagged.ts'
import { exactly, gap, unitsOf, until, without } from './gbnf-text.ts'
import type { Unit } from './gbnf-text.ts'
import { written } from './gbnf-write.ts'

export type GbnfOptions = {
  /**
   * Ids of control tokens by name. Those it knows are matched as tokens (`<[id]>`, in llama.cpp since December 2025);
   * without it, or where it says undefined, by their text.
   */
  readonly control?: ((name: string) => number | undefined) | undefined
  /** Ids that end the turn. A tag's end that is one of them is left out, since a grammar never sees it. Needs `control`. */
  readonly stops?: readonly number[] | undefined
  /** The prompt has begun the reasoning. Otherwise the model may, where the rule has something that ends it. */
  readonly opened?: boolean | undefined
  /** The grammar begins with one of `tagTriggers`, as a lazy grammar of llama.cpp is fed. */
  readonly lazy?: boolean | undefined
}

/**
 * Tokens that llama.cpp takes for the end of a turn whatever the model says (llama-vocab.cpp). One of them inside a grammar
 * can never be sampled, and a grammar that nothing can follow ends the process: they are matched by their text.
 */
const ends = new Set(
  (
    '<|eot_id|> <|im_end|> <|return|> <|call|> <|flush|> <|calls|> <end_of_turn> <|endoftext|> </s> <|eom_id|> <EOT> ' +
    '_<EOT> [EOT] [EOS] <|end_of_text|> <end_of_utterance> <eos> <turn|> <｜end▁of▁sentence｜>'
  ).split(' '),
)
/** `</think>` → `<think>`, `[/THINK]` → `[THINK]`: what begins the reasoning that a rule stands behind. */
export const openingOf = (after: string): string => after.replace('/', '')

/**
 * The grammar, its start being `root`: all that the model writes, its reasoning included, up to and without the token that
 * ends its turn. Throws ApiError for a schema or grammar that it cannot say.
 */
export function gbnfOf(constraint: Constraint, options: GbnfOptions = {}): string {
  const grammar = new Grammar(options)
  return written(...grammar.all(constraint))
}

/**
 * The texts at which a lazy grammar starts; the grammar is fed from the first character, or with the token, of what was
 * found. One that is a control token should go to llama-server as such: as a word of `grammar_triggers` it must also stand
 * among the `preserved_tokens`. None: the grammar holds from the first token on and is not lazy.
 */
export function tagTriggers(constraint: Constraint): readonly string[] {
  const { after, rule } = constraint
  if (after !== undefined || rule.type === 'whole' || rule.must || rule.otherwise !== undefined) return []
  return marksOf(rule.tags)
}

/**
 * What a text must hold to begin like one of the tags: the control token that a tag begins with; of tags that begin with
 * none, what they have in common, or all of it.
 */
function marksOf(tags: readonly Tag[]): readonly string[] {
  const begins = [...new Set(tags.map((tag) => bare(tag.begin)))]
  const leading = begins.flatMap((begin) => /^(?:<[^<>\s]+>|\[[A-Z_]+\])/.exec(begin)?.[0] ?? [])
  const plain = begins.filter((begin) => !leading.some((mark) => begin.startsWith(mark)))
  let [common = ''] = plain
  for (const begin of plain) while (!begin.startsWith(common)) common = common.slice(0, -1)
  return [...new Set([...leading, ...(common.length >= shortestMark ? [common] : plain)])]
}
/** A mark of fewer characters would stand in any text. */
const shortestMark = 4
/** Blanks before a tag belong to what stands before it. */
const bare = (begin: string): string => begin.trimStart() || begin
const isUnits = (part: unknown): boolean => Array.isArray(part)

class Grammar {
  readonly #rules = new Rules()
  readonly #options: GbnfOptions
  /** Names of the control tokens that stand in the constraint. */
  readonly #names = new Map<number, string>()

  constructor(options: GbnfOptions) {
    this.#options = options
  }
  all({ after, rule }: Constraint): [ReadonlyMap<string, Expression>, string] {
    const root = this.#rules.reserve('root')
    const lazy = this.#options.lazy === true
    const own = rule.type === 'whole' ? this.#answer(rule.content) : this.#tags(rule, lazy)
    this.#rules.set(root, sequence(after === undefined ? empty : this.#reasoning(after, rule), own))
    return [normalised(this.#rules, root), root]
  }
  /** Of a text its control tokens, but for those that end a turn, and what stands between them. */
  #units(value: string): Unit[] {
    const { control, stops = [] } = this.#options
    const named =
      control &&
      ((name: string): number | undefined => {
        const id = ends.has(name) ? undefined : control(name)
        if (id === undefined || stops.includes(id)) return undefined
        this.#names.set(id, name)
        return id
      })
    return unitsOf(value, named)
  }
  #marks(tags: readonly Tag[]): Unit[] {
    return marksOf(tags).map((mark) => {
      const [first] = this.#units(mark)
      return typeof first === 'number' ? first : mark
    })
  }
  /** Up to the token that ends it. It holds no calls: those in it would be read as such. */
  #reasoning(after: string, rule: Rule): Expression {
    const close = this.#units(after)
    const [first] = close
    const marks = rule.type === 'tags' ? this.#marks(rule.tags) : []
    const text =
      marks.length === 0 || first === undefined
        ? this.#until(close)
        : sequence(this.#without([typeof first === 'number' ? first : after, ...marks]), exactly(close))
    if (this.#options.opened === true) return text
    return optional(sequence(gap, exactly(this.#units(openingOf(after))), text))
  }
  #without(marks: readonly Unit[]): Expression {
    return without(marks, this.#rules, (id) => this.#names.get(id) ?? '')
  }
  #until(end: readonly Unit[]): Expression {
    return until(end, this.#rules, (id) => this.#names.get(id) ?? '')
  }

  /** A whole answer. Models put line ends in front of it, and JSON stays what it is. */
  #answer(content: Content): Expression {
    return sequence(content.type === 'json' ? gap : empty, this.#content(content, []))
  }
  /** `begun`: a tag has been seen to begin, so it comes first. */
  #tags(rule: Rule & { type: 'tags' }, begun: boolean): Expression {
    const { tags, must, one, otherwise } = rule
    if (otherwise !== undefined) {
      const called = this.#tags({ type: 'tags', tags, must: true, one }, begun)
      return choice(called, this.#answer(otherwise))
    }
    const made = tags.map((tag) => this.#tag(tag))
    const inner = this.#rules.add('tag', choice(...made.filter((tag) => !tag.last).map((tag) => tag.expression)))
    // A tag whose end is the end of the turn is the last one.
    const final = this.#rules.add('tag', choice(...made.filter((tag) => tag.last).map((tag) => tag.expression)))
    const every = choice(inner, final)
    if (must) {
      if (one) return sequence(gap, every)
      const rest = this.#rules.reserve('tags')
      const more: Expression = sequence(gap, { type: 'rule', name: rest })
      // Where calls end the turn, whatever else there is only leads up to one.
      const ends = made.some((tag) => tag.last)
      this.#rules.set(rest, choice(sequence(inner, ends ? more : optional(more)), final))
      return sequence(gap, { type: 'rule', name: rest })
    }
    const free = this.#without(this.#marks(tags))
    if (one) return begun ? every : sequence(free, optional(every))
    const rest = this.#rules.reserve('rest')
    const more = choice(sequence(inner, free, { type: 'rule', name: rest }), final)
    this.#rules.set(rest, optional(more))
    return begun ? more : sequence(free, { type: 'rule', name: rest })
  }
  #tag({ begin, content, end }: Tag): { expression: Expression; last: boolean } {
    const { control, stops = [] } = this.#options
    let stop: string | undefined
    unitsOf(end, (name) => {
      const id = control?.(name)
      if (id !== undefined && stops.includes(id)) stop ??= name
      return id
    })
    const before = stop === undefined ? end : end.slice(0, end.indexOf(stop))
    const inner = this.#content(content, this.#units(before))
    return { expression: sequence(exactly(this.#units(bare(begin))), inner), last: stop !== undefined }
  }

  /** The content with `end` behind it. */
  #content(content: Content, end: readonly Unit[]): Expression {
    if (content.type === 'text') return this.#until(end)
    if (content.type !== 'sequence') return sequence(this.#alone(content), exactly(end))
    const out: Expression[] = []
    // Parts that are texts side by side are one: text ends where they begin.
    const parts = [...content.parts.map((part) => (typeof part === 'string' ? this.#units(part) : part)), end]
    for (const [n, part] of parts.entries()) {
      const before = parts[n - 1]
      const open = before !== undefined && 'type' in before && before.type === 'text'
      if ('type' in part) out.push(part.type === 'text' && isUnits(parts[n + 1]) ? empty : this.#content(part, []))
      else out.push(open ? this.#until(part) : exactly(part))
    }
    return sequence(...out)
  }
  #alone(content: Exclude<Content, { type: 'text' | 'sequence' }>): Expression {
    if (content.type === 'json') return new JsonSchema(this.#rules, content.schema).all()
    if (content.type === 'xml') return taggedOf(content.style, content.schema, this.#rules, this.#options.control)
    if (content.type === 'lark') return larkOf(content.definition, this.#rules, { param: null, quoted: content.quoted })
    const e = regexOf(content.definition, { what: 'a custom tool', param: null })
    return content.quoted ? quoted(e) : e
  }
}
