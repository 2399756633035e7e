// SGLang by token ids: `POST /generate` with `input_ids`, and from a chain's second turn on in a session of the server, so
// that a turn sends its new ids only. Read in the sources of SGLang 0.5.23 (0.5.10 for what has stayed).
// - A session keeps every request as a node; `rid` names the one to go on from, `offset` cuts its ids (prompt and output)
//   and the new ones are put behind. It is always sent: what the server keeps behind the stop token then does not matter.
// - A server that cuts a leading BOS from new ids, was restarted or has closed the session tells a wrong `prompt_tokens` or
//   an abort in its first event; the same turn then sends the whole prompt.
// - Older servers drop the cache salt in a session, and one with several data-parallel ranks keeps nodes by rank: neither
//   is given sessions. Streaming sessions pin their KV and cannot go back, so they are not used.
// - Closing the connection aborts the request, within two seconds.
// - Images stand beside the ids as data URLs, one for each placeholder; the server puts as many image tokens in place of
//   it as the image needs, and tells those in `prompt_tokens`, so that sessions cannot be held to their length. Since
//   SGLANG_MM_AVOID_RETOKENIZE (on in 0.5.23) all other ids stay; older servers (0.5.10) decode them and encode again.
import { z } from 'zod'
import { ApiError } from '../protocol/errors.ts'
import type { Settings } from '../protocol/request.ts'
import { Arrivals } from '../turn/arrivals.ts'
import type { Chain } from '../turn/chain.ts'
import type { Call, Chunk, Constraint, Description, Engine, Prompt } from '../turn/ports.ts'
import { grammarOptions, Holder } from './grammar-hold.ts'
import { SglangSessions } from './sglang-sessions.ts'
import { SessionLost, SglangStream } from './sglang-stream.ts'
import { type Structured, structuredOf } from './structured.ts'
import { isRecord } from './wire-words.ts'
import { bodyOf, boundOf, exchange, isIds, objectOf, samplingOf, saltOf, Told, tokenWire, who } from './wire-tokens.ts'
import { type Answer, type Exchange, Wire } from './wire.ts'

const count = (n: number): z.ZodDefault<z.ZodNumber> => z.number().int().positive().default(n)
export const sglangOptions = z.strictObject({
  ...tokenWire,
  ...grammarOptions,
  /** A conversation's later turns send only what is new, where the server can: 0.5.23 or newer, one data-parallel rank. */
  sessions: z.boolean().default(true),
  maxSessions: count(256),
  /** Ids that the server keeps for all sessions; each request of a session adds its whole prompt (some 24 bytes an id). */
  sessionIds: count(16_000_000),
  /** The server closes a session that was idle for so long. */
  sessionSeconds: count(3600),
})
export type SglangInput = z.input<typeof sglangOptions>
type SglangOptions = z.output<typeof sglangOptions>
/** Of a call what its request is made of. */
type Asked = Pick<Call, 'settings' | 'principal' | 'generate'>

/** What a turn hands to the next one of its chain. `node`: where it can go on; undefined after a turn without a session. */
type SglangWarm = { readonly node: { readonly session: string; readonly rid: string } | undefined }
/** How a turn is sent. `whole`: no session. `root`: the whole prompt, into a new session. `delta`: what is new. */
type Plan =
  | { readonly type: 'whole' }
  | { readonly type: 'root'; readonly session: string }
  | { readonly type: 'delta'; readonly session: string; readonly rid: string; readonly offset: number }

const askMs = 10_000
/** Ids that a picture may become. */
const pictureIds = 16_384
/** How long sessions may take to be closed before the connections are. */
const closeMs = 1_000
/** The first version whose sessions were read to keep the cache salt. */
const sessionsSince = [0, 5, 23]
/** Turns in a row that a session failed: then the server, or what stands in front of it, has none to offer. */
const strikes = 3

export class SglangEngine implements Engine {
  readonly id: string
  readonly takes = 'tokens'
  readonly sessions: SglangSessions
  readonly #options: SglangOptions
  readonly #wire: Wire
  readonly #holder: Holder<Structured>
  #context: number | undefined
  /** Asked once, and again after a session was lost: the server may be another one. */
  #able: Promise<boolean> | undefined = undefined
  #lost = 0
  #asked = 0
  readonly #closing = new Set<Promise<unknown>>()

