// One socket: frames in, events out, signs of life, and every way in which it ends. Never awaits a turn.
import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { WebSocket, WebSocketServer } from 'ws'
import { ApiError } from '../protocol/errors.ts'
import type { Loose } from '../protocol/events.ts'
import { parseObject } from '../protocol/json.ts'
import { extensionsHeader, leanExtension } from '../protocol/lean.ts'
import type { Create } from '../protocol/request.ts'
import { Session } from '../session/session.ts'
import { stamp } from '../turn/trace.ts'
import { answerHeaders, type Doors, type Visitor } from './doors.ts'
import { frames, laneOf } from './frames.ts'
import { FrameWriter, packFrom } from './frame-writer.ts'
import { LeanOutlet } from './lean-outlet.ts'
import { Stall } from './stall.ts'
import { admitUpgrade, refuseUpgrade } from './upgrade.ts'
import { tailOf, type Wire, WsOutlet } from './ws-outlet.ts'

/** Why the library itself closes a socket, in words: clients key on 1009 and people read the reason. */
const reasons: Readonly<Record<number, string>> = {
  1002: 'protocol error',
  1007: 'text is not valid UTF-8',
  1008: 'too many fragments',
  1009: 'message is over the size limit',
}
class ReasonedSocket extends WebSocket {
  override close(code?: number, data?: string | Buffer): void {
    this.emit('closing')
    super.close(code, data ?? (code === undefined ? undefined : reasons[code]))
  }
}

/** All sockets of one server. */
export class Sockets {
  readonly #doors: Doors
  readonly #wss: WebSocketServer
  readonly #open = new Set<Connection>()
  readonly #beat: NodeJS.Timeout
  #count = 0
  /** Bytes of messages that are being received or wait in queues, over all sockets. */
  heldBytes = 0
  /** Frames of types that this server does not know. */
  unknownFrames = 0

