// Tools as models know them, functions of one level: custom and namespaced ones under flat names, the same in definitions,
// in `tool_choice` and in the calls of earlier turns.
import type { Callable } from './tools.ts'

/** How calls of earlier turns are named. Equal keys name alike, whatever tools a turn offers. */
export type Naming = { readonly key: string; flat(name: string, namespace: string | undefined): string }

const maxGrammar = 8 * 1024
const path = (name: string, namespace: string | undefined): string =>
  namespace === undefined ? name : `${namespace}\0${name}`
/** The flat name of a tool whose name clashes with no other. */
const plain = (name: string, namespace: string | undefined): string =>
  (namespace === undefined ? name : `${namespace}__${name}`).replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 64) || 'tool'

/** Names for the calls of a conversation, given the tools of this turn. Its key holds only what is out of the ordinary. */
export function namingOf(tools: readonly Callable[]): Naming {
  const special = new Map<string, string>()
  for (const t of tools) if (t.flat !== plain(t.name, t.namespace)) special.set(path(t.name, t.namespace), t.flat)
  if (special.size === 0) return ordinary
  return {
    key: JSON.stringify([...special].sort(([a], [b]) => (a < b ? -1 : 1))),
    flat: (name, namespace) => special.get(path(name, namespace)) ?? plain(name, namespace),
  }
}
const ordinary: Naming = { key: '', flat: plain }

/** A tool as chat templates are given it: always with a description, be it an empty one. */
export const templateTool = (
  tool: Callable,
): { type: 'function'; function: { name: string; description: string; parameters: Record<string, unknown> } } => ({
  type: 'function',
  function: { name: tool.flat, description: descriptionOf(tool), parameters: tool.parameters },
})
/** One entry of the `tools` of a chat-completions request. */
export function definition(tool: Callable, strict: boolean): Record<string, unknown> {
  const description = descriptionOf(tool)
  return {
    type: 'function',
    function: {
      name: tool.flat,
      ...(description === '' ? {} : { description }),
      parameters: tool.parameters,
      ...(strict && tool.strict ? { strict: true } : {}),
    },
  }
}
const descriptionOf = (tool: Callable): string => (tool.kind === 'custom' ? adviceFor(tool) : tool.description)
/** A model sees no grammar in a function's parameters: it is told. */
function adviceFor({ description, format }: Callable): string {
  const lines = description === '' ? [] : [description]
  lines.push('Give the whole input as one plain string in "input".')
  if (format?.type === 'grammar') {
    const { syntax, definition: text } = format
    const short = text.length > maxGrammar ? `${text.slice(0, maxGrammar)}\n… (shortened)` : text
    lines.push(`The input must match this ${syntax === 'regex' ? 'regular expression' : 'Lark grammar'}:\n${short}`)
  }
  return lines.join('\n\n')
}
