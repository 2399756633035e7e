// What a chat template wants to be given, found out by rendering small conversations with it: in which of the usual ways
// its messages are shaped, what opens the model's turn, what ends it.
import { ApiError } from '../protocol/errors.ts'
import { namingOf } from '../protocol/functions.ts'
import type { Item } from '../protocol/items.ts'
import type { Callable } from '../protocol/tools.ts'
import { type Mapping, messagesOf, plainMapping, toolsOf } from './jinja-messages.ts'
import type { ChatTemplate, Variables } from './jinja-template.ts'

export type Asked = {
  readonly items: readonly Item[]
  readonly instructions: string | null
  readonly tools: readonly Callable[]
  readonly effort: string | null
  /** Milliseconds since 1970. */
  readonly date: number
  /** With what opens the model's turn at its end. */
  readonly opened: boolean
}
/** A conversation as the template writes it, settled. */
export function write(template: ChatTemplate, mapping: Mapping, asked: Asked): string {
  const { items, instructions, tools, effort, date, opened } = asked
  const given = { messages: messagesOf(items, instructions, namingOf(tools), mapping), tools: toolsOf(tools) }
  return template.render(given, { documents: null, add_generation_prompt: opened, ...effortOf(effort) }, new Date(date))
}
/** Under the names that templates know: Qwen and GLM, DeepSeek, gpt-oss. */
const effortOf = (effort: string | null): Variables => ({
  ...(effort === 'none' ? { enable_thinking: false } : {}),
  thinking: effort !== null && effort !== 'none',
  ...(effort === null || effort === 'none' ? {} : { reasoning_effort: effort }),
})

const said = (role: 'user' | 'system', text: string): Item => ({
  type: 'message',
  role,
  content: [{ type: 'input_text', text }],
})
const answer = (text: string): Item => ({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'output_text', text, annotations: [] }],
})
const reasoning: Item = { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'qzthought' }] }
const call = (n: number): Item => ({
  type: 'function_call',
  call_id: `call_${n}`,
  name: 'qztool',
  arguments: `{"qzkey": "qzvalue${n}"}`,
})
const output = (n: number): Item => ({ type: 'function_call_output', call_id: `call_${n}`, output: `qzoutput${n}` })
const user = said('user', 'qzuser')
const tool: Callable = {
  flat: 'qztool',
  kind: 'function',
  name: 'qztool',
  namespace: undefined,
  description: 'Probes.',
  parameters: { type: 'object', properties: { qzkey: { type: 'string' } } },
  strict: false,
  format: undefined,
}

/** Throws ApiError where the template renders no conversation at all, be it the plainest. */
export function mappingOf(template: ChatTemplate): Mapping {
  const plain = { instructions: null, effort: null, date: 0, opened: true }
  const least = leastTools(template)
  const shows = (mapping: Mapping, items: readonly Item[], words: readonly string[], tools = least) => {
    try {
      const text = template.marks.shown(write(template, mapping, { ...plain, items, tools }))
      return words.every((word) => text.includes(word)) ? text : undefined
    } catch (e) {
      if (e instanceof ApiError) return undefined
      throw e
    }
  }
  let mapping = plainMapping
  const choose = <K extends keyof Mapping>(key: K, values: readonly Mapping[K][], works: (m: Mapping) => boolean) => {
    for (const value of values) {
      const changed = { ...mapping, [key]: value }
      if (works(changed)) return void (mapping = changed)
    }
  }
  choose(
    'users',
    ['apart', 'joined'],
    (m) => shows(m, [user, said('user', 'qzmore')], ['qzuser', 'qzmore']) !== undefined,
  )
  choose(
    'system',
    ['system', 'user'],
    (m) => shows(m, [said('system', 'qzsystem'), user], ['qzsystem', 'qzuser']) !== undefined,
  )
  const late = [user, answer('qzanswer'), said('system', 'qzlate'), said('user', 'qzmore')]
  choose('laterSystem', ['system', 'user'], (m) => shows(m, late, ['qzuser', 'qzlate', 'qzmore']) !== undefined)

  const loop = [user, call(1), output(1)]
  const calls = (m: Mapping): string | undefined => shows(m, loop, ['qztool', 'qzvalue1', 'qzoutput1'], [tool])
  const called = (m: Mapping): boolean => {
    const text = calls(m)
    return text !== undefined && !text.includes("'qzkey'") && !text.includes(String.raw`\"qzkey`)
  }
  for (const ids of ['given', 'nine'] as const)
    for (const noText of ['', null] as const)
      if (!called(mapping)) choose('arguments', ['parsed', 'text'], (m) => called({ ...m, ids, noText }))
      else break
  for (const noText of ['', null] as const)
    for (const ids of ['given', 'nine'] as const)
      if (!called(mapping) && called({ ...mapping, ids, noText })) mapping = { ...mapping, ids, noText }
  // Where both come out alike, what the model wrote is kept to the letter.
  const kept = { ...mapping, arguments: 'text' as const }
  if (called(kept) && calls(kept) === calls(mapping)) mapping = kept

  const both = [user, call(1), call(2), output(1), output(2)]
  choose(
    'calls',
    ['together', 'split'],
    (m) => shows(m, both, ['qzvalue1', 'qzvalue2', 'qzoutput1', 'qzoutput2'], [tool]) !== undefined,
  )
  const fields = ['reasoning_content', 'reasoning', 'thinking', 'blocks'] as const
  const thought = (m: Mapping, items: readonly Item[], tools: readonly Callable[]): boolean =>
    shows(m, items, ['qzthought'], tools)?.includes("'thinking'") === false
  const reasons = [user, reasoning, call(1), output(1)]
  choose(
    'reasoning',
    [...fields, 'none'],
    (m) =>
      m.reasoning === 'none' ||
      (called(m) ? thought(m, reasons, [tool]) : thought(m, [user, reasoning, answer('qzanswer')], least)),
  )
  return mapping
}

/** Some templates do nothing without tools. Throws ApiError where one renders no conversation at all. */
function leastTools(template: ChatTemplate): readonly Callable[] {
  const asked = { items: [user], instructions: null, effort: null, date: 0, opened: true }
  try {
    write(template, plainMapping, { ...asked, tools: [] })
    return []
  } catch {
    write(template, plainMapping, { ...asked, tools: [tool] })
    return [tool]
  }
}

/** What opens the model's turn: behind a user's message, and behind an output where that is known. */
export function openingsOf(template: ChatTemplate, mapping: Mapping, effort: string | null, date: number): string[] {
  const found: string[] = []
  const least = leastTools(template)
  for (const items of [[user], [user, call(1), output(1)]]) {
    try {
      const asked = { items, instructions: null, tools: items.length > 1 ? [tool] : least, effort, date }
      const opened = write(template, mapping, { ...asked, opened: true })
      const bare = write(template, mapping, { ...asked, opened: false })
      found.push(opened.startsWith(bare) ? opened.slice(bare.length) : '')
    } catch (e) {
      if (!(e instanceof ApiError)) throw e
    }
  }
  return found
}
/** The first control token that stands behind an answer: what a model ends its turn with. */
export function stopOf(template: ChatTemplate, mapping: Mapping): string | undefined {
  const items = [user, answer('qzanswer'), said('user', 'qzmore')]
  const asked = { items, instructions: null, tools: leastTools(template), effort: null, date: 0, opened: true }
  const text = write(template, mapping, asked)
  const at = text.indexOf('qzanswer')
  return at < 0 ? undefined : template.marks.firstIn(text.slice(at))
}
