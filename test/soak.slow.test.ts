// The soak in small, in this process: no error, and everything that was opened or held is given back. Memory and speed are
// what `npm run bench:soak` measures.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { round, unstoredMark } from '../bench/loop.ts'
import { startTestServer } from './wire/server.ts'

const sockets = 20
const turns = 5
const rounds = 2

describe('agents in a tool loop, many at once', () => {
  it('complete every turn, leave nothing behind, and only what is to be stored is on disk', async () => {
    const engines = { simulated: { type: 'simulated', rounds: turns - 1 } }
    const server = await startTestServer({ engines, store: { kind: 'sqlite' } })
    try {
      for (let n = 0; n < rounds; n++) {
        let seen = 0
        const done = await round({ wsUrl: server.wsUrl, sockets, turns, onTurn: () => seen++ })
        expect(done.errors).toEqual([])
        expect([done.failures, done.completed, done.stored, seen]).toEqual([
          0,
          sockets * turns,
          (sockets * turns) / 2,
          sockets * turns,
        ])
        expect(done.events).toBeGreaterThan(done.completed * 5)
        await server.quiet(true)
        const { sockets: open, running, heldBytes, unsettled, unknownFrames } = server.app.counts()
        expect({ open, running, heldBytes, unsettled, unknownFrames }).toEqual({
          open: 0,
          running: 0,
          heldBytes: 0,
          unsettled: 0,
          unknownFrames: 0,
        })
      }
      expect(server.log).toEqual([])
      const written = readdirSync(server.data).map((name) => readFileSync(join(server.data, name)))
      expect(written.some((bytes) => bytes.includes('a-file-of-the-project.ts'))).toBe(true)
      expect(written.filter((bytes) => bytes.includes(unstoredMark))).toEqual([])
    } finally {
      await server.close()
    }
  })
  it('are told of every error: a server that fails turns does not pass', async () => {
    const engines = { simulated: { type: 'simulated', rounds: 10, faults: [{ kind: 'error', probability: 1 }] } }
    const server = await startTestServer({ engines })
    try {
      const done = await round({ wsUrl: server.wsUrl, sockets: 3, turns: 2 })
      expect([done.failures, done.completed]).toEqual([3, 0])
      expect(done.errors[0]).toContain('response.failed')
      await server.quiet(true)
    } finally {
      await server.close()
    }
  })
})
