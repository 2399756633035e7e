// What engines that take ids over HTTP have in common: the body around a prompt's kept bytes, the sampling fields, and the
// way from a stream of events to chunks. Which path, which shape and what is tried again belong to each engine.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { ApiError } from '../protocol/errors.ts'
import type { Settings } from '../protocol/request.ts'
import type { Arrivals } from '../turn/arrivals.ts'
import type { Chunk, Finish, EngineUsage } from '../turn/ports.ts'
import { cut, refusal, type Who } from './wire-refusal.ts'
import { lingerMs, wireOptions } from './wire-options.ts'
import type { Answer, Exchange, Wire } from './wire.ts'

/** Options of every such engine. */
export const tokenWire = {
  /** Base URL of the server: `http://host:port`. A path of /v1 at its end is left out. */
  url: z.url({ protocol: /^https?$/ }).transform((url) => url.replace(/\/v1\/?$/, '')),
  /** Tokens of prompt and output together, where the server does not say. */
  context: z.number().int().positive().optional(),
  /** Sampling fields for requests that leave them open, e.g. top_k; these endpoints know no defaults of the model. */
  sampling: z.record(z.string(), z.unknown()).default({}),
  /** Each tenant has a prefix cache of its own, so that none can tell by time what another has asked. */
  cacheSalt: z.boolean().default(true),
  ...wireOptions,
  lingerMs,
}

/** The request around ids that were written before, in parts: those of a long prompt are not even copied. `ids`: as of TokenRun.json. */
export function bodyOf(
  field: string,
  ids: readonly Buffer[],
  rest: Readonly<Record<string, unknown>>,
): readonly Buffer[] {
  const tail = JSON.stringify(rest).slice(1)
  return [Buffer.from(`{"${field}":[`), ...ids, Buffer.from(tail === '}' ? ']}' : `],${tail}`)]
}
/** Fields that both servers spell alike. `fallback`: what the operator has set for requests that leave it open. */
export function samplingOf(settings: Settings, fallback: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const fields: Record<string, unknown> = { ...fallback }
  if (settings.temperature !== null) fields['temperature'] = settings.temperature
  // 0 is no value to them, though it is to clients: the likeliest token alone.
  if (settings.top_p !== null) fields['top_p'] = Math.max(settings.top_p, 1e-6)
  if (settings.presence_penalty !== null) fields['presence_penalty'] = settings.presence_penalty
  if (settings.frequency_penalty !== null) fields['frequency_penalty'] = settings.frequency_penalty
  return fields
}
/** How many tokens may be generated: null as many as fit. Servers refuse a bound that would not fit. */
export function boundOf(settings: Settings, length: number, context: number | undefined): number | null {
  const { max_output_tokens: most } = settings
  return most === null || context === undefined ? most : Math.max(1, Math.min(most, context - length - 1))
}
/** Says nothing of the tenant to who reads the engine's log; the same after a restart, so that caches stay warm. */
export const saltOf = (tenant: string): string => createHash('sha256').update(`tenant ${tenant}`).digest('base64url')

const isCount = (v: unknown): v is number => typeof v === 'number' && Number.isInteger(v) && v >= 0 && v < 2 ** 31
export const isIds = (v: unknown): v is number[] => Array.isArray(v) && v.every(isCount)
/** Undefined for counts that cannot be true. */
export function usageOf(input: unknown, cached: unknown, output: unknown): EngineUsage | undefined {
  if (!isCount(input) || input === 0 || !isCount(output)) return undefined
  return { input, cached: isCount(cached) ? Math.min(cached, input) : 0, output, reasoning: 0 }
}

/** What a stream has told so far. The reader of an engine's events writes it, `exchange` passes it on. */
export class Told {
  tokens: number[] = []
  usage: EngineUsage | undefined = undefined
  /** The model has ended; usage may still come. */
  finish: Finish | undefined = undefined
  warm: unknown = undefined
  /** Nothing more will come. */
  over = false
  #passed = false

  /** What came since the last `take`; how it ended comes with the last one. `silent`: the output is not wanted. */
  take(silent: boolean): Chunk | undefined {
    const tokens = silent ? [] : this.tokens
    this.tokens = []
    const last = this.over && !this.#passed
    if (tokens.length === 0 && !last) return undefined
    const chunk: { -readonly [K in keyof Chunk]: Chunk[K] } = {}
    if (tokens.length > 0) chunk.tokens = tokens
    if (!last) return chunk
    this.#passed = true
    if (this.finish) chunk.finish = this.finish
    if (this.usage) chunk.usage = silent ? { ...this.usage, output: 0 } : this.usage
    if (this.warm !== undefined) chunk.warm = this.warm
    return chunk
  }
}
export type TokenRequest = {
  readonly path: string
  readonly body: readonly Buffer[]
  /** The output is not wanted: the prompt was to be brought into the cache. */
  readonly silent: boolean
  readonly lingerMs: number
  readonly told: Told
  /** The data of one event, or the whole of an answer that is no stream. Throws what the turn is to fail with. */
  push(data: string): void
  /** Sees every error first; true where it is being tried in another way. Only before a token was told. */
  again(error: unknown, answer: Answer | undefined): boolean
}

/** POSTs and tells `arrivals`. */
export function exchange(wire: Wire, request: TokenRequest, signal: AbortSignal, arrivals: Arrivals): Exchange {
  const { told, silent } = request
  let linger: NodeJS.Timeout | undefined
  let spoke = false
  let refused: Answer | undefined
  const pass = (): Promise<void> | undefined => {
    const chunk = told.take(silent)
    if (!chunk) return undefined
    spoke = true
    return arrivals.push(chunk)
  }
  const over = (): void => {
    clearTimeout(linger)
    told.over = true
    void pass()
    arrivals.end()
  }
  const end = (): void => {
    if (told.finish === undefined) throw cut(who(wire))
    over()
  }
  const running = wire.post(request.path, request.body, signal, {
    data: (text) => {
      if (!told.over) request.push(text)
    },
    read: () => {
      if (told.over) {
        over()
        running.release()
        return undefined
      }
      if (told.finish !== undefined && linger === undefined)
        linger = setTimeout(() => {
          over()
          running.destroy()
        }, request.lingerMs)
      return pass()
    },
    end,
    answer: (answer) => {
      refused = answer
      if (answer.status !== 200 || answer.type !== 'application/json') throw refusal(who(wire), answer)
      request.push(answer.text)
      end()
    },
    fail: (error) => {
      clearTimeout(linger)
      // Finished, but for its usage: a connection that breaks now has cost nothing.
      if (told.finish !== undefined && !told.over) over()
      else if (spoke || signal.aborted || !request.again(error, refused)) arrivals.fail(error)
    },
  })
  signal.addEventListener('abort', () => clearTimeout(linger), { once: true })
  return running
}
export const who = (wire: Wire): Who => ({ name: wire.name, host: wire.host })

/** A GET or POST whose answer is one JSON object. Throws what `refusal` makes of anything else. */
export function objectOf(wire: Wire, answer: Answer, does: string): Record<string, unknown> {
  if (answer.status !== 200) throw refusal(who(wire), answer, does)
  const value = parsedObject(answer.text)
  if (value) return value
  throw new ApiError('server_error', `${wire.who} does not ${does}; check its URL.`)
}
function parsedObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  } catch {
    // no JSON
  }
  return undefined
}
