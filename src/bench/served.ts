// A server of ours in a process of its own, as the benchmarks use it: started with settings, asked what its turns cost.
import { type ChildProcess, fork } from 'node:child_process'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { writeCertificate } from './certificate.ts'
import type { Answer, Question, Taken, TurnMarks } from './child.ts'
import { temporaryFolder } from './leftovers.ts'

export type { Taken, TurnMarks } from './child.ts'
/** Bytes, after a full collection. */
export type Memory = { readonly rss: number; readonly heap: number; readonly external: number }
export type Served = {
  /** `http(s)://127.0.0.1:PORT/v1`. */
  readonly url: string
  readonly pid: number
  /** Marks of turns, ids encoded and processor time since the last time. */
  take(): Promise<Taken>
  /** From now on with digests of prompts, or without. */
  digests(on: boolean): Promise<void>
  memory(): Promise<Memory>
  stop(): Promise<void>
}
export type ServedOptions = {
  /** Settings by their dotted names or as trees, as in continuo.yaml: `{ engines: {…}, 'store.kind': 'memory' }`. */
  readonly set: Readonly<Record<string, unknown>>
  /** Keep a digest of every prompt; costs time in proportion to the conversation. */
  readonly digests?: boolean
  /** Further flags of Node. */
  readonly flags?: readonly string[]
  /** With the certificate of certificate.ts. */
  readonly tls?: boolean
}
const answerMs = 120_000
const killMs = 15_000

/** Starts it and waits until it serves. Throws an Error with the server's own sentence where it does not. */
export async function serveApart({ set, digests = false, flags = [], tls = false }: ServedOptions): Promise<Served> {
  const data = await temporaryFolder('continuo-bench-')
  const here = fileURLToPath(import.meta.url)
  const child = fork(fileURLToPath(new URL(`./child${extname(here)}`, import.meta.url)), {
    execArgv: [...asSource(here), '--expose-gc', ...flags],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    serialization: 'advanced',
  })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const stop = async (): Promise<void> => {
    const late = setTimeout(() => child.kill('SIGKILL'), killMs)
    await ask(child, { ask: 'stop' }).catch(() => child.kill('SIGKILL'))
    await ended
    clearTimeout(late)
    await data.remove()
  }
  try {
    const own = {
      host: '127.0.0.1',
      port: 0,
      data: data.path,
      'store.kind': 'memory',
      'tokens.shadow': 0,
      ...(tls ? await tlsSettings(data.path) : {}),
    }
    const started = await ask(child, { ask: 'start', set: { ...own, ...set }, digests })
    if (!('port' in started)) throw new Error('The server did not say where it serves.')
    return {
      url: `${tls ? 'https' : 'http'}://127.0.0.1:${started.port}/v1`,
      pid: child.pid ?? 0,
      take: async () => {
        const taken = await ask(child, { ask: 'take' })
        if (!('turns' in taken)) throw new Error('The server did not say what its turns were.')
        return taken
      },
      digests: async (on) => void (await ask(child, { ask: 'digests', on })),
      memory: async () => {
        const memory = await ask(child, { ask: 'memory' })
        if (!('rss' in memory)) throw new Error('The server did not say what memory it has.')
        return memory
      },
      stop,
    }
  } catch (e) {
    child.kill('SIGKILL')
    await ended
    await data.remove()
    throw e
  }
}

/** Both, or none: what has started is stopped where the other cannot. */
export async function both(a: Promise<Served>, b: Promise<Served>): Promise<readonly [Served, Served]> {
  try {
    return await Promise.all([a, b])
  } catch (e) {
    for (const one of await Promise.allSettled([a, b])) if (one.status === 'fulfilled') await one.value.stop()
    throw e
  }
}

/** Flags under which Node runs this program's own files: from a clone they are TypeScript, whatever runs the one that asks. */
export function asSource(file: string): readonly string[] {
  const { execArgv } = process
  return extname(file) === '.js' || execArgv.some((flag) => flag.includes('tsx')) ? execArgv : ['--import', 'tsx']
}
async function tlsSettings(folder: string): Promise<Readonly<Record<string, string>>> {
  const { cert, key } = await writeCertificate(folder)
  return { 'tls.cert': cert, 'tls.key': key }
}

/** One question at a time: whoever asks waits for the answer. */
function ask(child: ChildProcess, question: Question): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => over(new Error(`The server did not answer "${question.ask}".`)), answerMs)
    const onExit = (): void => over(new Error('The server has ended.'))
    // Sent by child.ts, and by nobody else.
    const onMessage = (message: unknown): void => over(undefined, message as Answer)
    const over = (error: Error | undefined, answer?: Answer): void => {
      clearTimeout(late)
      child.off('exit', onExit)
      child.off('message', onMessage)
      if (answer && 'failed' in answer) reject(new Error(answer.failed))
      else if (answer) resolve(answer)
      else reject(error ?? new Error('The server said nothing.'))
    }
    child.once('exit', onExit)
    child.once('message', onMessage)
    child.send(question, (error) => error && over(error))
  })
}

/** Milliseconds between two stages of a turn; NaN where one was not reached. */
export const between = ({ stages }: TurnMarks, from: string, to: string): number =>
  (stages[to] ?? NaN) - (stages[from] ?? NaN)