  constructor(server: Server, doors: Doors) {
    this.#doors = doors
    const { websocket, keepaliveMs } = doors.limits
    const tight = {
      serverNoContextTakeover: true,
      clientNoContextTakeover: true,
      serverMaxWindowBits: 10,
      threshold: packFrom,
      // The cheapest: envelopes repeat themselves, so that more effort finds little more.
      zlibDeflateOptions: { level: 1 },
    }
    this.#wss = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      maxPayload: websocket.maxMessageBytes,
      perMessageDeflate: websocket.compression === 'tight' ? tight : false,
      WebSocket: ReasonedSocket,
    })
    this.#wss.on('headers', (lines, request) => {
      for (const [name, value] of Object.entries(answerHeaders(request, doors.version))) lines.push(`${name}: ${value}`)
      lines.push(`${extensionsHeader}: ${leanExtension}`)
    })
    this.#wss.on('wsClientError', (error, socket, request) =>
      refuseUpgrade(
        request,
        socket,
        new ApiError('invalid_request', `Bad upgrade request: ${error.message}.`),
        doors.version,
      ),
    )
    server.on('upgrade', (request, socket, head) => this.#upgrade(request, socket, head))
    const shortest = Math.min(
      websocket.pingMs,
      websocket.pongMs,
      keepaliveMs,
      doors.limits.slowReaderMs,
      websocket.maxAgeMs || Infinity,
    )
    this.#beat = setInterval(() => this.#tick(), Math.min(1000, Math.max(20, shortest / 4)))
    this.#beat.unref()
  }
  get size(): number {
    return this.#open.size
  }
  get doors(): Doors {
    return this.#doors
  }
  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => socket.destroy())
    try {
      const visitor = admitUpgrade(request, this.#doors, this.#open.size)
      this.#wss.handleUpgrade(request, socket, head, (ws) => {
        const name = `ws-${++this.#count}`
        const connection = new Connection(this, ws, request, visitor, name)
        this.#open.add(connection)
        const client = String(request.headers['user-agent'] ?? '').slice(0, 80)
        this.#doors.note('socket opened', {
          connection: name,
          owner: visitor.principal.owner,
          client,
          sockets: this.#open.size,
        })
        ws.once('close', (code) => {
          this.#open.delete(connection)
          this.#doors.note('socket closed', { connection: name, code, sockets: this.#open.size })
        })
      })
    } catch (e) {
      refuseUpgrade(request, socket, ApiError.of(e), this.#doors.version)
    }
  }
  #tick(): void {
    const now = Date.now()
    for (const connection of this.#open) connection.tick(now)
  }
  /** Idle sockets go at once, spread over `overMs` so that their clients do not all come back together; busy ones when they are idle. */
  drain(overMs: number): void {
    let n = 0
    for (const connection of this.#open) {
      const wait = (overMs * n++) / Math.max(1, this.#open.size)
      setTimeout(() => connection.drain(), wait).unref()
    }
  }
  /** Ends every socket now, whatever runs. */
  close(): void {
    clearInterval(this.#beat)
    for (const connection of this.#open) connection.end(1012, 'the server stops')
    this.#wss.close()
  }
}

class Connection implements Wire {
  readonly ws: WebSocket
  readonly socket: Socket
  readonly writer: FrameWriter
  readonly #sockets: Sockets
  readonly #session: Session
  readonly #outlets = new Map<WsOutlet, number>()
  readonly #openedAt = Date.now()
  readonly #closesAfterFailure: boolean
  #partial = 0
  #lastByte = Date.now()
  #pinged: number
  #broken = false
  #draining = false
  readonly #stall = new Stall()

  constructor(sockets: Sockets, ws: WebSocket, request: IncomingMessage, { principal }: Visitor, name: string) {
    this.#sockets = sockets
    this.ws = ws
    this.socket = request.socket
    this.writer = new FrameWriter(ws, this.socket, sockets.doors.limits.slowReaderBytes)
    this.#pinged = this.#openedAt
    this.#closesAfterFailure = closesAfterFailure(request, sockets.doors.limits.websocket.closeAfterFailure)
    this.#session = new Session(principal, sockets.doors, {
      connection: name,
      failsLate: true,
      tell: (frame, lane) => this.tell(frame, lane),
      onIdle: () => this.#whenIdle(),
    })
    this.socket.setNoDelay(true)
    // In front of the library's own reader, so that a message finds its bytes counted.
    this.socket.prependListener('data', (bytes: Buffer) => this.#received(bytes.length))
    ws.on('closing', () => this.writer.flush())
    ws.on('message', (data: Buffer, isBinary: boolean) => this.#message(data, isBinary))
    ws.on('ping', (data) => this.#controlled(data.length))
    ws.on('pong', (data) => this.#controlled(data.length))
    ws.on('error', () => {
      // The library has closed with the right code; a peer that does not answer is cut off by the beat.
    })
    ws.once('close', () => {
      this.#count(-this.#partial)
      for (const bytes of this.#outlets.values()) this.#count(-bytes)
      this.#outlets.clear()
      this.#session.close()
    })
  }

  #message(data: Buffer, isBinary: boolean): void {
    this.#count(-this.#partial)
    this.#partial = 0
    // Frames that came behind one that has closed the socket.
    if (this.ws.readyState !== WebSocket.OPEN) return
    if (isBinary) return this.ws.close(1003, 'text frames only')
    const received = stamp()
    let lane: string | undefined
    try {
      const frame = parseObject(data)
      lane = laneOf(frame)
      const type = frame['type']
      if (typeof type !== 'string')
        throw new ApiError('invalid_request', "'type' must be a string, such as 'response.create'.", 'type')
      const handle = frames.get(type)
      if (!handle) {
        this.#sockets.unknownFrames++
        return
      }
      handle(frame, lane, {
        session: this.#session,
        tell: (loose) => this.tell(loose, lane),
        submit: (request) => this.#submit(request, data.length, received),
        parseTools: this.#sockets.doors.parseTools,
      })
    } catch (e) {
      this.#refuse(e, lane)
    }
  }
  #submit(request: Create, bytes: number, received: number): void {
    if (this.#tooOld(Date.now()))
      throw new ApiError(
        'websocket_connection_limit_reached',
        'The connection has reached its age limit; open a new one.',
      )
    const outlet = new WsOutlet(this, request.lane)
    this.#outlets.set(outlet, bytes)
    this.#count(bytes)
    try {
      this.#session.create(request, request.lean?.echo === false ? new LeanOutlet(outlet) : outlet, received)
    } catch (e) {
      this.ended(outlet, 'refused')
      throw e
    }
  }
  #refuse(e: unknown, lane: string | undefined): void {
    if (!(e instanceof ApiError)) this.#sockets.doors.report(e, 'a frame could not be handled')
    const error = ApiError.of(e)
    const headers = error.retryAfter === undefined ? {} : { headers: { 'retry-after': String(error.retryAfter) } }
    this.tell({ type: 'error', status: error.status, sequence_number: 0, error: error.body, ...headers }, lane)
    if (error.code === 'invalid_api_key') this.end(1008, 'the key is no longer valid')
  }
  tell(frame: Loose, lane: string | undefined): void {
    // These answers are as long as what was sent, and no turn holds them back.
    if (this.#full) return this.tooSlow()
    void this.writer.send([{ json: JSON.stringify(frame).slice(0, -1) + tailOf(lane), pack: true }])
  }

  /** So much waits to be read that nothing new may begin: turns stop for a slow reader, but a next one would not. */
  get #full(): boolean {
    const { slowReaderBytes, websocket } = this.#sockets.doors.limits
    return this.writer.waiting > Math.max(slowReaderBytes, websocket.maxMessageBytes)
  }

  // ── Wire ──
  began(outlet: WsOutlet): void {
    if (!this.#outlets.has(outlet)) this.#outlets.set(outlet, 0)
    // A response is as long as what it echoes, which a lean request need not say again.
    if (this.#full) this.tooSlow()
  }
  ended(outlet: WsOutlet, how: 'completed' | 'broken' | 'refused'): void {
    this.#count(-(this.#outlets.get(outlet) ?? 0))
    this.#outlets.delete(outlet)
    if (how === 'broken') this.#broken = true
    if (how === 'refused' && this.#full) this.tooSlow()
  }
  tooSlow(): void {
    this.end(1013, 'the client reads too slowly')
  }

  // ── life and end ──
  #received(bytes: number): void {
    this.#lastByte = Date.now()
    this.#partial += bytes
    this.#count(bytes)
    const { maxHeldBytes } = this.#sockets.doors.limits.websocket
    // Only who is in the middle of something big is turned away when memory runs short.
    if (this.#sockets.heldBytes > maxHeldBytes && this.#partial > 65_536)
      this.end(1013, 'the server is short of memory')
  }
  /** A control frame is no part of a message: its head of two bytes, its mask of four, its payload. */
  #controlled(payload: number): void {
    const bytes = Math.min(this.#partial, payload + 6)
    this.#partial -= bytes
    this.#count(-bytes)
  }
  #count(bytes: number): void {
    this.#sockets.heldBytes += bytes
  }
  tick(now: number): void {
    const { websocket, keepaliveMs, slowReaderBytes, slowReaderMs } = this.#sockets.doors.limits
    if (this.#outlets.size > 0) this.#keepalive(now, keepaliveMs)
    const unanswered = this.#pinged > this.#lastByte
    if (unanswered && now - this.#pinged > websocket.pongMs) return this.ws.terminate()
    if (
      !unanswered &&
      now - Math.max(this.#pinged, this.#lastByte) >= websocket.pingMs &&
      this.ws.readyState === WebSocket.OPEN
    ) {
      this.#pinged = now
      this.ws.ping()
    }
    if (this.#tooOld(now) && this.#session.idle) this.ws.close(1001, 'the connection reached its age limit')
    // Turns stop filling it at `slowReaderBytes`, so a reader that has stopped stays near it.
    const { bufferedAmount } = this.ws
    const written = this.socket.bytesWritten - bufferedAmount
    if (this.#stall.length(bufferedAmount > slowReaderBytes / 2, written, now) > slowReaderMs) this.tooSlow()
  }
  /** One sign of life a lane: what runs there speaks for what waits behind it. */
  #keepalive(now: number, silence: number): void {
    const spoken = new Set<string | undefined>()
    for (const running of [true, false])
      for (const outlet of this.#outlets.keys())
        if (outlet.running === running && !spoken.has(outlet.lane)) {
          spoken.add(outlet.lane)
          outlet.keepalive(now, silence)
        }
  }
  #tooOld(now: number): boolean {
    const { maxAgeMs } = this.#sockets.doors.limits.websocket
    return maxAgeMs > 0 && now - this.#openedAt > maxAgeMs
  }
  drain(): void {
    this.#draining = true
    this.#session.drain()
    this.#whenIdle()
  }
  #whenIdle(): void {
    if (!this.#session.idle) return
    if (this.#draining) this.ws.close(1012, 'the server restarts')
    else if (this.#broken && this.#closesAfterFailure) this.ws.close(1000, 'closed after a failed response')
    this.#broken = false
  }
  /** Closes now; a peer that does not read the close frame is cut off. */
  end(code: number, reason: string): void {
    this.ws.close(code, reason)
    setTimeout(() => this.ws.terminate(), 1_000).unref()
  }
}

/** One client's socket `fetch` waits for ever after a failed or incomplete response, and it alone looks like this. */
function closesAfterFailure(request: IncomingMessage, setting: 'auto' | 'never' | 'always'): boolean {
  if (setting !== 'auto') return setting === 'always'
  const { headers } = request
  return (
    headers['openai-beta'] !== undefined && headers['user-agent'] === undefined && headers['originator'] === undefined
  )
}
