// What the programs of this folder share: waiting, bytes, a count of steps that is shown, and how a program ends.
import { progressBar } from '../src/cli/progress.ts'
import { reportJson } from '../src/bench/report-json.ts'
import { reportText } from '../src/bench/report-text.ts'
import type { Report } from '../src/bench/report.ts'

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** What `work` resolves to, or undefined after `ms`. */
export async function within<T>(work: Promise<T>, ms: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>((resolve) => (timer = setTimeout(() => resolve(undefined), ms)))
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

export const mebibytes = (bytes: number): number => bytes / 1024 / 1024
export const kibibytes = (bytes: number): number => bytes / 1024

/** Prints the report: one JSON object, or lines for a person. */
export function print(json: boolean, report: Report): void {
  process.stdout.write(json ? reportJson(report) : reportText(report, process.stdout.columns || 120))
}

/** Of something that is done in a known number of steps. */
export class Progress {
  readonly #bar = progressBar(process.stderr)
  readonly #total: number
  #done = 0
  constructor(total: number) {
    this.#total = total
  }
  step(what: string): void {
    this.#bar.onProgress(++this.#done / this.#total, what)
  }
  end(): void {
    this.#bar.end()
  }
}

/** Runs a program's main part; what it throws becomes one line and exit code 1. */
export async function main(work: () => Promise<number>): Promise<void> {
  try {
    process.exitCode = await work()
  } catch (e) {
    process.stderr.write(`${e instanceof Error ? e.message : String(e)}\n`)
    process.exitCode = 1
  }
}
