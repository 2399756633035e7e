import { connect, createServer, type AddressInfo } from 'node:net'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { distance } from '../../src/bench/distance.ts'
import { initialWindow, OneWay } from '../../src/bench/one-way.ts'

const total = (pieces: readonly { bytes: number }[]): number => pieces.reduce((sum, { bytes }) => sum + bytes, 0)

describe('one direction of a connection', () => {
  it('delays what fits into the initial window by half a round trip', () => {
    expect(new OneWay(100, 0).send(initialWindow, 10)).toEqual([{ bytes: 14_600, at: 60 }])
  })
  it('sends nothing before it is open', () => {
    expect(new OneWay(100, 100).send(500, 0)).toEqual([{ bytes: 500, at: 150 }])
  })
  it('brings 100 kB in three round trips of slow start, the window doubling each', () => {
    const pieces = new OneWay(100, 0).send(100_000, 0)
    const byTrip = new Map<number, number>()
    for (const { bytes, at } of pieces) byTrip.set(at, (byTrip.get(at) ?? 0) + bytes)
    expect([...byTrip]).toEqual([
      [50, 14_600],
      [150, 29_200],
      [250, 56_200],
    ])
  })
  it('sends at once what the grown window holds, and starts small again after a long silence', () => {
    const way = new OneWay(100, 0)
    way.send(100_000, 0)
    expect(way.send(60_000, 460)).toEqual([{ bytes: 60_000, at: 510 }])
    const grown = way.window
    // Ten timeouts of 300 ms halve it down to the initial window.
    expect(way.send(60_000, 4000).length).toBeGreaterThan(1)
    expect(way.window).toBeLessThan(grown)
  })
  it('halves its window once for a silence of between one timeout and two', () => {
    const way = new OneWay(100, 0)
    way.send(100_000, 0)
    way.send(1000, 400)
    const before = way.window
    way.send(1, 400 + 300 + 100)
    expect(way.window).toBe(Math.floor(before / 2))
  })
  it('does not grow a window that is hardly used', () => {
    const way = new OneWay(100, 0)
    for (let at = 0; at < 2000; at += 150) way.send(1000, at)
    expect(way.window).toBe(initialWindow)
  })
  it('loses nothing, keeps the order, is never faster than half a round trip', () => {
    const writes = fc.array(fc.record({ bytes: fc.integer({ min: 0, max: 300_000 }), wait: fc.nat(800) }), {
      maxLength: 30,
    })
    fc.assert(
      fc.property(writes, fc.integer({ min: 1, max: 300 }), (all, rtt) => {
        const way = new OneWay(rtt, 0)
        let [now, last] = [0, 0]
        for (const { bytes, wait } of all) {
          now += wait
          const pieces = way.send(bytes, now)
          expect(total(pieces)).toBe(bytes)
          for (const { at } of pieces) {
            expect(at).toBeGreaterThanOrEqual(Math.max(last, now + rtt / 2))
            last = at
          }
          expect(way.arrival(now)).toBeGreaterThanOrEqual(last)
          expect(way.window).toBeGreaterThanOrEqual(initialWindow)
        }
      }),
    )
  })
})

describe('the proxy', () => {
  /** Echoes everything, and ends when the client ends. */
  async function afar(rttMs: number) {
    const server = createServer((socket) => void socket.on('error', () => {}).pipe(socket))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    // An address of TCP.
    const { port } = server.address() as AddressInfo
    const far = await distance({ url: `http://127.0.0.1:${port}/v1`, rttMs })
    return {
      url: far.url,
      port: Number(new URL(far.url).port),
      stop: async () => {
        await far.close()
        await new Promise((resolve) => server.close(resolve))
      },
    }
  }
  it('keeps the path of the address', async () => {
    const there = await afar(1)
    expect(there.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/v1$/)
    await there.stop()
  })
  it('takes two round trips for the first answer of a new connection, and one for the next', async () => {
    const there = await afar(80)
    const socket = connect(there.port, '127.0.0.1')
    const ask = async (): Promise<number> => {
      const began = performance.now()
      socket.write('x')
      await new Promise((resolve) => socket.once('data', resolve))
      return performance.now() - began
    }
    // Never faster; how much slower is the machine's affair.
    expect(await ask()).toBeGreaterThan(158)
    expect(await ask()).toBeGreaterThan(79)
    socket.destroy()
    await there.stop()
  })
  it('brings every byte back in order, and the end behind them, however much it is', async () => {
    const there = await afar(2)
    const sent = Buffer.from(Uint32Array.from({ length: 5_000_000 }, (_, n) => n).buffer)
    const socket = connect({ port: there.port, host: '127.0.0.1', allowHalfOpen: true })
    const parts: Buffer[] = []
    socket.on('data', (part: Buffer) => parts.push(part))
    socket.end(sent)
    await new Promise((resolve) => socket.once('end', resolve))
    expect(Buffer.concat(parts).equals(sent)).toBe(true)
    await there.stop()
  })
  it('breaks a connection whose server is gone', async () => {
    const far = await distance({ url: 'http://127.0.0.1:1/v1', rttMs: 1 })
    const socket = connect(Number(new URL(far.url).port), '127.0.0.1')
    socket.on('error', () => {})
    socket.write('x')
    await new Promise((resolve) => socket.once('close', resolve))
    await far.close()
  })
})
