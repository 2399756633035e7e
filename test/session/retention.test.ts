// What ended responses may hold in memory: the bound counts what their events echo, not the events alone.
import { describe, expect, it } from 'vitest'
import { startTestServer } from '../wire/server.ts'

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
})
