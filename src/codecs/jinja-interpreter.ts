// Renders chat templates with the interpreter of @huggingface/jinja, held to limits, and with what it does otherwise than
// the reference put right: filters, methods, operators, tests, attributes, printing, loops. The rest is the library's.
import { type Args, asValue, attribute, filters, method, repeated } from './jinja-filters.ts'
import { Environment, Interpreter, type Node, type Scope } from './jinja-library.ts'
import {
  compare,
  dict,
  equal,
  float,
  integer,
  isFloat,
  isTrue,
  kind,
  list,
  missing,
  numbered,
  numberOf,
  parts,
  repr,
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
type Test = (value: Value) => boolean

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

const tests: Readonly<Record<string, Test>> = {
  defined: ({ value }) => value !== undefined,
  undefined: ({ value }) => value === undefined,
  none: ({ value }) => value === null,
  string: ({ value }) => typeof value === 'string',
  boolean: ({ value }) => typeof value === 'boolean',
  true: ({ value }) => value === true,
  false: ({ value }) => value === false,
  number: (value) => numberOf(value) !== undefined,
  integer: (value) => typeof value.value === 'number' && !isFloat(value),
  float: isFloat,
  mapping: (value) => value.value instanceof Map && value.type !== 'NamespaceValue',
  iterable: (value) => parts(value) !== undefined,
  sequence: ({ value }) => typeof value === 'string' || Array.isArray(value) || value instanceof Map,
}

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
        return this.#arithmetic(op, left, right)
    }
  }
  #arithmetic(op: string, left: Value, right: Value): Value {
    const [x, y] = [left.value, right.value]
    if (op === '+' && typeof x === 'string' && typeof y === 'string') return text(this.#said(left) + this.#said(right))
    if (op === '+' && Array.isArray(x) && Array.isArray(y)) return list([...x, ...y])
    if (op === '%' && typeof x === 'string') return text(formatted(x, Array.isArray(y) ? y : [right]))
    if (op === '*' && typeof x === 'string' && typeof y === 'number') return text(repeated(x, y))
    const [a, b] = [numberOf(left), numberOf(right)]
    if (a === undefined || b === undefined)
      throw new Error(`'${op}' does not go together with ${kind(left)} and ${kind(right)}`)
    if (b === 0 && ['/', '//', '%'].includes(op)) throw new Error('a number is divided by zero')
    const result = calculate(op, a, b)
    return op === '/' || isFloat(left) || isFloat(right) || !Number.isInteger(result) ? float(result) : integer(result)
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
        const char = [...raw].at(at)
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
/** A test as filters are given one: its name, and what to compare with. */
function testOf([name, other = missing]: readonly Value[]): Test {
  if (name === undefined) return isTrue
  switch (str(name)) {
    case 'equalto':
    case 'eq':
    case '==':
      return (value) => equal(value, other)
    case 'ne':
    case '!=':
      return (value) => !equal(value, other)
    case 'in':
      return (value) => holds(other, value)
    default: {
      const test = tests[str(name)]
      if (!test) throw new Error(`there is no test '${str(name)}' here`)
      return test
    }
  }
}
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
function holds(whole: Value, part: Value): boolean {
  const [all, one] = [whole.value, part.value]
  if (typeof all === 'string' && typeof one === 'string') return all.includes(one)
  if (all instanceof Map) return typeof one === 'string' && all.has(one)
  if (Array.isArray(all)) return all.some((other) => equal(other, part))
  if (all === undefined) return false
  throw new Error(`'in' does not go together with ${kind(whole)}`)
}
function calculate(op: string, a: number, b: number): number {
  switch (op) {
    case '+':
      return a + b
    case '-':
      return a - b
    case '*':
      return a * b
    case '/':
      return a / b
    case '//':
      return Math.floor(a / b)
    case '%':
      return a - b * Math.floor(a / b)
    case '**':
      return a ** b
    default:
      throw new Error(`there is no operator '${op}' here`)
  }
}
/** `'%s of %d' % (a, b)`. */
function formatted(format: string, values: readonly Value[]): string {
  let n = 0
  return format.replaceAll(/%(?:%|0?(\d{0,3})(?:\.(\d{1,2}))?([sdrf]))/g, (found, width, digits, as) => {
    if (found === '%%') return '%'
    const value = values[n++] ?? missing
    const shown =
      as === 'f'
        ? (numberOf(value) ?? 0).toFixed(digits === undefined ? 6 : Number(digits))
        : as === 'd'
          ? String(Math.trunc(numberOf(value) ?? 0))
          : as === 'r'
            ? repr(value)
            : str(value)
    return shown.padStart(Number(width ?? 0), found.startsWith('%0') ? '0' : ' ')
  })
}
