// Runs one shell command for a model: bounded output, bounded time, and nothing left running afterwards.
import { spawn, type ChildProcess } from 'node:child_process'

/** Keeps the beginning and the end of a byte stream, `limit` bytes in all, and counts what fell out between. */
export class HeadAndTail {
  readonly #half: number
  #head: Buffer[] = []
  #headSize = 0
  #tail: Buffer[] = []
  #tailSize = 0
  #dropped = 0
  constructor(limit: number) {
    this.#half = Math.floor(limit / 2)
  }
  add(chunk: Buffer): void {
    const room = this.#half - this.#headSize
    if (room > 0) {
      const part = chunk.subarray(0, room)
      this.#head.push(part)
      this.#headSize += part.length
      chunk = chunk.subarray(part.length)
    }
    if (chunk.length === 0) return
    // A copy: a view would keep the whole of a large chunk alive.
    this.#tail.push(Buffer.from(chunk.subarray(-this.#half)))
    this.#dropped += Math.max(0, chunk.length - this.#half)
    this.#tailSize += Math.min(chunk.length, this.#half)
    for (let first = this.#tail[0]; first && this.#tailSize > this.#half; first = this.#tail[0]) {
      const over = Math.min(first.length, this.#tailSize - this.#half)
      if (over === first.length) this.#tail.shift()
      else this.#tail[0] = first.subarray(over)
      this.#tailSize -= over
      this.#dropped += over
    }
  }
  skip(bytes: number): void {
    this.#dropped += bytes
  }
  toString(): string {
    const head = Buffer.concat(this.#head)
    const tail = Buffer.concat(this.#tail)
    if (this.#dropped === 0) return Buffer.concat([head, tail]).toString()
    return `${head.toString()}\n[… ${this.#dropped} bytes left out …]\n${tail.toString()}`
  }
}

export type CommandLimits = { readonly cwd: string; readonly timeoutMs: number; readonly maxOutput: number }
export type CommandResult = { readonly output: string; readonly exit: string }

/** How long a stopped process has before it is killed, and how long its pipes may outlive it. */
const graceMs = 2000
const lingerMs = 300

/** Runs `command` in the system's shell. stdout and stderr come back in one text, in the order they were written. */
export function runCommand(command: string, limits: CommandLimits, signal?: AbortSignal): Promise<CommandResult> {
  signal?.throwIfAborted()
  return new Promise((resolve, reject) => {
    const output = new HeadAndTail(limits.maxOutput)
    // The server's key is for this program, not for what a model makes it run.
    const { CONTINUO_API_KEY: _, ...env } = process.env
    const posix = process.platform !== 'win32'
    const child = spawn(command, {
      shell: true,
      cwd: limits.cwd,
      env,
      detached: posix,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let timedOut = false
    let kill: NodeJS.Timeout | undefined
    const stop = (): void => {
      end(child, posix, 'SIGTERM')
      kill ??= setTimeout(() => end(child, posix, 'SIGKILL'), graceMs)
    }
    const limit = setTimeout(() => {
      timedOut = true
      stop()
    }, limits.timeoutMs)
    signal?.addEventListener('abort', stop, { once: true })
    child.stdout.on('data', (chunk: Buffer) => output.add(chunk))
    child.stderr.on('data', (chunk: Buffer) => output.add(chunk))
    const over = (): void => {
      clearTimeout(limit)
      clearTimeout(kill)
      signal?.removeEventListener('abort', stop)
    }
    child.on('error', (error) => {
      over()
      reject(error)
    })
    // A background job of the command may hold the pipes open for ever; the command itself is over at `exit`.
    child.on('exit', () => {
      setTimeout(() => {
        child.stdout.destroy()
        child.stderr.destroy()
      }, lingerMs).unref()
    })
    child.on('close', (code, killed) => {
      over()
      if (timedOut || signal?.aborted === true) end(child, posix, 'SIGKILL')
      if (signal?.aborted === true) return reject(signal.reason as Error)
      const exit = timedOut
        ? `stopped after ${limits.timeoutMs} ms`
        : code === null
          ? `signal ${killed ?? '?'}`
          : `exit code ${code}`
      resolve({ output: output.toString(), exit })
    })
  })
}

/** Signals the command and all it started, where the system has process groups. */
function end(child: ChildProcess, group: boolean, signal: NodeJS.Signals): void {
  try {
    if (group && child.pid !== undefined) process.kill(-child.pid, signal)
    else child.kill(signal)
  } catch {
    // Gone already.
  }
}
