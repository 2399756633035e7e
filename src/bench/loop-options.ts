// What can be set of `continuo bench loop`: its flags, their defaults, and what `--quick` makes of them.
import { type Command, InvalidArgumentError, Option } from 'commander'
import { amount, type CommonOptions, whole, wholes } from './benchmark.ts'
import { isMode, type ModeName, modeNames } from './loop-modes.ts'

export type LoopOptions = {
  readonly calls: number
  readonly base: number
  readonly growth?: number | undefined
  readonly output: number
  readonly rates: readonly number[]
  readonly ttft: number
  readonly tool: number
  readonly rtt: readonly number[]
  readonly tls: 'auto' | 'on' | 'off'
  readonly modes?: readonly ModeName[] | undefined
  readonly replay?: string | undefined
  readonly url?: string | undefined
  readonly model?: string | undefined
  readonly key?: string | undefined
  readonly llama: boolean
}
/** Tokens at the end of a loop, where nothing else is said. */
export const contextAtEnd = 100_000
export const quickCalls = 10
const [repeats, quickRepeats] = [5, 2]
export const repeatsOf = (options: CommonOptions): number => options.repeats ?? (options.quick ? quickRepeats : repeats)

/** As a report says them, which is there to be sent around: as they were used, without a key and without where it was written. */
export function asUsed(options: LoopOptions & CommonOptions, calls: number): Readonly<Record<string, unknown>> {
  const { base, growth, output, rates, ttft, tool, rtt, tls, modes, replay, url, model, quick } = options
  const own = { calls, base, growth, output, tool, modes, quick, repeats: repeatsOf(options) }
  if (url !== undefined) return { ...own, url, model }
  return { ...own, rates, ttft, rtt, tls, replay, llama: withLlama(options) }
}
/** It is none of the named ratios, so it is left out where it has to be quick; its task is its own. */
export const withLlama = ({ llama, quick, replay }: LoopOptions & CommonOptions): boolean =>
  llama && !quick && replay === undefined

export function declareLoop(command: Command): void {
  command
    .option('--calls <n>', 'tool calls', whole, 30)
    .option('--base <tokens>', 'context at the start', whole, 30_000)
    .option('--growth <tokens>', `added by each step (default: so that it ends near ${contextAtEnd})`, whole)
    .option('--output <tokens>', 'of each call', whole, 100)
    .option('--rates <list>', 'tokens a second of the engine', wholes, [65, 1000, 4000])
    .option('--ttft <ms>', 'time to first token', amount, 50)
    .option('--tool <ms>', 'time of each tool at the client', amount, 5)
    .option('--rtt <list>', 'round trips in ms', amounts, [0, 50])
    .addOption(
      new Option('--tls <when>', 'auto: where there is distance').choices(['auto', 'on', 'off']).default('auto'),
    )
    .option('--modes <list>', `only these: ${modeNames.join(', ')}`, modesList)
    .option('--replay <file>', 'a recorded session: items as JSON or JSON lines, or a session of Codex')
    .option('--url <url>', 'base URL of another server, with /v1')
    .option('--model <name>', 'its model')
    .option('--key <key>', 'its API key')
    .option('--no-llama', 'without the arm on llama.cpp, as with --quick')
}

function amounts(text: string): number[] {
  const list = text.split(',').map((one) => amount(one))
  if (list.length > 8) throw new InvalidArgumentError('It must be at most 8 numbers, with commas between them.')
  return list
}
function modesList(text: string): ModeName[] {
  const list = text.split(',').map((name) => name.trim())
  const wrong = list.find((name) => !isMode(name))
  if (wrong !== undefined)
    throw new InvalidArgumentError(`There is no mode '${wrong}'; there are ${modeNames.join(', ')}.`)
  return [...new Set(list.filter(isMode))]
}
