// How a model with a template of its own writes reasoning and calls: one of the known ways, guessed from the template.
// The families that know them are given from outside; here is the plainest, and what all have in common.
import { ApiError } from '../protocol/errors.ts'
import type { Finish } from '../turn/ports.ts'
import { constraintOf } from './constrain.ts'
import type { Family, Out, Parser } from './family.ts'
import { TagParser } from './tag-parser.ts'

/** What a family says of how its model writes. */
export type Dialect = Pick<Family, 'name' | 'needs' | 'stops' | 'markers' | 'parser' | 'spoken' | 'constrain'>
export type DialectName = keyof typeof dialects

/** The family that reads and writes each dialect; undefined: `plain`. */
export const dialects = {
  hermes: 'qwen3',
  'qwen-xml': 'qwen3.5',
  llama: 'llama3',
  mistral: 'mistral-small-3.2',
  deepseek: 'deepseek-v3.1',
  glm: 'glm-4.6',
  kimi: 'kimi-k2-thinking',
  harmony: 'gpt-oss',
  none: undefined,
} as const satisfies Record<string, string | undefined>

/** Looked for in this order. */
const marks: readonly (readonly [DialectName, readonly string[]])[] = [
  ['harmony', ['<|channel|>', '<|start|>']],
  ['deepseek', ['<｜tool▁calls▁begin｜>']],
  ['kimi', ['<|tool_calls_section_begin|>']],
  ['glm', ['<arg_key>', '<tool_call>']],
  ['mistral', ['[TOOL_CALLS]']],
  ['qwen-xml', ['<function=', '<tool_call>']],
  ['hermes', ['<tool_call>']],
  ['llama', ['<|start_header_id|>', '"parameters"']],
]
/** `template`: Jinja source. `none`: calls are not read, and tools only told of. */
export const dialectOf = (template: string): DialectName =>
  marks.find(([, has]) => has.every((mark) => template.includes(mark)))?.[0] ?? 'none'

/** Reasoning in <think>, and text. */
export const plain: Dialect = {
  name: 'none',
  needs: [],
  stops: [],
  markers: ['<think>', '</think>'],
  parser() {
    const tags = new TagParser({
      breaks: 0,
      stops: [],
      call: () => {
        throw new Error('a call was found where none are looked for')
      },
    })
    return {
      // A vocabulary may have these though nothing is known of what stands between them.
      marker: (name, out) => (name.endsWith('tool_call>') ? tags.text(name, out) : tags.marker(name, out)),
      text: (text, out) => tags.text(text, out),
      end: (out, finish) => tags.end(out, finish),
    }
  },
  spoken: (pen, { text }) => pen.text(text),
  constrain(want, { thinking }) {
    if (want.must || want.answer === undefined)
      throw new ApiError(
        'unsupported_by_engine',
        "This model cannot do 'tools' that are held to a schema or must be called: how it writes calls is not known. Name one of the known codecs for it.",
        'tools',
      )
    return constraintOf({ ...want, tools: [] }, [], thinking ? '</think>' : undefined)
  },
}

/** A family's parser, told where the template's own prompt leaves the model. */
export class DialectParser implements Parser {
  readonly #parser: Parser
  readonly #stops: ReadonlySet<string>
  readonly #stop: string | undefined
  /** The prompt has opened the reasoning. */
  #opened: boolean

  /** `stop`: the name under which the parser knows the end of a turn. */
  constructor(parser: Parser, stops: readonly string[], stop: string | undefined, opened: boolean) {
    this.#parser = parser
    this.#stops = new Set(stops)
    this.#stop = stop
    this.#opened = opened
  }
  marker(name: string, out: Out): void {
    this.#begin(out)
    this.#parser.marker(this.#stops.has(name) ? (this.#stop ?? name) : name, out)
  }
  text(text: string, out: Out): void {
    this.#begin(out)
    this.#parser.text(text, out)
  }
  end(out: Out, finish: Finish | undefined): void {
    this.#begin(out)
    this.#parser.end(out, finish)
  }
  #begin(out: Out): void {
    if (this.#opened) this.#parser.marker('<think>', out)
    this.#opened = false
  }
}
