// Puts every peer before the same engine and has the same task worked through, in every way that each can, in turn. Times
// count only where calls and text are what the engine's script says and the engine was shown the whole conversation.
import { roughly, type Task, taskOf } from '../../src/bench/loop-task.ts'
import { type PacedEngine, pacedEngine } from '../../src/bench/paced-engine.ts'
import { type OnProgress, machine, quantile, ratio, type Report, spread, type Table } from '../../src/bench/report.ts'
import type { Peer, Started, Way } from './peer.ts'
import { type ResponsesDoor, responsesDoor } from './responses-door.ts'
import { type Done, expected, type Said, work } from './task.ts'

export type ComparisonOptions = {
  readonly calls: number
  readonly rounds: number
  readonly tokensPerSecond: number
  readonly ttftMs: number
  readonly outputTokens: number
  /** Estimated, four characters each: of the conversation that it begins with, and what each turn adds. */
  readonly baseTokens: number
  readonly growthTokens: number
}
type Arm = {
  readonly peer: Peer
  readonly version: string
  readonly way: Way
  readonly server: Started
  readonly runs: { readonly done: Done; readonly engineBytes: number }[]
  /** Why it does not count; it is not tried again. */
  wrong?: string
}
type Absent = { readonly peer: Peer; readonly why: string }

const model = 'paced'

export async function compare(
  chosen: readonly Peer[],
  options: ComparisonOptions,
  onProgress: OnProgress,
): Promise<Report> {
  const { calls, rounds, baseTokens: base, growthTokens: growth, ...pace } = options
  const begun = machine()
  const task = taskOf({ calls, base, growth, output: pace.outputTokens, toolMs: 0 }, 1, roughly)
  const ends: (() => Promise<void>)[] = []
  try {
    const engine = await pacedEngine({ ...pace, calls: task.earlier + calls })
    ends.push(engine.stop)
    const door = await responsesDoor(engine.url)
    ends.push(door.stop)
    const right = await expected(engine.url, task, model)
    const arms: Arm[] = []
    const absent: Absent[] = []
    for (const peer of chosen) {
      onProgress(0, `starting ${peer.name}`)
      const started = await start(peer, engine, door)
      if ('why' in started) absent.push(started)
      else {
        ends.push(started.server.stop)
        arms.push(...peer.ways.map((way) => ({ peer, ...started, way, runs: [] })))
      }
    }
    // The first round is not counted: it compiles, connects and fills caches.
    for (let round = 0; round <= rounds; round++)
      for (const [n, arm] of turned(arms, round).entries()) {
        onProgress((round + n / arms.length) / (rounds + 1), `${arm.peer.name}, ${arm.way}`)
        await run(arm, round > 0, { task, engine, door, right })
      }
    return reported(arms, absent, options, begun)
  } finally {
    for (const end of ends.toReversed()) await end().catch(() => undefined)
  }
}
async function start(
  peer: Peer,
  engine: PacedEngine,
  door: ResponsesDoor,
): Promise<{ readonly version: string; readonly server: Started } | Absent> {
  try {
    const why = await peer.available()
    if (why !== undefined) return { peer, why }
    const version = await peer.version()
    const engineUrl = peer.asks === 'chat' ? engine.url : door.url
    return { version, server: await peer.start({ engineUrl, model }) }
  } catch (e) {
    return { peer, why: wordsOf(e) }
  }
}
/** Another arm begins each round. */
function turned<T>(list: readonly T[], by: number): T[] {
  const at = list.length === 0 ? 0 : by % list.length
  return [...list.slice(at), ...list.slice(0, at)]
}

type Setting = {
  readonly task: Task
  readonly engine: PacedEngine
  readonly door: ResponsesDoor
  readonly right: Said
}
async function run(arm: Arm, counts: boolean, { task, engine, door, right }: Setting): Promise<void> {
  if (arm.wrong !== undefined) return
  const asked = arm.peer.asks === 'chat' ? engine : door
  try {
    await asked.take()
    const done = await work(arm.way, arm.server, task, model)
    const { requests, bytes } = await asked.take()
    const wrong = difference(done, right, { requests, bytes })
    if (wrong !== undefined) arm.wrong = `differs: ${wrong}`
    else if (counts) arm.runs.push({ done, engineBytes: bytes })
  } catch (e) {
    arm.wrong = `failed: ${wordsOf(e)}`
  }
}
/** What makes a run another task than the one that was given; undefined where it is the same. */
export function difference(
  { said, shownChars, turns }: Pick<Done, 'said' | 'shownChars' | 'turns'>,
  right: Said,
  engine: { readonly requests: number; readonly bytes: number },
): string | undefined {
  const at = right.calls.findIndex((call, n) => said.calls[n] !== call)
  if (at >= 0) return `call ${at + 1} is ${said.calls[at] ?? 'missing'} and should be ${right.calls[at]}`
  if (said.calls.length > right.calls.length) return `there are ${said.calls.length} calls, not ${right.calls.length}`
  if (said.text !== right.text) return `the text at the end is ${JSON.stringify(said.text.slice(0, 80))}`
  if (engine.requests !== turns.length) return `the engine was asked ${engine.requests} times for ${turns.length} turns`
  if (engine.bytes < shownChars)
    return `the engine was sent ${engine.bytes} bytes where the texts of the conversation alone are ${shownChars}`
  return undefined
}
function wordsOf(e: unknown): string {
  return (e instanceof Error ? e.message : String(e)).slice(0, 1200)
}

