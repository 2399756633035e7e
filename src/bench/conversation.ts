// A conversation that grows as an agent's does, call by call and output by output, and the places in it from which turns can
// be measured again and again: what a measured turn adds is forgotten, so that a place stays as long as it is.
import { loadTokenizer } from '../tokenizers/load.ts'
import type { Asked, Driver, Fields } from './driver.ts'
import { message, tool } from './loop-task.ts'
import { Texts } from './loop-texts.ts'

/** How its newest response is continued: by its id, or by everything there was and `answers` behind it. */
export type Place = {
  readonly tokens: number
  readonly previous: string
  readonly calls: readonly Asked[]
  readonly history: readonly Fields[]
}
/** Characters of the texts that make a token of Qwen3's vocabulary, about. */
export const charsPerToken = 4.5
/** What an output has beside its text, and a call in front of it. */
const around = 45
/** Where a conversation is grown, so that the newest response there stays known to its connection. */
const lane = 'kept'
/** A conversation that does not reach its length within so many turns never does. */
const mostTurns = 20_000

export type Settings = { readonly instructions: string; readonly tools: readonly Fields[] }
/** What an agent sends with every turn: some 700 tokens, or so many more as are asked for. */
export function settingsOf(tokens = 700): Settings {
  const texts = new Texts(0, charsPerToken)
  const count = Math.max(3, Math.round(tokens / 450))
  const rest = Math.max(60, tokens - count * 150)
  return {
    instructions: `You are a coding agent. Look before you act.\n\n${texts.take(rest / 2)}`,
    tools: Array.from({ length: count }, (_, n) => tool(n, texts.take(rest / 2 / count))),
  }
}
/** The simulated engine, told to call the first tool for ever: some 40 ids a turn. */
export const callsForEver = {
  type: 'simulated',
  tokens: true,
  scenario: {
    turns: [
      {
        when: { tool: 'read_file' },
        steps: [
          {
            call: {
              name: 'read_file',
              arguments: '{"path": "src/part-7.ts", "lines": "10,80", "why": "I want to see the next part of it."}',
            },
          },
        ],
      },
    ],
  },
} as const

/** The same call as ids, for an engine that speaks those. */
export async function callIds(folder: string): Promise<number[]> {
  const { tokenizer } = await loadTokenizer(folder)
  const [step] = callsForEver.scenario.turns[0].steps
  const control = (name: string): number => tokenizer.control(name) ?? 0
  const text = `\n{"name": "${step.call.name}", "arguments": ${step.call.arguments}}\n`
  return [
    control('<tool_call>'),
    ...Array.from(await tokenizer.encode(text)),
    control('</tool_call>'),
    control('<|im_end|>'),
  ]
}

/** An output for each of the calls. */
export const answersOf = (calls: readonly Asked[], texts: Texts, tokens: number): Fields[] =>
  calls.map(({ call_id }) => ({ type: 'function_call_output', call_id, output: texts.take(tokens) }))

export class Conversation {
  readonly #driver: Driver
  readonly #body: Fields
  readonly #texts: Texts
  readonly #output: number
  #history: Fields[]
  #fresh: Fields[]
  #place: Place | undefined

  /** `output`: tokens that each turn adds. `body`: what is sent beside input. Texts go by the seed; the name tells it from others. */
  constructor(
    driver: Driver,
    body: Fields,
    options: { readonly output: number; readonly seed: number; readonly name?: number },
  ) {
    this.#driver = driver
    this.#body = body
    this.#texts = new Texts(options.seed, charsPerToken)
    this.#output = Math.max(1, options.output - around)
    this.#fresh = [message('user', `Go through project ${options.name ?? options.seed}, file by file.`)]
    this.#history = []
  }
  /** One more turn. */
  async step(): Promise<Place> {
    const input = this.#fresh
    const previous = this.#place?.previous
    const seen = await this.#driver.turn({
      ...this.#body,
      stream_id: lane,
      input,
      ...(previous === undefined ? {} : { previous_response_id: previous }),
    })
    if (seen.calls.length === 0) throw new Error('The model was to call a tool, and did not.')
    this.#history = [...this.#history, ...input, ...seen.items]
    this.#fresh = answersOf(seen.calls, this.#texts, this.#output)
    return (this.#place = {
      tokens: seen.usage.input + seen.usage.output,
      previous: seen.id,
      calls: seen.calls,
      history: this.#history,
    })
  }
  /** Until it has so many tokens, as the engine counts them. */
  async grow(tokens: number): Promise<Place> {
    for (let turns = 1; turns <= mostTurns; turns++) {
      const place = await this.step()
      if (place.tokens >= tokens) return place
    }
    throw new Error(`The conversation did not reach ${tokens} tokens within ${mostTurns} turns.`)
  }
}
