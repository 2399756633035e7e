// Server-sent events from raw bytes, as engines send them: one `data` text per event. Owns the line that has not ended.
import { StringDecoder } from 'node:string_decoder'
import { ApiError } from '../protocol/errors.ts'

export class SseReader {
  readonly #take: (data: string) => void
  readonly #limit: number
  readonly #decoder = new StringDecoder('utf8')
  /** Pieces of the line that has not ended: joined once, so that a long line costs no copy per read. */
  #pieces: string[] = []
  #held = 0
  #data: string | undefined = undefined
  #first = true

  /** `limit`: UTF-16 units that one line, or the lines of one event, may have; more is a server_error. */
  constructor(take: (data: string) => void, limit: number) {
    this.#take = take
    this.#limit = limit
  }
  push(bytes: Buffer): void {
    let text = this.#decoder.write(bytes)
    if (this.#first && text !== '') {
      this.#first = false
      if (text.charCodeAt(0) === 0xfeff) text = text.slice(1)
    }
    let from = 0
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', from)) {
      this.#endLine(text.slice(from, at))
      from = at + 1
    }
    if (from < text.length) this.#hold(text.slice(from))
  }
  /** The stream has ended: some servers leave out the last empty line. */
  end(): void {
    this.#endLine(this.#decoder.end())
    this.#line('')
  }
  #hold(piece: string): void {
    this.#bound(piece)
    this.#pieces.push(piece)
  }
  #bound(piece: string): void {
    this.#held += piece.length
    if (this.#held > this.#limit) throw new ApiError('server_error', 'The engine sent a line that is too long.')
  }
  #endLine(piece: string): void {
    this.#bound(piece)
    let line = piece
    if (this.#pieces.length > 0) {
      line = this.#pieces.join('') + piece
      this.#pieces = []
    }
    this.#held = this.#data?.length ?? 0
    if (!line.includes('\r')) return this.#line(line)
    const bare = line.endsWith('\r') ? line.slice(0, -1) : line
    for (const part of bare.split('\r')) this.#line(part)
  }
  #line(line: string): void {
    if (line === '') {
      const data = this.#data
      this.#data = undefined
      this.#held = 0
      if (data !== undefined) this.#take(data)
      return
    }
    // Bare JSON is no SSE, but it is how some servers report an error in the middle of a stream.
    const bare = line.charCodeAt(0) === 0x7b
    if (!bare && !line.startsWith('data:')) return
    const value = bare ? line : line.slice(line.charCodeAt(5) === 0x20 ? 6 : 5)
    this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`
    this.#held = this.#data.length
  }
}
