// One turn inside the process of llama.cpp: computes what is new in the prompt, batch by batch, and samples what comes
// behind it, freely, by a grammar or by a script.
import type { Counts, Run } from './llama-embedded-messages.ts'
import type { EvaluateOptions, GrammarState, Library, Llama, Model } from './llama-embedded-library.ts'
import type { Taken } from './llama-embedded-sequences.ts'

export type Machine = {
  readonly library: Library
  readonly llama: Llama
  readonly model: Model
  /** Ids of one batch. */
  readonly batch: number
  /** Ids that a sequence holds. */
  readonly context: number
}
/** What the loop tells while it runs. */
export type Hearer = {
  alive(): void
  token(id: number): void
  /** A promise while nobody may go on. */
  paused(): Promise<void> | undefined
}
export type Outcome = { readonly finish: 'stop' | 'length'; readonly counts: Counts }
/** A grammar that llama.cpp does not read. */
export class BadGrammar extends Error {}

/** The sequence holds a beginning of the prompt. Throws the signal's reason after an abort. */
export async function generation(
  machine: Machine,
  { slot: { sequence }, before }: Taken,
  run: Run,
  signal: AbortSignal,
  hearer: Hearer,
): Promise<Outcome> {
  const { ids } = run
  const counts = (output: number, evaluated: number): Counts => ({
    input: ids.length,
    cached: Math.max(0, ids.length - evaluated),
    output,
  })
  const evaluated = (): number => {
    const { usedInputTokens, usedOutputTokens } = sequence.tokenMeter.diff(before)
    return usedInputTokens + usedOutputTokens
  }
  const stopped = async (): Promise<void> => {
    await hearer.paused()
    signal.throwIfAborted()
  }

  const most = Math.min(run.most, machine.context - ids.length, run.script?.length ?? Infinity)
  const sampling = run.generate && most > 0
  const steered = sampling ? await steeringOf(machine, run) : undefined
  let at = sequence.nextTokenIndex
  const last = sampling
    ? sequence.needsCheckpoints
      ? ids.length - 1
      : Math.max(at, ids.length - machine.batch)
    : ids.length
  for (; at < last; at = sequence.nextTokenIndex) {
    await stopped()
    await sequence.evaluateWithoutGeneratingNewTokens(Array.from(ids.subarray(at, Math.min(at + machine.batch, last))))
    hearer.alive()
  }
  // Models that cannot be cut anywhere go back to here when the output is dropped from the conversation.
  if (sequence.needsCheckpoints) await sequence.takeCheckpoint()
  if (!steered) return { finish: run.generate ? 'length' : 'stop', counts: counts(0, evaluated()) }

  await stopped()
  const out: number[] = []
  const stops = new Set(run.stops)
  const options = optionsOf(run, out, most, steered)
  const sampled = sequence.evaluate(Array.from(ids.subarray(at)), options)
  let prompt: number | undefined
  let instead: number | undefined
  try {
    while (true) {
      const { value, done } = await sampled.next(instead)
      if (done === true || value === undefined) throw new Error('llama.cpp sampled nothing')
      prompt ??= evaluated()
      const id = steered.take(value, out.length)
      instead = id === value ? undefined : id
      out.push(id)
      hearer.token(id)
      const ended = run.script ? out.length === run.script.length : stops.has(id) || machine.model.isEogToken(id)
      const cut = out.length >= most
      if (ended || cut) {
        const whole = run.script ? stops.has(id) || machine.model.isEogToken(id) : ended
        return { finish: whole ? 'stop' : 'length', counts: counts(out.length, prompt) }
      }
      await stopped()
    }
  } finally {
    await sampled.return()
  }
}

function optionsOf(run: Run, out: number[], most: number, { state }: Steering): EvaluateOptions {
  const { presence, frequency, ...sampling } = run.sampling
  const penalties =
    presence === 0 && frequency === 0
      ? {}
      : {
          repeatPenalty: {
            punishTokens: () => out,
            maxPunishTokens: most,
            penalty: 1,
            presencePenalty: presence,
            frequencyPenalty: frequency,
          },
        }
  return { ...sampling, ...penalties, yieldEogToken: true, grammarEvaluationState: () => state(out.length) }
}

/** What holds the sampler to something. */
type Steering = {
  /** The grammar for the id at this place of the output. */
  state(place: number): GrammarState | undefined
  /** The id that stands for the sampled one. */
  take(sampled: number, place: number): number
}
function steeringOf(machine: Machine, run: Run): Promise<Steering> {
  if (run.script) return scripted(machine, run.script)
  if (run.grammar) return ruled(machine, run.grammar, new Set(run.stops))
  return Promise.resolve({ state: () => undefined, take: (sampled) => sampled })
}

const turnRule = 'continuo-turn'
async function ruled(machine: Machine, text: string, stops: ReadonlySet<number>): Promise<Steering> {
  // llama.cpp lets a grammar end with the ids that its model ends with; others that end a turn are part of the grammar.
  const others = Array.from(stops).filter((id) => !machine.model.isEogToken(id))
  const ends = others.map((id) => `<[${id}]>`).join(' | ')
  const rule = await compiled(
    machine,
    ends === '' ? text : `${text}\n${turnRule} ::= root (${ends})?\n`,
    ends === '' ? 'root' : turnRule,
  )
  return { state: () => rule, take: (sampled) => sampled }
}

/**
 * A literal grammar of the ids. What no grammar of llama.cpp can say (ids that end a turn, parts of a character) is put
 * in the place of whatever was sampled there.
 */
async function scripted(machine: Machine, script: Uint32Array): Promise<Steering> {
  const known = new Map<number, boolean>()
  const says = (id: number): boolean => {
    let can = known.get(id)
    if (can === undefined) {
      const piece = machine.model.detokenize([id], true)
      can = !machine.model.isEogToken(id) && piece !== '' && !piece.startsWith('\0') && !piece.includes('\ufffd')
      known.set(id, can)
    }
    return can
  }
  const literal = Array.from(script.filter(says), (id) => `<[${id}]>`)
  const rule = literal.length > 0 ? await compiled(machine, `root ::= ${literal.join(' ')}`) : undefined
  return {
    state: (place) => (says(script[place] ?? 0) ? rule : undefined),
    take(sampled, place) {
      const wanted = script[place] ?? sampled
      if (sampled !== wanted && says(wanted))
        throw new Error(`llama.cpp sampled ${sampled} where its grammar says ${wanted}`)
      return wanted
    },
  }
}

async function compiled({ library, llama, model }: Machine, text: string, start = 'root'): Promise<GrammarState> {
  try {
    const grammar = await llama.createGrammar({ grammar: text, rootRuleName: start })
    return new library.LlamaGrammarEvaluationState({ model, grammar })
  } catch (e) {
    throw new BadGrammar(e instanceof Error ? e.message : String(e))
  }
}
