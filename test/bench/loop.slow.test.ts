// The whole loop benchmark, tiny: every mode over real servers, near and far, and the check that they did the same.
import { fileURLToPath } from 'node:url'
import { Command } from 'commander'
import { beforeAll, describe, expect, it } from 'vitest'
import { reportJson, readReport } from '../../src/bench/report-json.ts'
import { benchmark } from '../../src/bench/loop.ts'
import { mustAgree } from '../../src/bench/loop-check.ts'
import { drive, type Loop, withMarks } from '../../src/bench/loop-drive.ts'
import { modeNames, modeOf, type ModeName } from '../../src/bench/loop-modes.ts'
import type { LoopOptions } from '../../src/bench/loop-options.ts'
import { roughly, scenarioOf, type Task, taskOf } from '../../src/bench/loop-task.ts'
import { type Servers, startServers } from '../../src/bench/loop-servers.ts'
import { qwen3Folder } from '../../src/bench/packages.ts'

const minute = 60_000
const tiny: LoopOptions & { quick: boolean; repeats: number } = {
  calls: 3,
  base: 1500,
  growth: 600,
  output: 40,
  rates: [4000],
  ttft: 2,
  tool: 1,
  rtt: [0, 5],
  tls: 'auto',
  llama: false,
  quick: false,
  repeats: 1,
}
const quiet = (): void => {}

describe('continuo bench loop', () => {
  it(
    'measures every mode near and far over TLS, after it has seen that all do the same',
    async () => {
      const report = await benchmark.run(tiny, quiet)
      expect(Object.keys(report.ratios)).toEqual([
        'ws_over_stateless_4000',
        'ws_over_own_http_4000',
        'ws_over_stateless_4000_rtt5',
        'ws_over_rollout',
        'lean_over_rollout',
      ])
      for (const { median } of Object.values(report.ratios)) expect(median).toBeGreaterThan(0)
      const endToEnd = report.tables.filter(({ title }) => title.startsWith('End to end'))
      expect(endToEnd.map(({ rows }) => rows.map(([name]) => name))).toEqual([[...modeNames], [...modeNames]])
      const tokens = report.tables.find(({ title }) => title.startsWith('Tokens of a turn'))
      const of = (name: ModeName, column: string): number =>
        Number(tokens?.rows.find((row) => row[0] === name)?.[tokens.head.indexOf(column)])
      // What is not kept is encoded again, and nobody's prompt is another one.
      expect(new Set(modeNames.map((name) => of(name, 'prompt'))).size).toBe(1)
      for (const name of ['http-new', 'http-stateless', 'http-own'] as const)
        expect(of(name, 'encoded')).toBeGreaterThan(of('ws-chain', 'encoded') * 1.5)
      for (const name of ['http-index', 'http-chain', 'ws-lean', 'rollout', 'ws-full'] as const)
        expect(of(name, 'encoded')).toBeLessThan(of('ws-chain', 'encoded') * 1.1)
      expect(report.tables.filter(({ title }) => title.startsWith('What the gain is made of')).length).toBe(2)
      expect(readReport(reportJson(report), 'it').ratios).toEqual(report.ratios)
    },
    5 * minute,
  )
  it(
    'replays a recorded session in every mode',
    async () => {
      const replay = fileURLToPath(new URL('fixtures/session.jsonl', import.meta.url))
      const report = await benchmark.run({ ...tiny, rtt: [0], modes: [...modeNames], replay }, quiet)
      expect(report.tables[0]?.rows.map(([name]) => name)).toEqual([...modeNames])
    },
    5 * minute,
  )
  it(
    'measures any server by its address',
    async () => {
      const { pacedEngine } = await import('../../src/bench/paced-engine.ts')
      const { serveApart } = await import('../../src/bench/served.ts')
      const engine = await pacedEngine({ tokensPerSecond: 4000, ttftMs: 1, outputTokens: 20, calls: 100 })
      const server = await serveApart({
        set: { engines: { e: { type: 'chat', url: engine.url } }, models: { m: { engine: 'e' } } },
      })
      try {
        const report = await benchmark.run({ ...tiny, calls: 2, url: server.url, model: 'm' }, quiet)
        expect(report.tables[0]?.rows.map(([name]) => name)).toEqual(['http-new', 'http-stateless', 'ws-chain'])
        expect(Object.keys(report.ratios)).toEqual(['ws_over_http', 'ws_over_http_new'])
        await expect(benchmark.run({ ...tiny, url: server.url }, quiet)).rejects.toThrow('--model')
      } finally {
        await server.stop()
        await engine.stop()
      }
    },
    2 * minute,
  )
  it('has the flags that its help names', () => {
    const command = new Command()
    benchmark.declare(command)
    command.parse(['--rates', '65,4000', '--rtt', '0,20', '--modes', 'ws-chain,rollout', '--no-llama'], {
      from: 'user',
    })
    expect(command.opts()).toMatchObject({
      calls: 30,
      base: 30_000,
      rates: [65, 4000],
      rtt: [0, 20],
      modes: ['ws-chain', 'rollout'],
      llama: false,
      tls: 'auto',
    })
  })
})

describe('the check that modes do the same', () => {
  let servers: Servers
  let task: Task
  const other = 7
  beforeAll(async () => {
    task = taskOf({ calls: 2, base: 1500, growth: 600, output: 40, toolMs: 0 }, 0, roughly)
    const pace = { tokensPerSecond: 0, ttftMs: 0 }
    const more = scenarioOf({
      ...task,
      steps: task.steps.map((step) => ({ ...step, says: [{ text: 'So.' }, ...step.says] })),
    })
    servers = await startServers({
      paces: [
        { name: 'one', ...pace, scenario: scenarioOf(task) },
        { name: 'other', ...pace, scenario: more },
      ],
      tokenizer: await qwen3Folder(quiet),
      tls: false,
    })
    await servers.digests(true)
    return () => servers.stop()
  }, minute * 3)
  const run = async (name: ModeName, its: Task, number: number, pace = 'one'): Promise<Loop> => {
    const mode = modeOf(name)
    const loop = await drive(mode, its, await servers.where(mode, pace, 0), number)
    return withMarks(loop, (await servers.take(mode)).turns)
  }
  it(
    'passes where they do',
    async () => {
      mustAgree(await run('http-own', task, other), await run('rollout', task, other))
    },
    minute,
  )
  it(
    'catches a mode that gives the engine another prompt, and says in which turn',
    async () => {
      const [reference, wrong] = [await run('http-own', task, 1), await run('ws-chain', task, 2)]
      expect(() => mustAgree(reference, wrong)).toThrow(
        /http-own and ws-chain did not do the same: in turn 1 the engine got another prompt/,
      )
      const changed = {
        ...task,
        steps: task.steps.map((step, n) => (n === 1 ? { ...step, answers: [{ call: 0, output: 'x' }] } : step)),
      }
      const later = await run('ws-chain', changed, 1)
      expect(() => mustAgree(reference, later)).toThrow(/in turn 3 the prompt was of tokens/)
    },
    minute,
  )
  it(
    'catches a model that says something else',
    async () => {
      const [reference, wrong] = [await run('http-own', task, 1), await run('ws-full', task, 1, 'other')]
      expect(() => mustAgree(reference, wrong)).toThrow(/in turn 1 the model said/)
    },
    minute,
  )
})
