// A server with tight limits and engines that misbehave, and how to see that nothing is left of what was done to it.
import { expect } from 'vitest'
import { badWays, startBadEngine } from './bad-engine.ts'
import { eventually, startTestServer, type TestServer } from './server.ts'
import type { Socket } from './socket.ts'

/** Most bytes of a message or a body here. */
export const limit = 256 * 1024
export const hello = { model: 'm', input: 'hello' }

export type Trouble = {
  readonly server: TestServer
  /** Rejects unless nothing runs, nothing is held, no engine is still asked, and nobody had to catch an error. */
  over(): Promise<void>
  close(): Promise<void>
}
/** The model `gone` has an engine that is down, `full` one that takes nothing more, each of `badWays` what its name says. */
export async function startTrouble(): Promise<Trouble> {
  const engine = await startBadEngine()
  const bad = { type: 'chat', url: engine.url, connectMs: 500, headersMs: 700, idleMs: 700 }
  const server = await startTestServer({
    engines: {
      simulated: { type: 'simulated', faultMarkers: true },
      bad,
      full: { type: 'simulated', faults: [{ kind: 'error', code: 'server_is_overloaded' }] },
      gone: { type: 'chat', url: 'http://127.0.0.1:9/v1', connectMs: 500 },
    },
    models: {
      '*': { engine: 'simulated' },
      gone: { engine: 'gone' },
      full: { engine: 'full' },
      ...Object.fromEntries(badWays.map((way) => [way, { engine: 'bad' }])),
    },
    limits: {
      turnMs: 2000,
      outputBytes: 50_000,
      http: { maxBodyBytes: limit },
      websocket: { maxMessageBytes: limit, maxHeldBytes: 16 * limit, queued: 3, namedLanes: 4, inFlight: 3 },
      events: { keepMs: 100, keepBytes: 1024 * 1024, perResponse: 1024 * 1024 },
    },
  })
  return {
    server,
    over: async () => {
      await server.quiet()
      await eventually(() => expect(engine.open()).toBe(0))
      expect(server.log.filter((line) => /uncaught|nobody caught/.test(line))).toEqual([])
    },
    close: async () => {
      await server.close()
      await engine.close()
    },
  }
}

/** The socket is as good as new: a turn works, and nothing else had come. Closes it. */
export async function alive(socket: Socket): Promise<void> {
  const before = socket.frames.length
  const turn = await socket.turn(hello)
  expect(turn.response?.status).toBe('completed')
  expect(socket.frames.length - before).toBe(turn.events.length)
  await socket.close()
}
