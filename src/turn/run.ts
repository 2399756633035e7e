// One turn, from an accepted request to its terminal event. `runTurn` reads top to bottom; its local variables are the
// state. `speak` is one generation and holds the only `for await`.
import { setImmediate as others } from 'node:timers/promises'
import { ApiError } from '../protocol/errors.ts'
import type { Item } from '../protocol/items.ts'
import { toolsJson } from '../protocol/known-tools.ts'
import type { Create } from '../protocol/request.ts'
import { Chain, type Generated } from './chain.ts'
import { Gate } from './gate.ts'
import type { Log } from './log.ts'
import { Meter } from './meter.ts'
import type { Ending, Output } from './output.ts'
import type { Broke, Classifier, Constraint, Delta, EngineUsage, Finish, Ledger, Model, Principal } from './ports.ts'
import { recordOf, type Settle } from './settle.ts'
import type { Shadow } from './shadow.ts'
import type { TokenRun } from './tokens.ts'
import { mark, tellPrompt } from './trace.ts'
import { Voice } from './voice.ts'
import { weighText } from './weigh.ts'

/** What lives as long as the server. */
export type Deps = {
  /** Throws `model_not_found`. */
  readonly model: (name: string) => Model
  readonly ledger: Ledger
  readonly settle: Settle
  readonly classifiers: readonly Classifier[]
  /** Most characters a model may write in one response. */
  readonly outputBytes: number
  /** Most memory the items of a conversation may take. */
  readonly conversationBytes: number
  readonly report: (error: unknown, what: string) => void
  readonly shadow: Shadow
  /** Hears where a prompt left the one in front of it. */
  readonly broke: (id: string, owner: string, broke: Broke) => void
}
/** What lives as long as the turn. The session makes it, and reaches the running turn through it and nothing else. */
export type Turn = {
  readonly id: string
  readonly principal: Principal
  readonly request: Create
  readonly events: Log
  readonly output: Output
  /** Aborted with an ApiError the response fails; with a `Halt` it ends as that says. */
  readonly stop: AbortController
  /** On a socket transient trouble starts the response and fails it; over HTTP it is a status. */
  readonly failsLate: boolean
  /** The chain to go on from. Asked when the turn starts; the reference it returns is the pin. */
  resolve(): Start | Promise<Start>
  /** Has the user said something that should end this response? Asked between items only. */
  steered(): boolean
  /** This chain can be continued from now on. */
  keep(chain: Chain): void
  /** A rollout: the response does not end where the model has called something. */
  readonly rollout?: Rollout | undefined
}
/** How a rollout goes on behind calls. */
export type Rollout = {
  /** What the client says to the calls at the end of this chain, or how the response ends without. Throws as the signal says. */
  answers(chain: Chain, usage: EngineUsage): Promise<readonly Item[] | Ending>
}
/**
 * `named`: what the client continues, or the root. `fresh`: the new items as the client sent them, with ids; `seen`: as
 * the model sees them. `compact`: the turn writes a summary in place of an answer, and keeps these messages beside it.
 */
export type Start = {
  readonly named: Chain
  /** Where the turn goes on: `named`, or a deeper chain that begins like this conversation. For speed only. */
  readonly known: Chain
  /** How many of the new items `known` holds. */
  readonly held: number
  readonly fresh: readonly Item[]
  readonly seen: readonly Item[]
  readonly compact?: { readonly ask: Item; readonly kept: readonly Item[] } | undefined
}
/** The reason of a stop that is no failure. */
export class Halt extends Error {
  readonly ending: 'interrupted' | 'cancelled'
  /** Leave the broken-off item out of the output. */
  readonly discard: boolean
  constructor(ending: 'interrupted' | 'cancelled', discard = false) {
    super(ending)
    this.ending = ending
    this.discard = discard
  }
}
export type Outcome = Ending | 'failed'

