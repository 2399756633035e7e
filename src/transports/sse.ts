// Outlets of plain HTTP: server-sent events, and one JSON body. Both are started late, so that a refusal is a status,
// and early enough that a silent proxy does not cut them.
import type { ServerResponse } from 'node:http'
import { isTerminal } from '../protocol/events.ts'
import type { Response } from '../protocol/response.ts'
import { ApiError, errorTable, type ErrorCode } from '../protocol/errors.ts'
import type { Entry, Outlet } from '../turn/ports.ts'
import { errorHeaders, errorJson } from './doors.ts'
import { Stall } from './stall.ts'

type Patience = { readonly keepaliveMs: number; readonly slowReaderMs: number }
/** An outlet that a beat keeps alive. */
export interface HttpOutlet extends Outlet {
  /** A look from time to time: sends a sign of life after silence, cuts off who has stopped reading. */
  tick(now: number, limits: Patience): void
  readonly done: boolean
}
function sendError(reply: ServerResponse, error: ApiError): void {
  reply.writeHead(error.status, { ...errorHeaders(error), 'content-type': 'application/json; charset=utf-8' })
  reply.end(errorJson(error))
}

/** Milliseconds since the outlet was made, in the header that clients log. */
const spent = (since: number): { 'openai-processing-ms': string } => ({
  'openai-processing-ms': String(Math.round(performance.now() - since)),
})

const socketOnly = new Set(['response.steer.accepted', 'response.steer.pending', 'response.done'])

export class SseOutlet implements HttpOutlet {
  readonly #reply: ServerResponse
  readonly #stall = new Stall()
  readonly #begun = performance.now()
  #held = ''
  #last = 0
  #sentAt = Date.now()
  #ended = false
  constructor(reply: ServerResponse) {
    this.#reply = reply
  }
  get done(): boolean {
    return this.#ended || this.#reply.destroyed
  }
  send(entry: Entry): void {
    // Steering and rollouts belong to sockets: clients of a stream throw at events that they do not know.
    if (socketOnly.has(entry.event.type)) return
    this.#held += `event: ${entry.event.type}\ndata: ${entry.json()}\n\n`
    this.#last = entry.event.sequence_number
    if (isTerminal(entry.event)) this.#ended = true
  }
  flush(): Promise<void> | undefined {
    if (this.#held === '' || this.#reply.destroyed || this.#reply.writableEnded) return undefined
    const held = this.#held
    this.#held = ''
    const room = this.#write(held)
    if (this.#ended) {
      this.#reply.end()
      return undefined
    }
    if (room) return undefined
    return new Promise((resolve) => {
      const go = (): void => {
        this.#reply.off('drain', go)
        this.#reply.off('close', go)
        resolve()
      }
      this.#reply.on('drain', go)
      this.#reply.on('close', go)
    })
  }
  refuse(error: ApiError): void {
    if (this.#reply.destroyed || this.#reply.writableEnded) return
    if (!this.#reply.headersSent) sendError(this.#reply, error)
    else {
      const event = { type: 'error', sequence_number: this.#last, error: error.body }
      this.#write(`event: error\ndata: ${JSON.stringify(event)}\n\n`)
      this.#reply.end()
    }
    this.#ended = true
  }
  end(error?: ApiError): void {
    if (error) this.refuse(error)
    else {
      // A stream without events is one all the same.
      this.#write('')
      this.#reply.end()
    }
    this.#ended = true
  }
  tick(now: number, { keepaliveMs, slowReaderMs }: Patience): void {
    const { socket, writableNeedDrain, writableLength } = this.#reply
    if (
      this.#stall.length(writableNeedDrain, (socket?.bytesWritten ?? 0) - writableLength, now) > slowReaderMs &&
      socket
    )
      this.#reply.destroy()
    if (this.done || now - this.#sentAt < keepaliveMs) return
    this.#write(`event: keepalive\ndata: {"type":"keepalive","sequence_number":${this.#last}}\n\n`)
  }
  #write(text: string): boolean {
    if (!this.#reply.headersSent)
      this.#reply.writeHead(200, {
        'content-type': 'text/event-stream; charset=utf-8',
        'cache-control': 'no-cache, no-transform',
        'x-accel-buffering': 'no',
        ...spent(this.#begun),
      })
    this.#sentAt = Date.now()
    return this.#reply.write(text)
  }
}

/** Waits for the end and answers with what `shape` makes of it. Keeps alive with blanks, which JSON allows in front. */
export class JsonOutlet implements HttpOutlet {
  readonly #reply: ServerResponse
  readonly #shape: (response: Response) => unknown
  readonly #begun = performance.now()
  #sentAt = Date.now()
  #done = false
  constructor(reply: ServerResponse, shape: (response: Response) => unknown = (r) => r) {
    this.#reply = reply
    this.#shape = shape
  }
  get done(): boolean {
    return this.#done || this.#reply.destroyed
  }
  send({ event }: Entry): void {
    if (event.type === 'response.failed') this.refuse(failureOf(event.response))
    else if (event.type === 'response.completed' || event.type === 'response.incomplete')
      this.#answer(200, JSON.stringify(this.#shape(event.response)))
  }
  flush(): undefined {
    return undefined
  }
  refuse(error: ApiError): void {
    if (this.done) return
    if (!this.#reply.headersSent)
      for (const [name, value] of Object.entries(errorHeaders(error))) this.#reply.setHeader(name, value)
    this.#answer(error.status, errorJson(error))
  }
  end(error?: ApiError): void {
    // The log was dropped before its last event: cannot happen to a reader that keeps nothing.
    if (error) this.refuse(error)
  }
  tick(now: number, { keepaliveMs }: Patience): void {
    if (this.done || now - this.#sentAt < keepaliveMs) return
    this.#sentAt = now
    if (!this.#reply.headersSent) this.#reply.writeHead(200, { 'content-type': 'application/json; charset=utf-8' })
    this.#reply.write(' ')
  }
  #answer(status: number, body: string): void {
    if (this.done) return
    this.#done = true
    if (!this.#reply.headersSent)
      this.#reply.writeHead(status, {
        'content-type': 'application/json; charset=utf-8',
        'content-length': Buffer.byteLength(body),
        ...spent(this.#begun),
      })
    this.#reply.end(body)
  }
}

/** A response that failed is an HTTP error for a client that asked for one body. */
function failureOf({ error }: Response): ApiError {
  const code = error && error.code in errorTable ? (error.code as ErrorCode) : 'server_error'
  return new ApiError(code, error?.message, error?.param ?? null)
}
