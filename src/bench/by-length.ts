// The ways in which one turn of a long conversation can be asked for, and turns asked for in each, from the same place.
import type { Place, Settings } from './conversation.ts'
import { answersOf, charsPerToken } from './conversation.ts'
import type { Driver, Fields, Seen } from './driver.ts'
import { Texts } from './loop-texts.ts'
import { median } from './report.ts'
import { between, type Served, type TurnMarks } from './served.ts'

export type Way = {
  readonly name: string
  readonly what: string
  readonly door: 'socket' | 'http'
  readonly sends: 'new' | 'all'
  /** Settings inherited and not echoed. */
  readonly lean?: true
  /** Of the server. */
  readonly caches: boolean
  /** The engine that is sent all ids over HTTP, in place of the one in the process. */
  readonly remote?: true
}
export const ways: readonly Way[] = [
  { name: 'ws-chain', what: 'WebSocket, previous_response_id', door: 'socket', sends: 'new', caches: true },
  { name: 'ws-lean', what: 'the same, lean', door: 'socket', sends: 'new', lean: true, caches: true },
  { name: 'ws-full', what: 'WebSocket, full history, prefix index', door: 'socket', sends: 'all', caches: true },
  { name: 'http-chain', what: 'HTTP, previous_response_id', door: 'http', sends: 'new', caches: true },
  { name: 'http-full', what: 'HTTP, full history, prefix index', door: 'http', sends: 'all', caches: true },
  { name: 'http-full-uncached', what: 'HTTP, full history, caches off', door: 'http', sends: 'all', caches: false },
  {
    name: 'ws-chain-remote',
    what: 'ws-chain, an engine that is sent the whole prompt as ids over HTTP',
    door: 'socket',
    sends: 'new',
    caches: true,
    remote: true,
  },
]
/** Tokens of each tool output: with the call and what stands around both, a turn adds some 100. */
const perOutput = 40
/** Turns that are counted however long they take, and how long the others may take together. */
const fewest = 2
/** Before those that count, at the shortest length: code is compiled, pools are filled. */
const warmTurns = 200
const patienceMs = 2500
const walkTurns = 10
const shortest = 1000

/** One turn. `added`: milliseconds that the server puts in front of the engine, and behind it. */
export type Measured = {
  readonly added: number
  readonly parse: number
  readonly resolve: number
  readonly encode: number
  readonly end: number
  /** To the first token at the server, and at the client. */
  readonly first: number
  readonly seenFirst: number
  readonly client: number
  readonly bytesUp: number
}
export type Sample = { readonly turns: readonly Measured[]; readonly cpuMs: number }

export const medianOf = (sample: Sample, of: (turn: Measured) => number): number => median(sample.turns.map(of))

/** A client of one way, and the server behind it. */
export type Arm = { readonly way: Way; readonly driver: Driver; readonly served: Served; readonly model: string }

/**
 * So many turns, in walks of ten from there on, so that the place stays about as long as it is. The turn in front of each
 * walk, which leaves the conversation, is not among them.
 */
export async function sampleOf(
  arm: Arm,
  place: Place,
  settings: Settings,
  turns: number,
  seed: number,
): Promise<Sample> {
  const measuredTurns: Measured[] = []
  let cpuUs = 0
  const begun = performance.now()
  const enough = (): boolean => {
    const { length } = measuredTurns
    return length >= turns || (length >= fewest && performance.now() - begun > patienceMs)
  }
  for (let walk = 0; !enough(); walk++) {
    const texts = new Texts(seed * 100 + walk, charsPerToken)
    const most = Math.min(walkTurns, turns - measuredTurns.length)
    const taken = await walked(arm, place, settings, texts, most, begun)
    measuredTurns.push(...taken.turns)
    cpuUs += taken.cpuUs
  }
  return { turns: measuredTurns, cpuMs: cpuUs / 1000 / measuredTurns.length }
}
async function walked(
  arm: Arm,
  place: Place,
  settings: Settings,
  texts: Texts,
  most: number,
  begun: number,
): Promise<{ readonly turns: readonly Measured[]; readonly cpuUs: number }> {
  const { served } = arm
  const walk = turnsFrom(arm, place, settings, texts)
  await walk.next()
  await served.take()
  const seen: Seen[] = []
  while (seen.length < most && (seen.length < fewest || performance.now() - begun < patienceMs))
    seen.push((await walk.next()).value)
  const { turns, cpuUs } = await served.take()
  const byId = new Map(turns.map((marks) => [marks.id, marks]))
  return { turns: seen.map((one) => measured(one, byId.get(one.id))), cpuUs }
}
/** Of the prompt of one turn that says the same in every way. */
async function digestOf(arm: Arm, place: Place, settings: Settings): Promise<string> {
  const { served } = arm
  await served.digests(true)
  await served.take()
  const { value } = await turnsFrom(arm, place, settings, new Texts(7, charsPerToken)).next()
  const { turns } = await served.take()
  await served.digests(false)
  const digest = turns.find(({ id }) => id === value?.id)?.digest
  if (digest === undefined) throw new Error(`The server did not say what prompt ${arm.way.name} made.`)
  return digest
}

