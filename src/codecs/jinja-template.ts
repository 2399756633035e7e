// A chat template, read once and rendered within limits. Its own control tokens come out as marks (jinja-marks.ts).
// The limits are for mistakes, of templates and of conversations that they were not made for: they are counted, not timed, so
// that the same conversation is always refused or never. A render is never stopped half-way: at the highest limit it holds the
// event loop for some seconds, at that of an ordinary conversation for less than half a one. A template that goes too far with
// the plainest conversation is refused at start.
import { ApiError } from '../protocol/errors.ts'
import type { Tokenizer } from '../turn/ports.ts'
import { Renderer, TooMuch } from './jinja-interpreter.ts'
import { Environment, type Node, parse, type Scope, tokenize } from './jinja-library.ts'
import { Marks } from './jinja-marks.ts'
import { func, integer, list, none, numberOf, str, text, truth, type Value, valueOf } from './jinja-values.ts'

/** Characters of a template, and of white space in one piece: reading it takes the square of these. */
const maxSource = 512 * 1024
const maxBlank = 1024
/** A render may take so many steps, and more for each text that it is given; and make texts of so many characters. */
const steps = { least: 200_000, each: 100, most: 4_000_000 }
const length = { least: 1_000_000, each: 8 }
/** Numbers that `range` gives. */
const maxRange = 100_000

export type Variables = Readonly<Record<string, unknown>>

export class ChatTemplate {
  readonly marks: Marks
  readonly source: string
  readonly #program: Node
  readonly #variables: ReadonlyMap<string, Value>

  /** Throws an Error with a sentence for what is no template. `variables`: as of a tokenizer_config.json. */
  constructor(source: string, tokenizer: Tokenizer, variables: Variables = {}) {
    if (source.length > maxSource) throw new Error(`the chat template has more than ${maxSource} characters`)
    if (new RegExp(`\\s{${maxBlank}}`).test(source))
      throw new Error(`the chat template has more than ${maxBlank} spaces or line breaks in one place`)
    this.source = source
    this.#program = read(source)
    const literals: Node[] = []
    walk(this.#program, literals)
    const given = own(variables)
    this.marks = new Marks(tokenizer, [...literals.map((l) => String(l.value)), ...Object.values(given).map(String)])
    for (const literal of literals) literal.value = this.marks.own(String(literal.value))
    this.#variables = new Map(
      Object.entries(given).map(([name, value]) => [name, valueOf(value, (t) => this.marks.own(t))]),
    )
  }
  /**
   * The settled text for these. `given` came from outside; `trusted` is ours: variables that no client writes. `date`: the
   * day that `strftime_now` tells, UTC.
   * Throws ApiError: invalid_request with the template's own words where it refuses the conversation or takes too long,
   * unsupported_by_engine where it uses what is not known here.
   */
  render(given: Variables, trusted: Variables, date: Date): string {
    const env = new Environment()
    let size = 0
    let chars = 0
    const foreign = (raw: string): string => {
      size++
      chars += raw.length
      return this.marks.foreign(raw)
    }
    const named = (value: Value): Value => {
      if (typeof value.value === 'string' && this.marks.isRole(value.value)) known.add(value)
      return value
    }
    const known = new WeakSet<Value>()
    const said = (value: Value): string => (known.has(value) ? this.marks.role(str(value)) : str(value))
    for (const [name, value] of this.#variables) env.setVariable(name, value)
    for (const [name, value] of Object.entries(trusted))
      env.setVariable(
        name,
        valueOf(value, (t) => this.marks.own(t)),
      )
    for (const [name, value] of Object.entries(given)) env.setVariable(name, valueOf(value, foreign))
    if (this.marks.joins) rolesOf(env.lookupVariable('messages'), named)
    globals(env, date)
    const limits = {
      steps: Math.min(steps.most, steps.least + steps.each * size),
      length: length.least + length.each * chars,
    }
    try {
      const value = new Renderer(env, limits, said, this.marks.joins ? named : (v) => v).run(this.#program)
      return this.marks.settle(str(value))
    } catch (e) {
      throw refusal(e, (t) => this.marks.shown(this.marks.settle(t)))
    }
  }
}

class Raised extends Error {}
function refusal(e: unknown, shown: (text: string) => string): ApiError {
  if (e instanceof ApiError) return e
  const words = e instanceof Error ? shown(e.message) : ''
  if (e instanceof Raised)
    return new ApiError(
      'invalid_request',
      `The chat template of this model refuses the conversation: ${words}`,
      'input',
    )
  if (e instanceof TooMuch)
    return new ApiError(
      'invalid_request',
      `The chat template of this model cannot render the conversation: ${words}.`,
      'input',
    )
  const what = e instanceof RangeError ? 'it makes a text that is far too long' : words
  return new ApiError(
    'unsupported_by_engine',
    `The chat template of this model cannot render the conversation: ${what}.`,
    'input',
  )
}

function read(source: string): Node {
  try {
    return parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true }))
  } catch (e) {
    const what = e instanceof Error ? e.message : String(e)
    throw new Error(`the chat template cannot be read: ${what}; name another one with \`template\`, or another codec`)
  }
}
/** All texts of the template. */
function walk(node: unknown, out: Node[]): void {
  if (Array.isArray(node)) for (const one of node) walk(one, out)
  else if (node instanceof Map)
    for (const [key, value] of node) {
      walk(key, out)
      walk(value, out)
    }
  else if (typeof node === 'object' && node !== null) {
    // A door: the tree is made of these.
    const it = node as Node
    if (it.type === 'StringLiteral') out.push(it)
    else if (it.type !== 'Comment') for (const child of Object.values(node)) walk(child, out)
  }
}
/** Texts, numbers and truth values; an added token is its content. What a codec gives itself is not taken from a file. */
function own(variables: Variables): Variables {
  const out: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(variables)) {
    if (['chat_template', 'messages', 'tools', 'documents', 'add_generation_prompt'].includes(name)) continue
    const content = typeof value === 'object' && value !== null && 'content' in value ? value.content : value
    if (['string', 'number', 'boolean'].includes(typeof content)) out[name] = content
  }
  return out
}
function rolesOf(messages: Value, named: (value: Value) => Value): void {
  if (!Array.isArray(messages.value)) return
  for (const { value } of messages.value) {
    const found = value instanceof Map ? value.get('role') : undefined
    if (found) named(found)
  }
}

