// Small servers that stand beside ours in a benchmark, each in a process of its own: how one is started and asked, and what
// it does at its end. A file is both sides: it forks itself.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { Server } from 'node:http'
import { fileURLToPath } from 'node:url'
import { asSource } from './served.ts'

export type Forked<Taken> = {
  /** `http://127.0.0.1:PORT` */
  readonly origin: string
  /** What it has counted since the last time. */
  take(): Promise<Taken>
  stop(): Promise<void>
}

/** Forks this file and waits until it listens. `url`: its `import.meta.url`. Rejects where it ends instead. */
export async function forked<Taken = never>(
  url: string,
  args: readonly string[],
  what: string,
): Promise<Forked<Taken>> {
  const file = fileURLToPath(url)
  const child = fork(file, ['--serve', ...args], {
    execArgv: [...asSource(file)],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const failed = ended.then(() => {
    throw new Error(`${what} has ended.`)
  })
  failed.catch(() => {})
  // Said by `listens` below, and by nobody else.
  const [started] = (await Promise.race([once(child, 'message'), failed])) as [{ port: number }]
  return {
    origin: `http://127.0.0.1:${started.port}`,
    take: async () => {
      child.send('take')
      const [taken] = (await Promise.race([once(child, 'message'), failed])) as [Taken]
      return taken
    },
    stop: async () => {
      child.kill('SIGTERM')
      await ended
    },
  }
}

/** What this file was forked with; undefined in every other process. */
export function serveArgs(url: string): readonly string[] | undefined {
  const [, script, flag, ...args] = process.argv
  return script === fileURLToPath(url) && flag === '--serve' ? args : undefined
}
/** Listens on a free port of the loopback; answers `take` with processor time in µs and whatever `taken` adds. */
export function listens(server: Server, taken: () => object = () => ({})): void {
  let cpu = process.cpuUsage()
  server.listen(0, '127.0.0.1', () => {
    const address = server.address()
    process.send?.({ port: typeof address === 'object' && address ? address.port : 0 })
  })
  process.on('message', () => {
    const { user, system } = process.cpuUsage(cpu)
    cpu = process.cpuUsage()
    process.send?.({ ...taken(), cpuUs: user + system })
  })
  // A server that nobody asks any more is of no use.
  process.on('disconnect', () => process.exit(0))
}