// ── the report ───────────────────────────────────────────────────────────────────────────────────────────────────────

function reported(
  arms: readonly Arm[],
  absent: readonly Absent[],
  options: ComparisonOptions,
  begun: Report['machine'],
): Report {
  const whole = arms.filter((arm) => arm.wrong === undefined && arm.runs.length > 0)
  const own = whole.find((arm) => arm.peer.name === 'continuo' && arm.way === 'ws-previous')
  const others = own ? whole.filter((arm) => arm !== own) : []
  const ended = (arm: Arm): number[] => arm.runs.map(({ done }) => done.ms)
  const names = whole.map((arm) => `${arm.peer.name} ${arm.way}`)
  const perTurn = whole.map((arm) => spread(arm.runs.map(({ done }) => quantile(done.turns, 0.5))))
  const { calls, baseTokens, growthTokens, tokensPerSecond, ttftMs, outputTokens } = options
  return {
    command: 'npm run bench:peers',
    machine: begun,
    options,
    ratios: Object.fromEntries(others.map((arm) => [ratioName(arm), ratio(ended(own ?? arm), ended(arm))])),
    // Reported as they are: what a peer does is no promise of ours.
    targets: others.map((arm) => ({
      ratio: ratioName(arm),
      what: `continuo ws-previous ÷ ${arm.peer.name} ${arm.way}, end to end`,
    })),
    tables: [
      {
        title: 'The same task through every server',
        note: `${calls} calls of a tool, ${baseTokens} tokens growing by ${growthTokens} a call; the engine says its first token after ${ttftMs} ms, then ${tokensPerSecond} a second, ${outputTokens} a turn. Milliseconds: median [least–most] of ${options.rounds} interleaved runs; of turns, the median and the 95th of 100.`,
        head: [
          'server',
          'way',
          'end to end',
          'turn',
          'turn, p95',
          'first sign',
          'client sent kB',
          'client got kB',
          'engine got kB',
        ],
        rows: whole.map(({ peer, version, way, runs }) => [
          `${peer.name} ${version}`,
          way,
          spread(runs.map(({ done }) => done.ms)),
          spread(runs.map(({ done }) => quantile(done.turns, 0.5))),
          spread(runs.map(({ done }) => quantile(done.turns, 0.95))),
          spread(runs.map(({ done }) => quantile(done.firsts, 0.5))),
          Math.round((runs[0]?.done.bytesUp ?? 0) / 1000),
          Math.round((runs[0]?.done.bytesDown ?? 0) / 1000),
          Math.round((runs[0]?.engineBytes ?? 0) / 1000),
        ]),
      },
      ...wrongTable(arms),
      ...absentTable(absent),
    ],
    plots:
      whole.length === 0
        ? []
        : [
            {
              title: 'Median turn',
              note: `${ttftMs} ms and ${outputTokens} tokens at ${tokensPerSecond} a second are the engine's own.`,
              kind: 'bars',
              x: { label: 'server and way', values: names.map((_, n) => n), names },
              y: { label: 'ms' },
              series: [
                {
                  name: 'turn',
                  values: perTurn.map((s) => s.median),
                  low: perTurn.map((s) => s.min),
                  high: perTurn.map((s) => s.max),
                },
              ],
            },
          ],
    notes: [
      'Ratios are end to end: Continuo over a socket with previous_response_id, divided by the other. One client, loopback, no TLS: at a distance, and with many clients at once, it looks otherwise.',
      'The engine has no cache and no prefill: what a re-rendered history costs a real engine is not in these figures.',
      'Every run that counts made the same calls and said the same text, and the engine was sent at least the texts of the whole conversation at every turn.',
      'Servers that ask their engine for Responses (agentic-api, portkey, direct) have a second door of the same engine, which costs one more hop on the loopback; `direct` shows what door, engine and client take by themselves.',
      'Each is set up as its documentation says for one machine, without its optional caches or databases beyond what is named.',
      ...new Set(arms.map(({ peer, version }) => `${peer.name} ${version}: ${peer.what}.${lacking(peer)}`)),
    ],
  }
}
const ratioName = ({ peer, way }: Arm): string => `continuo_ws_over_${peer.name}_${way}`.replaceAll('-', '_')
const lacking = ({ lacks }: Peer): string => (lacks === undefined ? '' : ` Not measured: ${lacks}.`)
function wrongTable(arms: readonly Arm[]): Table[] {
  const rows = arms.flatMap(({ peer, version, way, wrong }) =>
    wrong === undefined ? [] : [[`${peer.name} ${version}`, way, wrong]],
  )
  return rows.length === 0 ? [] : [{ title: 'Did not do the task', head: ['server', 'way', 'what happened'], rows }]
}
function absentTable(absent: readonly Absent[]): Table[] {
  const rows = absent.map(({ peer, why }) => [peer.name, why])
  return rows.length === 0 ? [] : [{ title: 'Not there', head: ['server', 'why'], rows }]
}
