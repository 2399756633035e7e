// Is a family really what a template renders? Marks alone do not tell: many models borrow the tokens of another and use them
// otherwise. A few conversations are written by both, and must be the same.
import { ApiError } from '../protocol/errors.ts'
import { namingOf } from '../protocol/functions.ts'
import type { Item } from '../protocol/items.ts'
import type { Callable } from '../protocol/tools.ts'
import { Chain } from '../turn/chain.ts'
import type { Tokenizer } from '../turn/ports.ts'
import { lastQuery } from './cycles.ts'
import type { Family } from './family.ts'
import { Fold, start } from './fold.ts'
import { controlsOf } from './ink.ts'
import { mappingOf, write } from './jinja-probe.ts'
import { ChatTemplate, type Variables } from './jinja-template.ts'

const began = Date.UTC(2026, 6, 26)

type Sample = {
  readonly name: string
  readonly items: readonly Item[]
  readonly instructions: string | null
  readonly tools: readonly Callable[]
  readonly effort: string | null
}
/** What families write otherwise than their own templates, in whole conversations, on purpose. */
const without: Readonly<Record<string, readonly string[]>> = {
  // Their templates show no tools; that of V3 breaks calls.
  'deepseek-v3': ['with tools', 'with a tool loop', 'with a tool loop and another question'],
  'deepseek-v3.1': ['with tools', 'with a tool loop', 'with a tool loop and another question'],
  // Tools and system text stay with the first message, where the templates move them to the last.
  'mistral-nemo': ['with a tool loop', 'with a tool loop and another question', 'with two questions'],
  'mistral-small-3.2': ['with a tool loop and another question', 'without instructions'],
  'ministral-3': ['without instructions'],
  // It knows no effort below low, which the template leaves to whoever asks.
  'gpt-oss': ['that wants no reasoning'],
  // The template brings the prompt of one agent along.
  devstral: ['without instructions'],
}

/**
 * Undefined where the family writes what the template (Jinja source) writes; else a sentence with the first difference.
 * `variables`: as of a tokenizer_config.json; by default the family's own first and last tokens are `bos_token` and
 * `eos_token`. Throws an Error for what is no template.
 */
export function mismatch(source: string, family: Family, variables: Variables = {}): string | undefined {
  const all = samplesFor(family)
  const [first] = all
  const bos = first && controlAtStart(family, written(family, first))
  const known = { bos_token: bos ?? '', eos_token: family.stops[0] ?? '', date_string: '26 Jul 2026', ...variables }
  const template = new ChatTemplate(source, noTokens, known)
  let mapping
  try {
    mapping = mappingOf(template)
  } catch (e) {
    if (!(e instanceof ApiError)) throw e
    return `the template renders no plain conversation: ${e.message}`
  }
  let compared = 0
  for (const sample of all) {
    if (without[family.name]?.includes(sample.name)) continue
    let theirs
    try {
      theirs = template.marks.shown(write(template, mapping, { ...sample, date: began, opened: true }))
    } catch (e) {
      if (!(e instanceof ApiError)) throw e
      continue
    }
    const ours = written(family, sample)
    compared++
    if (ours !== theirs) return difference(family, sample, ours, theirs)
  }
  return compared > 0 ? undefined : 'the template renders none of the conversations that were tried'
}

function difference(family: Family, { name }: Sample, ours: string, theirs: string): string {
  let at = 0
  while (at < ours.length && ours[at] === theirs[at]) at++
  const near = (text: string): string => JSON.stringify(text.slice(Math.max(0, at - 20), at + 40))
  return `in a conversation ${name} the template writes ${near(theirs)} where '${family.name}' writes ${near(ours)}, at character ${at}`
}
function controlAtStart({ needs, stops, markers }: Family, text: string): string | undefined {
  const found = [...needs, ...stops, ...markers].find((name) => text.startsWith(name))
  // What opens every message is none.
  return found !== undefined && text.split(found).length === 2 ? found : undefined
}

/** The whole prompt of a family, control tokens by name. */
function written(family: Family, { items, instructions, tools, effort }: Sample): string {
  const names = [...new Set([...family.needs, ...family.stops, ...family.markers])]
  const tokenizer: Tokenizer = { ...noTokens, control: (name) => at(names, name) }
  const head = { tools, thinking: effort !== 'none', effort, date: new Date(began).toISOString().slice(0, 10) }
  const way = { family, tokenizer, controls: controlsOf(family), head, instructions, naming: namingOf(tools) }
  const link = Chain.root('match', began).add({ response: 'match', from: 'input', items })
  const fold = new Fold(way, start)
  const cycle = family.untilAnswer === true ? start.cycle : undefined
  const last = family.retention === 'all' ? undefined : lastQuery([{ link, from: 0 }], cycle)
  for (const [n, item] of items.entries()) fold.item(item, link, n, !last || n >= last.item)
  fold.opening()
  return fold.ink.pieces.map((piece) => (typeof piece === 'number' ? (names[piece] ?? '') : piece)).join('')
}
const at = (names: readonly string[], name: string): number | undefined => {
  const found = names.indexOf(name)
  return found < 0 ? undefined : found
}
/** Texts are compared, not ids. */
const noTokens: Tokenizer = {
  id: 'none',
  size: 0,
  encode: () => [],
  control: () => undefined,
  nameOf: () => undefined,
  stream: () => ({ push: () => '', end: () => '' }),
  decode: () => '',
}

const user = (text: string): Item => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] })
const answer = (text: string): Item => ({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'output_text', text, annotations: [] }],
})
const thought = (text: string): Item => ({
  type: 'reasoning',
  summary: [],
  content: [{ type: 'reasoning_text', text }],
})
const tool: Callable = {
  flat: 'ls',
  kind: 'function',
  name: 'ls',
  namespace: undefined,
  description: 'Lists files.',
  parameters: {
    type: 'object',
    properties: { path: { type: 'string', description: 'Where.' }, n: { type: 'integer' } },
    required: ['path'],
  },
  strict: false,
  format: undefined,
}
function samplesFor(family: Family): Sample[] {
  const id = family.name.startsWith('kimi') ? 'functions.ls:0' : 'a1b2c3d4e'
  const loop: Item[] = [
    user('What is here?'),
    thought('I should look.'),
    { type: 'function_call', call_id: id, name: 'ls', arguments: '{"path": "src", "n": 3}' },
    { type: 'function_call_output', call_id: id, output: 'a.ts\nb.ts' },
  ]
  const closed = [...loop, thought('Two files.'), answer('Two files.'), user('Thanks. And now?')]
  const talk = [user('Hello.'), thought('A greeting.'), answer('Hi!'), user('How are you?')]
  const plain = { instructions: 'Be brief.', tools: [], effort: null }
  return [
    { name: 'of one question', ...plain, items: [user('Hello.')] },
    { name: 'without instructions', ...plain, instructions: null, items: [user('Hello.')] },
    { name: 'with two questions', ...plain, items: talk },
    { name: 'that wants no reasoning', ...plain, effort: 'none', items: talk.slice(0, 1) },
    { name: 'that wants much reasoning', ...plain, effort: 'high', items: talk.slice(0, 1) },
    { name: 'with tools', ...plain, tools: [tool], items: [user('Hello.')] },
    { name: 'with a tool loop', ...plain, tools: [tool], items: loop },
    { name: 'with a tool loop and another question', ...plain, tools: [tool], items: closed },
  ]
}
