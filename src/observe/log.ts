// The server's own log: pino to stderr (stdout is for people). Written by allowlist, so that no prompt, key, header or
// body gets in by a careless caller: only the fields below pass, and of an error its kind and place.
import { pino, type ChildLoggerOptions, type DestinationStream, type Logger } from 'pino'
import { ApiError } from '../protocol/errors.ts'

export type { Logger } from 'pino'
export type LogOptions = { readonly level: string; readonly pretty: boolean | 'auto' }

/** What may stand in a log line besides its message: ids, counts, sizes, times and closed sets of words. */
export const allowedFields: ReadonlySet<string> = new Set([
  // who and what
  ...[
    'request',
    'response',
    'connection',
    'stream',
    'lane',
    'turn',
    'previous',
    'item',
    'tenant',
    'key',
    'owner',
    'model',
    'engine',
  ],
  ...[
    'replica',
    'kind',
    'type',
    'transport',
    'method',
    'route',
    'path',
    'client',
    'version',
    'name',
    'event',
    'reason',
    'why',
    'codec',
    'family',
    'store',
  ],
  // where
  ...['host', 'port', 'data', 'file', 'pid', 'setting', 'where', 'url'],
  // how it went
  ...[
    'status',
    'code',
    'param',
    'transient',
    'ending',
    'finish',
    'warm',
    'delta',
    'warmup',
    'generate',
    'signal',
    'attempt',
    'attempts',
  ],
  // how much
  ...[
    'bytes',
    'items',
    'fresh',
    'events',
    'sockets',
    'connections',
    'active',
    'queued',
    'count',
    'dropped',
    'ms',
    'retryAfter',
    'limit',
    'token',
    'vocabulary',
  ],
  ...['input', 'cached', 'output', 'reasoning', 'estimated', 'unsettled', 'heldBytes', 'rss', 'heap'],
])
/** Longer text is no id and no word of a closed set. */
const longest = 256
const frames = 12

/**
 * A pino logger that writes to stderr. A field that is not allowed is named in `withheld`, its value is not written. Texts
 * of errors can hold what a user sent, so they appear only from level `debug` down, cut to 500 characters.
 */
export function createLog({ level, pretty }: LogOptions, to: DestinationStream = process.stderr): Logger {
  const wordy = level === 'debug' || level === 'trace'
  const people = pretty === true || (pretty === 'auto' && to === process.stderr && process.stderr.isTTY)
  const log = pino(
    {
      level,
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }), log: (fields) => allow(fields, wordy) },
      // The formatter above has made these plain already; pino's own would copy every property of an error.
      serializers: { err: (e: unknown) => e },
      // Without a message of its own a line would get the error's; and values meant for %s would pass unseen.
      hooks: {
        logMethod([first, second], write) {
          if (typeof first === 'string') return write.call(this, first)
          return write.call(this, first, typeof second === 'string' ? second : 'error')
        },
      },
    },
    people ? { write: (text: string) => void to.write(forPeople(text)) } : to,
  )
  // pino passes what a child binds by every formatter of its parent; children inherit this method, so it holds for theirs.
  const child: unknown = Reflect.get(log, 'child')
  if (typeof child !== 'function') throw new TypeError('pino has no child loggers')
  const bound = function (this: Logger, bindings: Record<string, unknown>, options?: ChildLoggerOptions): unknown {
    return Reflect.apply(child, this, [allow(bindings, wordy), options])
  }
  Object.defineProperty(log, 'child', { value: bound })
  return log
}

function allow(fields: Record<string, unknown>, wordy: boolean): Record<string, unknown> {
  const out: Record<string, unknown> = {}
  const withheld: string[] = []
  for (const [name, value] of Object.entries(fields)) {
    if (name === 'err' || name === 'error') out['err'] = plainError(value, wordy)
    else if (!allowedFields.has(name)) withheld.push(name.slice(0, 40))
    else if (typeof value === 'number' || typeof value === 'boolean' || value === null) out[name] = value
    else if (typeof value === 'string') out[name] = clean(name, value)
    else if (value !== undefined) withheld.push(name)
  }
  if (withheld.length > 0) out['withheld'] = withheld.slice(0, 20).join(',')
  return out
}
/** A query can carry a secret, and so can the user part of a URL. */
function clean(name: string, value: string): string {
  const text = name === 'url' || name === 'path' ? value.replace(/[?#].*$/s, '').replace(/\/\/[^/@]*@/, '//') : value
  return text.length > longest ? `${text.slice(0, longest)}…` : text
}

/** Of an error: kind, code, where in our code. Its text only where it cannot hold what a user sent. */
function plainError(e: unknown, wordy: boolean, depth = 0): Record<string, unknown> {
  if (!(e instanceof Error)) return { type: typeof e }
  const out: Record<string, unknown> = { type: e.name.slice(0, 60) }
  if ('code' in e && typeof e.code === 'string') out['code'] = e.code.slice(0, 60)
  // The system and SQLite write their texts themselves, out of paths and addresses.
  const ownText = 'syscall' in e || String(out['code']).startsWith('SQLITE_') || e.name === 'ConfigError'
  if (ownText || wordy) out['message'] = e.message.slice(0, 500)
  if (!(e instanceof ApiError) || wordy) {
    out['at'] = framesOf(e)
  }
  if (e.cause !== undefined && depth < 3) out['cause'] = plainError(e.cause, wordy, depth + 1)
  return out
}

/** The head of a stack repeats the message, which may have lines that look like frames; only what stands behind it passes. */
function framesOf({ stack = '', message }: Error): string {
  const head = stack.indexOf(message)
  const lines = head < 0 ? [] : stack.slice(head + message.length).split('\n')
  const at = lines.filter((l) => /^\s+at .*(:\d+:\d+\)?|\(<anonymous>\))$/.test(l))
  return at
    .slice(0, frames)
    .map((l) => l.trim())
    .join('\n')
}

/** One JSON line as a person reads it at a terminal. */
function forPeople(text: string): string {
  const { level, time, msg, err, ...rest } = JSON.parse(text) as Record<string, unknown>
  const fields = Object.entries(rest).map(
    ([k, v]) => `${k}=${typeof v === 'string' && !/\s/.test(v) ? v : JSON.stringify(v)}`,
  )
  const head = `${String(time).slice(11, 23)} ${String(level).toUpperCase().padEnd(5)} ${String(msg ?? '')}`
  const { at, ...error } = (err ?? {}) as Record<string, unknown>
  const tail =
    err === undefined
      ? ''
      : ` err=${JSON.stringify(error)}${typeof at === 'string' && at !== '' ? `\n    ${at.replaceAll('\n', '\n    ')}` : ''}`
  return `${[head, ...fields].join(' ')}${tail}\n`
}
