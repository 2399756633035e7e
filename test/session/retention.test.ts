// What ended responses may hold in memory: the bound counts what their events echo, not the events alone.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import { eventually, startTestServer } from '../wire/server.ts'

describe('events of ended responses', () => {
  it('count the instructions and tools that they echo, and the oldest go when there is no room', async () => {
    const keepBytes = 200_000
    const server = await startTestServer({ limits: { events: { keepBytes } } })
    try {
      const http = server.http()
      const ids: string[] = []
      for (let n = 0; n < 6; n++) {
        const body = { model: 'm', input: 'hi', instructions: `${n}`.repeat(50_000), store: true }
        const answer = await http.post('/v1/responses', body)
        expect(answer.status).toBe(200)
        ids.push(String(answer.json['id']))
      }
      await server.quiet()
      expect(server.app.counts().logBytes).toBeGreaterThan(100_000)
      expect(server.app.counts().logBytes).toBeLessThanOrEqual(keepBytes)
      // Without counting what is echoed all six would still be there.
      expect((await http.get(`/v1/responses/${ids[0]}?stream=true`)).status).toBe(410)
      const replayed = await fetch(`${server.url}/v1/responses/${ids[5]}?stream=true`)
      expect(replayed.status).toBe(200)
      expect(await replayed.text()).toContain('response.completed')
    } finally {
      await server.close()
    }
  })
  it('count everything else of the request that they echo', async () => {
    const server = await startTestServer()
    try {
      const http = server.http()
      const echoed = [
        { metadata: Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`k${n}`, 'v'.repeat(500)])) },
        { text: { format: { type: 'json_schema', name: 'f', schema: { title: 's'.repeat(20_000) } } } },
        {
          prompt_cache_key: 'k'.repeat(1000),
          text: { format: { type: 'json_schema', name: 'f', schema: { title: 's'.repeat(19_000) } } },
        },
      ]
      for (const [n, more] of echoed.entries()) {
        await http.post('/v1/responses', { model: 'm', input: 'hi', store: false, ...more })
        expect(server.app.counts().logBytes).toBeGreaterThan(20_000 * (n + 1))
      }
    } finally {
      await server.close()
    }
  })
  it('do not keep the conversations of a connection that is closed', async () => {
    setFlagsFromString('--expose-gc')
    const gc = runInNewContext('gc') as () => void
    const heap = (): number => {
      gc()
      return process.memoryUsage().heapUsed
    }
    // Nor does the prefix index, which is there to outlive connections.
    const server = await startTestServer({
      engines: { simulated: { type: 'simulated', context: 100_000_000 } },
      limits: { prefixes: { keepBytes: 0 } },
    })
    try {
      const socket = await server.socket()
      let n = 0
      const ask = (length: number) => {
        const foreign = { type: 'reasoning', summary: [], encrypted_content: 'x'.repeat(length) }
        return socket.turn({ model: 'm', store: false, input: [foreign, { role: 'user', content: `hi ${n++}` }] })
      }
      await ask(10)
      const before = heap()
      for (let times = 0; times < 4; times++) await ask(10_000_000)
      expect(heap() - before).toBeGreaterThan(35_000_000)
      await socket.close()
      await eventually(() => expect(heap() - before).toBeLessThan(15_000_000))
      expect(server.app.counts().logBytes).toBeGreaterThan(0)
    } finally {
      await server.close()
    }
  })
})