function globals(env: Scope, date: Date): void {
  const constants: Readonly<Record<string, Value>> = { true: truth(true), false: truth(false), none }
  for (const [name, value] of Object.entries(constants)) {
    env.setVariable(name, value)
    env.setVariable(name.slice(0, 1).toUpperCase() + name.slice(1), value)
  }
  env.setVariable(
    'raise_exception',
    func(([words]) => {
      throw new Raised(words ? str(words) : '')
    }),
  )
  env.setVariable(
    'strftime_now',
    func(([format]) => text(strftime(date, format ? str(format) : ''))),
  )
  env.setVariable(
    'range',
    func((args) => range(args.map((arg) => numberOf(arg) ?? 0))),
  )
  env.setVariable(
    'dict',
    func(([fields]) => fields ?? valueOf({}, (t) => t)),
  )
}
function range(args: readonly number[]): Value {
  const [from, to, step] = args.length === 1 ? [0, args[0] ?? 0, 1] : [args[0] ?? 0, args[1] ?? 0, args[2] ?? 1]
  if (step === 0) throw new Error('range() takes no step of zero')
  const count = Math.max(0, Math.ceil((to - from) / step))
  if (count > maxRange) throw new TooMuch(`it counts further than ${maxRange}`)
  return list(Array.from({ length: count }, (_, n) => integer(from + n * step)))
}
const months = 'January February March April May June July August September October November December'.split(' ')
const days = 'Sunday Monday Tuesday Wednesday Thursday Friday Saturday'.split(' ')
/** Of a day: the time of it is midnight. */
function strftime(date: Date, format: string): string {
  const two = (n: number): string => String(n).padStart(2, '0')
  const [month, day, year] = [date.getUTCMonth(), date.getUTCDate(), date.getUTCFullYear()]
  const known: Readonly<Record<string, string>> = {
    Y: String(year),
    y: two(year % 100),
    m: two(month + 1),
    d: two(day),
    e: String(day).padStart(2, ' '),
    B: months[month] ?? '',
    b: (months[month] ?? '').slice(0, 3),
    A: days[date.getUTCDay()] ?? '',
    a: (days[date.getUTCDay()] ?? '').slice(0, 3),
    H: '00',
    I: '12',
    M: '00',
    S: '00',
    p: 'AM',
    Z: 'UTC',
    z: '+0000',
    F: `${year}-${two(month + 1)}-${two(day)}`,
    j: String(Math.floor((Date.UTC(year, month, day) - Date.UTC(year, 0, 0)) / 86_400_000)).padStart(3, '0'),
    '%': '%',
  }
  return format.replaceAll(/%(-?)([A-Za-z%])/g, (found, bare: string, letter: string) => {
    const value = known[letter] ?? found
    return bare === '' ? value : value.replace(/^0(?=\d)/, '')
  })
}
