// A rollout (experimental): one response that waits at each round of calls until its client has answered them, and goes
// on. Owns the answers that have come and the wait for the others, and bounds both.
import { ApiError } from '../protocol/errors.ts'
import { answeredCall, type Item } from '../protocol/items.ts'
import type { Chain } from '../turn/chain.ts'
import type { Ending, Output } from '../turn/output.ts'
import type { EngineUsage } from '../turn/ports.ts'
import { Halt, type Rollout as Waits } from '../turn/run.ts'
import { sizeOf } from '../turn/weigh.ts'
import type { Deadline } from './deadline.ts'
import type { RolloutLimits } from './limits.ts'
import { withId } from './resolve.ts'

type Bounds = Pick<RolloutLimits, 'waitMs' | 'rounds'> & { readonly conversationBytes: number }
const outputs = new Set(['function_call_output', 'custom_tool_call_output'])
/** What a conversation takes for a run of answers besides them, from above. */
const perLink = 2048

export class Rollout implements Waits {
  readonly #output: Output
  readonly #stop: AbortSignal
  readonly #turnTime: Deadline
  readonly #bounds: Bounds
  readonly #draining: () => boolean
  /** What was appended in this round, in the order in which it came. */
  #items: Item[] = []
  #bytes = 0
  readonly #answered = new Set<string>()
  /** Calls of all rounds before. */
  readonly #past = new Set<string>()
  /** Ends the wait, and the calls it is for; undefined while the model speaks. */
  #waiting: { readonly calls: readonly string[]; end(said: readonly Item[] | Ending): void } | undefined
  #before = 0
  #round = 1

  /** `turnTime` is held while the client is waited for. */
  constructor(output: Output, stop: AbortSignal, turnTime: Deadline, bounds: Bounds, draining: () => boolean) {
    this.#output = output
    this.#stop = stop
    this.#turnTime = turnTime
    this.#bounds = bounds
    this.#draining = draining
  }

  /**
   * Takes outputs for calls that are done, which may be before the model has ended, and messages of the user beside them.
   * All or nothing. Throws invalid_request, tool_call_not_found, tool_call_already_answered, context_length_exceeded.
   */
  append(items: readonly Item[]): void {
    const open = new Set(this.#waiting?.calls ?? this.#calls())
    const answers = new Set<string>()
    for (const [n, item] of items.entries()) {
      const call = outputs.has(item.type) ? answeredCall(item) : undefined
      if (call === undefined && item.type === 'message' && item.role === 'user') continue
      if (call === undefined)
        throw new ApiError('invalid_request', 'Append outputs of calls, and messages of the user.', `input.${n}`)
      if (answers.has(call) || this.#answered.has(call) || (this.#past.has(call) && !open.has(call)))
        throw new ApiError('tool_call_already_answered', `The call '${call}' has its output.`, `input.${n}.call_id`)
      if (!open.has(call))
        throw new ApiError('tool_call_not_found', `There is no call '${call}' to answer yet.`, `input.${n}.call_id`)
      answers.add(call)
    }
    if (answers.size === 0)
      throw new ApiError('invalid_request', 'Append the output of at least one call of this response.', 'input')
    const named = items.map(withId)
    const bytes = sizeOf(named)
    const { conversationBytes } = this.#bounds
    if (this.#before + this.#bytes + bytes + perLink > conversationBytes)
      throw new ApiError(
        'context_length_exceeded',
        `With these the conversation would take more than ${conversationBytes} bytes; send less.`,
        'input',
      )
    this.#bytes += bytes
    // Not spread into one call: there may be more items than a call takes arguments.
    this.#items = this.#items.concat(named)
    for (const call of answers) this.#answered.add(call)
    this.#look()
  }

  async answers(chain: Chain, usage: EngineUsage): Promise<readonly Item[] | Ending> {
    if (this.#draining()) return 'draining'
    if (this.#round === this.#bounds.rounds) return 'max_rounds'
    this.#round++
    this.#before = chain.allBytes
    const calls = this.#calls()
    this.#output.ask(usage)
    void this.#output.flush()
    this.#turnTime.hold()
    let timer: NodeJS.Timeout | undefined
    let onStop = (): void => {}
    try {
      return await new Promise<readonly Item[] | Ending>((resolve, reject) => {
        const end = (said: readonly Item[] | Ending): void => {
          this.#waiting = undefined
          resolve(said)
        }
        onStop = (): void => {
          const reason: unknown = this.#stop.reason
          if (reason instanceof Halt) end(reason.ending)
          else reject(ApiError.of(reason))
        }
        this.#waiting = { calls, end }
        if (this.#stop.aborted) return onStop()
        this.#stop.addEventListener('abort', onStop, { once: true })
        timer = setTimeout(() => end('append_timeout'), this.#bounds.waitMs)
        this.#look()
      })
    } finally {
      clearTimeout(timer)
      this.#stop.removeEventListener('abort', onStop)
      this.#turnTime.run()
    }
  }
  /** The server is about to stop: a client that is waited for must not hold it up. */
  drain(): void {
    this.#waiting?.end('draining')
  }

  /** Goes on if nothing is open any more. */
  #look(): void {
    if (!this.#waiting || !this.#waiting.calls.every((call) => this.#answered.has(call))) return
    const items = this.#items
    for (const call of this.#answered) this.#past.add(call)
    this.#answered.clear()
    this.#items = []
    this.#bytes = 0
    this.#before += sizeOf(items)
    this.#waiting.end(items)
  }
  #calls(): string[] {
    return this.#output.required.map(({ call_id }) => call_id)
  }
}
