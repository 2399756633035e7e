// HTTP to an engine: one pool per engine, requests with a kept body, answers read as events, as lines or as one text.
// Owns the connection's bounds (time, sizes, requests at once), back-pressure and the sentence for every way it breaks.
import { type Dispatcher, Pool } from 'undici'
import { ApiError } from '../protocol/errors.ts'
import { NdjsonReader } from './ndjson.ts'
import { SseReader } from './sse.ts'
import { explain, isReset } from './wire-errors.ts'

export type WireOptions = {
  /** The engine's name in error sentences. */
  readonly name: string
  /** Base URL; paths are appended to its path. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly connectMs: number
  /** Until the answer's head; engines that read the prompt first send it late. */
  readonly headersMs: number
  /** Between two reads of an answer that has begun. */
  readonly idleMs: number
  /** One line of the stream, in UTF-16 units, and a whole answer that is no stream, in bytes. Default 16 MiB. */
  readonly lineBytes?: number | undefined
  /** All of one answer. Default 256 MiB. */
  readonly totalBytes?: number | undefined
  /** Requests at once, connecting ones included. Default 512. */
  readonly requests?: number | undefined
}
/** An answer that is no event stream: every error, and servers that do not stream. */
export type Answer = {
  readonly status: number
  /** The media type, lower case, without parameters. */
  readonly type: string
  /** `Retry-After` in whole seconds. */
  readonly retryAfter: number | undefined
  readonly text: string
}
/** What a request's answer is told to. After `end`, `answer` or `fail` nothing follows. What these throw fails the request. */
export type Reader = {
  /** The data of one event, or one line of newline-delimited JSON. */
  data(text: string): void
  /** All of one network read was given to `data`. A promise pauses the connection until it resolves. */
  read(): Promise<void> | undefined
  /** The stream has ended by itself. */
  end(): void
  answer(answer: Answer): void
  /** An ApiError, or what `data`, `read`, `end` or `answer` threw. */
  fail(error: unknown): void
}
/** A running request. */
export type Exchange = {
  /** Ends it now: the connection is destroyed, nothing more is told. */
  destroy(): void
  /** Nothing more is needed; the connection is kept if the answer ends within a moment. */
  release(): void
}

const mebi = 1024 * 1024
const errorBytes = 64 * 1024
const releaseMs = 250
/** By media type; everything else is one text. */
const readers: ReadonlyMap<string, typeof SseReader | typeof NdjsonReader> = new Map<
  string,
  typeof SseReader | typeof NdjsonReader
>([
  ['', SseReader],
  ['text/event-stream', SseReader],
  ['application/x-ndjson', NdjsonReader],
])

export class Wire {
  /** Host and port, which may be told to clients; the rest of the URL may hold secrets. */
  readonly host: string
  readonly name: string
  readonly options: WireOptions
  readonly pool: Pool
  readonly #path: string
  readonly #query: string
  #running = 0

