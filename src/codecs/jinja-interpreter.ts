// Renders chat templates with the interpreter of @huggingface/jinja, held to limits, and with what it does otherwise than
// the reference put right: filters, methods, operators, tests, attributes, printing, loops. The rest is the library's.
import { type Args, asValue, attribute, filters, method } from './jinja-filters.ts'
import { arithmetic, holds, testOf, tests } from './jinja-operators.ts'
import { Environment, Interpreter, type Node, type Scope } from './jinja-library.ts'
import {
  compare,
  dict,
  equal,
  integer,
  isTrue,
  kind,
  list,
  missing,
  numbered,
  numberOf,
  parts,
  str,
  text,
  truth,
  type Value,
} from './jinja-values.ts'

export class TooMuch extends Error {}
export type Limits = {
  /** Nodes evaluated, and thousands of characters handled. */
  readonly steps: number
  /** Characters of any one text. */
  readonly length: number
}
/** Values within values, macros within macros: the library takes a full stack for a variable that is not defined. */
const maxDepth = 600
type Jump = 'break' | 'continue' | undefined

const statements = new Set([
  'Set',
  'If',
  'For',
  'Break',
  'Continue',
  'Macro',
  'CallStatement',
  'FilterStatement',
  'Comment',
])
/** Methods of dictionaries stand in front of their keys where a template writes a dot. */
const dictMethods = new Set(['get', 'items', 'keys', 'values', 'copy', 'pop', 'update'])

export class Renderer extends Interpreter {
  readonly #limits: Limits
  /** What a value that the template prints, or joins to a text, becomes. */
  readonly #said: (value: Value) => string
  /** What the text of a literal is to be known as. */
  readonly #literal: (value: Value) => Value
  /** What stands in bodies that the library runs, which prints it in its own way. */
  readonly #printed = new Set<Node>()
  #steps = 0
  #depth = 0

