// RFC 6455 by hand over TCP: frames that no WebSocket library would send, and what comes back, byte by byte.
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect as connectTcp, type Socket as Tcp } from 'node:net'

export type RawFrame = {
  readonly fin: boolean
  readonly rsv: number
  readonly opcode: number
  readonly masked: boolean
  readonly payload: Buffer
}
export type FrameToSend = {
  readonly opcode: number
  readonly payload?: Buffer | string
  readonly fin?: boolean
  /** Bits 4, 2, 1: RSV1 to RSV3. */
  readonly rsv?: number
  readonly masked?: boolean
  /** How the length is written, where the shortest form is not meant. */
  readonly lengthForm?: 7 | 16 | 64
  /** A length other than the payload's. */
  readonly length?: number
}
/** `code` is undefined where TCP ended without a close frame, 1005 where the frame had none. */
export type RawClose = { readonly code: number | undefined; readonly reason: string }
export const text = 0x1
export const binary = 0x2
export const close = 0x8
export const ping = 0x9
export const pong = 0xa

export function encodeFrame({
  opcode,
  payload = '',
  fin = true,
  rsv = 0,
  masked = true,
  lengthForm,
  length,
}: FrameToSend): Buffer {
  const body = Buffer.from(payload)
  const n = length ?? body.length
  const form = lengthForm ?? (n < 126 ? 7 : n < 65_536 ? 16 : 64)
  const mask = masked ? 0x80 : 0
  const first = (fin ? 0x80 : 0) | (rsv << 4) | opcode
  const head = Buffer.alloc(form === 7 ? 2 : form === 16 ? 4 : 10)
  head[0] = first
  head[1] = mask | (form === 7 ? n : form === 16 ? 126 : 127)
  if (form === 16) head.writeUInt16BE(n, 2)
  if (form === 64) head.writeBigUInt64BE(BigInt(n), 2)
  if (!masked) return Buffer.concat([head, body])
  const key = randomBytes(4)
  return Buffer.concat([head, key, body.map((byte, at) => byte ^ (key[at % 4] ?? 0))])
}
/** Payload of a close frame. */
export function closePayload(code: number, reason: string | Buffer = ''): Buffer {
  const head = Buffer.alloc(2)
  head.writeUInt16BE(code)
  return Buffer.concat([head, Buffer.from(reason)])
}

export class RawSocket {
  readonly tcp: Tcp
  readonly frames: RawFrame[] = []
  /** The first close frame, or the end of TCP without one. */
  readonly closed: Promise<RawClose>
  /** TCP is over. */
  readonly gone: Promise<void>
  #bytes: Buffer
  #waiting: { match: (frame: RawFrame) => boolean; resolve: (frame: RawFrame) => void }[] = []
  #taken = new Set<RawFrame>()
  #close: (close: RawClose) => void = () => {}

  constructor(tcp: Tcp, rest: Buffer) {
    this.tcp = tcp
    this.#bytes = rest
    this.closed = new Promise((resolve) => (this.#close = resolve))
    this.gone = new Promise((resolve) => tcp.once('close', () => resolve()))
    tcp.on('error', () => {})
    tcp.on('data', (data) => this.#read(data))
    tcp.on('close', () => this.#close({ code: undefined, reason: '' }))
    this.#read(Buffer.alloc(0))
  }
  send(frame: FrameToSend): void {
    this.write(encodeFrame(frame))
  }
  write(bytes: Buffer): void {
    if (this.tcp.writable) this.tcp.write(bytes)
  }
  json(value: unknown): void {
    this.send({ opcode: text, payload: JSON.stringify(value) })
  }
  next(match: (frame: RawFrame) => boolean = () => true, timeoutMs = 5000): Promise<RawFrame> {
    const there = this.frames.find((frame) => !this.#taken.has(frame) && match(frame))
    if (there) {
      this.#taken.add(there)
      return Promise.resolve(there)
    }
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`no such frame within ${timeoutMs} ms: ${match.toString()}`)),
        timeoutMs,
      )
      this.#waiting.push({
        match,
        resolve: (frame) => {
          clearTimeout(timer)
          resolve(frame)
        },
      })
    })
  }
  /** The next text frame as JSON whose `type` is this. */
  async event(type: string, timeoutMs = 8000): Promise<Record<string, unknown>> {
    const of = (frame: RawFrame): boolean =>
      frame.opcode === text && (JSON.parse(frame.payload.toString()) as { type: string }).type === type
    return JSON.parse((await this.next(of, timeoutMs)).payload.toString()) as Record<string, unknown>
  }
  destroy(): void {
    this.tcp.destroy()
  }
  #read(data: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, data])
    for (let frame = this.#frame(); frame; frame = this.#frame()) {
      const got = frame
      this.frames.push(got)
      if (got.opcode === close) {
        const { payload } = got
        this.#close({
          code: payload.length < 2 ? 1005 : payload.readUInt16BE(0),
          reason: payload.subarray(2).toString(),
        })
      }
      const at = this.#waiting.findIndex((w) => w.match(got))
      if (at < 0) continue
      this.#taken.add(got)
      this.#waiting.splice(at, 1)[0]?.resolve(got)
    }
  }
  #frame(): RawFrame | undefined {
    const bytes = this.#bytes
    const [first, second] = bytes
    if (first === undefined || second === undefined) return undefined
    let length = second & 0x7f
    let at = 2
    if (length === 126) {
      if (bytes.length < 4) return undefined
      length = bytes.readUInt16BE(2)
      at = 4
    } else if (length === 127) {
      if (bytes.length < 10) return undefined
      length = Number(bytes.readBigUInt64BE(2))
      at = 10
    }
    const masked = (second & 0x80) !== 0
    if (bytes.length < at + (masked ? 4 : 0) + length) return undefined
    const payload = bytes.subarray(at, at + length)
    this.#bytes = bytes.subarray(at + length)
    return { fin: (first & 0x80) !== 0, rsv: (first >> 4) & 7, opcode: first & 0xf, masked, payload }
  }
}

