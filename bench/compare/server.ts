// A server of some revision, by the command that people use, watched from outside: what any revision can do.
import { readFileSync } from 'node:fs'
import { freePort, newFolder, startProgram } from '../peers/program.ts'

export type Server = {
  /** Base URL, `…/v1`. */
  readonly url: string
  /** Processor time so far in milliseconds, resident bytes; NaN where there is no /proc. */
  spent(): { readonly cpuMs: number; readonly rss: number }
  stop(): Promise<void>
}
const stopMs = 15_000
/** Of Linux, for the times in /proc. */
const ticksPerSecond = 100

/** Throws an Error with what the server said last where it does not serve in time. */
export async function startServer(program: string, config: Readonly<Record<string, unknown>>): Promise<Server> {
  const port = await freePort()
  const origin = `http://127.0.0.1:${port}`
  const own = { host: '127.0.0.1', port, data: 'data', log: { level: 'warn', pretty: false } }
  // JSON is YAML.
  const folder = await newFolder('revision', { 'continuo.json': JSON.stringify({ ...own, ...config }) })
  const { pid, stop } = await startProgram({
    name: program,
    command: process.execPath,
    args: [program, 'serve', '--config', 'continuo.json'],
    folder,
    healthUrl: `${origin}/healthz`,
    stopMs,
  })
  return { url: `${origin}/v1`, spent: () => spent(pid), stop }
}
function spent(pid: number): { cpuMs: number; rss: number } {
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
