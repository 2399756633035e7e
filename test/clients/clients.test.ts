// The real clients against a real server: each script of this folder runs as a program of its own, first with the
// simulated engine, then through a chat-completions server. Without the packages of this folder they are named skips,
// and failures where CI is set.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect } from 'vitest'
import { parse } from 'yaml'
import {
  freePort,
  here,
  minutes,
  passes,
  passesWith,
  run,
  serve,
  type Server,
  start,
  turnsOf,
  violations,
} from './programs.ts'

describe('with the simulated engine', () => {
  const dir = mkdtempSync(join(tmpdir(), 'continuo-clients-'))
  let server: Server
  beforeAll(async () => {
    const engines = { simulated: { type: 'simulated', faultMarkers: true } }
    server = await serve(dir, { engines, models: { '*': { engine: 'simulated' }, simulated: { engine: 'simulated' } } })
  }, minutes)
  afterEach(() => expect(violations(server.log())).toEqual([]))
  afterAll(async () => {
    await server?.stop()
    rmSync(dir, { recursive: true, force: true })
  })

  run.each(['gpt-5.5', 'gpt-6.1-sol'])(
    'Codex works through a tool loop with %s over one socket, warmed up, sending only what is new',
    async (model) => {
      const before = server.log().length
      await passesWith({ model }, 'codex.mjs', server.url)
      const file = join(dir, 'server.log')
      writeFileSync(file, server.log().slice(before))
      await passes('server-log.mjs', file)
    },
    3 * minutes,
  )
  run(
    'the OpenAI SDK for Node passes over HTTP, SSE and the socket',
    () => passes('openai-node.mjs', server.url),
    2 * minutes,
  )
  run('the OpenAI Agents SDK passes over its socket', () => passes('agents.mjs', server.url), 2 * minutes)
  run(
    'the AI SDK passes, and ends after failed and incomplete responses',
    () => passes('ai-sdk.mjs', server.url, '--faults'),
    2 * minutes,
  )
})

describe('with a slow engine', () => {
  const dir = mkdtempSync(join(tmpdir(), 'continuo-clients-'))
  const slow: unknown = parse(readFileSync(join(here, 'slow.yaml'), 'utf8'))
  let server: Server
  beforeAll(async () => {
    server = await serve(dir, slow)
  }, minutes)
  afterEach(() => expect(violations(server.log())).toEqual([]))
  afterAll(async () => {
    await server?.stop()
    rmSync(dir, { recursive: true, force: true })
  })

  run.each(['gpt-5.5', 'gpt-6.1-sol'])(
    "a thread of Codex's app server with %s is continued, steered, interrupted and goes on",
    async (model) => {
      const before = server.log().length
      await passesWith({ model }, 'codex-app.mjs', server.url)
      const turns = turnsOf(server.log().slice(before))
      const cut = turns.filter(({ ending }) => ending !== 'stop')
      expect(cut.map(({ ending }) => ending)).toEqual(
        model === 'gpt-5.5' ? ['cancelled'] : ['interrupted', 'cancelled'],
      )
      // The story has 500 tokens; the engine was stopped where Codex had read a few of them.
      for (const { output } of cut) expect(output).toBeLessThan(400)
    },
    minutes,
  )
  run.each(['gpt-5.5', 'gpt-6.1-sol'])(
    "a thread of Codex's app server with %s is compacted in both ways and goes on",
    (model) => passesWith({ model }, 'codex-compaction.mjs', server.url),
    minutes,
  )
  run.each(['idle', 'busy'])(
    "a thread of Codex's app server outlives a restart of the server while it is %s",
    async (state) => {
      const act = async (): Promise<void> => {
        await server.stop()
        expect(violations(server.log())).toEqual([])
        server = await serve(dir, slow, Number(new URL(server.url).port))
      }
      await passesWith({ on: { line: 'restart the server now', act } }, 'codex-restart.mjs', server.url, `--${state}`)
    },
    minutes,
  )
})

describe('without WebSocket mode', () => {
  const dir = mkdtempSync(join(tmpdir(), 'continuo-clients-'))
  let server: Server
  beforeAll(async () => {
    server = await serve(dir, { limits: { websocket: { enabled: false } } })
  }, minutes)
  afterEach(() => expect(violations(server.log())).toEqual([]))
  afterAll(async () => {
    await server?.stop()
    rmSync(dir, { recursive: true, force: true })
  })

  run.each(['gpt-5.5', 'gpt-6.1-sol'])(
    'Codex works through a tool loop with %s over HTTP, after one refused upgrade',
    async (model) => {
      const before = server.log().length
      await passesWith({ model }, 'codex.mjs', server.url, '--http')
      const turns = turnsOf(server.log().slice(before))
      expect(turns.length).toBeGreaterThanOrEqual(4)
      expect(new Set(turns.map(({ connection, delta, ending }) => `${connection} ${delta} ${ending}`))).toEqual(
        new Set(['http false stop']),
      )
    },
    minutes,
  )
})

describe('through a chat-completions server', () => {
  const dir = mkdtempSync(join(tmpdir(), 'continuo-clients-'))
  let upstream: Server
  let server: Server
  beforeAll(async () => {
    const program = fileURLToPath(new URL('../engines/chat-server.ts', import.meta.url))
    const url = `http://127.0.0.1:${await freePort()}/v1`
    const answers = () =>
      fetch(`${url}/models`).then(
        () => url,
        () => undefined,
      )
    upstream = await start([program, new URL(url).port], dir, answers)
    const engines = { upstream: { type: 'chat', url } }
    server = await serve(dir, { engines, models: { '*': { engine: 'upstream' }, upstream: { engine: 'upstream' } } })
  }, 2 * minutes)
  afterEach(() => expect(violations(server.log())).toEqual([]))
  afterAll(async () => {
    await server?.stop()
    await upstream?.stop()
    rmSync(dir, { recursive: true, force: true })
  })

  run('Codex works through a tool loop', () => passes('codex.mjs', server.url), 3 * minutes)
  run(
    'the OpenAI SDK for Node passes over HTTP, SSE and the socket',
    () => passes('openai-node.mjs', server.url),
    2 * minutes,
  )
})
