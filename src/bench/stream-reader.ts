// A client that reads one stream of stamped tokens, on a connection of its own: a Responses socket, a Responses event
// stream, or an engine's own event stream. It works on the bytes, so that it is as thin for one as for the other.
import { randomBytes } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { once } from 'node:events'
import { patienceMs } from './driver.ts'
import { Stamps } from './stamp.ts'

export type Dialect = 'ws' | 'sse' | 'chat'
/** What the paced engine is asked for. */
export type Wanted = { readonly tokensPerSecond: number; readonly tokens: number }

const ends: Readonly<Record<Dialect, Buffer>> = {
  ws: Buffer.from('"type":"response.completed"'),
  sse: Buffer.from('event: response.completed'),
  chat: Buffer.from('data: [DONE]'),
}
/** Of the bytes behind the last token, so much is kept to find the end in that was cut in two. */
const seam = 64

export class StreamReader {
  readonly #socket: Socket
  readonly #dialect: Dialect
  readonly #host: string
  #stamps = new Stamps(0)
  #tail: Buffer = Buffer.alloc(0)
  #over: ((error?: Error) => void) | undefined

  /** `url`: `http://HOST:PORT/v1`. */
  static async open(url: string, dialect: Dialect): Promise<StreamReader> {
    const { hostname, port, host } = new URL(url)
    const socket = connect(Number(port), hostname)
    socket.setNoDelay(true)
    await once(socket, 'connect')
    const reader = new StreamReader(socket, dialect, host)
    if (dialect === 'ws') await reader.#upgrade()
    socket.on('data', (bytes: Buffer) => reader.#take(bytes))
    socket.on('error', (e) => reader.#over?.(e))
    socket.on('close', () => reader.#over?.(new Error('the connection closed in the middle of a stream')))
    return reader
  }
  private constructor(socket: Socket, dialect: Dialect, host: string) {
    this.#socket = socket
    this.#dialect = dialect
    this.#host = host
  }
  /** Asks for a stream and reads it to its end; once. */
  async read({ tokensPerSecond, tokens }: Wanted): Promise<Stamps> {
    const stamps = (this.#stamps = new Stamps(tokens))
    this.#tail = Buffer.alloc(0)
    const said = `Speak ${tokensPerSecond}/${tokens}`
    const over = new Promise<void>((resolve, reject) => {
      const late = setTimeout(() => this.#over?.(new Error(`no end within ${patienceMs / 1000} s`)), patienceMs)
      this.#over = (error) => {
        clearTimeout(late)
        this.#over = undefined
        if (error) reject(error)
        else resolve()
      }
    })
    if (this.#dialect === 'ws')
      this.#socket.write(masked(JSON.stringify({ type: 'response.create', model: 'paced', store: false, input: said })))
    else if (this.#dialect === 'sse')
      this.#post('/v1/responses', { model: 'paced', store: false, input: said, stream: true })
    else
      this.#post('/v1/chat/completions', {
        model: 'paced',
        messages: [{ role: 'user', content: said }],
        stream: true,
      })
    await over
    return stamps
  }
  close(): void {
    this.#socket.destroy()
  }

  async #upgrade(): Promise<void> {
    const key = randomBytes(16).toString('base64')
    const lines = [
      'upgrade: websocket',
      'connection: upgrade',
      'sec-websocket-version: 13',
      `sec-websocket-key: ${key}`,
    ]
    this.#socket.write(`GET /v1/responses HTTP/1.1\r\nhost: ${this.#host}\r\n${lines.join('\r\n')}\r\n\r\n`)
    let head = ''
    while (!head.includes('\r\n\r\n') && head.length < 8192)
      head += String(((await once(this.#socket, 'data')) as [Buffer])[0])
    if (!head.startsWith('HTTP/1.1 101')) throw new Error(`the server refuses a socket: ${head.slice(0, 300)}`)
  }
  #post(path: string, body: object): void {
    const text = JSON.stringify(body)
    const head = `POST ${path} HTTP/1.1\r\nhost: ${this.#host}\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n`
    this.#socket.write(head + text)
  }
  #take(bytes: Buffer): void {
    if (!this.#stamps.done) this.#stamps.push(bytes)
    if (!this.#stamps.done) {
      if (refused(bytes)) this.#over?.(new Error(`the server answers: ${String(bytes.subarray(0, 400))}`))
      return
    }
    const seen = Buffer.concat([this.#tail, bytes])
    if (seen.includes(ends[this.#dialect])) this.#over?.()
    this.#tail = seen.subarray(-seam)
  }
}

/** An HTTP status other than 200, or an error event. */
function refused(bytes: Buffer): boolean {
  return (
    (bytes[0] === 0x48 && bytes.includes('HTTP/1.1 ') && !bytes.includes('HTTP/1.1 200')) ||
    bytes.subarray(0, 64).includes('{"type":"error"')
  )
}
/** A client's text frame. The mask is all zeros, which is as good as any on a loopback. */
function masked(text: string): Buffer {
  const payload = Buffer.from(text)
  if (payload.length > 125) throw new RangeError('That is too long for a short frame.')
  return Buffer.concat([Buffer.from([0x81, 0x80 | payload.length, 0, 0, 0, 0]), payload])
}
