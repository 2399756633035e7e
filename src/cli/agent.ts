// `continuo agent "task"`: a small agent in the terminal that works over the socket and asks before it changes things.
import { createInterface } from 'node:readline'
import { Option, type Command } from 'commander'
import type { AgentEvent, AgentResult, ToolCall } from '../client/index.ts'
import type { FunctionCall } from '../protocol/items.ts'

type Options = { url: string; apiKey?: string; model?: string; yes?: true; maxSteps: number; cwd: string }

const instructions =
  'You are an agent in a terminal. Work on the task with the tools you have, in small steps, and say in the end in a few sentences what you did and found.'

/** Registers the command. */
export function agentCommand(program: Command): void {
  program
    .command('agent')
    .description('work on a task with the model of a server: it reads and writes files and runs commands here')
    .argument('<task...>', 'what to do')
    .option('--url <url>', 'base URL of the server', 'http://127.0.0.1:8787/v1')
    .addOption(new Option('--api-key <key>', 'key for the server').env('CONTINUO_API_KEY'))
    .option('--model <name>', 'model (default: the first that the server lists)')
    .option('--yes', 'run everything without asking')
    .option('--max-steps <n>', 'model calls at most', positive, 50)
    .option('--cwd <folder>', 'working folder; files outside of it are out of reach', process.cwd())
    .addHelpText(
      'after',
      '\nExamples:\n  continuo agent "list the files here and say what this is"\n  continuo agent --yes --max-steps 10 "run the tests"\n',
    )
    .action(async (task: string[], options: Options) => {
      process.exitCode = await work(task.join(' '), options)
    })
}

/** Exit code: 0 done, 1 failed or out of steps, 130 cancelled. */
async function work(task: string, options: Options): Promise<number> {
  const client = await import('../client/index.ts')
  const abort = new AbortController()
  const onInterrupt = (): void => {
    if (abort.signal.aborted) process.exit(130)
    note('cancelling; Ctrl-C again to leave at once')
    abort.abort()
  }
  process.on('SIGINT', onInterrupt)
  const connection = client.connect({ url: options.url, apiKey: options.apiKey })
  const screen = new Screen()
  const consent = new Consent(options.yes === true, abort.signal, onInterrupt)
  try {
    const model = options.model ?? (await firstModel(options, abort.signal))
    const run = client.runAgent({
      via: connection,
      model,
      instructions,
      tools: client.localTools({ cwd: options.cwd }),
      input: task,
      maxSteps: options.maxSteps,
      signal: abort.signal,
      approve: (call) => consent.ask(call, () => screen.freshLine()),
      onEvent: (event) => screen.show(event),
    })
    let part = await run.next()
    for (; part.done !== true; part = await run.next()) screen.write(part.value)
    screen.freshLine()
    note(summary(part.value))
    return part.value.status === 'completed' ? 0 : 1
  } catch (error) {
    screen.freshLine()
    if (abort.signal.aborted) return 130
    note(`failed: ${advice(error, options.url)}`)
    return 1
  } finally {
    process.off('SIGINT', onInterrupt)
    connection.close()
  }
}

function positive(text: string): number {
  const n = Number(text)
  if (!Number.isInteger(n) || n < 1) throw new Error(`'${text}' is no number of steps`)
  return n
}

async function firstModel({ url, apiKey }: Options, signal: AbortSignal): Promise<string> {
  const headers: Record<string, string> = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }
  const answer = await fetch(`${url.replace(/\/+$/, '')}/models`, {
    headers,
    signal: AbortSignal.any([signal, AbortSignal.timeout(15_000)]),
  })
  const body: unknown = await answer.json().catch(() => undefined)
  if (!answer.ok)
    throw new Error(`${url}/models answered ${answer.status}; is the key right? (--api-key or CONTINUO_API_KEY)`)
  const list =
    typeof body === 'object' && body !== null && 'data' in body && Array.isArray(body.data)
      ? (body.data as unknown[])
      : []
  for (const entry of list)
    if (typeof entry === 'object' && entry !== null && 'id' in entry && typeof entry.id === 'string') return entry.id
  throw new Error(`${url}/models lists no model; name one with --model`)
}