export type RawRequest = {
  readonly method?: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}
export type RawAnswer = {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** The body as it was cut into chunks; one of them where it was not chunked. */
  readonly chunks: readonly Buffer[]
}

function requestBytes({ method = 'GET', path, headers = {}, body = '' }: RawRequest): string {
  const all: Record<string, string> = {
    host: 'localhost',
    ...(body === '' ? {} : { 'content-length': String(Buffer.byteLength(body)) }),
    ...headers,
  }
  return `${method} ${path} HTTP/1.1\r\n${Object.entries(all)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')}\r\n${body}`
}
export function upgradeHeaders(key = randomBytes(16).toString('base64')): Record<string, string> {
  return { connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13', 'sec-websocket-key': key }
}

/** One request on its own connection; resolves when the server has ended it, or answered with a length. */
export async function rawRequest(url: string, request: RawRequest): Promise<RawAnswer> {
  const { hostname, port } = new URL(url)
  const tcp = connectTcp(Number(port), hostname)
  tcp.on('error', () => {})
  tcp.write(requestBytes(request))
  let bytes = Buffer.alloc(0)
  tcp.setTimeout(10_000, () => tcp.destroy())
  for await (const data of tcp) {
    bytes = Buffer.concat([bytes, data as Buffer])
    const answer = parseAnswer(bytes, false)
    if (answer) {
      tcp.destroy()
      return answer
    }
  }
  const answer = parseAnswer(bytes, true)
  if (!answer) throw new Error(`no whole HTTP answer: ${bytes.toString().slice(0, 300)}`)
  return answer
}
function parseAnswer(bytes: Buffer, ended: boolean): RawAnswer | undefined {
  const end = bytes.indexOf('\r\n\r\n')
  if (end < 0) return undefined
  const [first = '', ...lines] = bytes.subarray(0, end).toString('latin1').split('\r\n')
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  )
  const status = Number(first.split(' ')[1])
  const rest = bytes.subarray(end + 4)
  const length = headers['content-length']
  if (headers['transfer-encoding'] === 'chunked') {
    const chunks = chunksOf(rest)
    return chunks && { status, headers, body: Buffer.concat(chunks), chunks }
  }
  const body = length === undefined ? rest : rest.subarray(0, Number(length))
  if (length === undefined ? !ended && status !== 101 : body.length < Number(length)) return undefined
  return { status, headers, body, chunks: [body] }
}
function chunksOf(bytes: Buffer): Buffer[] | undefined {
  const chunks: Buffer[] = []
  for (let at = 0; ;) {
    const end = bytes.indexOf('\r\n', at)
    if (end < 0) return undefined
    const size = Number.parseInt(bytes.subarray(at, end).toString(), 16)
    if (size === 0) return chunks
    if (bytes.length < end + 4 + size) return undefined
    chunks.push(bytes.subarray(end + 2, end + 2 + size))
    at = end + 4 + size
  }
}

/** Upgrades by hand and checks the server's proof. Throws where the answer is not 101. */
export async function rawConnect(url: string, headers: Readonly<Record<string, string>> = {}): Promise<RawSocket> {
  const { hostname, port, pathname, search } = new URL(url)
  const tcp = connectTcp(Number(port), hostname)
  await once(tcp, 'connect')
  const key = randomBytes(16).toString('base64')
  tcp.write(requestBytes({ path: pathname + search, headers: { ...upgradeHeaders(key), ...headers } }))
  let bytes = Buffer.alloc(0)
  while (!bytes.includes('\r\n\r\n')) bytes = Buffer.concat([bytes, (await once(tcp, 'data'))[0] as Buffer])
  const end = bytes.indexOf('\r\n\r\n')
  const head = bytes.subarray(0, end).toString('latin1')
  const proof = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64')
  if (
    !head.startsWith('HTTP/1.1 101') ||
    !head.toLowerCase().includes(`sec-websocket-accept: ${proof.toLowerCase()}`)
  ) {
    tcp.destroy()
    throw new Error(`no upgrade: ${head.split('\r\n')[0]}`)
  }
  return new RawSocket(tcp, bytes.subarray(end + 4))
}
