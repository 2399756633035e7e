// What a request wants of the output, as a constraint of tags: the parts that formats with one tag a call share, and which
// constraints are known already.
import type { Settings } from '../protocol/request.ts'
import type { Callable, Tool } from '../protocol/tools.ts'
import type { Constraint, Content, Tag } from '../turn/ports.ts'
import type { Kind, Want } from './family.ts'

/** Models write JSON with a blank behind colons, or without. */
const blank: Content = { type: 'regex', definition: ' ?', quoted: false }
/** JSON arguments of a tool: held to its schema where it is strict, to its grammar where it has one, else to JSON. */
export function jsonContent(tool: Callable): Content {
  if (tool.kind === 'custom') {
    const { format } = tool
    if (format?.type !== 'grammar') return { type: 'json', schema: tool.parameters }
    const inner: Content = { type: format.syntax, definition: format.definition, quoted: true }
    return { type: 'sequence', parts: ['{"input":', blank, '"', inner, '"}'] }
  }
  return { type: 'json', schema: tool.strict ? tool.parameters : { type: 'object' } }
}
export const jsonTags = (
  tools: readonly Callable[],
  around: (name: string) => { readonly begin: string; readonly end: string },
): Tag[] => tools.map((tool) => ({ ...around(tool.flat), content: jsonContent(tool) }))

/** `after`: the control token that ends reasoning, where the model may reason first. */
export function constraintOf(want: Want, tags: readonly Tag[], after: string | undefined): Constraint {
  const { answer, must, one } = want
  const content: Content | undefined = answer && { type: 'json', schema: answer }
  if (tags.length === 0 && content) return { after, rule: { type: 'whole', content } }
  return { after, rule: { type: 'tags', tags, must, one, ...(content ? { otherwise: content } : {}) } }
}

/** Constraints of one list of tools that are kept, and the longest format of an answer that is kept. */
const most = 8
const longest = 256 * 1024
const noTools: readonly Tool[] = []

/** The same constraint for the same request, so that what an engine makes of it is made once. Forgetting costs time only. */
export class Constraints {
  readonly #known = new WeakMap<readonly Tool[], WeakMap<readonly Tool[], Map<string, Constraint | undefined>>>()

  /** `brought`: tools of the conversation; `before`: what the model goes on from. */
  of(
    settings: Settings,
    brought: readonly Tool[],
    before: Kind,
    make: () => Constraint | undefined,
  ): Constraint | undefined {
    const { text, tool_choice, parallel_tool_calls, reasoning } = settings
    const key = JSON.stringify([text.format, tool_choice, parallel_tool_calls, reasoning?.effort, before])
    if (key.length > longest) return make()
    const known = this.#of(settings.tools, brought)
    if (known.has(key)) return known.get(key)
    const made = make()
    if (known.size >= most) known.clear()
    known.set(key, made)
    return made
  }
  #of(tools: readonly Tool[], brought: readonly Tool[]): Map<string, Constraint | undefined> {
    // Empty lists come anew with every request.
    const own = tools.length > 0 ? tools : noTools
    const theirs = brought.length > 0 ? brought : noTools
    let byBrought = this.#known.get(own)
    if (!byBrought) this.#known.set(own, (byBrought = new WeakMap()))
    let known = byBrought.get(theirs)
    if (!known) byBrought.set(theirs, (known = new Map<string, Constraint | undefined>()))
    return known
  }
}
