// Reports as tests want them: one with everything in it, and arbitrary ones.
import fc from 'fast-check'
import type { Cell, Plot, Report, Series, Spread, Table, Target } from '../../src/bench/report.ts'

const spread = (median: number, min = median * 0.93, max = median * 1.12): Spread => ({ median, min, max })
const lengths = [1000, 3000, 10_000, 30_000, 100_000, 200_000]
const grows = (from: number, each: number): Series => {
  const values = lengths.map((n) => from + n * each)
  return { name: '', values, low: values.map((v) => v * 0.85), high: values.map((v) => v * 1.3) }
}
const modes = [
  'HTTP, new connections',
  'HTTP, keep-alive, caches off',
  'HTTP, keep-alive, prefix index',
  'HTTP, previous_response_id',
  'WebSocket, previous_response_id',
  'WebSocket lean',
  'WebSocket, full history',
  'rollout',
]

/** Every part of a report, with names that want to be more than names. */
export const sample: Report = {
  title: 'One agent task in eight modes',
  command: 'continuo bench loop --rates 65,1000,4000',
  machine: {
    continuo: '0.1.0',
    node: 'v20.20.2',
    system: 'linux 6.18.0 x64',
    cpu: 'AMD EPYC 9B14',
    cores: 2,
    memoryGiB: 24,
    load: '0.8 1.1 1.4',
    date: '2026-11-30T09:30:12.000Z',
  },
  options: { calls: 30, rates: [65, 1000, 4000], model: '</script><script>alert(1)</script>', quick: false },
  ratios: {
    ws_over_stateless_1000: spread(0.571),
    ws_over_stateless_4000: spread(0.412, 0.388, 0.44),
    ws_over_stateless_1000_rtt50: spread(0.314),
    ws_over_own_http_1000: spread(0.83),
    ws_over_own_http_4000: spread(0.655),
    ws_over_rollout: spread(1.02, 0.99, 1.07),
    turn_ms_median: { median: 0.44, min: 0.44, max: 0.44 },
  },
  targets: [
    {
      ratio: 'ws_over_stateless_1000',
      what: 'loop of 30 tool calls at 1,000 tokens/s: WebSocket with previous id ÷ stateless HTTP',
      atMost: 0.6,
    },
    { ratio: 'ws_over_stateless_4000', what: 'the same at 4,000 tokens/s', atMost: 0.4 },
    {
      ratio: 'ws_over_stateless_1000_rtt50',
      what: 'the same with 50 ms round trips and a new connection per call',
      atMost: 0.4,
    },
    { ratio: 'ws_over_own_http_1000', what: 'with our own encoder and renderer on the stateless side' },
    { ratio: 'ws_over_own_http_4000', what: 'the same at 4,000 tokens/s' },
    { ratio: 'ws_over_rollout', what: 'WebSocket mode ÷ rollout', atMost: 1.05 },
    { ratio: 'delivered_min', what: 'delivered ÷ engine rate', atLeast: 0.99 },
  ],
  tables: [
    {
      title: 'End to end, by mode and rate',
      note: 'Seconds for the whole task, medians of 5 repeats [least–most].',
      head: ['mode', '65 tokens/s', '1,000 tokens/s', '4,000 tokens/s', 'bytes up', 'same answer'],
      rows: modes.map((mode, n) => [
        mode,
        spread(52.1 + n),
        spread(6.4 - n * 0.31),
        spread(4.4 - n * 0.4),
        12_345_678 - n * 1_500_000,
        'yes',
      ]),
    },
    { title: 'An empty table', head: ['nothing', 'here'], rows: [] },
  ],
  plots: [
    {
      title: 'Server-added time of a turn, by the length of the conversation',
      note: 'Bands are the least and the most of the repeats.',
      kind: 'lines',
      x: { label: 'tokens in the conversation', log: true, values: lengths },
      y: { label: 'ms', log: true },
      series: modes.map((name, n) => ({ ...grows(0.3 + n * 0.2, n * n * 0.0002), name })),
    },
    {
      title: 'The same, not logarithmic, with a gap',
      kind: 'lines',
      x: { label: 'tokens in the conversation', values: lengths },
      y: { label: 'ms' },
      series: [
        { ...grows(0.4, 0.000_01), name: 'delta' },
        { name: 'everything', values: [1, 2, null, 5, 18, 33] },
      ],
    },
    {
      title: 'End to end, by rate',
      kind: 'bars',
      x: { label: 'tokens/s', values: [65, 1000, 4000], names: ['65 tokens/s', '1,000 tokens/s', '4,000 tokens/s'] },
      y: { label: 'seconds' },
      series: modes.map((name, n) => ({
        name,
        values: [52 + n, 6.4 - n * 0.31, 4.4 - n * 0.4],
        low: [50 + n, 6 - n * 0.31, 4.1 - n * 0.4],
        high: [55 + n, 7 - n * 0.31, 4.8 - n * 0.4],
      })),
    },
    {
      title: 'Memory, by kind',
      kind: 'bars',
      x: {
        label: 'kind',
        values: [0, 1, 2],
        names: ['idle socket', 'conversation of 10k tokens', '<img src=x onerror=alert(2)>'],
      },
      y: { label: 'KiB', log: true },
      series: [{ name: 'KiB', values: [13.1, 220, 1810] }],
    },
  ],
  notes: [
    'At 65 tokens/s the engine is nearly all of the wait, and no transport can be seen: WebSocket mode was 2 % slower here.',
    'No real network and no GPU: distance is modelled by a proxy, prefill by the engine’s own pace.',
  ],
}

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.constantFrom(
    '</script><script>alert(1)</script>',
    '<!--',
    '\u001b[2J',
    '\u2028',
    '"\'&<>',
    '[\n{',
    '',
    '__proto__',
    '\ud800',
    '🦄🦄',
  ),
)
const number = fc.oneof(fc.double(), fc.integer(), fc.constantFrom(NaN, Infinity, -Infinity, 0, 1e300, 1e-300))
const cell: fc.Arbitrary<Cell> = fc.oneof(text, number, fc.record({ median: number, min: number, max: number }))
const maybe = <T>(values: fc.Arbitrary<T>) => fc.option(values, { nil: null })
const list = (size: number) => fc.array(maybe(number), { minLength: size, maxLength: size })
const few = { maxLength: 4 }
const name = fc
  .stringMatching(/^[a-z][a-z0-9_]{0,12}$/)
  .filter((n) => !['title', 'command', 'machine', 'options', 'targets', 'tables', 'plots', 'notes'].includes(n))