  constructor(options: SglangOptions, id: string) {
    this.#options = options
    this.id = id
    this.#context = options.context
    this.#holder = new Holder(id, options.grammars, (rule, { control, ends, opened }) =>
      structuredOf(rule, {
        engine: id,
        control: control && ((name) => control(name) !== undefined),
        stops: ends,
        opened,
      }),
    )
    const { apiKey, headers } = options
    this.#wire = new Wire({
      ...options,
      name: id,
      headers: { ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }), ...headers },
    })
    this.sessions = new SglangSessions({ most: options.maxSessions, ids: options.sessionIds }, (session) => {
      // Whether it works or not, the server closes it when it was idle for long enough.
      const closing: Promise<unknown> = this.#wire
        .ask('/close_session', { session_id: session }, AbortSignal.timeout(askMs))
        .catch(() => undefined)
        .finally(() => this.#closing.delete(closing))
      this.#closing.add(closing)
    })
  }
  admit(settings: Settings, chain: Chain, constraint?: Constraint): void {
    if ((settings.top_logprobs ?? 0) > 0)
      throw new ApiError(
        'unsupported_by_engine',
        `The engine '${this.id}' gives no log probabilities yet.`,
        'top_logprobs',
      )
    this.#holder.admit(settings, chain, constraint)
  }
  generate(call: Call): AsyncIterable<Chunk> {
    const { prompt } = call
    if (!prompt) throw new ApiError('server_error', `The engine '${this.id}' takes tokens, and was given none.`)
    const arrivals = new Arrivals(call.signal)
    let running: Exchange | undefined
    let left = false
    const start = (plan: Plan): void => {
      if (left || call.signal.aborted) return
      try {
        running = this.#ask(call, prompt, plan, arrivals, () => start({ type: 'whole' }))
      } catch (e) {
        arrivals.fail(e)
      }
    }
    const known = this.#known(call.warm?.value, prompt)
    if (known) start(known)
    else
      void this.#opened().then((session) =>
        start(session === undefined ? { type: 'whole' } : { type: 'root', session }),
      )
    return arrivals.until(() => {
      left = true
      running?.destroy()
    })
  }
  async probe(signal: AbortSignal): Promise<readonly string[]> {
    const { data } = objectOf(this.#wire, await this.#wire.get('/v1/models', signal), 'list its models under this URL')
    if (!Array.isArray(data)) throw new ApiError('server_error', `${this.#wire.who} lists no models; check its URL.`)
    return data.flatMap((m: unknown) => (isRecord(m) && typeof m['id'] === 'string' ? [m['id']] : []))
  }
  async describe(signal: AbortSignal): Promise<Description> {
    const info = objectOf(this.#wire, await this.#either('model_info', signal), 'say which model it serves')
    const { data } = objectOf(this.#wire, await this.#wire.get('/v1/models', signal), 'list its models under this URL')
    const card: unknown = Array.isArray(data) ? data[0] : undefined
    const length = isRecord(card) ? card['max_model_len'] : undefined
    if (typeof length === 'number' && Number.isInteger(length) && length > 0) this.#context ??= length
    const source = info['tokenizer_path'] ?? info['model_path']
    return { source: typeof source === 'string' && source !== '' ? source : undefined, context: this.#context }
  }
  /** The server takes the names of special tokens in a text for the tokens: texts must not have any. */
  async tokenize(texts: readonly string[], signal: AbortSignal): Promise<readonly (readonly number[])[]> {
    const does = 'tokenise (it may run with --skip-tokenizer-init)'
    const answer = await this.#wire.ask('/tokenize', { prompt: texts, add_special_tokens: false }, signal)
    const { tokens } = objectOf(this.#wire, answer, does)
    if (Array.isArray(tokens) && tokens.length === texts.length && tokens.every(isIds)) return tokens
    throw new ApiError('server_error', `${this.#wire.who} does not ${does}.`)
  }
  async close(): Promise<void> {
    this.sessions.clear()
    const patience = new Promise((resolve) => setTimeout(resolve, closeMs).unref())
    await Promise.race([Promise.all(this.#closing), patience])
    await this.#wire.close()
  }

  /** Endpoints were renamed; the older name is tried where the newer one is not there. */
  async #either(name: string, signal: AbortSignal): Promise<Answer> {
    const answer = await this.#wire.get(`/${name}`, signal)
    return answer.status === 404 ? await this.#wire.get(`/get_${name}`, signal) : answer
  }
  /** Undefined where a session is to be opened first. */
  #known(warm: unknown, { run, common, pictures }: Prompt): Plan | undefined {
    if (!this.#options.sessions || this.#lost >= strikes || pictures.length > 0) return { type: 'whole' }
    // The value is our own, handed back. Without one it is the first turn: most conversations have no second.
    if (!isWarm(warm)) return { type: 'whole' }
    const { node } = warm
    if (!node || common === 0 || !this.sessions.has(node.session)) return undefined
    // At least one id must be new; offset 0 would mean none.
    const offset = Math.min(common, run.length - 1)
    return offset > 0 ? { type: 'delta', ...node, offset } : { type: 'whole' }
  }
  async #opened(): Promise<string | undefined> {
    try {
      if (!(await (this.#able ??= this.#isAble()))) return undefined
      const session = SglangSessions.name()
      const body = { capacity_of_str_len: 0, session_id: session, timeout: this.#options.sessionSeconds }
      const answer = await this.#wire.ask('/open_session', body, AbortSignal.timeout(askMs))
      return answer.status === 200 ? session : undefined
    } catch {
      // Not the turn's concern: it is asked again with the next one.
      this.#able = undefined
      return undefined
    }
  }
  async #isAble(): Promise<boolean> {
    const answer = await this.#either('server_info', AbortSignal.timeout(askMs))
    if (answer.status !== 200) return false
    const { version, dp_size: ranks } = objectOf(this.#wire, answer, 'say what it is')
    return typeof version === 'string' && newEnough(version) && (ranks === undefined || ranks === 1)
  }

  #ask(call: Call, prompt: Prompt, plan: Plan, arrivals: Arrivals, whole: () => void): Exchange {
    const told = new Told()
    const { run } = prompt
    const stream = new SglangStream(
      { who: who(this.#wire), length: plan.type === 'whole' ? undefined : run.length },
      told,
    )
    const rid = `${call.id}-${++this.#asked}`
    const session = plan.type === 'whole' ? undefined : plan.session
    let kept = false
    return exchange(
      this.#wire,
      {
        path: '/generate',
        body: this.body(call, prompt, plan, rid, call.generate ? this.#holder.of(call, prompt) : undefined),
        silent: !call.generate,
        lingerMs: this.#options.lingerMs,
        told,
        push: (data) => {
          stream.push(data)
          // The server keeps the prompt from here on, however the turn ends.
          if (!kept && session !== undefined) this.sessions.used(session, run.length)
          kept = true
          if (told.finish === undefined || told.warm !== undefined) return
          if (session !== undefined) this.sessions.used(session, stream.count)
          if (plan.type === 'delta') this.#lost = 0
          const warm: SglangWarm = { node: session === undefined ? undefined : { session, rid } }
          told.warm = warm
        },
        again: (error, answer) => {
          if (session === undefined) return false
          const refused = answer !== undefined && answer.status >= 400 && answer.status < 500 && answer.status !== 429
          if (!(error instanceof SessionLost) && !refused) return false
          this.#lost++
          this.#able = undefined
          this.sessions.drop(session)
          whole()
          return true
        },
      },
      call.signal,
      arrivals,
    )
  }
  /** The request's bytes: those of earlier turns are used as they are. */
  body(call: Asked, prompt: Prompt, plan: Plan, rid: string, held?: Structured): readonly Buffer[] {
    const { run, stops, pictures } = prompt
    const { settings } = call
    const rest = {
      rid,
      stream: true,
      sampling_params: {
        ...samplingOf(settings, this.#options.sampling),
        // Left out, it would be 128; null is as many as fit, and 0 reads the prompt only.
        max_new_tokens: call.generate ? this.#bound(settings, prompt) : 0,
        stop_token_ids: stops,
        ...(held ? spell(held) : {}),
      },
      ...(pictures.length > 0 ? { image_data: pictures } : {}),
      ...(this.#options.cacheSalt ? { extra_key: saltOf(call.principal.tenant) } : {}),
      ...(plan.type === 'root' ? { session_params: { id: plan.session } } : {}),
      ...(plan.type === 'delta' ? { session_params: { id: plan.session, rid: plan.rid, offset: plan.offset } } : {}),
    }
    return bodyOf('input_ids', plan.type === 'delta' ? idsFrom(prompt, plan.offset) : run.json(), rest)
  }
  /** How long a prompt with pictures is only the server knows: what might not fit is no bound, and the turn ends itself. */
  #bound(settings: Settings, { run, pictures }: Prompt): number | null {
    const bound = boundOf(settings, run.length, this.#context)
    if (pictures.length === 0 || bound === null || this.#context === undefined) return bound
    return bound + run.length + pictures.length * pictureIds < this.#context ? bound : null
  }
}
/** The ids behind `from`, as in TokenRun.json. */
function idsFrom({ run }: Prompt, from: number): readonly Buffer[] {
  return [Buffer.from(run.from(from).join(','))]
}
function spell(structured: Structured): Record<string, unknown> {
  switch (structured.type) {
    case 'json':
      return { json_schema: JSON.stringify(structured.schema) }
    case 'regex':
      return { regex: structured.pattern }
    case 'grammar':
      return { ebnf: structured.grammar }
    case 'tag':
      return { structural_tag: structured.tag }
  }
}
const isWarm = (value: unknown): value is SglangWarm => isRecord(value) && 'node' in value
function newEnough(version: string): boolean {
  const parts = version.split('.').map((part) => Number.parseInt(part, 10))
  for (const [n, least] of sessionsSince.entries()) {
    const part = parts[n] ?? 0
    if (!Number.isFinite(part) || part < least) return false
    if (part > least) return true
  }
  return true
}

/** An engine on an SGLang server. Throws a ZodError for options that are none. */
export function sglang(options: SglangInput, id: string): SglangEngine {
  return new SglangEngine(sglangOptions.parse(options), id)
}
export default sglang
