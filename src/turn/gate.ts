// The safety check that runs beside inference. One per generation: it looks at what is new in the input and at the words
// that come. Started, never awaited before the first word; a flag arrives through the stop signal; it never rejects.
import { ApiError } from '../protocol/errors.ts'
import { type Item, textOf } from '../protocol/items.ts'
import type { Classifier, Delta } from './ports.ts'

/** Characters of output that are checked at once. */
const window = 512

export class Gate {
  #state: 'open' | 'passed' | 'flagged' = 'open'
  #context: string | undefined
  readonly #done: Promise<void>
  readonly #stop: AbortController
  readonly #outputs: readonly Classifier[]
  #words = ''
  #checking: Promise<void> = Promise.resolve()

  constructor(
    classifiers: readonly Classifier[],
    fresh: readonly Item[],
    context: string | undefined,
    stop: AbortController,
  ) {
    this.#context = context
    this.#stop = stop
    this.#outputs = classifiers.filter((c) => c.looksAt !== 'input')
    const inputs = classifiers.filter((c) => c.looksAt !== 'output')
    const text = inputs.length === 0 ? '' : fresh.map(wordsOf).join('\n')
    if (text === '') {
      this.#state = 'passed'
      this.#done = Promise.resolve()
      return
    }
    this.#done = Promise.all(inputs.map((c) => this.#ask(c, text))).then(() => {
      if (this.#state === 'open') this.#state = 'passed'
    })
  }
  async #ask(classifier: Classifier, text: string): Promise<void> {
    try {
      const verdict = await classifier.check(text, this.#context, this.#stop.signal)
      if (verdict.ok) {
        this.#context = verdict.context
        return
      }
    } catch {
      // A check that cannot be made counts as a flag.
    }
    this.#state = 'flagged'
    this.#stop.abort(new ApiError('invalid_prompt'))
  }
  /** Nothing is left to wait for before the model's words may leave. */
  get passed(): boolean {
    return this.#state === 'passed'
  }
  /** The rolling context for the next turn's check. */
  get context(): string | undefined {
    return this.#context
  }
  verdict(): Promise<void> {
    return this.#done
  }
  watch(delta: Delta): void {
    if (this.#outputs.length === 0) return
    if (delta.type === 'text' || delta.type === 'arguments') this.#words += delta.text
    else if (delta.type !== 'end') return
    if (this.#words === '' || (this.#words.length < window && delta.type !== 'end')) return
    const words = this.#words
    this.#words = ''
    this.#checking = this.#checking.then(async () => {
      await Promise.all(this.#outputs.map((c) => this.#ask(c, words)))
    })
  }
  /** After the last word: every check has answered. */
  async settled(): Promise<void> {
    await this.#done
    await this.#checking
  }
}

function wordsOf(item: Item): string {
  switch (item.type) {
    case 'message':
    case 'reasoning':
      return textOf(item.content)
    case 'function_call_output':
    case 'custom_tool_call_output':
      return textOf(item.output)
    default:
      return ''
  }
}