/** Throws an ApiError only before `response.created`: then the request is refused. After it every failure is `response.failed`. */
export async function runTurn(turn: Turn, deps: Deps): Promise<Outcome> {
  const { id, request, output, principal, stop } = turn
  const { settings } = request

  let start: Start
  let chain: Chain
  let model: Model
  let constraint: Constraint | undefined
  let permit
  const input = { response: id, from: 'input' as const, store: request.store }
  try {
    start = await turn.resolve()
    const [items, wire] = [start.seen.slice(start.held), start.fresh.slice(start.held)]
    chain = items.length > 0 ? start.known.add({ ...input, items, wire }) : start.known
    bound(chain, deps)
    mark(id, 'resolved')
    model = deps.model(settings.model)
    constraint = start.compact ? undefined : model.codec?.constraint(settings, chain)
    model.engine.admit(settings, chain, constraint)
    if (request.store) deps.settle.admit()
    permit = await deps.ledger.reserve({ id, principal, settings })
    mark(id, 'admitted')
  } catch (e) {
    const error = ApiError.of(e)
    if (!(e instanceof ApiError)) deps.report(e, 'a turn could not be started')
    if (!(error.transient && turn.failsLate)) throw error
    output.start()
    output.finish(output.close(error, { input: 0, cached: 0, output: 0, reasoning: 0 }))
    void output.flush()
    return 'failed'
  }

  const { named, fresh, compact } = start
  const asked = chain
  const meter = new Meter()
  try {
    output.start()
    for (const item of compact?.kept ?? []) output.keep(item)
    if (compact) output.compact()
    void output.flush()
    mark(id, 'created')

    let ending: Ending = 'stop'
    let heard = chain
    let sent: TokenRun | undefined
    // Once; in a rollout until the model calls nothing.
    while (request.generate) {
      heard = chain
      const spoken = await speak(
        compact ? chain.add({ ...input, items: [compact.ask] }) : chain,
        model,
        constraint,
        meter,
        turn,
        deps,
      )
      ending = spoken.ending
      sent = spoken.sent
      // A summary says what the whole conversation said.
      const store = request.store && chain.mayStore
      const made = { response: id, from: 'model' as const, items: output.seen, wire: output.items, store }
      // No item, no link: a resend could not show it either. A summary takes the place of everything before it.
      if (compact ? output.summarised : output.items.length > 0)
        chain = (compact ? Chain.root(principal.owner) : chain).add({
          ...made,
          generated: compact ? undefined : spoken.generated,
          warm: spoken.warm === undefined ? undefined : { engine: model.engine.id, value: spoken.warm },
          checked: spoken.checked,
        })
      if (ending !== 'stop' || !output.asks || !turn.rollout) break
      const max = settings.max_output_tokens
      const answers =
        max !== null && meter.usage.output >= max ? 'length' : await turn.rollout.answers(chain, meter.usage)
      if (typeof answers === 'string') {
        ending = answers
        break
      }
      chain = chain.add({ ...input, items: answers })
      bound(chain, deps)
      constraint = model.codec?.constraint(settings, chain)
      model.engine.admit(settings, chain, constraint)
    }
    // An empty turn still has an id that can be continued: its own link, without items.
    if (chain.response !== id) chain = chain.add({ ...input, items: [] })

    // Kept, and readable by every door, before the client can know of it; only then the terminal event.
    const response = output.close(ending, meter.usage)
    const kept = ending === 'cancelled' ? undefined : chain
    if (kept) turn.keep(kept)
    if (request.store) deps.settle.add(recordOf(response, principal.owner, fresh, chain, asked, named, kept), kept)
    mark(id, 'kept')
    output.finish(response)
    void output.flush()
    if (model.codec && sent && !compact) deps.shadow.look(heard, sent, chain, settings, model.codec)
    return ending
  } catch (e) {
    const error = ApiError.of(stop.signal.aborted ? stop.signal.reason : e)
    if (!(e instanceof ApiError) && !stop.signal.aborted) deps.report(e, 'a turn failed')
    const response = output.close(error, meter.usage)
    if (request.store)
      deps.settle.add(recordOf(response, principal.owner, fresh, chain, asked, named, undefined), undefined)
    output.finish(response)
    void output.flush()
    return 'failed'
  } finally {
    mark(id, 'finished')
    permit.settle(meter.usage)
  }
}

type Spoken = {
  readonly ending: Ending
  /** The prompt, of engines that take tokens. */
  readonly sent: TokenRun | undefined
  readonly generated: Generated | undefined
  readonly warm: unknown
  readonly checked: string | undefined
}

