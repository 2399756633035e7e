// The real clients against a real server: each script of this folder runs as a program of its own, first with the
// simulated engine, then through a chat-completions server. Without the packages of this folder they are named skips,
// and failures where CI is set.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { mark } from '../wire/violations.ts'

const here = fileURLToPath(new URL('.', import.meta.url))
const ci = !['', '0', 'false', undefined].includes(process.env['CI'])
const installed = existsSync(join(here, 'node_modules/@openai/codex/bin/codex.js'))
const run = ci || installed ? it : it.skip
const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href
const minutes = 60_000
/** Every byte that the server sends to a client goes through the oracles of test/wire. */
const tap = new URL('../wire/tap.ts', import.meta.url).href

// Nothing of the surroundings may change what a server or a client does.
const environment = Object.fromEntries(
  Object.entries(process.env).filter(
    ([name]) => !/^(CONTINUO_|npm_|PORT$|OPENAI_|CODEX_|VITEST|NODE_OPTIONS)/.test(name),
  ),
)

type Server = { readonly url: string; readonly log: () => string; stop(): Promise<void> }

const violations = (log: string): string[] =>
  log.split('\n').flatMap((line) => (line.startsWith(mark) ? [line.slice(0, 300)] : []))

type LoggedTurn = { msg: string; connection: string; delta: boolean; ending: string; output: number }
/** What the log says of each turn, in the order in which they ended. */
function turnsOf(log: string): LoggedTurn[] {
  const lines = log.split('\n').filter((line) => line.startsWith('{'))
  // The server's own lines: a field that is missing fails the comparison that wants it.
  return lines
    .map((line) => JSON.parse(line) as LoggedTurn)
    .filter(({ msg }) => msg === 'turn' || msg === 'turn refused')
}

function ended(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve) => (child.exitCode !== null ? resolve(child.exitCode) : child.once('close', resolve)))
}

/** Starts a program of the sources; `find` is asked for its URL until it has one. */
async function start(
  args: readonly string[],
  cwd: string,
  find: (out: string) => string | undefined | Promise<string | undefined>,
): Promise<Server> {
  const child = spawn(process.execPath, ['--import', tsx, '--import', tap, ...args], {
    cwd,
    env: environment,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let out = ''
  let log = ''
  child.stdout.on('data', (piece) => (out += String(piece)))
  child.stderr.on('data', (piece) => (log += String(piece)))
  const stop = async () => {
    child.kill('SIGTERM')
    await ended(child)
  }
  for (const began = Date.now(); Date.now() - began < minutes && child.exitCode === null; await setTimeout(50)) {
    const url = await find(out)
    if (url !== undefined) return { url, log: () => log, stop }
  }
  await stop()
  throw new Error(`${args.join(' ')} does not serve\n${out}${log}`)
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  return typeof address === 'object' && address !== null ? address.port : 0
}

/** `continuo serve` from the sources, with a data folder of its own and this configuration. */
function serve(dir: string, config: unknown, port = 0): Promise<Server> {
  const file = join(dir, 'continuo.yaml')
  writeFileSync(file, JSON.stringify(config))
  const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
  const flags = ['--port', String(port), '--host', '127.0.0.1', '--data', join(dir, 'data'), '--config', file]
  return start([main, 'serve', ...flags], dir, (out) => /serves (http:\/\/\S+\/v1)/.exec(out)?.[1])
}

/** How a script is run: what it asks for, and what to do when it says something. */
type Manner = { readonly model?: string; readonly on?: { readonly line: string; act(): Promise<void> } }

/** Runs a script to its end; fails with its output unless every check of it passed. */
async function passes(script: string, ...args: readonly string[]): Promise<void> {
  await passesWith({}, script, ...args)
}
async function passesWith({ model, on }: Manner, script: string, ...args: readonly string[]): Promise<void> {
  const child = spawn(process.execPath, [join(here, script), ...args], {
    env: model === undefined ? environment : { ...environment, MODEL: model },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let out = ''
  let acting: Promise<void> | undefined
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (piece) => {
      out += String(piece)
      if (on && acting === undefined && out.includes(on.line)) acting = on.act()
    })
  const code = await ended(child)
  await acting
  expect(code === 0 && /^[1-9]\d* passed, 0 failed$/m.test(out), `${script} ended with ${code}\n${out}`).toBe(true)
}

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
