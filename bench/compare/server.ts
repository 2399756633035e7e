// A server of some revision, by the command that people use, watched from outside: what any revision can do.
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

export type Server = {
  /** Base URL, `…/v1`. */
  readonly url: string
  /** Processor time so far in milliseconds, resident bytes; NaN where there is no /proc. */
  spent(): { readonly cpuMs: number; readonly rss: number }
  stop(): Promise<void>
}
const startMs = 60_000
const killMs = 15_000
const lastLines = 2000
/** Of Linux, for the times in /proc. */
const ticksPerSecond = 100

/** Throws an Error with what the server said last where it does not serve in time. */
export async function startServer(program: string, config: Readonly<Record<string, unknown>>): Promise<Server> {
  const folder = mkdtempSync(join(tmpdir(), 'continuo-compare-'))
  const file = join(folder, 'continuo.json')
  const port = await freePort()
  // JSON is YAML.
  writeFileSync(
    file,
    JSON.stringify({ host: '127.0.0.1', port, data: folder, log: { level: 'warn', pretty: false }, ...config }),
  )
  const child = spawn(process.execPath, [program, 'serve', '--config', file], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  child.stderr.on('data', (bytes: Buffer) => (said = (said + String(bytes)).slice(-lastLines)))
  let over = false
  const ended = new Promise<void>((resolve) => child.once('close', () => ((over = true), resolve())))
  const stop = async (): Promise<void> => {
    child.kill('SIGTERM')
    const late = setTimeout(() => child.kill('SIGKILL'), killMs)
    await ended
    clearTimeout(late)
    rmSync(folder, { recursive: true, force: true })
  }
  for (const until = Date.now() + startMs; Date.now() < until && !over; await sleep(50)) {
    const healthy = await fetch(`http://127.0.0.1:${port}/healthz`).then(
      (r) => r.ok,
      () => false,
    )
    if (healthy) return { url: `http://127.0.0.1:${port}/v1`, spent: () => spent(child.pid), stop }
  }
  await stop()
  throw new Error(`${program} does not serve: ${said.trim() || 'it says nothing'}`)
}
function spent(pid: number | undefined): { cpuMs: number; rss: number } {
  try {
    // Fields 14 and 15 of proc(5), counted behind the name, which may hold blanks.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\)/, '').trim().split(' ')
    const cpuMs = ((Number(fields[11]) + Number(fields[12])) * 1000) / ticksPerSecond
    const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
    return { cpuMs, rss: Number(kilobytes) * 1024 }
  } catch {
    return { cpuMs: NaN, rss: NaN }
  }
}
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address()
      probe.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}
