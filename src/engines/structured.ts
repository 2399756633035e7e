// A constraint in the words of vLLM and SGLang: a JSON schema or a pattern where that is all of it, a structural tag (the
// format of xgrammar, which both run) for everything else. Reasoning in front is part of the tag: it then holds whether or
// not the server has a reasoning parser. Formats tried against xgrammar 0.2.9.
import { ApiError } from '../protocol/errors.ts'
import type { Constraint, Content, Rule, Tag } from '../turn/ports.ts'
import { gbnfOf } from './gbnf.ts'
import { checkClientGrammar, checkClientSchema } from './grammar-check.ts'

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
}
type Format = Readonly<Record<string, unknown>>

/** UTF-16 units that one request's rule may have. */
const most = 1024 * 1024

/** Throws ApiError `unsupported_by_engine` for what neither can be told. */
export function structuredOf(constraint: Constraint, options: StructuredOptions): Structured {
  const { rule } = constraint
  const after = options.gated === true ? undefined : constraint.after
  if (after === undefined && rule.type === 'whole') {
    const { content } = rule
    if (content.type === 'json') return bounded({ type: 'json', schema: content.schema }, options)
    if (content.type === 'regex' && !content.quoted)
      return bounded({ type: 'regex', pattern: content.definition }, options)
    if (content.type === 'lark' || content.type === 'regex')
      return bounded({ type: 'grammar', grammar: grammarOf(content) }, options)
  }
  const ruled = formatOf(rule, options)
  const format: Format =
    after === undefined
      ? ruled
      : { type: 'sequence', elements: [{ type: 'tag', begin: '', content: { type: 'any_text' }, end: after }, ruled] }
  return bounded({ type: 'tag', tag: JSON.stringify({ type: 'structural_tag', format }) }, options)
}
/** Refuses, before a response is begun, what must not or cannot reach the engine. Throws ApiError. */
export function checkConstraint(constraint: Constraint, engine: string): void {
  const { rule } = constraint
  if (rule.type === 'whole') checkContent(rule.content)
  else {
    for (const { content } of rule.tags) checkContent(content)
    if (rule.otherwise) checkContent(rule.otherwise)
  }
  structuredOf(constraint, { engine })
}
function checkContent(content: Content): void {
  if (content.type === 'json' || content.type === 'xml') checkClientSchema(content.schema)
  else if (content.type === 'regex' || content.type === 'lark')
    checkClientGrammar({ type: 'grammar', syntax: content.type, definition: content.definition })
  else if (content.type === 'sequence')
    for (const part of content.parts) if (typeof part !== 'string') checkContent(part)
}
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
  const tags = rule.tags.map((tag) => tagOf(tag, options.stops ?? []))
  const only = { type: 'tags_with_separator', tags, separator: '', at_least_one: true, stop_after_first: rule.one }
  if (rule.otherwise) return { type: 'or', elements: [only, contentOf(rule.otherwise)] }
  if (rule.must) return only
  const triggers = triggersOf(rule.tags, options.control)
  return { type: 'triggered_tags', triggers, tags, at_least_one: false, stop_after_first: rule.one }
}
function tagOf({ begin, content, end }: Tag, stops: readonly string[]): Format {
  const stop = stops.find((name) => name !== '' && end.endsWith(name))
  // The token that ends the turn is text to some servers and the end of the grammar to others.
  const ends = stop === undefined ? end : [end, end.slice(0, -stop.length)]
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
      return {
        type: 'sequence',
        elements: content.parts.map((part) =>
          typeof part === 'string' ? { type: 'const_string', value: part } : contentOf(part),
        ),
      }
  }
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
