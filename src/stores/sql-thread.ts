// The server's side of the store's thread: nothing of SQLite runs where sockets are served. A thread that ends is started
// again by the next call, after a pause that grows; the calls it has not answered are refused, and whoever saved tries again.
import { createRequire } from 'node:module'
import { extname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { ApiError } from '../protocol/errors.ts'
import type { Page, Stored } from '../turn/ports.ts'
import type { Loaded, RowStore } from './rows.ts'
import { type Answer, errorOf, type Operation } from './sql-messages.ts'
import type { FileOptions } from './sqlite.ts'

type Call = { readonly resolve: (value: unknown) => void; readonly reject: (error: Error) => void }
type Report = (error: unknown, what: string) => void
/** Calls without an answer; saves come one at a time, so these are reads. */
const mostCalls = 10_000
const firstPauseMs = 100
const longestPauseMs = 10_000
/** Longest that closing may take: writing what was asked, and folding the log into the file. */
const closeMs = 30_000

export class SqlThread implements RowStore {
  readonly #options: FileOptions
  readonly #report: Report
  readonly #calls = new Map<number, Call>()
  #running: Promise<Worker> | undefined
  #worker: Worker | undefined
  #closed: Promise<void> | undefined
  /** The file could be opened once: until then whoever opens it hears why not. */
  #opened = false
  #numbers = 0
  /** Calls that have begun and not ended; some may wait for the thread to start. */
  #waiting = 0
  /** Ends in a row, and when the next start may be. */
  #failures = 0
  #notBefore = 0

  constructor(options: FileOptions, report: Report) {
    this.#options = options
    this.#report = report
  }
  /** Resolves when the file is open. Throws with a sentence that says what to do. */
  async open(): Promise<void> {
    await this.#start()
    this.#hold()
  }
  save = async (records: readonly Stored[]): Promise<void> => await this.#ask('save', records)
  load = async (id: string, owner: string): Promise<Loaded | undefined> => await this.#ask('load', id, owner)
  input = async (id: string, owner: string, page: Page): ReturnType<RowStore['input']> =>
    await this.#ask('input', id, owner, page)
  item = async (id: string, owner: string): Promise<string | undefined> => await this.#ask('item', id, owner)
  remove = async (id: string, owner: string): Promise<boolean> => await this.#ask('remove', id, owner)
  purge = async (before: number): Promise<number> => await this.#ask('purge', before)
  present = async (): Promise<void> => await this.#ask('present')
  close = async (): Promise<void> => await (this.#closed ??= this.#close())
  /** Ends the thread as it stands. */
  async kill(): Promise<void> {
    await this.#worker?.terminate()
  }

  async #ask<O extends Operation>(
    operation: O,
    ...parameters: Parameters<RowStore[O]>
  ): Promise<Awaited<ReturnType<RowStore[O]>>> {
    if (this.#closed) throw new Error('The store is closed.')
    if (this.#waiting >= mostCalls) throw new ApiError('server_is_overloaded', 'Storage is behind; try again.', null, 5)
    this.#waiting++
    try {
      const worker = await this.#start()
      this.#hold()
      // The thread answers an operation with what the operation gives.
      return (await this.#post(worker, operation, parameters)) as Awaited<ReturnType<RowStore[O]>>
    } finally {
      this.#waiting--
      this.#hold()
    }
  }
  #post(worker: Worker, operation: Operation, parameters: readonly unknown[]): Promise<unknown> {
    const call = ++this.#numbers
    return new Promise<unknown>((resolve, reject) => {
      this.#calls.set(call, { resolve, reject })
      worker.postMessage({ call, operation, parameters })
    })
  }
  /** An idle thread does not keep the process. */
  #hold(): void {
    if (this.#waiting > 0) this.#worker?.ref()
    else this.#worker?.unref()
  }
  #start(): Promise<Worker> {
    this.#running ??= this.#started()
    return this.#running
  }
  async #started(): Promise<Worker> {
    const pause = this.#notBefore - Date.now()
    if (pause > 0) await sleep(pause)
    const worker = thread(this.#options)
    this.#worker = worker
    let cause: unknown
    return await new Promise<Worker>((resolve, reject) => {
      worker.on('message', (answer: Answer) => {
        if (!('ready' in answer)) return this.#hear(answer)
        if (answer.ready) return ((this.#opened = true), resolve(worker))
        cause = errorOf(answer.thrown)
      })
      worker.on('error', (error) => (cause = error))
      // An answer that cannot be read leaves a call without an end.
      worker.on('messageerror', (error) => ((cause = error), void worker.terminate()))
      worker.on('exit', (code) => {
        const error = cause instanceof Error ? cause : new Error(`The store's thread ended with code ${code}.`)
        reject(error)
        this.#over(error)
      })
    })
  }
  #hear(answer: Exclude<Answer, { ready: boolean }>): void {
    const call = this.#calls.get(answer.call)
    this.#calls.delete(answer.call)
    if ('thrown' in answer) return call?.reject(errorOf(answer.thrown))
    this.#failures = 0
    call?.resolve(answer.value)
  }
  #over(error: Error): void {
    this.#worker = undefined
    this.#running = undefined
    this.#notBefore = Date.now() + Math.min(longestPauseMs, firstPauseMs * 2 ** Math.min(this.#failures, 10))
    this.#failures++
    const calls = [...this.#calls.values()]
    this.#calls.clear()
    if (this.#opened && this.#closed === undefined)
      this.#report(error, 'the thread of the store ended; the next call starts it again')
    for (const { reject } of calls)
      reject(new Error(`The store's thread ended before it answered: ${error.message}`, { cause: error }))
  }
  async #close(): Promise<void> {
    // Those that wait for the start come first.
    const worker = await this.#running?.catch(() => undefined)
    if (!worker || worker !== this.#worker) return
    const late = setTimeout(() => {
      this.#report(new Error(`The store did not close within ${closeMs / 1000} s.`), 'the store was not closed tidily')
      void worker.terminate()
    }, closeMs)
    const gone = new Promise<void>((resolve) => worker.once('exit', () => resolve()))
    worker.ref()
    // A thread that ends without an answer is gone too.
    await this.#post(worker, 'close', []).catch(() => undefined)
    await gone
    clearTimeout(late)
  }
}

/** Runs the thread's file, as a build or from the sources. */
function thread(options: FileOptions): Worker {
  const extension = extname(fileURLToPath(import.meta.url))
  const file = new URL(`./sql-worker${extension}`, import.meta.url)
  // Our own flags are not its own: a test runner's loader.
  const settings = { workerData: options, execArgv: [] }
  if (extension !== '.ts') return new Worker(file, settings)
  const loader = JSON.stringify(createRequire(import.meta.url).resolve('tsx/cjs/api'))
  const start = `require(${loader}).register(); require(${JSON.stringify(fileURLToPath(file))})`
  return new Worker(start, { ...settings, eval: true })
}
