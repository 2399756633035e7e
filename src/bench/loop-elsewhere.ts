// The loop against any server that speaks the Responses API, by its base URL: what its client sees, and nothing from inside.
// A real model answers, so results differ and are not compared; it is made to call a tool every turn, and to speak at last.
import { setTimeout as pause } from 'node:timers/promises'
import type { CommonOptions } from './benchmark.ts'
import type { Asked, Fields, Seen } from './driver.ts'
import { open } from './loop-drive.ts'
import { type Mode, modeOf, type ModeName } from './loop-modes.ts'
import { marker, roughly, type Task, taskOf } from './loop-task.ts'
import { reading } from './loop-report.ts'
import { asUsed, contextAtEnd, type LoopOptions, quickCalls, repeatsOf } from './loop-options.ts'
import { machine, type OnProgress, quantile, ratio, type Report, spread } from './report.ts'

type Options = LoopOptions & CommonOptions & { readonly url: string }
type Loop = { readonly ms: number; readonly turns: readonly Seen[] }
const usual: readonly ModeName[] = ['http-new', 'http-stateless', 'ws-chain']

export async function elsewhere(options: Options, onProgress: OnProgress): Promise<Report> {
  const facts = machine()
  const { url, model, key, quick, base, output, tool } = options
  if (!URL.canParse(url) || !/^https?:/.test(url))
    throw new Error(`--url ${url} is no address of a server; give its base URL, such as http://127.0.0.1:8787/v1.`)
  if (model === undefined)
    throw new Error('Give the name of the model with --model; GET /v1/models of the server lists them.')
  if (options.replay !== undefined)
    throw new Error('A session can be replayed by the built-in engine only: leave out --url.')
  const calls = quick ? Math.min(quickCalls, options.calls) : options.calls
  const growth = options.growth ?? Math.max(0, contextAtEnd - base) / calls
  const where = { url: url.replace(/\/+$/, ''), key, model }
  const modes = (options.modes ?? (await reachable(where))).map(modeOf)
  const rounds = repeatsOf(options)
  const loops = new Map<ModeName, Loop[]>()
  // Another one each time: what the server kept of an earlier run must not be found again.
  let number = Math.floor(Date.now() / 10) % 100_000_000
  const next = (n: number): Task => taskOf({ calls: n, base, growth, output, toolMs: tool }, number, roughly)
  // Whoever comes first must not pay for all.
  const warm = next(1)
  for (const mode of modes) {
    onProgress(0, `warming up ${mode.name}`)
    await loop(mode, warm, where, ++number)
  }
  for (let round = 0; round < rounds; round++) {
    const task = next(calls)
    // There and back, so that none profits from its place.
    for (const [n, mode] of (round % 2 === 0 ? modes : modes.toReversed()).entries()) {
      onProgress((round + n / modes.length) / rounds, mode.name)
      loops.set(mode.name, [...(loops.get(mode.name) ?? []), await loop(mode, task, where, ++number)])
    }
  }
  onProgress(1, 'done')
  return report(options, calls, loops, facts)
}
type Where = { readonly url: string; readonly key: string | undefined; readonly model: string }

/** Not every server has sockets. */
async function reachable(where: Where): Promise<readonly ModeName[]> {
  try {
    await (await open({ door: 'socket' }, where)).close()
    return usual
  } catch {
    return usual.filter((name) => modeOf(name).door !== 'socket')
  }
}

async function loop(mode: Mode, task: Task, where: Where, number: number): Promise<Loop> {
  if (mode.rollout)
    throw new Error('A rollout cannot be held to a number of calls from outside; leave it out of --modes.')
  const began = performance.now()
  const client = await open(mode, where)
  try {
    const turns: Seen[] = []
    const history: Fields[] = [marker(number), ...task.opening]
    let fresh: readonly Fields[] = history
    for (const [n, step] of task.steps.entries()) {
      const last = turns.at(-1)
      const seen = await client.turn({
        model: where.model,
        instructions: task.instructions,
        tools: task.tools,
        tool_choice: n < task.steps.length - 1 ? 'required' : 'none',
        ...(mode.sends === 'all' ? { store: false } : last ? { previous_response_id: last.id } : {}),
        input: mode.sends === 'all' ? history : fresh,
      })
      turns.push(seen)
      if (n === task.steps.length - 1) break
      if (seen.calls.length === 0)
        throw new Error(`${mode.name}: in turn ${n + 1} the model called nothing, though tool_choice is required.`)
      fresh = seen.calls.map(({ call_id }: Asked) => ({
        type: 'function_call_output',
        call_id,
        output: outputOf(step.answers),
      }))
      history.push(...seen.items, ...fresh)
      if (step.toolMs > 0) await pause(step.toolMs)
    }
    return { ms: performance.now() - began, turns }
  } finally {
    await client.close()
  }
}
const outputOf = ([first]: Task['steps'][number]['answers']): string => (first && 'output' in first ? first.output : '')

