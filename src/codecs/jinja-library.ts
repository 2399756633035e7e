// The door to @huggingface/jinja: its declarations cannot be resolved from ES modules, so what is used of it is typed here.
import * as library from '@huggingface/jinja'

export type Call = (args: Value[], scope: Scope) => Value
export type Value = {
  readonly type: string
  readonly value: string | number | boolean | null | undefined | Value[] | Map<string, Value> | Call
  __bool__(): { readonly value: boolean }
}
export type Scope = {
  readonly variables: Map<string, Value>
  readonly parent?: Scope | undefined
  /** Makes a value of data. */
  set(name: string, value: unknown): Value
  setVariable(name: string, value: Value): Value
  lookupVariable(name: string): Value
}
/** Any node of the syntax tree. */
export type Node = {
  readonly type: string
  readonly args?: readonly Node[]
  readonly alternate?: readonly Node[]
  readonly body?: readonly Node[]
  readonly callee?: Node
  readonly computed?: boolean
  readonly defaultBlock?: readonly Node[]
  readonly filter?: Node
  readonly iterable?: Node
  readonly key?: Node
  readonly left?: Node
  readonly lhs?: Node
  readonly loopvar?: Node
  readonly negate?: boolean
  readonly object?: Node
  readonly operand?: Node
  readonly operator?: { readonly value: string }
  readonly property?: Node
  readonly right?: Node
  readonly test?: Node
  /** Of a literal what it says, of a name the name; of lists, dictionaries and named arguments, nodes. */
  value?: unknown
}
type Library = {
  readonly Environment: new (parent?: Scope) => Scope
  readonly Interpreter: new (env: Scope) => {
    run(program: Node): Value
    evaluate(node: Node | undefined, env: Scope): Value
  }
  tokenize(source: string, options: { readonly lstrip_blocks: boolean; readonly trim_blocks: boolean }): unknown
  parse(tokens: unknown): Node
}
export const { Environment, Interpreter, tokenize, parse } = library as unknown as Library
