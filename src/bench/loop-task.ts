// The task of an agent loop: what its client sends, what the model says, and what its tools answer. Made of real text, by a
// seed; or recorded (replay.ts). The same for every mode.
import type { Asked, Fields } from './driver.ts'
import { sampleText, Texts } from './loop-texts.ts'

/** As a step of a scenario (docs/engines.md). */
export type Said =
  | { readonly text: string }
  | { readonly reasoning: string }
  | { readonly call: { readonly name: string; readonly arguments: string } }
/** `call`: the how manieth call of the step it answers. */
export type Answer = { readonly call: number; readonly output: string } | { readonly item: Fields }
/** One turn: what the model says, and what the client says to it after the tool has run. */
export type Step = { readonly says: readonly Said[]; readonly answers: readonly Answer[]; readonly toolMs: number }
export type Task = {
  readonly instructions: string
  readonly tools: readonly Fields[]
  /** What the conversation begins with; most of it said earlier. */
  readonly opening: readonly Fields[]
  /** How often the model has spoken in it. */
  readonly earlier: number
  /** Nothing answers the last one. */
  readonly steps: readonly Step[]
}
export type Sizes = {
  readonly calls: number
  /** Tokens when the loop begins, and those that each step adds. */
  readonly base: number
  readonly growth: number
  /** Tokens of each call, and of the last answer. */
  readonly output: number
  readonly toolMs: number
}
/** Ids of a text. */
export type Count = (text: string) => number
/** For servers whose vocabulary nobody knows. */
export const roughly: Count = (text) => Math.ceil(text.length / 4)

/** What a call costs beside its arguments' own words, and an item beside its text. */
const aroundCall = 30
const aroundItem = 10
/** Tokens of one tool's definition, and of a tool output said earlier. */
const perTool = 280
const perEarlier = 1800

/** Throws a RangeError where the base is too small to hold anything. */
export function taskOf(sizes: Sizes, seed: number, count: Count): Task {
  const { calls, base, growth, output, toolMs } = sizes
  if (base < 800) throw new RangeError('A loop begins with at least 800 tokens.')
  if (growth < output + 60)
    throw new RangeError(`A step must add at least ${output + 60} tokens: its call, and its output.`)
  const sample = sampleText(200_000)
  const perToken = sample.length / Math.max(1, count(sample))
  // Instructions and tools are what all loops of an agent share.
  const shared = new Texts(0, perToken)
  const own = new Texts(seed, perToken)
  const [forInstructions, forTools] = [Math.min(3500, base / 4), Math.min(3500, base / 4)]
  const rounds = Math.max(1, Math.round((base - forInstructions - forTools) / (perEarlier + 60)))
  const each = (base - forInstructions - forTools) / rounds
  const opening = Array.from({ length: rounds }, (_, n): readonly Fields[] => [
    ...(n % 4 === 0 ? [message('user', own.take(40))] : []),
    call(`earlier_${n}`, readers(n), argumentsOf(own.take(8), n)),
    answered(`earlier_${n}`, own.take(each - 60 - (n % 4 === 0 ? 50 : 0))),
  ])
  return {
    instructions: `You are a coding agent. Work with the tools until the task is done.\n\n${shared.take(forInstructions)}`,
    tools: Array.from({ length: Math.max(2, Math.round(forTools / perTool)) }, (_, n) =>
      tool(n, shared.take(perTool - 120)),
    ),
    opening: [...opening.flat(), message('user', 'Go through what is left, file by file, then say what you found.')],
    earlier: rounds,
    steps: [
      ...Array.from({ length: calls }, (_, n): Step => ({
        says: [{ call: { name: readers(n), arguments: longArguments(n, output - aroundCall, count) } }],
        answers: [{ call: 0, output: own.take(growth - output - aroundItem) }],
        toolMs,
      })),
      { says: [{ text: words(output - 2, count, 'This is what I found:') }], answers: [], toolMs: 0 },
    ],
  }
}

/** What an engine follows to say all this. */
export function scenarioOf({ earlier, steps }: Task): Fields {
  const before = Array.from({ length: earlier }, () => ({ steps: [{ text: 'Said before.' }] }))
  return { turns: [...before, ...steps.map(({ says }) => ({ steps: says }))] }
}
/** What the client sends after a step. Throws an Error where the model did not call what it was to call. */
export function answersTo({ says, answers }: Step, calls: readonly Asked[], turn: number): readonly Fields[] {
  const wanted = says.filter((said) => 'call' in said).length
  if (calls.length !== wanted)
    throw new Error(`In turn ${turn} the model called ${calls.length} tools where ${wanted} were to be called.`)
  return answers.map((answer) =>
    'item' in answer ? answer.item : answered(calls[answer.call]?.call_id ?? '', answer.output),
  )
}
/** The first item of a loop, which no other loop has: digits are a token each, so that all are equally long. */
export const marker = (loop: number): Fields => message('user', `Run ${String(loop).padStart(8, '0')}.`)

export const message = (role: 'user' | 'developer', text: string): Fields => ({
  type: 'message',
  role,
  content: [{ type: 'input_text', text }],
})
const call = (call_id: string, name: string, args: string): Fields => ({
  type: 'function_call',
  call_id,
  name,
  arguments: args,
})
const answered = (call_id: string, output: string): Fields => ({ type: 'function_call_output', call_id, output })

const names = [
  'read_file',
  'search_files',
  'list_folder',
  'run_command',
  'edit_file',
  'show_diff',
  'fetch_page',
  'run_tests',
]
/** Of those that read. */
const readers = (n: number): string => names[n % 2] ?? 'read_file'
export function tool(n: number, description: string): Fields {
  const round = Math.floor(n / names.length)
  const text = (what: string): Fields => ({ type: 'string', description: what })
  return {
    type: 'function',
    name: `${names[n % names.length]}${round === 0 ? '' : `_${round + 1}`}`,
    description,
    parameters: {
      type: 'object',
      properties: {
        path: text('Path of a file, from the root of the project.'),
        lines: text('Which lines, as 10,40.'),
        why: text('What this is for, in a sentence.'),
      },
      required: ['path'],
      additionalProperties: false,
    },
    strict: false,
  }
}

// As models write JSON: a blank behind each comma and colon.
const argumentsOf = (why: string, n: number): string =>
  `{"path": "src/part-${n}.ts", "lines": "${n},${n + 40}", "why": ${JSON.stringify(why)}}`
const longArguments = (n: number, tokens: number, count: Count): string =>
  argumentsOf(words(tokens, count, 'I want to see'), n)
const spoken =
  ' how the parts of this file fit the rest and what they say about the next one to look at'.match(/ \w+/g) ?? []
/** About so many tokens, of words that are one each. */
function words(tokens: number, count: Count, begin: string): string {
  let text = begin
  for (let n = count(begin); n < tokens; n++) text += spoken[n % spoken.length] ?? ''
  return text
}
