// Servers and client scripts as programs of their own, for the tests of this folder: started, watched, held to their word.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { expect, it } from 'vitest'
import { mark } from '../wire/violations.ts'

export const here = fileURLToPath(new URL('.', import.meta.url))
export const ci = !['', '0', 'false', undefined].includes(process.env['CI'])
const installed = existsSync(join(here, 'node_modules/@openai/codex/bin/codex.js'))
/** Without the packages of this folder these tests are named skips, and failures where CI is set. */
export const run: typeof it.skip = ci || installed ? it : it.skip
const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href
export const minutes = 60_000
/** Every byte that the server sends to a client goes through the oracles of test/wire. */
const tap = new URL('../wire/tap.ts', import.meta.url).href

// Nothing of the surroundings may change what a server or a client does.
const environment = Object.fromEntries(
  Object.entries(process.env).filter(
    ([name]) => !/^(CONTINUO_|npm_|PORT$|OPENAI_|CODEX_|VITEST|NODE_OPTIONS)/.test(name),
  ),
)

export type Server = { readonly url: string; readonly log: () => string; stop(): Promise<void> }

export const violations = (log: string): string[] =>
  log.split('\n').flatMap((line) => (line.startsWith(mark) ? [line.slice(0, 300)] : []))

export type LoggedTurn = {
  readonly msg: string
  readonly connection: string
  readonly delta: boolean
  readonly warmup: boolean
  readonly items: number
  readonly ending: string
  readonly input: number
  readonly cached: number
  readonly output: number
}
/** What the log says of each turn, in the order in which they ended. */
export function turnsOf(log: string): LoggedTurn[] {
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
export async function start(
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

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  return typeof address === 'object' && address !== null ? address.port : 0
}

/** `continuo serve` from the sources, with a data folder of its own and this configuration. */
export function serve(dir: string, config: unknown, port = 0): Promise<Server> {
  const file = join(dir, 'continuo.yaml')
  writeFileSync(file, JSON.stringify(config))
  const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
  const flags = ['--port', String(port), '--host', '127.0.0.1', '--data', join(dir, 'data'), '--config', file]
  return start([main, 'serve', ...flags], dir, (out) => /serves (http:\/\/\S+\/v1)/.exec(out)?.[1])
}

/** How a script is run: what it asks for, and what to do when it says something. */
type Manner = { readonly model?: string; readonly on?: { readonly line: string; act(): Promise<void> } }

/** Runs a script to its end; fails with its output unless every check of it passed. */
export async function passes(script: string, ...args: readonly string[]): Promise<void> {
  await passesWith({}, script, ...args)
}
export async function passesWith({ model, on }: Manner, script: string, ...args: readonly string[]): Promise<void> {
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