/** One generation: let the engine speak and put down what it says. From chunk to socket nothing else is async. */
async function speak(
  chain: Chain,
  model: Model,
  constraint: Constraint | undefined,
  meter: Meter,
  turn: Turn,
  deps: Deps,
): Promise<Spoken> {
  const { id, request, output, stop, principal } = turn
  // A summary is written without tools and in plain text, whatever the request says for answers.
  const { max_output_tokens: max } = request.settings
  const settings = output.compacting
    ? ({ ...request.settings, tool_choice: 'none', text: { format: { type: 'text' } } } as const)
    : max === null
      ? request.settings
      : { ...request.settings, max_output_tokens: max - meter.usage.output }
  const gate = new Gate(deps.classifiers, chain.unanswered(), chain.checked, stop)
  const voice = new Voice(model, chain, settings, constraint)
  let ending: Ending = 'stop'
  let finish: Finish | undefined
  let warm: unknown
  // Generated ids up to the end of the newest item: what stands behind it is no part of the conversation.
  let end = 0
  let enough = false
  // Items are cut between each other only: when the user has steered, and when one call was all that was allowed.
  // Undefined while nothing came.
  let between: boolean | undefined
  const put = (delta: Delta): void => {
    gate.watch(delta)
    output.apply(delta)
    between = delta.type === 'end'
    if (delta.type === 'end') end = delta.at ?? 0
  }

  try {
    stop.signal.throwIfAborted()
    // Our count is an estimate: what is far over is refused here, the rest is the engine's to say.
    if (model.context !== undefined && chain.weight > model.context * 2) throw new ApiError('context_length_exceeded')
    const encoding = voice.encode()
    if (encoding) await orStopped(encoding, stop.signal)
    const { prompt } = voice
    const said = meter.pieces
    meter.called(
      () =>
        prompt?.run.length ??
        chain.weight + weighText(settings.instructions ?? '') + weighText(toolsJson(settings.tools)),
    )
    tellPrompt(id, voice.encoded, prompt)
    // Not where the same first words were said with other instructions: then nothing that this client had was broken.
    const goesOn = chain.parent !== undefined && chain.parent.from !== 'root' && chain.parent !== chain.first
    if (voice.encoded?.broke && goesOn) deps.broke(id, principal.owner, voice.encoded.broke)
    mark(id, 'called')
    const call = {
      id,
      principal,
      chain,
      settings,
      prompt,
      warm: chain.warm(model.engine.id),
      mayStore: request.store && chain.mayStore,
      generate: true,
      signal: stop.signal,
    }
    stream: for await (const chunk of model.engine.generate(call)) {
      if (meter.pieces === said) mark(id, 'first')
      if (!gate.passed) {
        await orStopped(gate.verdict(), stop.signal)
        mark(id, 'gated')
      }
      if (voice.runsOn(chunk)) break
      const deltas = voice.deltas(chunk)
      meter.saw(chunk, deltas, voice.counted)
      warm = chunk.warm ?? warm
      finish = chunk.finish ?? finish
      for (const delta of deltas) {
        if (between === true && turn.steered() && !output.asks) {
          ending = 'steered'
          break stream
        }
        if (delta.type === 'call' && output.asks && !settings.parallel_tool_calls) {
          enough = true
          break stream
        }
        if (delta.type === 'end' && output.openLength > long) await othersFirst(output, stop.signal)
        put(delta)
      }
      if (finish === 'length' || finish === 'filter') ending = finish
      if (output.bytes > deps.outputBytes || (max !== null && meter.pieces > max)) {
        ending = 'length'
        break
      }
      const full = output.flush()
      if (full) await orStopped(full, stop.signal)
    }
    if (output.openLength > long) await othersFirst(output, stop.signal)
    if (ending !== 'steered' && !enough)
      for (const delta of voice.rest(ending === 'stop' ? finish : 'length')) put(delta)
    await orStopped(gate.settled(), stop.signal)
    const over = finish !== undefined || voice.ended || ending !== 'stop' || enough
    if (!over && (between === false || voice.all > 0))
      throw new ApiError('server_error', `The engine '${model.engine.id}' stopped in the middle of an item.`)
  } catch (e) {
    const reason: unknown = stop.signal.aborted ? stop.signal.reason : e
    if (!(reason instanceof Halt)) throw reason
    ending = reason.ending
    // Of what was held back nothing is said; but it may have been the beginning of something else.
    if (between === false && !reason.discard) end = voice.rest('length').find((d) => d.type === 'end')?.at ?? voice.all
    output.breakOff(reason.discard)
  }
  if (ending !== 'interrupted' && ending !== 'cancelled') output.endOpen(ending === 'stop')
  mark(id, 'generated')
  return { ending, sent: voice.encoded?.prompt, generated: voice.generated(end), warm, checked: gate.context }
}

function bound({ allBytes }: Chain, { conversationBytes }: Deps): void {
  if (allBytes > conversationBytes)
    throw new ApiError(
      'context_length_exceeded',
      `This conversation takes some ${allBytes} bytes; a conversation may take ${conversationBytes}.`,
      'input',
    )
}

/** Characters of an item whose end, which says all of it four times more, takes long enough for others to notice. */
const long = 2048
/**
 * What has been said leaves, and what others have read in this turn of the event loop. What stops the turn meanwhile stops
 * it in front of the end; an interrupt that keeps the item keeps it whole.
 */
async function othersFirst(output: Output, signal: AbortSignal): Promise<void> {
  void output.flush()
  await others()
  await others()
  const reason: unknown = signal.reason
  if (signal.aborted && (!(reason instanceof Halt) || reason.ending === 'cancelled' || reason.discard)) throw reason
}

/** A client that is slow, or a check that does not answer, must not keep a turn from being stopped. */
async function orStopped(wait: Promise<void>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  let onAbort = (): void => {}
  const stopped = new Promise<void>((resolve) => {
    onAbort = resolve
    signal.addEventListener('abort', onAbort, { once: true })
  })
  await Promise.race([wait, stopped])
  signal.removeEventListener('abort', onAbort)
  signal.throwIfAborted()
}