  constructor(env: Scope, limits: Limits, said: (value: Value) => string, literal: (value: Value) => Value) {
    super(env)
    this.#limits = limits
    this.#said = said
    this.#literal = literal
  }
  override evaluate(node: Node | undefined, env: Scope): Value {
    this.#charge(1)
    this.#enter()
    let value = (node && this.#own(node, env)) ?? super.evaluate(node, env)
    this.#depth--
    if (node && this.#printed.has(node)) value = text(this.#said(value))
    if (typeof value.value === 'string') {
      const { length } = value.value
      if (length > this.#limits.length) throw new TooMuch('it makes a text that is far too long')
      if (length > 1000) this.#charge(Math.floor(length / 1000))
    } else if (Array.isArray(value.value) && value.value.length > this.#limits.steps)
      throw new TooMuch('it makes a list that is far too long')
    return value
  }

  /** What throws ends the render: nobody counts back then. */
  #enter(): void {
    if (++this.#depth > maxDepth) throw new TooMuch('it calls itself too often')
  }
  #charge(steps: number): void {
    this.#steps += steps
    if (this.#steps > this.#limits.steps) throw new TooMuch('it does not come to an end')
  }
  #at(node: Node | undefined, env: Scope): Value {
    return this.evaluate(node, env)
  }
  /** Undefined: as the library does it. */
  #own(node: Node, env: Scope): Value | undefined {
    switch (node.type) {
      case 'Program':
      case 'If':
      case 'For': {
        const out: string[] = []
        if (this.#run(node, env, out) !== undefined) throw new Error('break or continue stands outside of a loop')
        return text(out.join(''))
      }
      case 'Identifier':
        return lookUp(String(node.value), env)
      case 'StringLiteral':
        return this.#literal(text(String(node.value)))
      case 'ArrayLiteral':
      case 'TupleLiteral':
        return list(asNodes(node.value).map((one) => this.#at(one, env)))
      case 'ObjectLiteral': {
        // A door: its keys and values are nodes.
        const fields = [...(node.value as Map<Node, Node>)]
        const all = fields.map(([key, one]) => [this.#at(key, env), this.#at(one, env)] as const)
        const map = new Map(all.map(([key, one]) => [str(key), one]))
        return all.some(([key]) => numberOf(key) !== undefined) ? numbered(map) : dict(map)
      }
      case 'BinaryExpression':
        return this.#binary(node, env)
      case 'MemberExpression':
        return this.#member(node, env)
      case 'CallExpression':
        return this.#call(node, env)
      case 'FilterExpression':
        return this.#filter(node, env)
      case 'TestExpression': {
        const test = tests[String(node.test?.value)]
        return test && truth(test(this.#at(node.operand, env)) !== (node.negate === true))
      }
      case 'Set':
      case 'Macro':
      case 'CallStatement':
      case 'FilterStatement':
        for (const one of node.body ?? []) if (!statements.has(one.type)) this.#printed.add(one)
        return undefined
      default:
        return undefined
    }
  }
  #run(node: Node, env: Scope, out: string[]): Jump {
    if (node.type === 'If') return this.#block(isTrue(this.#at(node.test, env)) ? node.body : node.alternate, env, out)
    if (node.type === 'For') return void this.#loop(node, env, out)
    return this.#block(node.body, env, out)
  }
  #block(nodes: readonly Node[] | undefined, env: Scope, out: string[]): Jump {
    for (const node of nodes ?? []) {
      if (node.type === 'Break') return 'break'
      if (node.type === 'Continue') return 'continue'
      if (node.type === 'If' || node.type === 'For') {
        this.#charge(1)
        this.#enter()
        const jump = this.#run(node, env, out)
        this.#depth--
        if (jump !== undefined) return jump
      } else {
        const value = this.#at(node, env)
        if (!statements.has(node.type)) out.push(this.#said(value))
        else if (node.type === 'CallStatement' || node.type === 'FilterStatement') out.push(str(value))
      }
    }
    return undefined
  }
  #loop(node: Node, env: Scope, out: string[]): void {
    const { iterable, loopvar } = node
    const select = iterable?.type === 'SelectExpression' ? iterable : undefined
    const over = this.#at(select?.lhs ?? iterable, env)
    let all = parts(over)
    if (!all) throw new Error(`${kind(over)} cannot be looped over`)
    const scope = new Environment(env)
    const bind = (one: Value): Scope => {
      // Each time around begins without what the one before has set.
      scope.variables.clear()
      if (loopvar) assign(loopvar, one, scope)
      return scope
    }
    if (select) all = all.filter((one) => isTrue(this.#at(select.test, bind(one))))
    if (all.length === 0) return void this.#block(node.defaultBlock, new Environment(env), out)
    const counts = (node.body ?? []).some(mentionsLoop)
    for (const [n, one] of all.entries()) {
      this.#charge(1)
      bind(one)
      if (counts) scope.setVariable('loop', loopOf(all, n))
      if (this.#block(node.body, scope, out) === 'break') return
    }
  }
  #binary(node: Node, env: Scope): Value | undefined {
    const op = node.operator?.value ?? ''
    if (op === 'and' || op === 'or') return undefined
    const [left, right] = [this.#at(node.left, env), this.#at(node.right, env)]
    switch (op) {
      case '==':
        return truth(equal(left, right))
      case '!=':
        return truth(!equal(left, right))
      case '~':
        return text(this.#said(left) + this.#said(right))
      case '+':
        if (typeof left.value !== 'string' || typeof right.value !== 'string') return arithmetic(op, left, right)
        return text(this.#said(left) + this.#said(right))
      case 'in':
        return truth(holds(right, left))
      case 'not in':
        return truth(!holds(right, left))
      case '<':
        return truth(compare(left, right) < 0)
      case '>':
        return truth(compare(left, right) > 0)
      case '<=':
        return truth(compare(left, right) <= 0)
      case '>=':
        return truth(compare(left, right) >= 0)
      default:
        return arithmetic(op, left, right)
    }
  }
  #member({ object, property, computed }: Node, env: Scope): Value | undefined {
    if (property?.type === 'SliceExpression') return undefined
    const self = this.#at(object, env)
    const raw = self.value
    if (computed === true || property?.type === 'IntegerLiteral') {
      const key = property && this.#at(property, env)
      if (raw instanceof Map) return (key && raw.get(str(key))) ?? missing
      if (typeof key?.value === 'string') return bound(self, key.value)
      const at = (key && numberOf(key)) ?? 0
      if (typeof raw === 'string') {
        const char = Array.from(raw).at(at)
        return char === undefined ? missing : text(char)
      }
      return (Array.isArray(raw) ? raw.at(at) : undefined) ?? missing
    }
    const name = String(property?.value)
    if (raw instanceof Map) {
      if (self.type !== 'NamespaceValue' && dictMethods.has(name)) return bound(self, name)
      return raw.get(name) ?? missing
    }
    return bound(self, name)
  }
  #call(node: Node, env: Scope): Value | undefined {
    const { callee, args = [] } = node
    if (callee?.type !== 'MemberExpression' || callee.computed === true || args.some((a) => a.type.endsWith('Spread')))
      return undefined
    const self = this.#at(callee.object, env)
    const name = String(callee.property?.value)
    const call = method(self, name)
    if (call) return call(this.#args(args, env))
    // What a namespace holds may be a macro.
    if (self.value instanceof Map && typeof self.value.get(name)?.value === 'function') return undefined
    throw new Error(`${kind(self)} has no method '${name}'`)
  }
  #filter({ operand, filter }: Node, env: Scope): Value | undefined {
    const call = filter?.type === 'CallExpression'
    const name = String(call ? filter.callee?.value : filter?.value)
    const args = call ? (filter.args ?? []) : []
    if (['select', 'reject', 'selectattr', 'rejectattr'].includes(name)) {
      const over = parts(this.#at(operand, env)) ?? []
      const given = [...this.#args(args, env).list]
      const path = name.endsWith('attr') ? given.shift() : undefined
      const test = testOf(given)
      const chosen = (one: Value): boolean => test(path ? attribute(one, str(path)) : one)
      return list(over.filter((one) => chosen(one) === name.startsWith('select')))
    }
    const own = Object.hasOwn(filters, name) ? filters[name] : undefined
    return own?.(this.#at(operand, env), this.#args(args, env))
  }
  #args(nodes: readonly Node[], env: Scope): Args {
    const named = new Map<string, Value>()
    const all: Value[] = []
    for (const node of nodes)
      if (node.type === 'KeywordArgumentExpression')
        named.set(String(node.key?.value), this.#at(asNode(node.value), env))
      else all.push(this.#at(node, env))
    return { list: all, named }
  }
}

/** A door: what these nodes hold are nodes. */
const asNode = (value: unknown): Node => value as Node
const asNodes = (value: unknown): readonly Node[] => (Array.isArray(value) ? value.map(asNode) : [])
function bound(self: Value, name: string): Value {
  const call = method(self, name)
  return call ? asValue(call) : missing
}
function assign(target: Node, value: Value, scope: Scope): void {
  if (target.type === 'Identifier') return void scope.setVariable(String(target.value), value)
  const names = asNodes(target.value)
  const all = parts(value)
  if (all?.length !== names.length) throw new Error(`${kind(value)} does not fit the ${names.length} names of its loop`)
  for (const [n, name] of names.entries()) assign(name, all[n] ?? missing, scope)
}
function lookUp(name: string, env: Scope): Value {
  for (let scope: Scope | undefined = env; scope; scope = scope.parent) {
    const found = scope.variables.get(name)
    if (found) return found
  }
  return missing
}
const loops = new WeakMap<Node, boolean>()
/** Does this part of a template use `loop`? Found out once. */
function mentionsLoop(node: Node): boolean {
  let found = loops.get(node)
  if (found === undefined) loops.set(node, (found = mentions(node)))
  return found
}
function mentions(node: unknown): boolean {
  if (node instanceof Map) return [...node].some(([key, value]) => mentions(key) || mentions(value))
  if (Array.isArray(node)) return node.some(mentions)
  if (typeof node !== 'object' || node === null) return false
  const { type, value } = node as Node
  return (type === 'Identifier' && value === 'loop') || Object.values(node).some(mentions)
}
const loopOf = (all: readonly Value[], n: number): Value =>
  dict(
    new Map([
      ['index', integer(n + 1)],
      ['index0', integer(n)],
      ['revindex', integer(all.length - n)],
      ['revindex0', integer(all.length - n - 1)],
      ['first', truth(n === 0)],
      ['last', truth(n === all.length - 1)],
      ['length', integer(all.length)],
      ['previtem', all[n - 1] ?? missing],
      ['nextitem', all[n + 1] ?? missing],
    ]),
  )
