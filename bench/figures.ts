// Figures and how they are shown: medians with their spread, facts of the machine, a progress bar on a terminal.
import { cpus, loadavg, release, totalmem } from 'node:os'
import { InvalidArgumentError } from 'commander'

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

/** The value below which `share` (0 to 1) of the values lie; NaN of none. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN
}
/** The middle value; of an even number, the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const half = sorted.length / 2
  return ((sorted[Math.ceil(half) - 1] ?? NaN) + (sorted[Math.floor(half)] ?? NaN)) / 2
}
export type Spread = { readonly median: number; readonly min: number; readonly max: number }
export function spread(values: readonly number[]): Spread {
  return { median: median(values), min: Math.min(...values), max: Math.max(...values) }
}

/** `1.23 [1.10–1.40]`, with as many digits as the median needs for three. */
export function shown({ median: middle, min, max }: Spread): string {
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(middle) || 1)))
  const [m, a, b] = [middle, min, max].map((n) => n.toFixed(Math.min(digits, 3)))
  return `${m} [${a}–${b}]`
}
export const mebibytes = (bytes: number): number => bytes / 1024 / 1024
export const kibibytes = (bytes: number): number => bytes / 1024

/** What a figure depends on, for the head of every report. */
export function machine(): Record<string, string | number> {
  return {
    node: process.version,
    system: `${process.platform} ${release()} ${process.arch}`,
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 1024 ** 3),
    load: loadavg()
      .map((n) => n.toFixed(1))
      .join(' '),
  }
}

/** Rows under their head, in columns. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head, ...rows]
  const widths = head.map((_, n) => Math.max(...all.map((row) => row[n]?.length ?? 0)))
  const line = (row: readonly string[]): string =>
    row
      .map((cell, n) => cell.padEnd(widths[n] ?? 0))
      .join('  ')
      .trimEnd()
  return [line(head), widths.map((w) => '─'.repeat(w)).join('  '), ...rows.map(line)].join('\n')
}

/** A flag's value that counts something. */
export function whole(text: string): number {
  const n = Number(text)
  if (!Number.isInteger(n) || n < 1) throw new InvalidArgumentError('It must be a whole number from 1.')
  return n
}

/** Prints the report: one JSON object, or lines for a person. */
export function report(json: boolean, value: object, text: string): void {
  process.stdout.write(json ? `${JSON.stringify(value, undefined, 2)}\n` : `${text}\n`)
}

/** A bar on stderr while something runs; nothing where stderr is no terminal. */
export class Progress {
  readonly #total: number
  #done = 0
  #drawnAt = 0
  constructor(total: number) {
    this.#total = total
  }
  step(what: string): void {
    this.#done++
    const now = Date.now()
    if (!process.stderr.isTTY || (now - this.#drawnAt < 100 && this.#done < this.#total)) return
    this.#drawnAt = now
    const share = Math.min(1, this.#done / this.#total)
    const full = Math.round(share * 30)
    process.stderr.write(`\r\x1b[2K${'█'.repeat(full)}${'░'.repeat(30 - full)} ${Math.round(share * 100)} % ${what}`)
  }
  end(): void {
    if (process.stderr.isTTY) process.stderr.write('\r\x1b[2K')
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
