// A server in a process of its own, as `npm start` runs it (dist/cli/main.js serve), with a data folder for the moment;
// watched from outside: /proc for its memory, its log for sockets and turns, a preload for the heap.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { pause, within } from './figures.ts'

/** Bytes. `rss` is VmRSS of /proc where there is one, else the process's own word. */
export type Memory = { readonly rss: number; readonly heap: number; readonly external: number }
export type Served = {
  /** `http://127.0.0.1:PORT`, and `ws://…/v1/responses`. */
  readonly url: string
  readonly wsUrl: string
  readonly data: string
  readonly seen: Seen
  /** Asks the process. `gc`: after a full collection; needs the option `gc`. */
  memory(gc?: boolean): Promise<Memory>
  /** Resolves once the log says that no socket is open any more. Rejects after 30 s. */
  withoutSockets(): Promise<void>
  /** SIGTERM, which drains; the exit code and how long it took. The data folder stays for `remove`. */
  stop(): Promise<{ readonly code: number | null; readonly ms: number }>
  /** CPU profiles of the process, as JSON; there once it has stopped. */
  profiles(): readonly string[]
  remove(): void
}
/** What the server's log has said so far. */
export type Seen = { sockets: number; turns: Record<string, number>; warnings: string[] }
export type ServedOptions = {
  /** Settings as in continuo.yaml. */
  readonly config?: Readonly<Record<string, unknown>>
  readonly gc?: boolean
  readonly profile?: boolean
}

const root = fileURLToPath(new URL('..', import.meta.url))
const startMs = 30_000
const stopMs = 60_000
const mostWarnings = 20

// Answers with its memory when asked; ends with the program that asks, so that none is left behind.
const preload = `
process.on('message', ({ gc }) => {
  if (gc) for (let n = 0; n < 3; n++) globalThis.gc?.()
  process.send?.(process.memoryUsage())
})
process.on('disconnect', () => process.exit(1))
process.channel?.unref()`

/** Builds dist/ if the sources have changed, starts it on a free port and waits until it serves. */
export async function serveApart(options: ServedOptions = {}): Promise<Served> {
  if (
    spawnSync(process.execPath, [join(root, 'scripts/build.mjs')], { stdio: ['ignore', 'ignore', 'inherit'] })
      .status !== 0
  )
    throw new Error('The sources do not compile; `npm run build` says where.')
  const folder = mkdtempSync(join(tmpdir(), 'continuo-bench-'))
  const data = join(folder, 'data')
  const config = join(folder, 'continuo.json')
  // JSON is YAML.
  writeFileSync(
    config,
    JSON.stringify({ host: '127.0.0.1', port: 0, data, log: { level: 'info', pretty: false }, ...options.config }),
  )
  const flags = [
    ...(options.gc === true ? ['--expose-gc'] : []),
    ...(options.profile === true ? ['--cpu-prof', `--cpu-prof-dir=${join(folder, 'profiles')}`] : []),
  ]
  const args = [
    ...flags,
    '--import',
    `data:text/javascript,${encodeURIComponent(preload)}`,
    join(root, 'dist/cli/main.js'),
    'serve',
    '--config',
    config,
  ]
  const child = spawn(process.execPath, args, {
    cwd: folder,
    env: { PATH: process.env['PATH'] ?? '', HOME: folder },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  const ended = new Promise<number | null>((resolve) => child.once('close', (code) => resolve(code)))
  const seen: Seen = { sockets: 0, turns: {}, warnings: [] }
  if (!child.stdout || !child.stderr) throw new Error('The server has no output to read.')
  createInterface({ input: child.stderr }).on('line', (line) => note(seen, line))

  let said = ''
  const { stdout } = child
  const serves = new Promise<string>((resolve) => {
    stdout.on('data', (bytes: Buffer) => {
      said = (said + String(bytes)).slice(-10_000)
      const address = said.includes('env_key') ? /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0] : undefined
      if (address !== undefined) resolve(address)
    })
  })
  const url = await within(Promise.race([serves, ended.then(() => undefined)]), startMs)
  if (url === undefined) {
    child.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
    throw new Error(`The server did not start. ${seen.warnings.join('\n')}`)
  }
  return {
    url,
    wsUrl: `${url.replace('http', 'ws')}/v1/responses`,
    data,
    seen,
    memory: async (gc = false) => {
      const own = await new Promise<NodeJS.MemoryUsage>((resolve, reject) => {
        child.once('message', (usage) => resolve(usage as NodeJS.MemoryUsage))
        child.send({ gc }, (error) => error && reject(error))
        void ended.then(() => reject(new Error('The server has ended.')))
      })
      return { rss: residentBytes(child.pid) ?? own.rss, heap: own.heapUsed, external: own.external }
    },
    withoutSockets: async () => {
      for (const end = Date.now() + 30_000; seen.sockets > 0; await pause(20))
        if (Date.now() > end) throw new Error(`The server still holds ${seen.sockets} sockets.`)
    },
    stop: async () => {
      const begun = performance.now()
      child.kill('SIGTERM')
      const code = (await within(ended, stopMs)) ?? null
      child.kill('SIGKILL')
      return { code, ms: Math.round(performance.now() - begun) }
    },
    profiles: () => {
      const at = join(folder, 'profiles')
      return existsSync(at) ? readdirSync(at).map((name) => readFileSync(join(at, name), 'utf8')) : []
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

function residentBytes(pid: number | undefined): number | undefined {
  try {
    const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
    return kilobytes === undefined ? undefined : Number(kilobytes) * 1024
  } catch {
    return undefined
  }
}

type Line = { level?: string; msg?: string; sockets?: number; ending?: string }
function note(seen: Seen, text: string): void {
  let line: Line = {}
  try {
    // Our own log: one object a line. What is none is told below.
    line = JSON.parse(text) as Line
  } catch {
    line = { level: 'error' }
  }
  if (line.msg === 'socket opened' || line.msg === 'socket closed') seen.sockets = line.sockets ?? 0
  else if (line.msg === 'turn') seen.turns[line.ending ?? ''] = (seen.turns[line.ending ?? ''] ?? 0) + 1
  if (line.level !== 'info' && line.level !== 'debug' && seen.warnings.length < mostWarnings) seen.warnings.push(text)
}
