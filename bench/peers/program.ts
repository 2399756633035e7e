// A program of somebody else, started for a while: in a process group of its own, with a folder of its own as its home,
// waited for until its health answers, and ended with everything that it started.
import { execFile, spawn } from 'node:child_process'
import { access, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'

export type ProgramOptions = {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** Its home and working folder, from `newFolder`; removed when it has stopped. */
  readonly folder: string
  /** Answers 2xx once it serves. */
  readonly healthUrl: string
  readonly startMs?: number
  /** How long it may take to end before it is killed. */
  readonly stopMs?: number
}
export type Program = { readonly pid: number; stop(): Promise<void> }

/** What Node needs to run the TypeScript of this tree, whatever this process itself was started with. */
export const typescript: readonly string[] = [
  '--import',
  pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href,
]

const mostSaid = 4000
const groups = new Set<number>()
let watching = false

/** Rejects with the program's last lines where it ends, or does not serve in time. */
export async function startProgram(options: ProgramOptions): Promise<Program> {
  const { name, command, args, env, folder, healthUrl, startMs = 90_000, stopMs = 5000 } = options
  // Its home is the folder: what a person has configured there must not change what is measured, nor be changed.
  const child = spawn(command, args, {
    cwd: folder,
    env: { PATH: process.env['PATH'] ?? '', HOME: folder, LANG: 'C.UTF-8', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  let said = ''
  const listen = (bytes: Buffer): void => {
    said = (said + String(bytes)).slice(-mostSaid)
  }
  child.stdout.on('data', listen)
  child.stderr.on('data', listen)
  const ended = new Promise<string>((resolve) => {
    child.once('error', (e) => resolve(e.message))
    child.once('close', (code, signal) => resolve(`it ended with ${signal ?? `code ${code}`}`))
  })
  const { pid } = child
  if (pid !== undefined) remember(pid)
  const stop = async (): Promise<void> => {
    if (pid !== undefined) {
      await endGroup(pid, stopMs)
      groups.delete(pid)
    }
    await rm(folder, { recursive: true, force: true, maxRetries: 5 })
  }
  const late = new AbortController()
  const why = await Promise.race([ended, healthy(healthUrl, startMs, late.signal)])
  late.abort()
  if (why === undefined && pid !== undefined) return { pid, stop }
  await stop()
  const last = said.trim() === '' ? 'It said nothing.' : `Its last lines:\n${lastLines(said)}`
  throw new Error(`${name} did not start: ${why}. ${last}`)
}

/** Undefined once it answers; else why it is not waited for any longer. */
async function healthy(url: string, ms: number, signal: AbortSignal): Promise<string | undefined> {
  for (const end = performance.now() + ms; performance.now() < end && !signal.aborted; await pause(50)) {
    const answer = await fetch(url, { signal: AbortSignal.timeout(2000) }).catch(() => undefined)
    await answer?.body?.cancel()
    if (answer?.ok === true) return undefined
  }
  return `${url} did not answer within ${Math.round(ms / 1000)} s`
}
/** Asks the whole group to end, then kills what is left of it. */
async function endGroup(pid: number, ms: number): Promise<void> {
  signalGroup(pid, 'SIGTERM')
  for (const end = performance.now() + ms; groupLives(pid) && performance.now() < end;) await pause(20)
  signalGroup(pid, 'SIGKILL')
  for (const end = performance.now() + ms; groupLives(pid) && performance.now() < end;) await pause(20)
}
function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-pid, signal)
  } catch {
    return false
  }
}
const groupLives = (pid: number): boolean => signalGroup(pid, 0)
/** Whoever ends this process ends them too. */
function remember(pid: number): void {
  groups.add(pid)
  if (watching) return
  watching = true
  process.on('exit', () => {
    for (const group of groups) signalGroup(group, 'SIGKILL')
  })
}
function lastLines(said: string): string {
  // Colours and redrawn lines are for terminals.
  // oxlint-disable-next-line no-control-regex
  const plain = said.replaceAll(/\x1b\[[\d;]*[A-Za-z]/g, '').replaceAll('\r', '\n')
  return plain
    .split('\n')
    .filter((line) => line.trim() !== '')
    .slice(-12)
    .join('\n')
}
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** A folder for one run; `files` by their names. */
export async function newFolder(name: string, files: Readonly<Record<string, string>> = {}): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), `continuo-peer-${name}-`))
  for (const [file, text] of Object.entries(files)) await writeFile(join(folder, file), text)
  return folder
}
/** Free a moment ago; programs that cannot be given port 0 are given this. */
export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  if (typeof address !== 'object' || !address) throw new Error('The system gives no port.')
  return address.port
}

/** Where peers are installed: one folder each, named as in the commands of the README. */
export function peerFolder(name: string): string {
  const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache')
  return join(process.env['CONTINUO_PEERS'] ?? join(cache, 'continuo/peers'), name)
}
/** Undefined where the file is there; else what to run. */
export async function missing(file: string, install: string): Promise<string | undefined> {
  return access(file).then(
    () => undefined,
    () => `not installed (there is no ${file}); run: ${install}`,
  )
}
/** What a program prints and ends, trimmed. */
export async function output(command: string, args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(command, args, { timeout: 60_000 })
  return stdout.trim()
}
