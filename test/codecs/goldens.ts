// Reads the golden renders: random conversations, and what a model's own template made of them by the reference
// implementation of Jinja. scripts/goldens/README.md says how they were made and what the flags mean.
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import type { Item } from '../../src/protocol/items.ts'
import type { FunctionTool } from '../../src/protocol/tools.ts'

export const families = [
  'qwen2.5',
  'qwen3',
  'qwen3-coder',
  'qwen3.5',
  'hermes-3',
  'gpt-oss',
  'llama3.1',
  'llama3.2',
  'llama3.3',
  'mistral-nemo',
  'mistral-small-3.2',
  'ministral-3',
  'devstral',
  'deepseek-v3',
  'deepseek-v3.1',
  'deepseek-v3.2',
  'glm-4.6',
  'glm-4.7-flash',
  'kimi-k2',
  'kimi-k2-instruct',
  'kimi-k2-thinking',
] as const
export type Family = (typeof families)[number]

/** What is special about a case; a codec may rightly differ on some of them. */
export type Flags = {
  /** A text holds what looks like a marker of some format: tokens of the whole text differ on purpose. */
  readonly lookalike?: true
  /** A text begins or ends with white space. */
  readonly edges?: true
  /** Arguments are JSON in a form that `tojson` would not print: spaces, escapes, numbers, a key twice. */
  readonly args?: 'odd'
  /** Text beside calls, which this template drops or moves. */
  readonly preamble?: true
  /** An assistant message behind a call of the same answer. */
  readonly afterthought?: true
  /** Outputs came in another order than the calls. */
  readonly shuffled?: true
  /** Several calls of different functions, and the template names the last one at every output. */
  readonly parallel?: true
  /** Arguments hold true, false or null, which this template prints as Python does. */
  readonly python?: true
  /** There are tools, and the template shows none. */
  readonly undeclared?: true
  /** There are calls, and what the template makes of them is broken. */
  readonly broken?: true
  /** An answer of reasoning alone. */
  readonly hollow?: true
}
export type Effort = 'none' | 'low' | 'medium' | 'high'
export type GoldenSettings = {
  readonly instructions: string | null
  readonly tools: readonly FunctionTool[]
  readonly effort: Effort | null
}
export type Golden = {
  readonly flags: Flags
  readonly settings: GoldenSettings
  readonly items: readonly Item[]
  /** Every point at which a server asks the model: how many items stand before it, and the render of those, hashed (hex). */
  readonly turns: readonly { readonly upto: number; readonly sha256: string }[]
  /** The render of the last turn, the generation prompt at its end. */
  readonly text: string
}
export type Goldens = {
  readonly family: Family
  readonly template: {
    readonly file: string
    readonly sha256: string
    /** Pieces of it that were replaced: what the codec does otherwise in every conversation. */
    readonly edits?: readonly (readonly [string, string])[]
  }
  readonly python: string
  readonly jinja: string
  readonly seed: string
  /** The date that `strftime_now` gave. */
  readonly today: string
  /** Variables the template was given on every render. */
  readonly variables: Readonly<Record<string, string | boolean>>
  /** How items became messages; see families.py. */
  readonly mapping: {
    readonly effort: 'enable_thinking' | 'thinking' | 'reasoning_effort' | null
    readonly arguments: 'text' | 'parsed'
    readonly laterSystem: 'system' | 'user'
    readonly reasoning: 'none' | 'blocks' | 'reasoning_content' | 'thinking'
    readonly calls: 'together' | 'split'
    readonly users: 'apart' | 'joined'
    readonly ids: 'given' | 'functions'
    readonly besideCalls: 'kept' | 'lost' | 'moved'
    readonly names: 'own' | 'last'
    readonly literals: 'json' | 'python'
    readonly declares: boolean
    readonly callsWork: boolean
  }
  readonly cases: readonly Golden[]
}

/** Nothing in it that a codec may rightly render otherwise; at least 1,000 turns of every family are such. */
export const undisputed = ({ flags }: Golden): boolean => Object.keys(flags).every((flag) => flag === 'edges')

/** The goldens of a family; some 5 MB of JSON, read anew on every call. */
export function goldens(family: Family): Goldens {
  const file = new URL(`goldens/${family}.json.gz`, import.meta.url)
  // A door, but to data that a script of ours wrote.
  return JSON.parse(gunzipSync(readFileSync(file)).toString('utf8')) as Goldens
}
