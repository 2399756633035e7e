// A conversation as the simulated model sees it: text without ids and statuses, its hash after every item, and what the
// behaviour needs to know of it. Kept per link, so that a turn costs only what is new in it.
import { createHash } from 'node:crypto'
import { answeredCall, calledAs, type Item, type Message, textOf, type ToolOutput } from '../protocol/items.ts'
import type { Settings } from '../protocol/request.ts'
import type { Tool } from '../protocol/tools.ts'
import type { Chain } from '../turn/chain.ts'
import { weigh, weighText } from '../turn/weigh.ts'
import { canonical } from './scenario-schema.ts'

/** A conversation up to and including one link. */
export type Seen = {
  /** Hash of all items from the root, and their weight, after each item of this link. */
  readonly keys: readonly string[]
  readonly weights: readonly number[]
  readonly last: string
  readonly weight: number
  /** Calls so far; the number of each call of this link by its call id. */
  readonly calls: number
  readonly numbers: ReadonlyMap<string, number>
  /** Times the model has spoken. */
  readonly turns: number
  /** Runs of tool outputs since the user last said something. */
  readonly rounds: number
  /** What the user and the tools said last, cut to 64 Ki and 2 Ki characters. */
  readonly user: string
  readonly output: string
  /** Kind of the newest item, which decides whether the next one starts a run. */
  readonly newest: 'model' | 'output' | 'other'
}

const empty: Seen = {
  keys: [],
  weights: [],
  last: '',
  weight: 0,
  calls: 0,
  numbers: new Map(),
  turns: 0,
  rounds: 0,
  user: '',
  output: '',
  newest: 'other',
}
const seen = new WeakMap<Chain, Seen>()

/** The conversation that ends in this link. */
export function seenOf(chain: Chain): Seen {
  const open: Chain[] = []
  let link: Chain | undefined = chain
  while (link && !seen.has(link)) {
    open.push(link)
    link = link.parent
  }
  let state = (link && seen.get(link)) ?? empty
  for (let n = open.length - 1; n >= 0; n--) {
    const next = open[n]
    if (!next) break
    state = goOn(state, next.items, next.parent)
    seen.set(next, state)
  }
  return state
}

/** `before` with these items behind it; `chain` is where the calls that they answer are looked for. */
export function goOn(
  before: Seen,
  items: readonly Item[],
  chain: Chain | undefined,
  onText?: (text: string) => void,
): Seen {
  const keys: string[] = []
  const weights: number[] = []
  const numbers = new Map<string, number>()
  let { last, weight, calls, turns, rounds, user, output, newest } = before
  for (const item of items) {
    const called = calledAs(item)
    if (called !== undefined) numbers.set(called, ++calls)
    const text = render(item, numbers, chain)
    onText?.(text)
    last = createHash('sha1').update(last).update(text).digest('base64')
    weight += weigh([item])
    keys.push(last)
    weights.push(weight)
    if (answeredCall(item) !== undefined) {
      if (newest !== 'output') rounds++
      output = textOf((item as { output?: ToolOutput }).output).slice(0, 2048)
      newest = 'output'
    } else if (
      called !== undefined ||
      item.type === 'reasoning' ||
      (item.type === 'message' && item.role === 'assistant')
    ) {
      if (newest !== 'model') turns++
      newest = 'model'
    } else {
      newest = 'other'
      if (item.type === 'message' && item.role === 'user') {
        user = textOf(item.content).slice(0, 65_536)
        rounds = 0
        output = ''
      }
    }
  }
  return { keys, weights, last, weight, calls, numbers, turns, rounds, user, output, newest }
}

/** What stands in front of the conversation: instructions and the request's own tools. */
export type Head = { readonly text: string; readonly key: string; readonly weight: number }

const toolTexts = new WeakMap<readonly Tool[], string>()

/** `owner` is in the key: nobody's prompt may be found in the cache by somebody else. */
export function headOf(settings: Settings, owner: string): Head {
  let tools = toolTexts.get(settings.tools)
  if (tools === undefined) {
    tools = settings.tools.map((t) => `tool: ${canonical(t)}\n`).join('')
    toolTexts.set(settings.tools, tools)
  }
  const text = (settings.instructions === null ? '' : `instructions: ${settings.instructions}\n`) + tools
  const key = createHash('sha1')
    .update(canonical([owner, text]))
    .digest('base64')
  return { text, key, weight: weighText(settings.instructions ?? '') + weighText(tools) }
}

/** The whole prompt as text: one line an item, calls numbered in place of ids. Costs the whole history. */
export function promptText(head: Head, chain: Chain): string {
  const lines = [head.text]
  let before = empty
  for (const link of chain.since(undefined) ?? [])
    before = goOn(before, link.items, link.parent, (line) => void lines.push(line))
  return lines.join('')
}

function render(item: Item, numbers: ReadonlyMap<string, number>, chain: Chain | undefined): string {
  switch (item.type) {
    case 'message':
      return `${item.role}: ${partsText(item.content)}\n`
    case 'reasoning':
      return `reasoning: ${textOf(item.content && item.content.length > 0 ? item.content : item.summary)}\n`
    case 'function_call':
      return `call ${numbers.get(item.call_id)}: ${pathOf(item)}(${item.arguments})\n`
    case 'custom_tool_call':
      return `call ${numbers.get(item.call_id)}: ${pathOf(item)} ${item.input}\n`
    case 'function_call_output':
    case 'custom_tool_call_output': {
      const text = typeof item.output === 'string' ? item.output : partsText(item.output)
      return `output ${numberOf(item.call_id, numbers, chain)}: ${text}\n`
    }
    case 'compaction':
      return `compaction: ${digest(item.encrypted_content)}\n`
    case 'additional_tools':
      return item.tools.map((t) => `tool: ${canonical(t)}\n`).join('')
    default: {
      const { id, status, encrypted_content, call_id, ...rest } = item as unknown as Record<string, unknown>
      return `${canonical(rest)}\n`
    }
  }
}
/** The newest call of that id; `?` for an output whose call is not in the conversation. */
function numberOf(callId: string, numbers: ReadonlyMap<string, number>, chain: Chain | undefined): number | '?' {
  const here = numbers.get(callId)
  if (here !== undefined) return here
  for (let link = chain; link; link = link.parent) {
    const n = seenOf(link).numbers.get(callId)
    if (n !== undefined) return n
  }
  return '?'
}
const pathOf = (call: { name: string; namespace?: string }): string =>
  call.namespace === undefined ? call.name : `${call.namespace}.${call.name}`
const digest = (text: string): string => createHash('sha1').update(text).digest('hex')

function partsText(parts: Message['content']): string {
  return parts
    .map((part) => {
      if (part.type === 'input_image') return `[image ${digest(part.image_url ?? part.file_id ?? '')}]`
      if (part.type === 'input_file')
        return `[file ${part.filename ?? ''} ${digest(part.file_data ?? part.file_url ?? part.file_id ?? '')}]`
      return textOf([part])
    })
    .join('')
}
