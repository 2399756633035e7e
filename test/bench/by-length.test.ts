// What flat, ttft and idle make of their figures.
import { describe, expect, it } from 'vitest'
import { reported as flat } from '../../src/bench/flat.ts'
import { type Measured, type Sample, short, ways } from '../../src/bench/by-length.ts'
import { type Cost, reported as idle } from '../../src/bench/idle.ts'
import { reported as ttft, rows } from '../../src/bench/ttft.ts'

const turn = (ms: number): Measured => ({
  added: ms,
  parse: ms / 4,
  resolve: ms / 4,
  encode: ms / 4,
  end: ms / 4,
  first: ms,
  seenFirst: ms + 50,
  client: ms + 1,
  bytesUp: 1000,
})
/** Of three turns, one of which was held up. */
const sample = (ms: number, cpuMs: number): Sample => ({ turns: [turn(ms), turn(ms), turn(ms * 50)], cpuMs })

describe('flat', () => {
  // Each repeat is slower than the one before: only ratios within one are fair.
  const report = flat([1000, 10_000, 200_000], (_, length) =>
    [1, 2, 4].map((slow) => sample(slow * (length === 200_000 ? 0.6 : 0.5), slow * (length === 200_000 ? 1.1 : 1))),
  )
  it('divides each repeat at the greatest length by the same one at the smallest', () => {
    expect(report.ratios['turn_200k_over_1k']).toEqual({ median: 1.1, min: 1.1, max: 1.1 })
    expect(report.ratios['added_200k_over_1k']?.median).toBeCloseTo(1.2)
    expect(report.ratios['turn_ms_median']).toEqual({ median: 1.2, min: 0.6, max: 2.4 })
  })
  it('names ratios by the lengths that were measured', () => {
    expect([1000, 1500, 200_000].map(short)).toEqual(['1k', '1500', '200k'])
    expect(Object.keys(flat([500, 2000], () => [sample(1, 1)]).ratios)).toContain('turn_2k_over_500')
  })
  it('has a row and a line for each way, and a point for each length', () => {
    for (const table of report.tables) expect(table.rows.map(([name]) => name)).toEqual(ways.map(({ name }) => name))
    for (const { x, series } of report.plots) {
      expect(x.values).toEqual([1000, 10_000, 200_000])
      expect(series.map(({ name, values }) => [name, values.length])).toEqual(ways.map(({ name }) => [name, 3]))
    }
  })
  it('has targets for ratios that it reports', () => {
    for (const { ratio } of report.targets) expect(Object.keys(report.ratios)).toContain(ratio)
  })
})

describe('ttft', () => {
  const msOf: Readonly<Record<string, number>> = {
    'socket-cached': 1,
    'http-cached': 10,
    'http-uncached-official': 950,
  }
  const report = ttft([1000, 100_000], 50, ({ name }, length) => [sample((msOf[name] ?? 100) * (length / 1000), 1)])
  it('compares at the greatest length: the server by itself, and the client with the time of the engine', () => {
    expect(report.ratios['ttft_server_cached_over_uncached']?.median).toBeCloseTo(1 / 100)
    expect(report.ratios['ttft_server_cached_over_official']?.median).toBeCloseTo(1 / 950)
    expect(report.ratios['ttft_http_cached_over_uncached']?.median).toBeCloseTo(1050 / 10_050)
    expect(report.ratios['ttft_http_cached_over_official']?.median).toBeCloseTo(1050 / 95_050)
    for (const { ratio } of report.targets) expect(Object.keys(report.ratios)).toContain(ratio)
  })
  it('says beside each row what it is', () => {
    for (const { name, what } of rows) expect(report.notes).toContain(`${name}: ${what}.`)
  })
})

describe('idle', () => {
  const cost = (rss: number, heap: number, external: number): Cost => ({ rss, heap, external })
  const report = idle(
    [{ of: 'one small turn', costs: [cost(2048, 8192, 1024), cost(12_288, 8192, 1024)] }],
    [
      { of: 10_000, costs: [cost(1, 300_000, 100_000)] },
      { of: 100_000, costs: [cost(1, 1_000_000, 900_000)] },
    ],
  )
  it('takes what is more, RSS or heap with what lies outside it', () => {
    expect(report.ratios['idle_socket_kib']).toEqual({ median: 10.5, min: 9, max: 12 })
    expect(report.ratios['conversation_10k_mb']?.median).toBeCloseTo(0.4)
    expect(report.ratios['conversation_100k_mb']?.median).toBeCloseTo(1.9)
  })
  it('has a target for conversations of 100k tokens only', () => {
    expect(report.targets.map(({ ratio, atMost }) => [ratio, atMost])).toEqual([
      ['idle_socket_kib', 16],
      ['conversation_100k_mb', 2.5],
    ])
    const shorter = idle([{ of: 'one', costs: [cost(1, 1, 1)] }], [{ of: 2000, costs: [cost(1, 1, 1)] }])
    expect(shorter.targets.at(-1)).not.toHaveProperty('atMost')
  })
})
