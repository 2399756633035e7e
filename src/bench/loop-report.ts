// What is said of a run: ratios and targets, tables by mode, by stage and by cause, plots, and what the figures do not show.
import { figure } from './figures.ts'
import {
  bySteps,
  causesIn,
  endToEnd,
  fastest,
  loopRatio,
  overhead,
  overTurns,
  perTurn,
  ratiosOf,
  stages,
} from './loop-figures.ts'
import type { Measured } from './loop-measure.ts'
import { type ModeName, modeNames, modeOf } from './loop-modes.ts'
import { cellName } from './loop-plan.ts'
import { type Cell, type Plot, type Report, seriesOf, type Spread, spread, type Table, type Target } from './report.ts'

export const targets: readonly Target[] = [
  { ratio: 'ws_over_stateless_1000', what: 'WebSocket ÷ stateless HTTP, 1,000 tokens/s, end to end', atMost: 0.6 },
  { ratio: 'ws_over_stateless_4000', what: 'the same at 4,000 tokens/s', atMost: 0.4 },
  {
    ratio: 'ws_over_own_http_1000',
    what: "the same with Continuo's encoder and renderer on the stateless side, 1,000 tokens/s",
  },
  { ratio: 'ws_over_own_http_4000', what: 'the same at 4,000 tokens/s' },
  {
    ratio: 'ws_over_stateless_1000_rtt50',
    what: 'WebSocket ÷ stateless HTTP with a new connection per call, 1,000 tokens/s, 50 ms round trips',
    atMost: 0.4,
  },
  { ratio: 'ws_over_stateless_65', what: 'WebSocket ÷ stateless HTTP, 65 tokens/s, 5 calls' },
  { ratio: 'ws_over_rollout', what: 'WebSocket ÷ one long response, at the fastest rate', atMost: 1.05 },
  { ratio: 'lean_over_rollout', what: 'lean turns ÷ one long response, at the fastest rate' },
]

export type Told = Pick<Report, 'command' | 'machine' | 'options'> & {
  readonly measured: readonly Measured[]
  /** Of the arm on a real engine, or why there is none. */
  readonly prefill: { readonly tables: readonly Table[]; readonly notes: readonly string[] }
  readonly notes: readonly string[]
}
export function loopReport({ measured, prefill, notes, ...rest }: Told): Report {
  return {
    title: `One agent task in ${new Set(measured.flatMap(({ loops }) => [...loops.keys()])).size} modes`,
    ...rest,
    ratios: ratiosOf(measured),
    targets,
    tables: [
      ...measured.flatMap((one) => [modesTable(one), stagesTable(one), tokensTable(one), ...causesTable(one)]),
      ...prefill.tables,
      modesMeaning(measured),
    ],
    plots: plotsOf(measured),
    notes: [...readings(measured), ...lost(measured), ...prefill.notes, ...notes, ...notShown],
  }
}

const rowsOf = (
  { loops }: Measured,
  row: (name: ModeName, own: Loops) => readonly Cell[],
): readonly (readonly Cell[])[] =>
  modeNames.flatMap((name) => {
    const own = loops.get(name)
    return own ? [row(name, own)] : []
  })
type Loops = NonNullable<ReturnType<Measured['loops']['get']>>

function modesTable(one: Measured): Table {
  const { cell } = one
  const [baseline = 'http-stateless'] = modeNames.filter((name) => one.loops.has(name) && cell.modes.includes(name))
  return {
    title: `End to end: ${cellName(cell)}`,
    note: `${cell.calls} tool calls, ${cell.rounds} rounds${cell.also.length > 0 ? ` (1 of ${cell.also.join(', ')})` : ''}. Overhead: the turn as its client saw it, without engine and tool. kB of bodies and messages, without HTTP heads, frames and TLS.`,
    head: [
      'mode',
      'loop, ms',
      `÷ ${baseline}`,
      'time saved, %',
      'turn, ms',
      'p95',
      'overhead, ms',
      'p95',
      'kB up',
      'kB down',
    ],
    rows: rowsOf(one, (name, own) => {
      const share = loopRatio(one, name, baseline)
      return [
        name,
        endToEnd(own),
        share ?? '–',
        share ? figure((1 - share.median) * 100) : '–',
        overTurns(own, ({ ms }) => ms, 0.5),
        overTurns(own, ({ ms }) => ms, 0.95),
        overTurns(own, overhead, 0.5),
        overTurns(own, overhead, 0.95),
        perTurn(own, ({ bytesUp }) => bytesUp) / 1000,
        perTurn(own, ({ bytesDown }) => bytesDown) / 1000,
      ]
    }),
  }
}
function stagesTable(one: Measured): Table {
  return {
    title: `Stages of a turn, ms: ${cellName(one.cell)}`,
    note: 'Median, and p95 beside it. Of a rollout only the first leg is told apart; its other legs have the engine alone.',
    head: ['mode', ...stages.flatMap(({ name }) => [name, 'p95']), 'server CPU a turn'],
    rows: rowsOf(one, (name, own) => [
      name,
      ...stages.flatMap(({ of }) => [overTurns(own, of, 0.5), overTurns(own, of, 0.95)]),
      own.reduce((sum, { cpuUs }) => sum + cpuUs, 0) / 1000 / own.reduce((sum, { turns }) => sum + turns.length, 0),
    ]),
  }
}
function tokensTable(one: Measured): Table {
  return {
    title: `Tokens of a turn, mean: ${cellName(one.cell)}`,
    note: 'In the prompt; made of text by the encoder; found by the engine in its cache; computed by it; written.',
    head: ['mode', 'prompt', 'encoded', 'cached', 'prefilled', 'output'],
    rows: rowsOf(one, (name, own) => [
      name,
      Math.round(perTurn(own, ({ usage }) => usage.input)),
      Math.round(own.reduce((sum, loop) => sum + loop.encoded / loop.turns.length, 0) / own.length),
      Math.round(perTurn(own, ({ usage }) => usage.cached)),
      Math.round(perTurn(own, ({ usage }) => usage.input - usage.cached)),
      Math.round(perTurn(own, ({ usage }) => usage.output)),
    ]),
  }
}
function causesTable(one: Measured): readonly Table[] {
  const causes = causesIn(one)
  if (!causes) return []
  return [
    {
      title: `What the gain is made of: ${cellName(one.cell)}`,
      note: 'Each step differs from the one before in one cause. A step that costs time is negative; together they are the whole.',
      head: ['cause', 'from', 'to', 'saved a turn, ms', 'share of the gain, %'],
      rows: [
        ...causes.rows.map(({ cause, from, to, ms, percent }) => [cause, from, to, ms, percent]),
        ['together', causes.rows[0]?.from ?? '', causes.rows.at(-1)?.to ?? '', causes.ms, 100],
      ],
    },
  ]
}
function modesMeaning(measured: readonly Measured[]): Table {
  return {
    title: 'The modes',
    head: ['mode', 'what it is'],
    rows: modeNames
      .filter((name) => measured.some(({ loops }) => loops.has(name)))
      .map((name) => [name, modeOf(name).what]),
  }
}

