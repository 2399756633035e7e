// A client that keeps one socket, one turn at a time.
import { WebSocket } from 'ws'
import { type Asked, type Driver, type DriverOptions, type Fields, patienceMs, Reading, type Seen } from './driver.ts'

/** `deflate`: offer compression, as browsers and some clients do. */
export async function wsDriver(options: DriverOptions & { readonly deflate?: boolean }): Promise<Driver> {
  const ws = new WebSocket(`${options.url.replace(/^http/, 'ws')}/responses`, {
    perMessageDeflate: options.deflate ?? false,
    handshakeTimeout: 30_000,
    skipUTF8Validation: true,
    headers: { ...options.headers, ...(options.key === undefined ? {} : { authorization: `Bearer ${options.key}` }) },
    ...(options.ca === undefined ? {} : { ca: options.ca }),
  })
  await new Promise<void>((resolve, reject) => {
    ws.once('open', () => resolve())
    ws.once('error', reject)
  })
  return new Socket(ws, options)
}

class Socket implements Driver {
  readonly #ws: WebSocket
  readonly #options: DriverOptions
  #reading: Reading | undefined
  #done: ((seen: Seen) => void) | undefined
  #failed: ((error: Error) => void) | undefined
  /** Set once the socket has closed or the server has broken the protocol. */
  #broken: Error | undefined

  constructor(ws: WebSocket, options: DriverOptions) {
    this.#ws = ws
    this.#options = options
    ws.on('message', (data: Buffer) => this.#take(data))
    ws.on('error', (e) => this.#break(e))
    ws.on('close', (code, reason) => this.#break(new Error(`the socket closed with ${code} ${String(reason)}`)))
  }
  turn(body: Fields): Promise<Seen> {
    return this.#leg({ type: 'response.create', ...body }, new Reading(this.#options))
  }
  async rollout(
    body: Fields,
    answer: (calls: readonly Asked[]) => Promise<readonly Fields[]>,
  ): Promise<readonly Seen[]> {
    const legs: Seen[] = []
    let reading = new Reading(this.#options)
    let frame: Fields = { type: 'response.create', rollout: true, ...body }
    while (true) {
      const seen = await this.#leg(frame, reading)
      legs.push(seen)
      if (seen.calls.length === 0) return legs
      const input = await answer(seen.calls)
      reading = new Reading(this.#options, { id: seen.id, last: reading.last })
      frame = { type: 'response.append', response_id: seen.id, input }
    }
  }
  async close(): Promise<void> {
    if (this.#ws.readyState === WebSocket.CLOSED) return
    await new Promise<void>((resolve) => {
      this.#ws.once('close', () => resolve())
      this.#ws.close(1000)
      setTimeout(() => this.#ws.terminate(), 10_000).unref()
    })
  }

  #leg(frame: Fields, reading: Reading): Promise<Seen> {
    return new Promise<Seen>((resolve, reject) => {
      if (this.#broken) return reject(this.#broken)
      const text = JSON.stringify(frame)
      reading.bytesUp = Buffer.byteLength(text)
      const late = setTimeout(() => this.#break(new Error(`no end within ${patienceMs / 1000} s`)), patienceMs)
      const over = (): void => {
        clearTimeout(late)
        this.#reading = this.#done = this.#failed = undefined
      }
      this.#done = (seen) => (over(), resolve(seen))
      this.#failed = (error) => (over(), reject(error))
      this.#reading = reading
      this.#ws.send(text)
    })
  }
  #take(data: Buffer): void {
    try {
      if (!this.#reading) throw new Error(`a frame behind the end of the turn: ${String(data).slice(0, 200)}`)
      this.#reading.bytesDown += data.length
      const seen = this.#reading.take(String(data))
      if (seen) this.#done?.(seen)
    } catch (e) {
      this.#break(e instanceof Error ? e : new Error(String(e)))
    }
  }
  #break(error: Error): void {
    this.#broken ??= error
    this.#failed?.(error)
  }
}
