// Newline-delimited JSON from raw bytes: one text per line that is not empty. Owns the line that has not ended.
import { StringDecoder } from 'node:string_decoder'
import { ApiError } from '../protocol/errors.ts'

export class NdjsonReader {
  readonly #take: (line: string) => void
  readonly #limit: number
  readonly #decoder = new StringDecoder('utf8')
  /** Pieces of the line that has not ended: joined once, so that a long line costs no copy per read. */
  #pieces: string[] = []
  #held = 0

  /** `limit`: UTF-16 units that one line may have; more is a server_error. */
  constructor(take: (line: string) => void, limit: number) {
    this.#take = take
    this.#limit = limit
  }
  push(bytes: Buffer): void {
    const text = this.#decoder.write(bytes)
    let from = 0
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', from)) {
      this.#hold(text.slice(from, at))
      this.#endLine()
      from = at + 1
    }
    if (from < text.length) this.#hold(text.slice(from))
  }
  /** The stream has ended: the last line may lack its newline. */
  end(): void {
    this.#hold(this.#decoder.end())
    this.#endLine()
  }
  #hold(piece: string): void {
    this.#held += piece.length
    if (this.#held > this.#limit) throw new ApiError('server_error', 'The engine sent a line that is too long.')
    this.#pieces.push(piece)
  }
  #endLine(): void {
    const line = this.#pieces.join('').trim()
    this.#pieces = []
    this.#held = 0
    if (line !== '') this.#take(line)
  }
}