function plotsOf(measured: readonly Measured[]): readonly Plot[] {
  const near = fastest(measured)
  const names = modeNames.filter((name) => measured.some(({ loops }) => loops.has(name)))
  const seconds = (name: ModeName): (Spread | undefined)[] =>
    measured.map(({ loops }) => {
      const own = loops.get(name)
      return own && spread(own.map(({ ms }) => ms / 1000))
    })
  const bars: Plot = {
    title: 'The whole loop, by mode',
    kind: 'bars',
    x: { label: '', values: measured.map((_, n) => n), names: measured.map(({ cell }) => cellName(cell)) },
    y: { label: 'seconds' },
    series: names.map((name) => seriesOf(name, seconds(name))),
  }
  if (!near) return [bars]
  const lines: Plot = {
    title: `Time per turn: ${cellName(near.cell)}`,
    note: 'Median of the rounds.',
    kind: 'lines',
    x: { label: 'turn', values: Array.from({ length: near.cell.calls + 1 }, (_, n) => n + 1) },
    y: { label: 'ms', log: true },
    series: [...near.loops].map(([name, own]) => ({ name, values: bySteps(own, ({ ms }) => ms) })),
  }
  const cascades = measured.flatMap((one): Plot[] => {
    const causes = causesIn(one)
    if (!causes) return []
    return [
      {
        title: `What the gain is made of: ${cellName(one.cell)}`,
        kind: 'bars',
        x: { label: '', values: causes.rows.map((_, n) => n), names: causes.rows.map(({ cause }) => cause) },
        y: { label: 'ms saved a turn' },
        series: [
          seriesOf(
            'saved',
            causes.rows.map(({ ms }) => ms),
          ),
        ],
      },
    ]
  })
  return [lines, bars, ...cascades]
}

/** What the ratios mean, in both ways in which "40 %" is said. */
function readings(measured: readonly Measured[]): readonly string[] {
  return measured.flatMap((one) => {
    const below = one.cell.rttMs > 0 ? 'http-new' : 'http-stateless'
    const seen = loopRatio(one, 'ws-chain', below)
    if (!seen) return []
    const frames = loopRatio(one, 'ws-chain', 'http-chain')
    return [
      `${cellName(one.cell)}: ${reading('ws-chain', below, seen)}`,
      ...(frames
        ? [
            `${cellName(one.cell)}: frames in place of HTTP alone, with the same kept state on both sides: ws-chain takes ${moreOrLess(frames)} time than http-chain over a kept connection.`,
          ]
        : []),
    ]
  })
}
export const reading = (above: string, below: string, seen: Spread): string =>
  `${above} takes ${moreOrLess(seen)} time than ${below}, a speed-up of ${figure(1 / seen.median)}×. Time saved is meant wherever a percentage stands here; 40 % of time saved is a speed-up of 1.67×, and a speed-up of 1.4× is 29 % of time saved.`
function moreOrLess({ median }: Spread): string {
  const saved = (1 - median) * 100
  return `${figure(Math.abs(saved))} % ${saved < 0 ? 'more' : 'less'}`
}
/** Cells in which WebSocket mode is not the faster one. */
function lost(measured: readonly Measured[]): readonly string[] {
  return measured.flatMap((one) =>
    modeNames.flatMap((name) => {
      const seen = name === 'ws-chain' ? undefined : loopRatio(one, 'ws-chain', name)
      return seen && seen.median > 1
        ? [`Lost: ${cellName(one.cell)}: ws-chain takes ${figure((seen.median - 1) * 100)} % more time than ${name}.`]
        : []
    }),
  )
}
const notShown: readonly string[] = [
  'Every mode gave the engine the same prompts, by digest, and got the same calls and texts: checked before anything was timed, in a loop over the same growth that is shorter with --quick and over TLS. In the timed loops calls, texts and numbers of tokens were compared again.',
  'The engine is simulated: it keeps its pace and finds known prefixes in every mode, so prefill costs no time here. Where a history that is rendered again misses the cache of a real engine, the stateless modes lose more; the arm on llama.cpp counts it.',
  'Stateless modes say store: false, as stateless clients do; those with previous_response_id are stored, in memory.',
  'Distance is a model: half the delay each way, TCP and TLS handshakes, an initial window of 10 segments, slow start, and its restart after idle as Linux does. No loss, no limit of bandwidth, no jitter.',
  'Client, server and engine share the cores of one machine. The client is thin; agents do more.',
]
