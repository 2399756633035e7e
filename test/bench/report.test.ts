// What prints, writes and reads reports: laws over any report, and what a person is to see.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { table, wrap } from '../../src/bench/columns.ts'
import { figure, shown, verdict } from '../../src/bench/figures.ts'
import { reportHtml } from '../../src/bench/report-html.ts'
import { readReport, reportJson } from '../../src/bench/report-json.ts'
import { reportText } from '../../src/bench/report-text.ts'
import type { Report, Target } from '../../src/bench/report.ts'
import { anyReport, sample } from './sample.ts'

const numRuns = Number(process.env['RUNS'] ?? 100)

/** What JSON knows: no number is NaN, there is no negative zero, and in a series it is a gap. */
function known(report: Report): Report {
  const number = (n: number): number => (Number.isFinite(n) ? n + 0 : NaN)
  const gaps = (values: readonly (number | null)[]) =>
    values.map((n) => (n !== null && Number.isFinite(n) ? n + 0 : null))
  const deep = (value: unknown): unknown =>
    typeof value === 'number'
      ? number(value)
      : Array.isArray(value)
        ? value.map(deep)
        : typeof value === 'object' && value !== null
          ? Object.fromEntries(Object.entries(value).map(([k, v]) => [k, deep(v)]))
          : value
  const plain = deep({ ...report, plots: [] }) as Report
  return {
    ...plain,
    plots: report.plots.map((plot) => ({
      ...plot,
      x: { ...plot.x, values: plot.x.values.map(number) },
      series: plot.series.map((s) => ({
        ...s,
        values: gaps(s.values),
        ...(s.low ? { low: gaps(s.low) } : {}),
        ...(s.high ? { high: gaps(s.high) } : {}),
      })),
    })),
  }
}

describe('any report', () => {
  it('reads back from its JSON as it was, but for what is no number', () => {
    fc.assert(
      fc.property(anyReport, (report) => {
        const json = reportJson(report)
        const read = readReport(json, 'a.json')
        expect(read).toEqual(known(report))
        expect(reportJson(read)).toBe(json)
      }),
      { numRuns },
    )
  })
  it('becomes text without control characters, within 120 columns where words can be broken', () => {
    fc.assert(
      fc.property(anyReport, (report) => {
        const text = reportText(report)
        expect(text.replaceAll('\n', '')).not.toMatch(/\p{Cc}/u)
        // Up to four columns of at least 12 fit.
        for (const line of text.split('\n')) expect(Array.from(line).length).toBeLessThanOrEqual(120)
      }),
      { numRuns },
    )
  })
  it('becomes a page whose names stay names', () => {
    fc.assert(
      fc.property(anyReport, (report) => {
        const page = reportHtml([report, report])
        expect(page).not.toContain('<script>alert')
        // The page's own: the theme, uPlot, the plots, and one with the results of each report.
        expect(page.match(/<script/g)).toHaveLength(5)
        expect(page.match(/<\/script>/g)).toHaveLength(5)
        expect(page.match(/<!--/g)).toBeNull()
        const data = /<script type="application\/json">([^]*?)<\/script>/.exec(page)?.[1] ?? ''
        expect(readReport(data, 'page')).toEqual(known(report))
      }),
      { numRuns: Math.min(numRuns, 50) },
    )
  })
})

describe('a saved result', () => {
  it('has its ratios at the top, by name', () => {
    const json = JSON.parse(reportJson(sample)) as Record<string, unknown>
    expect(json['ws_over_rollout']).toEqual({ median: 1.02, min: 0.99, max: 1.07 })
    expect(Object.keys(json).slice(-8)).toEqual([
      'title',
      'command',
      'machine',
      'options',
      'targets',
      'tables',
      'plots',
      'notes',
    ])
    expect(json['ratios']).toBeUndefined()
  })
  it('is short where it can be: a spread or a list of numbers on one line', () => {
    const lines = reportJson(sample).split('\n')
    expect(lines).toContain('  "ws_over_rollout": { "median": 1.02, "min": 0.99, "max": 1.07 },')
    expect(lines).toContain('        "log": true,')
    expect(lines.some((line) => line.includes('"values": [1000, 3000, 10000, 30000, 100000, 200000]'))).toBe(true)
  })
  it.each(['command', 'notes', 'title', '__proto__', 'a b', ''])('has no ratio that is called %j', (name) => {
    const ratios = Object.fromEntries([[name, { median: 1, min: 1, max: 1 }]])
    expect(() => reportJson({ ...sample, ratios })).toThrow(/cannot be called/)
  })
  it.each([
    ['no JSON', '{"command":', /^a\.json is no saved result of continuo bench: .*JSON.*--save a\.json/],
    ['a list', '[]', /it is not a JSON object/],
    ['another object', '{"a":1}', /a\.json .*command: /],
    [
      'a field of another kind',
      JSON.stringify({ ...JSON.parse(reportJson(sample)), notes: 'none' }),
      /notes: .*expected array/,
    ],
    [
      'what is no ratio',
      JSON.stringify({ ...JSON.parse(reportJson(sample)), extra: { median: 1 } }),
      /"extra" is neither a ratio/,
    ],
  ])('that is %s is refused with the reason', (_, text, reason) => {
    expect(() => readReport(text, 'a.json')).toThrow(reason)
  })
})