/** Turn after turn, for ever. */
async function* turnsFrom(
  { way, driver, model }: Pick<Arm, 'way' | 'driver' | 'model'>,
  place: Place,
  settings: Settings,
  texts: Texts,
): AsyncGenerator<Seen, never> {
  const history: Fields[] = [...place.history]
  let { previous, calls } = place
  for (let first = true; ; first = false) {
    const fresh = answersOf(calls, texts, perOutput)
    history.push(...fresh)
    const inherits = way.lean && !first
    const seen = await driver.turn({
      model,
      ...(inherits ? {} : settings),
      ...(way.lean ? { continuo: { ...(inherits ? { inherit: Object.keys(settings) } : {}), echo: false } } : {}),
      ...(way.sends === 'all' ? { input: history } : { input: fresh, previous_response_id: previous }),
      // Over HTTP only what is stored can be continued.
      store: way.door === 'http' && way.sends === 'new',
    })
    history.push(...seen.items)
    ;({ id: previous, calls } = seen)
    yield seen
  }
}
function measured({ ms, firstMs, bytesUp }: Seen, marks: TurnMarks | undefined): Measured {
  if (!marks) throw new Error('The server has no marks of a turn.')
  const span = (from: string, to: string): number => between(marks, from, to)
  const end = span('generated', 'finished')
  return {
    added: span('received', 'called') + end,
    parse: span('received', 'parsed'),
    resolve: span('parsed', 'created'),
    encode: span('created', 'called'),
    end,
    first: span('received', 'first'),
    seenFirst: firstMs,
    client: ms,
    bytesUp,
  }
}
/** Times of different prompts say nothing: throws where two arms give the engine different ones. */
export async function samePrompts(arms: readonly Arm[], place: Place, settings: Settings): Promise<void> {
  let first: { readonly name: string; readonly digest: string } | undefined
  for (const arm of arms) {
    const digest = await digestOf(arm, place, settings)
    first ??= { name: arm.way.name, digest }
    if (digest !== first.digest)
      throw new Error(`${arm.way.name} gave the engine another prompt than ${first.name} did.`)
  }
}

/** Throws an Error for a length that is less than what a conversation begins with: it would be called what it is not. */
export function mustBegin(lengths: readonly number[]): void {
  if (lengths.some((length) => length < shortest))
    throw new Error(
      `A conversation begins with some ${shortest} tokens of instructions and tools: give --lengths from there on.`,
    )
}
/** Every arm at the shortest length for a while, and a little everywhere: the first that is measured must not pay for all. */
export async function warmUp(
  arms: readonly Arm[],
  places: readonly Place[],
  settings: Settings,
  onWhat: (what: string) => void,
): Promise<void> {
  onWhat('warming up')
  for (const [n, place] of places.entries())
    for (const arm of arms) await sampleOf(arm, place, settings, n === 0 ? warmTurns : fewest, 10 + n)
}
export const thereAndBack = <T>(all: readonly T[], repeat: number): readonly T[] =>
  repeat % 2 === 0 ? all : all.toReversed()

/** `1k`, `200k`, `1500`. */
export const short = (length: number): string => (length % 1000 === 0 ? `${length / 1000}k` : String(length))