function advice(error: unknown, url: string): string {
  if (!(error instanceof Error)) return String(error)
  if ('status' in error && error.status === 426) return `${error.message} (the socket is switched off at ${url})`
  if ('status' in error && error.status === 401)
    return `${error.message} (give a key with --api-key or CONTINUO_API_KEY)`
  const { cause } = error
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  if (/CERT|^UNABLE_TO_VERIFY|_SIGNATURE$/.test(code))
    return `the certificate of ${url} is not trusted here (${code}); where a CA of your own has signed it, start with NODE_EXTRA_CA_CERTS=PATH_OF_ITS_PEM_FILE`
  if (error.name === 'Unreachable' || (cause instanceof Error && 'code' in cause && cause.code === 'ECONNREFUSED'))
    return `no server answers at ${url}; start one with \`continuo\`, or give --url`
  return cause instanceof Error && error.message === 'fetch failed'
    ? `${error.message}: ${cause.message}`
    : error.message
}

function summary({ status, steps, usage }: AgentResult): string {
  const end = status === 'completed' ? 'done' : status === 'max_steps' ? 'out of steps' : 'the answer is incomplete'
  return `${end}: ${steps} ${steps === 1 ? 'step' : 'steps'}, ${usage.input} tokens in (${usage.cached} cached), ${usage.output} out`
}

/** All but the model's words goes to stderr, so that the answer can be piped. */
function note(line: string): void {
  process.stderr.write(`· ${line}\n`)
}

class Screen {
  #midLine = false
  write(text: string): void {
    if (text === '') return
    process.stdout.write(text)
    this.#midLine = !text.endsWith('\n')
  }
  freshLine(): void {
    if (this.#midLine) process.stdout.write('\n')
    this.#midLine = false
  }
  show(event: AgentEvent): void {
    if (event.type === 'retry') {
      this.freshLine()
      note(`step ${event.step} again: ${event.reason}`)
    } else if (event.type === 'tool_finished') {
      this.freshLine()
      const result = event.failed ? oneLine(event.output, 100) : `${Buffer.byteLength(event.output)} bytes`
      note(`${sketch(event.call)} → ${result} (${Math.round(event.ms)} ms)`)
    }
  }
}

/** Asks before a call unless told not to. "always" holds for that tool until the end. */
class Consent {
  readonly #all: boolean
  readonly #signal: AbortSignal
  readonly #onInterrupt: () => void
  readonly #always = new Set<string>()
  constructor(all: boolean, signal: AbortSignal, onInterrupt: () => void) {
    this.#all = all
    this.#signal = signal
    this.#onInterrupt = onInterrupt
  }
  async ask({ call }: ToolCall, before: () => void): Promise<boolean> {
    if (this.#all || this.#always.has(call.name)) return true
    before()
    if (!process.stdin.isTTY) {
      note(`${sketch(call)}: not allowed, since nobody can be asked here (--yes allows everything)`)
      return false
    }
    const answer = (await this.#question(`${sketch(call, Infinity, true)}\n  allow? [y/N/always] `))
      .trim()
      .toLowerCase()
    if (answer === 'always' || answer === 'a') this.#always.add(call.name)
    return ['y', 'yes', 'a', 'always'].includes(answer)
  }
  #question(text: string): Promise<string> {
    return new Promise((resolve) => {
      const line = createInterface({ input: process.stdin, output: process.stderr })
      const stop = (): void => line.close()
      // The terminal is in raw mode while asking, so Ctrl-C comes here and not as a signal.
      line.on('SIGINT', this.#onInterrupt)
      line.on('close', () => {
        this.#signal.removeEventListener('abort', stop)
        resolve('')
      })
      this.#signal.addEventListener('abort', stop, { once: true })
      line.question(text, (answer) => {
        resolve(answer)
        line.close()
      })
    })
  }
}

/** A call in one line: what it is about, or all of it where somebody is to agree to it. */
function sketch(call: FunctionCall, width = 100, whole = false): string {
  let args: unknown
  try {
    args = JSON.parse(call.arguments)
  } catch {
    args = call.arguments
  }
  let about = args
  if (typeof args === 'object' && args !== null) {
    if ('command' in args) about = args.command
    else if ('path' in args && !whole) about = args.path
  }
  return `${oneLine(call.name, 64)} ${oneLine(typeof about === 'string' ? about : JSON.stringify(about), width)}`
}
/** Line ends stay visible, since they separate commands; other control characters could redraw the terminal. */
function oneLine(text: string, width: number): string {
  const flat = text
    .trimEnd()
    .replace(/\r?\n/g, ' ⏎ ')
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
  return flat.length > width ? `${flat.slice(0, width - 1)}…` : flat
}
