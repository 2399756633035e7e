// `continuo bench loop`: one agent task in every mode, and what the difference is made of.
import { loadTokenizer } from '../tokenizers/load.ts'
import type { Benchmark, CommonOptions } from './benchmark.ts'
import { elsewhere } from './loop-elsewhere.ts'
import { prefillArm } from './loop-llama.ts'
import { measure } from './loop-measure.ts'
import {
  asUsed,
  contextAtEnd,
  declareLoop,
  type LoopOptions,
  quickCalls,
  repeatsOf,
  withLlama,
} from './loop-options.ts'
import { planOf } from './loop-plan.ts'
import { loopReport } from './loop-report.ts'
import { type Count, type Task, taskOf } from './loop-task.ts'
import { qwen3Folder } from './packages.ts'
import { replayTask } from './replay.ts'
import { machine, type OnProgress } from './report.ts'

export const benchmark: Benchmark<LoopOptions> = {
  name: 'loop',
  description: 'Measure one agent task of many tool calls in every mode: end to end, by stage, and by cause.',
  examples: [
    ['--quick', 'within two minutes'],
    ['--rates 4000 --rtt 0 --modes http-index,ws-chain', 'two modes, next door'],
    ['--replay session.jsonl', 'a recorded session in place of the made one'],
    ['--url http://127.0.0.1:8787/v1 --model m', 'any other server'],
  ],
  declare: declareLoop,
  async run(options, onProgress) {
    if (options.url !== undefined) return elsewhere({ ...options, url: options.url }, onProgress)
    const facts = machine()
    const folder = await qwen3Folder((what) => onProgress(0, what))
    const { task, calls, told } = await tasksOf(options, await counter(folder))
    const cells = planOf({
      calls,
      rates: options.rates,
      rtts: options.rtt,
      repeats: repeatsOf(options),
      tls: options.tls,
      quick: options.quick,
      modes: options.modes,
      whole: options.replay !== undefined,
    })
    const measured = await measure(
      { cells, tokenizer: folder, ttftMs: options.ttft, task, quick: options.quick },
      part(onProgress, 0, 0.92),
    )
    const prefill = await prefillOrWhy(options, folder, part(onProgress, 0.92, 1))
    onProgress(1, 'done')
    return loopReport({
      command: 'continuo bench loop',
      machine: facts,
      options: asUsed(options, calls),
      measured,
      prefill,
      notes: told,
    })
  },
}

type Tasks = {
  readonly task: (calls: number, seed: number) => Task
  readonly calls: number
  readonly told: readonly string[]
}
async function tasksOf(options: LoopOptions & CommonOptions, count: Count): Promise<Tasks> {
  const { base, output, tool: toolMs } = options
  if (options.replay !== undefined) {
    const { task, told } = await replayTask(options.replay, { toolMs, tools: base / 4, count })
    return { task: () => task, calls: task.steps.length - 1, told }
  }
  const calls = options.quick ? Math.min(quickCalls, options.calls) : options.calls
  const grows = options.growth === undefined ? Math.max(0, contextAtEnd - base) : options.growth * options.calls
  return {
    // Fewer calls grow to the same length.
    task: (n, seed) => taskOf({ calls: n, base, growth: grows / n, output, toolMs }, seed, count),
    calls,
    told: [],
  }
}
/** Ids of a text by the vocabulary that the servers have; in parts, as nothing here depends on the last one. */
async function counter(folder: string): Promise<Count> {
  const { tokenizer } = await loadTokenizer(folder)
  const part = 4000
  return (text) => {
    let sum = 0
    for (let at = 0; at < text.length; at += part) {
      const ids = tokenizer.encode(text.slice(at, at + part))
      if (!(ids instanceof Promise)) sum += ids.length
    }
    return sum
  }
}
type Prefill = Awaited<ReturnType<typeof prefillArm>>
async function prefillOrWhy(
  options: LoopOptions & CommonOptions,
  folder: string,
  onProgress: OnProgress,
): Promise<Prefill> {
  if (!withLlama(options))
    return {
      tables: [],
      notes: ['The arm on llama.cpp, which counts the prefill of a history rendered again, was left out.'],
    }
  try {
    return await prefillArm({ tokenizer: folder, calls: 8 }, onProgress)
  } catch (e) {
    return {
      tables: [],
      notes: [`The arm on llama.cpp could not be run: ${e instanceof Error ? e.message : String(e)}`],
    }
  }
}
const part =
  (onProgress: OnProgress, from: number, to: number): OnProgress =>
  (share, what) =>
    onProgress(from + (to - from) * Math.min(1, share), what)
