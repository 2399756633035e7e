// The tools an agent on this machine has: read a file, write a file, run a command. Files stay below one folder.
import { constants } from 'node:fs'
import { mkdir, open, realpath } from 'node:fs/promises'
import { dirname, isAbsolute, join, relative, resolve, sep } from 'node:path'
import type { FunctionTool } from '../protocol/tools.ts'
import { HeadAndTail, runCommand } from './command.ts'

/** A tool that runs here. What it throws becomes its output, as `Error: …`. */
export type LocalTool = {
  readonly definition: FunctionTool
  /** True: it changes nothing and may run beside others. */
  readonly parallel: boolean
  /** True: a person should agree first. */
  readonly confirm: boolean
  run(args: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<string>
}
export type LocalToolOptions = {
  /** Folder that files must be below and commands start in. Commands themselves are not confined. */
  readonly cwd: string
  /** Limits per call: bytes of output, and milliseconds a command may take unless it asks for less. */
  readonly maxOutput?: number
  readonly timeoutMs?: number
}

const string = (description: string): object => ({ type: 'string', description })
const optional = (description: string): object => ({ type: ['integer', 'null'], description })

function define(name: string, description: string, properties: Record<string, object>): FunctionTool {
  const parameters = { type: 'object', properties, required: Object.keys(properties), additionalProperties: false }
  return { type: 'function', name, description, parameters, strict: true }
}

export function localTools({ cwd, maxOutput = 65_536, timeoutMs = 120_000 }: LocalToolOptions): LocalTool[] {
  return [
    {
      definition: define('read_file', 'Reads a text file below the working folder.', {
        path: string('Path, relative to the working folder.'),
        offset: optional('First line wanted, from 1; null for the first.'),
        limit: optional('Number of lines wanted; null for all.'),
      }),
      parallel: true,
      confirm: false,
      run: async (args, signal) =>
        readLines(
          await inside(cwd, text(args, 'path')),
          count(args, 'offset', 1),
          count(args, 'limit'),
          maxOutput,
          signal,
        ),
    },
    {
      definition: define('write_file', 'Writes a text file below the working folder, replacing it if it exists.', {
        path: string('Path, relative to the working folder. Missing folders are made.'),
        content: string('The whole content.'),
      }),
      parallel: false,
      confirm: true,
      run: async (args) => {
        const content = text(args, 'content')
        const path = await inside(cwd, text(args, 'path'))
        await mkdir(dirname(path), { recursive: true })
        // O_NOFOLLOW: the path was resolved above, so a link here has just been put there.
        const flags =
          constants.O_WRONLY |
          constants.O_CREAT |
          constants.O_TRUNC |
          constants.O_NONBLOCK |
          (constants.O_NOFOLLOW ?? 0)
        const file = await open(path, flags, 0o666)
        try {
          if (!(await file.stat()).isFile()) throw new Error('not a regular file')
          await file.writeFile(content)
        } finally {
          await file.close()
        }
        return `Wrote ${Buffer.byteLength(content)} bytes.`
      },
    },
    {
      definition: define('run_command', "Runs a command in the system's shell, in the working folder, without input.", {
        command: string('The command line.'),
        timeout_ms: optional(`Milliseconds it may take, at most ${timeoutMs}; null for that.`),
      }),
      parallel: false,
      confirm: true,
      run: async (args, signal) => {
        const limits = {
          cwd,
          maxOutput,
          timeoutMs: Math.min(timeoutMs, count(args, 'timeout_ms', timeoutMs) ?? timeoutMs),
        }
        const { output, exit } = await runCommand(text(args, 'command'), limits, signal)
        return `${exit}\n${output}`
      },
    },
  ]
}

function text(args: Readonly<Record<string, unknown>>, name: string): string {
  const value = args[name]
  if (typeof value !== 'string') throw new Error(`'${name}' must be a string`)
  return value
}
function count(args: Readonly<Record<string, unknown>>, name: string, missing?: number): number | undefined {
  const value = args[name] ?? missing
  if (value === undefined) return undefined
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 1)
    throw new Error(`'${name}' must be a whole number from 1, or null`)
  return value
}

/** The real path that `path` stands for, links followed. Throws when that is outside of `root`. */
export async function inside(root: string, path: string): Promise<string> {
  const base = await realpath(root)
  const wanted = resolve(base, path)
  // What does not exist yet has no real path: resolve the nearest folder that does.
  let at = wanted
  for (;;) {
    let real: string
    try {
      real = await realpath(at)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || dirname(at) === at) throw error
      at = dirname(at)
      continue
    }
    const full = join(real, relative(at, wanted))
    const way = relative(base, full)
    if (way === '..' || way.startsWith(`..${sep}`) || isAbsolute(way))
      throw new Error(`'${path}' is outside of the working folder`)
    return full
  }
}

/** Lines `offset` to `offset + limit` of a regular file, head and tail of them where they are too long. */
async function readLines(
  path: string,
  offset: number | undefined,
  limit: number | undefined,
  maxOutput: number,
  signal: AbortSignal,
): Promise<string> {
  // O_NONBLOCK: opening a named pipe would wait for a writer.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    if (!(await file.stat()).isFile()) throw new Error('not a regular file')
    const kept = new HeadAndTail(maxOutput)
    const first = offset ?? 1
    const last = limit === undefined ? Infinity : first + limit
    let line = 1
    for await (const chunk of file.createReadStream({ autoClose: false, signal }) as AsyncIterable<Buffer>) {
      if (first === 1 && last === Infinity) {
        kept.add(chunk)
        continue
      }
      let from = line >= first ? 0 : chunk.length
      let to = chunk.length
      for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) {
        line++
        if (line === first) from = at + 1
        if (line === last) {
          to = at + 1
          break
        }
      }
      kept.add(chunk.subarray(from, to))
      if (line >= last) break
    }
    return kept.toString()
  } finally {
    await file.close()
  }
}
