// A constraint in the words of vLLM and SGLang: a JSON schema or a pattern where that is all of it, a structural tag (the
// format of xgrammar, which both run) for everything else. Reasoning in front is part of the tag: it then holds whether or
// not the server has a reasoning parser. Formats tried against xgrammar 0.2.9.
import { ApiError } from '../protocol/errors.ts'
import type { Constraint, Content, Rule, Tag } from '../turn/ports.ts'
import { gbnfOf, openingOf } from './gbnf.ts'

export type Structured =
  | { readonly type: 'json'; readonly schema: Readonly<Record<string, unknown>> }
  | { readonly type: 'regex'; readonly pattern: string }
  /** GBNF, of which xgrammar's EBNF is a superset. */
  | { readonly type: 'grammar'; readonly grammar: string }
  /** JSON, as text: both servers take it so. */
  | { readonly type: 'tag'; readonly tag: string }
export type StructuredOptions = {
  /** In error sentences. */
  readonly engine: string
  /** True for a control token: tags are recognised by the one they begin with. */
  readonly control?: ((name: string) => boolean) | undefined
  /** Names of the tokens that end the turn: an engine that knows them as such never sees them as text. */
  readonly stops?: readonly string[] | undefined
  /** The server starts the rule behind the reasoning by itself. */
  readonly gated?: boolean | undefined
  /** The prompt has begun the reasoning. Otherwise the model may, or not. */
  readonly opened?: boolean | undefined
}
type Format = Readonly<Record<string, unknown>>

/** UTF-16 units that one request's rule may have. */
const most = 1024 * 1024

/** Throws ApiError `unsupported_by_engine` for what neither can be told. */
export function structuredOf(constraint: Constraint, options: StructuredOptions): Structured {
  const { rule, after } = constraint
  if (after === undefined && rule.type === 'whole') {
    const { content } = rule
    if (content.type === 'json') return bounded({ type: 'json', schema: content.schema }, options)
    if (content.type === 'regex' && !content.quoted)
      return bounded({ type: 'regex', pattern: content.definition }, options)
    if (content.type === 'lark' || content.type === 'regex')
      return bounded({ type: 'grammar', grammar: grammarOf(content) }, options)
  }
  const format = after === undefined ? formatOf(rule, options) : reasoned(after, rule, options)
  return bounded({ type: 'tag', tag: JSON.stringify({ type: 'structural_tag', format }) }, options)
}
/** Up to two line ends, which models write behind their reasoning. */
const gap: Format = { type: 'regex', pattern: '\\n{0,2}' }
const nothing: Format = { type: 'const_string', value: '' }
/** Calls in the reasoning would be read as calls, so it has none. */
function reasoned(after: string, rule: Rule, options: StructuredOptions): Format {
  const ruled = formatOf(rule, options)
  if (options.gated === true) return sequence(gap, ruled)
  const excludes = rule.type === 'tags' ? triggersOf(rule.tags, options.control) : []
  const content: Format = excludes.length > 0 ? { type: 'any_text', excludes } : { type: 'any_text' }
  const thought = (begin: string): Format => ({ type: 'tag', begin, content, end: after })
  if (options.opened === true) return sequence(thought(''), gap, ruled)
  return sequence({ type: 'or', elements: [sequence(gap, thought(openingOf(after)), gap), gap] }, ruled)
}
const sequence = (...elements: readonly Format[]): Format => ({ type: 'sequence', elements })
function bounded(structured: Structured, { engine }: StructuredOptions): Structured {
  const size =
    structured.type === 'json'
      ? JSON.stringify(structured.schema).length
      : structured.type === 'tag'
        ? structured.tag.length
        : structured.type === 'regex'
          ? structured.pattern.length
          : structured.grammar.length
  if (size > most) throw new ApiError('unsupported_by_engine', `The schemas are too large for the engine '${engine}'.`)
  return structured
}

