// A proxy that stands for distance: it passes bytes on after the time that they would take (one-way.ts), TCP's handshake
// included. TLS runs through it, so its round trips come by themselves. What is on the way is bounded.
import { connect, createServer, type Socket } from 'node:net'
import { OneWay } from './one-way.ts'

export type Distance = {
  /** The same address, from afar. */
  readonly url: string
  close(): Promise<void>
}
/** Bytes on the way in one direction of a connection, from which on its sender has to wait; as many may come behind them. */
const mostBytes = 8 * 1024 * 1024
const mostConnections = 256

/** `url`: of a server on this machine. */
export async function distance({ url, rttMs }: { readonly url: string; readonly rttMs: number }): Promise<Distance> {
  const there = new URL(url)
  const open = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (near) => {
    const far = connect({ host: there.hostname, port: Number(there.port), allowHalfOpen: true, noDelay: true })
    const now = performance.now()
    // Only now does the client know that somebody is there, one round trip after it began; the server half a one before.
    carry(near, far, new OneWay(rttMs, now + rttMs))
    carry(far, near, new OneWay(rttMs, now + rttMs / 2))
    for (const [side, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(side)
      side.on('error', () => other.destroy())
      side.on('close', () => {
        open.delete(side)
        if (!side.readableEnded) other.destroy()
      })
    }
  })
  server.maxConnections = mostConnections
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  const address = server.address()
  const here = new URL(url)
  here.port = String(typeof address === 'object' && address ? address.port : 0)
  return {
    url: String(here),
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      for (const socket of open) socket.destroy()
      await closed
    },
  }
}

/** `undefined` in place of bytes: the end. */
type Due = { readonly at: number; readonly bytes: Buffer | undefined }

function carry(from: Socket, to: Socket, way: OneWay): void {
  const due: Due[] = []
  let held = 0
  let timer: NodeJS.Timeout | undefined
  let full = false

  const deliver = (): void => {
    timer = undefined
    while (due[0] && !full && !to.destroyed) {
      const early = due[0].at - performance.now()
      // Timers are no finer than a millisecond.
      if (early > 0.5) return void (timer = setTimeout(deliver, early))
      const bytes = due.shift()?.bytes
      if (!bytes) return void to.end()
      held -= bytes.length
      if (!to.write(bytes)) {
        full = true
        to.once('drain', () => {
          full = false
          deliver()
        })
      }
      if (held < mostBytes && from.isPaused()) from.resume()
    }
  }
  from.on('data', (bytes: Buffer) => {
    let taken = 0
    for (const piece of way.send(bytes.length, performance.now()))
      due.push({ at: piece.at, bytes: bytes.subarray(taken, (taken += piece.bytes)) })
    held += bytes.length
    if (held >= mostBytes) from.pause()
    if (!timer) deliver()
  })
  from.on('end', () => {
    due.push({ at: way.arrival(performance.now()), bytes: undefined })
    if (!timer) deliver()
  })
  to.on('close', () => clearTimeout(timer))
}