  constructor(options: WireOptions) {
    const url = new URL(options.url)
    this.options = options
    this.name = options.name
    this.host = url.host
    this.#path = url.pathname.replace(/\/+$/, '')
    this.#query = url.search
    this.pool = new Pool(url.origin, {
      connections: options.requests ?? 512,
      pipelining: 1,
      connect: { timeout: options.connectMs },
      headersTimeout: options.headersMs,
      bodyTimeout: options.idleMs,
    })
  }
  get running(): number {
    return this.#running
  }
  /**
   * POSTs JSON; `parts` are written one behind the other, as they are. Throws `server_is_overloaded` past the bound. When
   * `signal` fires the request is destroyed, nothing is told.
   */
  post(path: string, parts: Buffer | readonly Buffer[], signal: AbortSignal, reader: Reader): Exchange {
    return this.#send('POST', path, parts, 'text/event-stream, application/json', signal, reader)
  }
  /** GETs one text. Rejects with the signal's reason when it fires. */
  get(path: string, signal: AbortSignal): Promise<Answer> {
    return this.#text('GET', path, undefined, signal)
  }
  /** POSTs JSON for one text. Rejects with the signal's reason when it fires. */
  ask(path: string, body: unknown, signal: AbortSignal): Promise<Answer> {
    return this.#text('POST', path, Buffer.from(JSON.stringify(body)), signal)
  }
  #text(method: 'GET' | 'POST', path: string, body: Buffer | undefined, signal: AbortSignal): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason)
      const onAbort = (): void => reject(signal.reason)
      signal.addEventListener('abort', onAbort, { once: true })
      const done = <T>(then: (value: T) => void) => {
        return (value: T): void => {
          signal.removeEventListener('abort', onAbort)
          then(value)
        }
      }
      const stream = (): never => {
        throw new ApiError('server_error', `${this.who} answered ${path} with a stream.`)
      }
      const reader: Reader = {
        data: stream,
        read: () => undefined,
        end: stream,
        answer: done(resolve),
        fail: done(reject),
      }
      this.#send(method, path, body, 'application/json', signal, reader)
    })
  }
  /** Connections are destroyed: what still runs fails. */
  async close(): Promise<void> {
    await this.pool.destroy()
  }
  /** The engine in a sentence. */
  get who(): string {
    return `The engine '${this.name}' at ${this.host}`
  }

  #send(
    method: 'GET' | 'POST',
    path: string,
    body: Buffer | readonly Buffer[] | undefined,
    accept: string,
    signal: AbortSignal,
    reader: Reader,
  ): Exchange {
    if (this.#running >= (this.options.requests ?? 512))
      throw new ApiError(
        'server_is_overloaded',
        `${this.who} has as many requests running as it may; try again in a moment.`,
      )
    this.#running++
    const headers = { accept, 'accept-encoding': 'identity', ...this.options.headers }
    const length = Buffer.isBuffer(body) ? body.length : body?.reduce((sum, part) => sum + part.length, 0)
    const request: Dispatcher.DispatchOptions = {
      method,
      path: `${this.#path}${path}${this.#query}`,
      headers: body ? { 'content-type': 'application/json', 'content-length': `${length}`, ...headers } : headers,
      // Its documentation has iterables of buffers, its types have not.
      body: (body ?? null) as Buffer | null,
    }
    return new Request(this, request, signal, reader, () => this.#running--)
  }
}

class Request implements Dispatcher.DispatchHandler, Exchange {
  readonly #wire: Wire
  readonly #request: Dispatcher.DispatchOptions
  readonly #signal: AbortSignal
  readonly #reader: Reader
  readonly #freed: () => void
  #controller: Dispatcher.DispatchController | undefined = undefined
  #over = false
  #released: NodeJS.Timeout | undefined = undefined
  #retried = false
  #head: Omit<Answer, 'text'> | undefined = undefined
  #lines: SseReader | NdjsonReader | undefined = undefined
  #body: Buffer[] = []
  #bytes = 0
  readonly #onAbort = (): void => this.destroy()

  constructor(wire: Wire, request: Dispatcher.DispatchOptions, signal: AbortSignal, reader: Reader, freed: () => void) {
    this.#wire = wire
    this.#request = request
    this.#signal = signal
    this.#reader = reader
    this.#freed = freed
    if (signal.aborted) this.#finish()
    else {
      signal.addEventListener('abort', this.#onAbort, { once: true })
      wire.pool.dispatch(request, this)
    }
  }
  destroy(): void {
    this.#finish()
    clearTimeout(this.#released)
    // While it still connects there is no controller yet: onRequestStart sees to it.
    this.#controller?.abort(new Error('no longer wanted'))
  }
  release(): void {
    if (this.#over) return
    this.#finish()
    this.#released = setTimeout(() => this.#controller?.abort(new Error('did not end')), releaseMs)
    this.#released.unref()
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#over) controller.abort(new Error('no longer wanted'))
  }
  onResponseStart(
    _: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (status < 200 || this.#over) return
    const type = (one(headers['content-type']) ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''
    this.#head = { status, type, retryAfter: seconds(one(headers['retry-after'])) }
    const Lines = status === 200 ? readers.get(type) : undefined
    if (Lines)
      this.#lines = new Lines(
        (text) => this.#over || this.#reader.data(text),
        this.#wire.options.lineBytes ?? 16 * mebi,
      )
  }
  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#over) return
    this.#bytes += chunk.length
    this.#guard(() => {
      if (this.#bytes > (this.#wire.options.totalBytes ?? 256 * mebi))
        throw this.#says('sent more than one answer may have.')
      if (!this.#lines) return this.#collect(chunk)
      this.#lines.push(chunk)
      const slow = this.#over ? undefined : this.#reader.read()
      if (slow === undefined) return
      controller.pause()
      void slow.then(() => controller.resume())
    })
  }
  onResponseEnd(): void {
    clearTimeout(this.#released)
    if (this.#over) return
    this.#guard(() => {
      const head = this.#head
      if (this.#lines) {
        this.#lines.end()
        if (this.#over) return
        this.#finish()
        this.#reader.end()
      } else if (head) {
        this.#finish()
        this.#reader.answer({ ...head, text: Buffer.concat(this.#body).toString('utf8') })
      }
    })
  }
  onResponseError(_: Dispatcher.DispatchController | null, error: Error): void {
    clearTimeout(this.#released)
    if (this.#over) return
    // A kept connection that the far side closed just now; nothing was answered, so once more on a new one is safe.
    if (!this.#head && !this.#retried && isReset(error)) {
      this.#retried = true
      this.#controller = undefined
      this.#wire.pool.dispatch(this.#request, this)
      return
    }
    this.#finish()
    this.#reader.fail(explain(this.#wire, error, this.#head !== undefined))
  }

  #collect(chunk: Buffer): void {
    const ok = this.#head?.status === 200
    const limit = ok ? (this.#wire.options.lineBytes ?? 16 * mebi) : errorBytes
    if (this.#bytes <= limit) this.#body.push(Buffer.from(chunk))
    else if (ok) throw this.#says('sent an answer that is too long.')
  }
  #guard(act: () => void): void {
    try {
      act()
    } catch (e) {
      this.destroy()
      this.#reader.fail(e)
    }
  }
  #finish(): void {
    if (this.#over) return
    this.#over = true
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#freed()
  }
  #says(what: string): ApiError {
    return new ApiError('server_error', `${this.#wire.who} ${what}`)
  }
}

const one = (value: string | string[] | undefined): string | undefined => (Array.isArray(value) ? value[0] : value)
/** Whole seconds from `Retry-After` (a number or an HTTP date), 1 to 3600. */
function seconds(value: string | undefined): number | undefined {
  if (value === undefined || value === '') return undefined
  const n = Number(value)
  const wait = Number.isFinite(n) ? n : (Date.parse(value) - Date.now()) / 1000
  return Number.isFinite(wait) ? Math.min(3600, Math.max(1, Math.ceil(wait))) : undefined
}