function formatOf(rule: Rule, options: StructuredOptions): Format {
  if (rule.type === 'whole') return contentOf(rule.content)
  if (rule.otherwise) return { type: 'or', elements: [only(rule, options), contentOf(rule.otherwise)] }
  if (rule.must) return only(rule, options)
  const tags = rule.tags.map((tag) => tagOf(tag, options, ''))
  const triggers = triggersOf(rule.tags, options.control)
  return { type: 'triggered_tags', triggers, tags, at_least_one: false, stop_after_first: rule.one }
}
/** Tags that may come before the one that ends the turn. Older servers know no repetition in the middle of a sequence. */
const mostBefore = 4
/** One tag or more, and no text. */
function only({ tags, one }: Rule & { type: 'tags' }, options: StructuredOptions): Format {
  const final = tags.filter((tag) => stopOf(tag, options) !== undefined)
  const all = (list: readonly Tag[], behind: string): Format[] => list.map((tag) => tagOf(tag, options, behind))
  if (final.length === 0 || one)
    return {
      type: 'tags_with_separator',
      tags: all(tags, one ? '' : '\n'),
      separator: '',
      at_least_one: true,
      stop_after_first: one,
    }
  // Where calls end the turn, whatever else there is only leads up to one.
  const before = tags.filter((tag) => !final.includes(tag))
  const perhaps: Format = { type: 'or', elements: [...all(before, ''), nothing] }
  const leading = before.length > 0 ? Array.from({ length: mostBefore }, () => perhaps) : []
  return sequence(...leading, { type: 'or', elements: all(final, '') })
}
const stopOf = ({ end }: Tag, { stops = [] }: StructuredOptions): string | undefined =>
  stops.find((name) => name !== '' && end.endsWith(name))
/** `behind`: what may stand behind it. */
function tagOf(tag: Tag, options: StructuredOptions, behind: string): Format {
  const { begin, content, end } = tag
  const stop = stopOf(tag, options)
  // The token that ends the turn is text to some servers and the end of the grammar to others.
  const ends =
    stop !== undefined ? [end, end.slice(0, -stop.length)] : behind !== '' && end !== '' ? [end, end + behind] : end
  return { type: 'tag', begin, content: contentOf(content), end: ends }
}
function contentOf(content: Content): Format {
  switch (content.type) {
    case 'json':
      return { type: 'json_schema', json_schema: content.schema }
    case 'text':
      return { type: 'any_text' }
    case 'regex':
      if (!content.quoted) return { type: 'regex', pattern: content.definition }
      return { type: 'grammar', grammar: grammarOf(content) }
    case 'lark':
      return { type: 'grammar', grammar: grammarOf(content) }
    case 'xml':
      // The one style that had a name of its own first is known to old servers by it only.
      return content.style === 'qwen'
        ? { type: 'qwen_xml_parameter', json_schema: content.schema }
        : { type: 'json_schema', style: 'glm_xml', json_schema: content.schema }
    case 'sequence':
      return sequence(...partsOf(content.parts))
  }
}
/** Text ends with the words that follow it. */
function partsOf(parts: readonly (string | Content)[]): Format[] {
  const out: Format[] = []
  for (const [n, part] of parts.entries()) {
    const [before, next] = [parts[n - 1], parts[n + 1]]
    const open = typeof before === 'object' && before.type === 'text'
    if (typeof part === 'string') {
      if (!open) out.push({ type: 'const_string', value: part })
    } else if (part.type === 'text' && typeof next === 'string')
      out.push({ type: 'tag', begin: '', content: contentOf(part), end: next })
    else out.push(contentOf(part))
  }
  return out
}
/** A client's grammar in the one syntax that every version of both servers reads. */
const grammarOf = (content: Content): string => gbnfOf({ after: undefined, rule: { type: 'whole', content } })

/**
 * What makes text a tag: the control token it begins with, else what such tags have in common, else all of its beginning.
 * Every tag begins with exactly one of them, as xgrammar wants it.
 */
export function triggersOf(tags: readonly Tag[], control?: (name: string) => boolean): readonly string[] {
  const found = new Set<string>()
  const plain: string[] = []
  for (const { begin } of tags) {
    const marker = markerOf(begin, control)
    if (marker === undefined) plain.push(begin)
    else found.add(marker)
  }
  const shared = plain.length > 1 ? commonOf(plain) : ''
  for (const begin of shared === '' ? plain : [shared]) found.add(begin)
  const all = [...found]
  return all.filter((one) => !all.some((other) => other !== one && one.startsWith(other)))
}
const longestName = 64
function markerOf(begin: string, control: ((name: string) => boolean) | undefined): string | undefined {
  if (!control) return /^<[^<>\s]+>/.exec(begin)?.[0]
  for (let n = Math.min(begin.length, longestName); n > 0; n--) if (control(begin.slice(0, n))) return begin.slice(0, n)
  return undefined
}
function commonOf(texts: readonly string[]): string {
  let [common = ''] = texts
  for (const text of texts) while (!text.startsWith(common)) common = common.slice(0, -1)
  return common
}
