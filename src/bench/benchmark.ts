// The seam between a benchmark and the program: each of src/bench/{loop,flat,stream,idle,ttft}.ts exports
// `const benchmark: Benchmark<ItsOptions>`; src/cli/bench.ts makes a command of it. And what flags of several of them read.
import { InvalidArgumentError, type Command } from 'commander'
import type { OnProgress, Report } from './report.ts'

/** Flags that every benchmark has; the command declares them. What is printed and saved is the command's own affair. */
export type CommonOptions = {
  /** Rougher, within two minutes. */
  readonly quick: boolean
  /** As given by `--repeats`, at least 1; undefined: the benchmark chooses (5, or 2 with `quick`). */
  readonly repeats?: number | undefined
}
/** A test may call `run` with options of its own making: all that `declare` declares, defaults included. */
export type Benchmark<Options extends object = object> = {
  /** As in `continuo bench NAME`, and in `command` of its report. */
  readonly name: string
  /** One line for the list of commands. */
  readonly description: string
  /** Arguments behind `continuo bench NAME`, and what they do. */
  readonly examples: readonly (readonly [args: string, does: string])[]
  /** Adds its own flags: `command.option('--tool-calls <n>', 'calls of a task', whole, 30)`. Defaults are those without `--quick`. */
  declare(command: Command): void
  /** Throws where it cannot measure; a missed target is a result. */
  run(options: Options & CommonOptions, onProgress: OnProgress): Promise<Report>
}

/** A flag's value that counts something. */
export function whole(text: string): number {
  const n = Number(text)
  if (text.trim() === '' || !Number.isSafeInteger(n) || n < 1)
    throw new InvalidArgumentError('It must be a whole number from 1.')
  return n
}
/** A flag's value that measures something: milliseconds, a rate; 0 is one. */
export function amount(text: string): number {
  const n = Number(text)
  if (text.trim() === '' || !Number.isFinite(n) || n < 0) throw new InvalidArgumentError('It must be a number from 0.')
  return n
}
/** `65,1000,4000`: at least one, at most 32. */
export function wholes(text: string): number[] {
  const list = text.split(',').map((part) => whole(part))
  if (list.length > 32) throw new InvalidArgumentError('It must be at most 32 numbers, with commas between them.')
  return list
}