describe('figures', () => {
  it.each([
    [0, '0'],
    [12_345, '12,345'],
    [0.012_345, '0.0123'],
    [1234.5, '1,235'],
    [NaN, '–'],
    [-Infinity, '−∞'],
    [1e-9, '1.00e-9'],
    [-1.5, '-1.5'],
  ])('%d is %s', (n, text) => expect(figure(n)).toBe(text))
  it.each([
    [{ median: 1.23, min: 1.1, max: 1.4 }, '1.23 [1.10–1.40]'],
    [{ median: 0.0013, min: 0.001, max: 0.0025 }, '0.00130 [0.00100–0.00250]'],
    [{ median: 134.2, min: 133.9, max: 12_000 }, '134 [134–12,000]'],
    [{ median: 2, min: 2, max: 2 }, '2'],
    [{ median: NaN, min: NaN, max: NaN }, '–'],
  ])('%j is %s', (spread, text) => expect(shown(spread)).toBe(text))

  const atMost = (limit: number): Target => ({ ratio: 'a', what: '', atMost: limit })
  const atLeast = (limit: number): Target => ({ ratio: 'a', what: '', atLeast: limit })
  it.each([
    ['met', atMost(0.6), { median: 0.54, min: 0.5, max: 0.58 }, 'met, 10 % below'],
    ['met', atMost(0.6), { median: 0.6, min: 0.6, max: 0.6 }, 'met, 0 % below'],
    ['met', atMost(0.6), { median: 0.57, min: 0.5, max: 0.61 }, 'met, 5 % below, not in every repeat'],
    ['missed', atMost(0.6), { median: 0.66, min: 0.65, max: 0.7 }, 'missed by 10 %'],
    ['missed', atLeast(0.99), { median: 0.98, min: 0.9, max: 0.999 }, 'missed by 1 %, not in every repeat'],
    ['met', atLeast(0.5), { median: 1, min: 1, max: 1 }, 'met, 100 % above'],
    ['met', atMost(0), { median: 0, min: 0, max: 0 }, 'met'],
    ['missed', { ...atLeast(1), atMost: 2 }, { median: 3, min: 3, max: 3 }, 'missed by 50 %'],
    ['reported', { ratio: 'a', what: '' }, { median: 3, min: 3, max: 3 }, 'reported'],
    ['unmeasured', atMost(1), undefined, 'not measured'],
    ['unmeasured', atMost(1), { median: NaN, min: NaN, max: NaN }, 'not measured'],
  ] as const)('are %s', (kind, target, seen, text) => expect(verdict(target, seen)).toEqual({ kind, text }))
})

describe('a report in the terminal', () => {
  const text = reportText(sample, 120)
  it('says where, when and with which version', () => {
    expect(text.split('\n').slice(0, 3)).toEqual([
      'One agent task in eight modes',
      'continuo bench loop --rates 65,1000,4000 · continuo 0.1.0 · 2026-11-30 09:30 UTC',
      'AMD EPYC 9B14, 2 cores, 24 GiB · linux 6.18.0 x64 · Node v20.20.2 · load 0.8 1.1 1.4',
    ])
  })
  it('says of every target whether it was met, and by how much', () => {
    expect(text).toContain('Ratios: median [least–most]; 3 of 4 targets met')
    expect(text).toMatch(/ws_over_stateless_1000_rtt50 .* 0\.314 \[0\.292–0\.352\] +≤ 0\.4 {2}met, 22 % below/)
    expect(text).toMatch(/ws_over_stateless_4000 .*missed by 3 %/)
    expect(text).toMatch(/delivered_min .*not measured/)
  })
  it('draws lines on one scale, and leaves out what could not be read', () => {
    expect(text).toMatch(/HTTP, new connections +▁+ {2}0\.3 → 0\.3\n/)
    expect(text).toMatch(/rollout +▄+▅+▆+▇*█+ {2}11\.5 → 1,962\n/)
    expect(text).not.toContain('Memory, by kind')
  })
})

describe('columns', () => {
  it('have numbers to the right and words to the left, wrapped where they are too wide', () => {
    expect(
      table(
        ['what', 'n'],
        [
          ['a', '1'],
          ['longer', '20'],
        ],
      ),
    ).toBe('what     n\n──────  ──\na        1\nlonger  20')
    expect(table(['what', 'n'], [['one two three four', '1']], 15)).toBe(
      'what          n\n────────────  ─\none two       1\nthree four',
    )
  })
  it('break a word that is wider than the column', () => {
    expect(wrap('abcdefgh ij', 3)).toEqual(['abc', 'def', 'gh', 'ij'])
  })
})