function report(
  options: Options,
  calls: number,
  loops: ReadonlyMap<ModeName, readonly Loop[]>,
  facts: Report['machine'],
): Report {
  const ms = (name: ModeName): number[] => (loops.get(name) ?? []).map((one) => one.ms)
  const pairs: readonly (readonly [string, ModeName, ModeName])[] = [
    ['ws_over_http', 'ws-chain', 'http-stateless'],
    ['ws_over_http_new', 'ws-chain', 'http-new'],
  ]
  const mean = (turns: readonly Seen[], of: (seen: Seen) => number): number =>
    turns.reduce((sum, seen) => sum + of(seen), 0) / turns.length
  return {
    title: `One agent task against ${new URL(options.url).host}`,
    command: 'continuo bench loop',
    machine: facts,
    options: asUsed(options, calls),
    ratios: Object.fromEntries(
      pairs.flatMap(([name, above, below]) =>
        loops.has(above) && loops.has(below) ? [[name, ratio(ms(above), ms(below))]] : [],
      ),
    ),
    targets: [],
    tables: [
      {
        title: 'End to end',
        note: `${calls} tool calls. kB of bodies and messages, mean of a turn, without HTTP heads, frames and TLS; tokens as the server counts them, mean of a turn.`,
        head: [
          'mode',
          'loop, ms',
          'turn, ms',
          'p95',
          'first sign, ms',
          'kB up',
          'kB down',
          'prompt',
          'cached',
          'output',
        ],
        rows: [...loops].map(([name, own]) => {
          const turns = own.flatMap((one) => one.turns)
          const q = (of: (seen: Seen) => number, at: number): number => quantile(turns.map(of), at)
          return [
            name,
            spread(own.map((one) => one.ms)),
            q((seen) => seen.ms, 0.5),
            q((seen) => seen.ms, 0.95),
            q((seen) => seen.firstMs, 0.5),
            mean(turns, (seen) => seen.bytesUp) / 1000,
            mean(turns, (seen) => seen.bytesDown) / 1000,
            Math.round(mean(turns, (seen) => seen.usage.input)),
            Math.round(mean(turns, (seen) => seen.usage.cached)),
            Math.round(mean(turns, (seen) => seen.usage.output)),
          ]
        }),
      },
    ],
    plots: [
      {
        title: 'Time per turn',
        note: 'Median of the rounds.',
        kind: 'lines',
        x: { label: 'turn', values: Array.from({ length: calls + 1 }, (_, n) => n + 1) },
        y: { label: 'ms', log: true },
        series: [...loops].map(([name, own]) => ({
          name,
          values: Array.from({ length: calls + 1 }, (_, n) =>
            quantile(
              own.flatMap((one) => one.turns[n]?.ms ?? []),
              0.5,
            ),
          ),
        })),
      },
    ],
    notes: [
      ...pairs.flatMap(([, above, below]) =>
        loops.has(above) && loops.has(below) ? [reading(above, below, ratio(ms(above), ms(below)))] : [],
      ),
      'http-new: a new connection per call, full history. http-stateless: one kept connection, full history. ws-chain: one socket, previous_response_id.',
      'The server is a stranger: nothing is known of its stages. A real model may answer differently each time, so results were not compared, and output differs between modes. Each mode ran one call before anything was timed.',
      ...(loops.has('ws-chain') ? [] : ['The server takes no sockets at this address, or refused one.']),
    ],
  }
}