const table: fc.Arbitrary<Table> = fc.record(
  { title: text, note: text, head: fc.array(text, few), rows: fc.array(fc.array(cell, few), few) },
  { requiredKeys: ['title', 'head', 'rows'] },
)
const axis = fc.record({ label: text, log: fc.boolean() }, { requiredKeys: ['label'] })
const plot: fc.Arbitrary<Plot> = fc.integer({ min: 0, max: 5 }).chain((size) =>
  fc.record(
    {
      title: text,
      note: text,
      kind: fc.constantFrom<'lines' | 'bars'>('lines', 'bars'),
      x: fc
        .tuple(
          axis,
          fc.array(number, { minLength: size, maxLength: size }),
          fc.option(fc.array(text, { maxLength: size }), { nil: undefined }),
        )
        .map(([a, values, names]) => ({ ...a, values, ...(names === undefined ? {} : { names }) })),
      y: axis,
      series: fc.array(
        fc.record(
          { name: text, values: list(size), low: list(size), high: list(size) },
          { requiredKeys: ['name', 'values'] },
        ),
        few,
      ),
    },
    { requiredKeys: ['title', 'kind', 'x', 'y', 'series'] },
  ),
)
const finite = fc.double({ noNaN: true, noDefaultInfinity: true })
const target: fc.Arbitrary<Target> = fc.record(
  { ratio: fc.oneof(name, text), what: text, atMost: finite, atLeast: finite },
  { requiredKeys: ['ratio', 'what'] },
)

/** Any report at all: hostile names, no numbers, nothing in it. */
export const anyReport: fc.Arbitrary<Report> = fc.record(
  {
    title: text,
    command: text,
    machine: fc.record({
      continuo: text,
      node: text,
      system: text,
      cpu: text,
      cores: number,
      memoryGiB: number,
      load: text,
      date: text,
    }),
    options: fc.dictionary(fc.stringMatching(/^[a-zA-Z]{1,8}$/), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 4 }),
    ratios: fc.dictionary(name, fc.record({ median: number, min: number, max: number }), { maxKeys: 4 }),
    targets: fc.array(target, few),
    tables: fc.array(table, few),
    plots: fc.array(plot, few),
    notes: fc.array(text, few),
  },
  { requiredKeys: ['command', 'machine', 'options', 'ratios', 'targets', 'tables', 'plots', 'notes'] },
)
