// What a request wants of the output, as a constraint of tags: the parts that formats with one tag a call share.
import type { Callable } from '../protocol/tools.ts'
import type { Constraint, Content, Tag } from '../turn/ports.ts'
import type { Want } from './family.ts'

/** JSON arguments of a tool: held to its schema where it is strict, to its grammar where it has one, else to JSON. */
export function jsonContent(tool: Callable): Content {
  if (tool.kind === 'custom') {
    const { format } = tool
    if (format?.type !== 'grammar') return { type: 'json', schema: tool.parameters }
    const inner: Content = { type: format.syntax, definition: format.definition, quoted: true }
    return { type: 'sequence', parts: ['{"input": "', inner, '"}'] }
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
