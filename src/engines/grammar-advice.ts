// What is left of a constraint where the operator wants strict tools and grammars of custom tools to be advice only: a
// format of the answer and a choice of tools still hold.
import type { Settings } from '../protocol/request.ts'
import { type Callable, callables, chosen } from '../protocol/tools.ts'
import type { Chain } from '../turn/chain.ts'
import type { Constraint, Content } from '../turn/ports.ts'

/** Any text, and any as it stands inside a JSON string. */
const anyText: Content = { type: 'text' }
const anyQuoted: Content = { type: 'regex', definition: '(?s:.*)', quoted: true }
const anyObject = { type: 'object' }

/** Undefined where nothing is left. */
export function advised(constraint: Constraint, settings: Settings, chain: Chain): Constraint | undefined {
  const { after, rule } = constraint
  if (rule.type === 'whole') return constraint
  const all = callables(chain.tools, settings.tools)
  const { tools, must } = chosen(all, settings.tool_choice)
  if (!must && settings.text.format.type === 'text' && tools.length === all.length) return undefined
  const easing = new Easing(all, settings)
  return { after, rule: { ...rule, tags: rule.tags.map((tag) => ({ ...tag, content: easing.of(tag.content) })) } }
}

/** The schema that the answer is to fit; undefined where it may be any text, or any object. */
export const answerOf = ({ text: { format } }: Settings): Readonly<Record<string, unknown>> | undefined =>
  format.type === 'json_schema' ? format.schema : undefined
export const alike = (a: unknown, b: unknown): boolean => a === b || JSON.stringify(a) === JSON.stringify(b)

class Easing {
  readonly #answer: Readonly<Record<string, unknown>> | undefined
  readonly #strict: ReadonlySet<unknown>
  readonly #free: ReadonlySet<unknown>
  readonly #grammars: ReadonlySet<string>

  constructor(tools: readonly Callable[], settings: Settings) {
    this.#answer = answerOf(settings)
    this.#strict = new Set(tools.filter((tool) => tool.strict).map((tool) => tool.parameters))
    this.#free = new Set(tools.filter((tool) => tool.kind === 'custom').map((tool) => tool.parameters))
    this.#grammars = new Set(tools.flatMap(({ format }) => (format?.type === 'grammar' ? [format.definition] : [])))
  }
  of(content: Content): Content {
    switch (content.type) {
      case 'json':
      case 'xml':
        return { ...content, schema: this.#schema(content.schema) }
      case 'regex':
      case 'lark':
        if (!this.#grammars.has(content.definition)) return content
        return content.quoted ? anyQuoted : anyText
      case 'sequence':
        return {
          type: 'sequence',
          parts: content.parts.map((part) => (typeof part === 'string' ? part : this.of(part))),
        }
      default:
        return content
    }
  }
  #schema(schema: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
    if (this.#strict.has(schema)) return anyObject
    if (this.#free.has(schema) || alike(schema, anyObject)) return schema
    // What is left is the answer, or one property of a strict tool.
    return this.#answer !== undefined && alike(schema, this.#answer) ? schema : {}
  }
}
