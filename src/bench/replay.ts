// A recorded session as the task of a loop. What the client sent is sent again; what the model said is said by the engine, so
// that every mode has the same; tools take as long as they took. Reads Responses items as a JSON array or as lines, and
// sessions of Codex, whose lines wrap them.
import { readFile, stat } from 'node:fs/promises'
import { pythonJson } from '../codecs/python-json.ts'
import type { Fields } from './driver.ts'
import { type Answer, type Count, message, type Said, type Step, type Task, tool } from './loop-task.ts'
import { Texts } from './loop-texts.ts'

const mostBytes = 64 * 1024 * 1024
const mostItems = 20_000
/** As many turns as a scenario has. */
const mostSteps = 1000
/** Of one round of tools: a test that ran for minutes would only be waited for. */
const mostToolMs = 500

export type Replay = { readonly task: Task; readonly told: readonly string[] }
type Timed = { readonly item: Fields; readonly at: number }

/** `toolMs` is for sessions that do not say when; `tools`: tokens of tools that are offered beside those that were called. */
export async function replayTask(
  file: string,
  { toolMs, tools, count }: { readonly toolMs: number; readonly tools: number; readonly count: Count },
): Promise<Replay> {
  const { items, instructions } = read(await textOf(file), file)
  const { opening, steps, leftOut } = stepsOf(items, toolMs)
  if (steps.length === 0)
    throw new Error(`${file} has nothing that a model said: give a session with calls or answers in it.`)
  if (steps.length > mostSteps)
    throw new Error(
      `In ${file} the model speaks ${steps.length} times; ${mostSteps} can be replayed: give its first part.`,
    )
  const called = [
    ...new Set(steps.flatMap(({ says }) => says.flatMap((said) => ('call' in said ? [said.call.name] : [])))),
  ]
  const texts = new Texts(0, 4)
  const others: Fields[] = []
  for (let sum = 0; sum < tools && others.length < 64;) {
    const next = tool(others.length, texts.take(160))
    sum += count(JSON.stringify(next))
    if (!called.includes(String(next['name']))) others.push(next)
  }
  return {
    task: {
      instructions: instructions ?? 'You are a coding agent.',
      tools: [...called.map(anyTool), ...others],
      opening,
      earlier: 0,
      steps,
    },
    told: [
      `Replayed: ${steps.length} turns of a recorded session. Custom tools and shell calls are called as functions, messages of developers come as the user's; each round of tools takes at most ${mostToolMs} ms.`,
      ...(leftOut > 0
        ? [`${leftOut} items of the session were left out: hosted tools, pictures, outputs without a call.`]
        : []),
    ],
  }
}
const anyTool = (name: string): Fields => ({
  type: 'function',
  name,
  description: 'As it was called in the session.',
  parameters: { type: 'object', properties: {}, additionalProperties: true },
  strict: false,
})

async function textOf(file: string): Promise<string> {
  const found = await stat(file).catch(() => undefined)
  if (!found?.isFile()) throw new Error(`There is no file ${file} to replay.`)
  if (found.size > mostBytes) throw new Error(`${file} has ${found.size} bytes; ${mostBytes} can be replayed.`)
  return readFile(file, 'utf8')
}

/** Exported for tests: what stands in a file. */
export function read(
  text: string,
  file: string,
): { readonly items: readonly Timed[]; readonly instructions: string | undefined } {
  const values = text.trimStart().startsWith('[') ? [...list(json(text, file), file)] : lines(text, file)
  let instructions: string | undefined
  const items: Timed[] = []
  for (const [n, value] of values.entries()) {
    if (!isFields(value)) throw new Error(`${file}: entry ${n + 1} is no JSON object, as an item is.`)
    const { type, payload, timestamp } = value
    if (isFields(payload)) {
      // A line of Codex; besides items it keeps events, settings and the like.
      if (type === 'session_meta') instructions = instructionsOf(payload)
      if (type === 'response_item') items.push({ item: payload, at: Date.parse(String(timestamp)) })
    } else if (typeof type === 'string' || typeof value['role'] === 'string') {
      items.push({ item: typeof type === 'string' ? value : { type: 'message', ...value }, at: NaN })
    } else throw new Error(`${file}: entry ${n + 1} is no item: it has no \`type\`.`)
    if (items.length > mostItems) throw new Error(`${file} has more than ${mostItems} items; give its first part.`)
  }
  return { items, instructions }
}
function lines(text: string, file: string): unknown[] {
  return text.split('\n').flatMap((line, n) => (line.trim() === '' ? [] : [json(line, `${file}, line ${n + 1}`)]))
}
function json(text: string, where: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    throw new Error(`${where} is no JSON: give items as a JSON array, or one a line.`)
  }
}
function list(value: unknown, file: string): readonly unknown[] {
  if (Array.isArray(value)) return value
  throw new Error(`${file} is no JSON array of items.`)
}
const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
function instructionsOf({ instructions, base_instructions: given }: Fields): string | undefined {
  if (typeof instructions === 'string') return instructions
  return isFields(given) && typeof given['text'] === 'string' ? given['text'] : undefined
}

