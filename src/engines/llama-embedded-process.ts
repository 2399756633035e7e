// The gateway's side of the process that runs llama.cpp: starts it when it is needed, starts it again after a crash, with
// a pause that grows, and gives every job and every question exactly one end. Native code never runs in the gateway.
import { type ChildProcess, fork } from 'node:child_process'
import { createRequire } from 'node:module'
import { extname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { ApiError } from '../protocol/errors.ts'
import type { FromChild, Load, Question, Run, ToChild } from './llama-embedded-messages.ts'

/** What a job's messages are given to; after `end` nothing comes any more. */
export type Listener = {
  hear(message: Extract<FromChild, { readonly job: number }>): void
  /** The process is gone. */
  lost(error: ApiError): void
}
export type Ready = { readonly context: number; readonly name: string }
type Running = { readonly child: ChildProcess; readonly ready: Ready; readonly birth: number }
type Asked = { readonly resolve: (value: unknown) => void; readonly reject: (error: Error) => void }
type Options = {
  readonly id: string
  readonly startMs: number
  /** What is said first; it may have to download the model. */
  load(): Promise<Load>
}
const longestPauseMs = 10_000
const kept = 2048

export class LlamaProcess {
  readonly #options: Options
  #running: Promise<Running> | undefined
  #now: Running | undefined
  #child: ChildProcess | undefined
  #closed = false
  #births = 0
  /** Ends in a row that nobody wanted, and when the next start may be. */
  #failures = 0
  #notBefore = 0
  #ids = 0
  readonly #jobs = new Map<number, Listener>()
  readonly #asked = new Map<number, Asked>()
  /** When it last said anything. */
  heard = 0

  constructor(options: Options) {
    this.#options = options
  }
  get pid(): number | undefined {
    return this.#now?.child.pid
  }
  /** Number of the process: what one knows of its sequences, the next one does not. */
  get birth(): number | undefined {
    return this.#now?.birth
  }
  get ready(): Ready | undefined {
    return this.#now?.ready
  }
  /** Starts it unless it runs. Throws ApiError `server_error` with a sentence that says what to do. */
  start(): Promise<Running> {
    if (this.#running) return this.#running
    const running = this.#start()
    this.#running = running
    running.catch(() => {
      if (this.#running === running) this.#running = undefined
    })
    return running
  }
  /** Gives a job to the process that runs; `end` takes it back. */
  run(run: Omit<Run, 'type' | 'job'>, listener: Listener): { readonly job: number; end(): void } {
    const job = ++this.#ids
    this.#jobs.set(job, listener)
    this.#send({ type: 'run', job, ...run })
    return {
      job,
      end: () => {
        if (this.#jobs.delete(job)) this.#send({ type: 'cancel', job })
      },
    }
  }
  pace(job: number, type: 'pause' | 'resume'): void {
    if (this.#jobs.has(job)) this.#send({ type, job })
  }
  /** Waits for the process to start, and for its answer. */
  async ask(question: Question, signal: AbortSignal): Promise<unknown> {
    signal.throwIfAborted()
    const ask = ++this.#ids
    let onAbort = (): void => {}
    try {
      return await new Promise((resolve, reject) => {
        onAbort = () => reject(signal.reason as Error)
        signal.addEventListener('abort', onAbort, { once: true })
        this.start().then(() => {
          this.#asked.set(ask, { resolve, reject })
          this.#send({ type: 'ask', ask, ...question })
        }, reject)
      })
    } finally {
      signal.removeEventListener('abort', onAbort)
      this.#asked.delete(ask)
    }
  }
  /** Ends it now; it has nothing to finish. */
  kill(): void {
    this.#child?.kill('SIGKILL')
  }
  async close(): Promise<void> {
    this.#closed = true
    const child = this.#child
    if (!child) return
    const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()))
    this.kill()
    await gone
  }

  #send(message: ToChild): void {
    // A process that is gone says so by its exit.
    if (this.#child?.connected) this.#child.send(message, () => {})
  }
  async #start(): Promise<Running> {
    const pause = this.#notBefore - Date.now()
    if (pause > 0) await sleep(pause)
    const load = await this.#options.load()
    if (this.#closed) throw this.#gone('was closed')
    const child = forked()
    this.#child = child
    let said = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-kept)))
    const ready = await new Promise<Ready>((resolve, reject) => {
      const { startMs, id } = this.#options
      const late = setTimeout(() => {
        reject(new ApiError('server_error', `Engine ${id}: llama.cpp was not ready after ${startMs / 1000} s.`))
        child.kill('SIGKILL')
      }, startMs)
      child.on('message', (message: FromChild) => {
        if (message.type !== 'ready' && message.type !== 'unready') return this.#hear(message)
        clearTimeout(late)
        if (message.type === 'ready') return resolve(message)
        const text = `Engine ${id}: llama.cpp could not load the model: ${message.message}`
        reject(new ApiError('server_error', text))
        child.kill('SIGKILL')
      })
      const over = (how: string): void => {
        clearTimeout(late)
        const error = this.#gone(how)
        reject(error)
        if (this.#child === child) this.#over(error)
      }
      child.once('error', (e) => over(`could not be started: ${e.message}`))
      child.once('exit', (code, signal) => over(`ended (${signal ?? `exit code ${code}`})${lastLine(said)}`))
      child.send(load)
    })
    // Whatever ends without a wish of ours is started again, and the next end is no longer in a row once a turn is whole.
    this.#now = { child, ready, birth: ++this.#births }
    return this.#now
  }
  #gone(how: string): ApiError {
    const again = this.#closed ? '' : ' The next request starts it again.'
    return new ApiError('server_error', `Engine ${this.#options.id}: its llama.cpp process ${how}.${again}`)
  }
  #over(error: ApiError): void {
    this.#child = undefined
    this.#now = undefined
    this.#running = undefined
    this.#notBefore = Date.now() + Math.min(longestPauseMs, 100 * 2 ** Math.min(this.#failures, 10))
    this.#failures++
    const [jobs, asked] = [[...this.#jobs.values()], [...this.#asked.values()]]
    this.#jobs.clear()
    this.#asked.clear()
    for (const listener of jobs) listener.lost(error)
    for (const { reject } of asked) reject(error)
  }
  #hear(message: Exclude<FromChild, { type: 'ready' | 'unready' }>): void {
    this.heard = Date.now()
    if (message.type === 'answer') return this.#asked.get(message.ask)?.resolve(message.value)
    if (message.type === 'no-answer')
      return this.#asked.get(message.ask)?.reject(new ApiError('server_error', message.message))
    if (message.type === 'done') this.#failures = 0
    const listener = this.#jobs.get(message.job)
    if (message.type === 'done' || message.type === 'failed') this.#jobs.delete(message.job)
    listener?.hear(message)
  }
}

/** Runs the child's file, as a build or from the sources. */
function forked(): ChildProcess {
  const extension = extname(fileURLToPath(import.meta.url))
  const file = fileURLToPath(new URL(`./llama-embedded-child${extension}`, import.meta.url))
  // Our own flags are not its own: a debugger's port, a test runner's loader.
  const execArgv =
    extension === '.ts' ? ['--import', pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href] : []
  const { NODE_OPTIONS: _, ...env } = process.env
  return fork(file, [], { execArgv, env, serialization: 'advanced', stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
}
function lastLine(text: string): string {
  const line = text.trim().split('\n').at(-1)?.trim().slice(0, 200) ?? ''
  return line === '' ? '' : `: ${line}`
}
