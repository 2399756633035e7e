// The real program as a process of its own, from the sources, in an empty folder and with an environment of its own.
import { spawn, type ChildProcess } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href

export const emptyFolder = (): string => mkdtempSync(join(tmpdir(), 'continuo-cli-'))

export type Ended = { readonly code: number | null; readonly out: string; readonly err: string }
export type Program = {
  readonly child: ChildProcess
  out(): string
  err(): string
  /** When the text has appeared on stdout or stderr; rejects when the program ends before, with what it said. */
  says(text: string): Promise<void>
  readonly ended: Promise<Ended>
  /** Ends it, whatever it does. */
  [Symbol.asyncDispose](): Promise<void>
}

export function start(
  args: readonly string[],
  options: { cwd?: string; env?: Record<string, string>; preload?: string } = {},
): Program {
  const { cwd = emptyFolder(), env = {}, preload } = options
  const extra = preload === undefined ? [] : ['--import', `data:text/javascript,${encodeURIComponent(preload)}`]
  const child = spawn(process.execPath, ['--import', tsx, ...extra, main, ...args], {
    cwd,
    env: { PATH: process.env['PATH'] ?? '', HOME: cwd, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let out = ''
  let err = ''
  const looks = new Set<() => void>()
  const look = () => {
    for (const l of looks) l()
  }
  child.stdout.on('data', (bytes) => ((out += String(bytes)), look()))
  child.stderr.on('data', (bytes) => ((err += String(bytes)), look()))
  const ended = new Promise<Ended>((resolve) => child.on('close', (code) => resolve({ code, out, err })))
  return {
    child,
    out: () => out,
    err: () => err,
    says: (text) =>
      new Promise((resolve, reject) => {
        const check = () => {
          if (out.includes(text) || err.includes(text)) resolve()
        }
        looks.add(check)
        check()
        void ended.then((e) => reject(new Error(`ended with ${e.code} before it said "${text}":\n${e.out}\n${e.err}`)))
      }),
    ended,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await ended
    },
  }
}

/** Runs to the end. */
export const run = (args: readonly string[], options: Parameters<typeof start>[1] = {}): Promise<Ended> =>
  start(args, options).ended

/** A server on a free port, once it serves. */
export async function serving(
  args: readonly string[] = [],
  options: Parameters<typeof start>[1] = {},
): Promise<Program & { readonly url: string }> {
  const program = start(['serve', '--port', '0', ...args], options)
  try {
    await program.says('env_key')
  } catch (e) {
    await program[Symbol.asyncDispose]()
    throw e
  }
  return { ...program, url: /https?:\/\/127\.0\.0\.1:\d+/.exec(program.out())?.[0] ?? '' }
}