type Steps = { readonly opening: readonly Fields[]; readonly steps: readonly Step[]; readonly leftOut: number }
type Open = { says: Said[]; ids: string[]; answers: Answer[]; began: number; ended: number }

/** Runs of what the model said, each with what the client said to it. */
function stepsOf(items: readonly Timed[], toolMs: number): Steps {
  const opening: Fields[] = []
  const open: Open[] = []
  let leftOut = 0
  let speaking = false
  for (const { item, at } of items) {
    const said = saidOf(item)
    const last = open.at(-1)
    if (said) {
      const step = speaking && last ? last : { says: [], ids: [], answers: [], began: at, ended: at }
      if (step !== last) open.push(step)
      if ('call' in said) step.ids.push(String(item['call_id']))
      step.says.push(said)
      step.began = at
      speaking = true
      continue
    }
    const answer = answerOf(item, last?.ids ?? [])
    if (!answer) {
      leftOut++
      continue
    }
    if (last) {
      last.answers.push(answer)
      if ('call' in answer) last.ended = at
    } else if ('item' in answer) opening.push(answer.item)
    speaking = false
  }
  const steps = open.map(({ says, ids, answers, began, ended }, n): Step => {
    if (n === open.length - 1) return { says: says.filter((said) => !('call' in said)), answers: [], toolMs: 0 }
    const answered = new Set(answers.map((answer) => ('call' in answer ? answer.call : -1)))
    const missing = ids.flatMap((_, call): Answer[] => (answered.has(call) ? [] : [{ call, output: '(no output)' }]))
    const took = ended - began
    const waits = ids.length === 0 ? 0 : Number.isNaN(took) ? toolMs : took
    return { says, answers: [...missing, ...answers], toolMs: Math.min(mostToolMs, Math.max(0, waits)) }
  })
  const last = steps.at(-1)
  // A session that ends with a call ends before it: nothing was said to it.
  return { opening, steps: last && last.says.length === 0 ? [...steps.slice(0, -1), closing] : steps, leftOut }
}
const closing: Step = { says: [{ text: 'Done.' }], answers: [], toolMs: 0 }

/** What a model wrote, as the engine says it again; undefined for all else. */
function saidOf(item: Fields): Said | undefined {
  const { type, name, role } = item
  switch (type) {
    case 'message':
      return role === 'assistant' && words(item['content']) !== '' ? { text: words(item['content']) } : undefined
    case 'reasoning': {
      const text = words(item['content']) || words(item['summary'])
      return text === '' ? undefined : { reasoning: text }
    }
    case 'function_call':
      return { call: { name: nameOf(name), arguments: argumentsOf(item['arguments']) } }
    case 'custom_tool_call':
      return { call: { name: nameOf(name), arguments: pythonJson({ input: String(item['input'] ?? '') }) } }
    case 'local_shell_call':
      return { call: { name: 'local_shell', arguments: pythonJson(item['action'] ?? {}) } }
    default:
      return undefined
  }
}
function answerOf(item: Fields, ids: readonly string[]): Answer | undefined {
  const { type, role, call_id: id } = item
  if (type === 'message') {
    const text = words(item['content'])
    return role === 'assistant' || text === '' ? undefined : { item: message('user', text) }
  }
  const call = typeof type === 'string' && type.endsWith('_call_output') ? ids.indexOf(String(id)) : -1
  return call < 0 ? undefined : { call, output: outputOf(item['output']) }
}
/** Names as tools may have them. */
const nameOf = (name: unknown): string =>
  String(name ?? 'tool')
    .replaceAll(/[^\w-]/g, '_')
    .slice(0, 64) || 'tool'
/** With a blank behind each comma and colon, as chat templates write JSON. */
function argumentsOf(text: unknown): string {
  try {
    const value = JSON.parse(String(text)) as unknown
    if (isFields(value)) return pythonJson(value)
  } catch {
    // What a model wrote need not be JSON.
  }
  return pythonJson({ input: String(text ?? '') })
}
function outputOf(output: unknown): string {
  if (typeof output === 'string') return output
  return Array.isArray(output) ? words(output) : JSON.stringify(output ?? '')
}
function words(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .map((part: unknown) => (isFields(part) && typeof part['text'] === 'string' ? part['text'] : ''))
    .join('')
}
