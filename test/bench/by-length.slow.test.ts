// The benchmarks flat, ttft and idle, tiny: real servers, engines and clients, and the check that all prompts are the same.
import { beforeAll, describe, expect, it } from 'vitest'
import { benchmark as flat } from '../../src/bench/flat.ts'
import { ways } from '../../src/bench/by-length.ts'
import { benchmark as idle } from '../../src/bench/idle.ts'
import { qwen3Folder } from '../../src/bench/packages.ts'
import { readReport, reportJson } from '../../src/bench/report-json.ts'
import type { Report } from '../../src/bench/report.ts'
import { benchmark as ttft } from '../../src/bench/ttft.ts'

const minute = 60_000
const tiny = { quick: true, repeats: 1 }
let shares: number[] = []
const onProgress = (share: number): void => void shares.push(share)

beforeAll(() => qwen3Folder(() => {}), 10 * minute)

function expectWhole(report: Report, names: readonly string[]): void {
  expect(Object.keys(report.ratios)).toEqual(names)
  for (const { median } of Object.values(report.ratios)) expect(median).toBeGreaterThan(0)
  expect(readReport(reportJson(report), 'saved')).toEqual(report)
  expect(shares.every((share, n) => share >= (shares[n - 1] ?? 0) && share <= 1)).toBe(true)
  expect(shares.at(-1)).toBeGreaterThan(0.9)
  shares = []
}

describe('continuo bench', () => {
  it(
    'flat measures every way at every length',
    async () => {
      const report = await flat.run({ ...tiny, lengths: [2000, 1000], turns: 2 }, onProgress)
      expectWhole(report, ['turn_2k_over_1k', 'turn_ms_median', 'added_2k_over_1k'])
      const sent = report.tables.at(-1)
      const bytes = new Map(sent?.rows.map((row) => [row[0], Number(row.at(-1))]))
      // Who sends everything sends more than who sends what is new; who inherits settings sends least.
      for (const { name, sends } of ways)
        expect((bytes.get(name) ?? 0) > 5000, `${name}: ${bytes.get(name)} bytes`).toBe(sends === 'all')
      expect(bytes.get('ws-lean')).toBeLessThan((bytes.get('ws-chain') ?? 0) / 2)
    },
    5 * minute,
  )
  it(
    'ttft measures every row with both engines',
    async () => {
      const report = await ttft.run({ ...tiny, lengths: [1500], turns: 2, ttft: 5 }, onProgress)
      expectWhole(report, [
        'ttft_server_cached_over_uncached',
        'ttft_http_cached_over_uncached',
        'ttft_server_cached_over_official',
        'ttft_http_cached_over_official',
      ])
      expect(report.options).toMatchObject({ lengths: [1500], ttft: 5, turns: 2, repeats: 1 })
    },
    5 * minute,
  )
  it(
    'idle measures sockets and conversations',
    async () => {
      const report = await idle.run({ ...tiny, sockets: 100, conversations: 1, tokens: 20_000 }, onProgress)
      expectWhole(report, ['idle_socket_kib', 'conversation_2k_mb', 'conversation_20k_mb'])
    },
    5 * minute,
  )
})
