// Runs the loops of a plan: first one of every mode that is checked and not timed, then round after round.
import { mustAgree, mustHaveDigests } from './loop-check.ts'
import { drive, type Loop, withMarks } from './loop-drive.ts'
import { type Mode, modeOf, type ModeName } from './loop-modes.ts'
import { type Cell, cellName, modesIn } from './loop-plan.ts'
import { type Pace, type Servers, startServers } from './loop-servers.ts'
import { scenarioOf, type Task } from './loop-task.ts'
import type { OnProgress } from './report.ts'

/** A loop with what it cost the server, which was asked when it was over. */
export type Cost = Loop & { readonly encoded: number; readonly cpuUs: number }
/** By mode, in the order of the rounds. */
export type Measured = { readonly cell: Cell; readonly loops: ReadonlyMap<ModeName, readonly Cost[]> }
export type MeasureOptions = {
  readonly cells: readonly Cell[]
  readonly tokenizer: string
  readonly ttftMs: number
  /** The task with so many calls; another text for each seed, of the same calls. */
  readonly task: (calls: number, seed: number) => Task
  readonly quick: boolean
}
/** Calls of the loop that is only checked, over the same growth: where servers of the same kind were checked before, fewer. */
const checkedCalls = (cells: readonly Cell[], again: boolean, quick: boolean): number =>
  again ? (quick ? 1 : 3) : quick ? 2 : Math.max(...cells.map((cell) => cell.calls))

/** Throws an Error where modes do not do the same. */
export async function measure(options: MeasureOptions, onProgress: OnProgress): Promise<readonly Measured[]> {
  const { cells } = options
  const whole = cells.reduce((sum, cell) => sum + expected(cell, options.ttftMs), 0)
  const measured: Measured[] = []
  let done = 0
  let number = 0
  const next = (): number => ++number
  for (const tls of [false, true]) {
    const own = cells.filter((cell) => cell.tls === tls)
    if (own.length === 0) continue
    onProgress(done / whole, `starting servers${tls ? ' with TLS' : ''}`)
    const calls = checkedCalls(own, measured.length > 0, options.quick)
    const servers = await startServers({ paces: pacesOf(own, calls, options), tokenizer: options.tokenizer, tls })
    try {
      await check(own, calls, servers, options, next, (what) => onProgress(done / whole, what))
      for (const cell of own) {
        const loops = await rounds(cell, servers, options, next, (share, what) =>
          onProgress((done + share * expected(cell, options.ttftMs)) / whole, what),
        )
        done += expected(cell, options.ttftMs)
        measured.push({ cell, loops })
      }
    } finally {
      await servers.stop()
    }
  }
  // As they were planned, not as they were run.
  return cells.flatMap((cell) => measured.find((one) => one.cell === cell) ?? [])
}

/** One loop of every mode, untimed: the same prompts, calls and texts, or an error. Warms the servers, too. */
async function check(
  cells: readonly Cell[],
  calls: number,
  servers: Servers,
  options: MeasureOptions,
  next: () => number,
  onCheck: (what: string) => void,
): Promise<void> {
  const task = options.task(calls, 0)
  // All begin alike, unlike those that are timed: what a mode finds in a cache here was put there by another.
  const number = next()
  const farthest = Math.max(...cells.map((cell) => cell.rttMs))
  let reference: Loop | undefined
  await servers.digests(true)
  for (const name of new Set(cells.flatMap((cell) => modesIn(cell, 0)))) {
    onCheck(`checking ${name}`)
    const loop = await one(modeOf(name), task, servers, checkPace(calls), farthest, number)
    mustHaveDigests(loop)
    mustAgree((reference ??= loop), loop)
  }
  await servers.digests(false)
}
async function rounds(
  cell: Cell,
  servers: Servers,
  { task }: MeasureOptions,
  next: () => number,
  onProgress: OnProgress,
): Promise<Measured['loops']> {
  const loops = new Map<ModeName, Cost[]>()
  for (let round = 0; round < cell.rounds; round++) {
    const same = task(cell.calls, round + 1)
    let reference: Loop | undefined
    const names = modesIn(cell, round)
    for (const [n, name] of names.entries()) {
      onProgress((round + n / names.length) / cell.rounds, `${cellName(cell)}: ${name}`)
      const loop = await one(modeOf(name), same, servers, paceName(cell), cell.rttMs, next())
      mustAgree((reference ??= loop), loop)
      loops.set(name, [...(loops.get(name) ?? []), loop])
    }
  }
  return loops
}
async function one(
  mode: Mode,
  task: Task,
  servers: Servers,
  pace: string,
  rttMs: number,
  number: number,
): Promise<Cost> {
  const where = await servers.where(mode, pace, rttMs)
  await servers.take(mode)
  const loop = await drive(mode, task, where, number)
  const { turns, encoded, cpuUs } = await servers.take(mode)
  return { ...withMarks(loop, turns), encoded, cpuUs }
}

const paceName = ({ rate, calls }: Cell): string => `paced-${rate}-${calls}`
const checkPace = (calls: number): string => `check-${calls}`
function pacesOf(cells: readonly Cell[], checked: number, { ttftMs, task }: MeasureOptions): readonly Pace[] {
  const scenario = (calls: number): unknown => scenarioOf(task(calls, 0))
  const paces = new Map<string, Pace>()
  for (const cell of cells)
    paces.set(paceName(cell), {
      name: paceName(cell),
      tokensPerSecond: cell.rate,
      ttftMs,
      scenario: scenario(cell.calls),
    })
  const name = checkPace(checked)
  return [...paces.values(), { name, tokensPerSecond: 0, ttftMs: 0, scenario: scenario(checked) }]
}
/** Roughly, in milliseconds: for the progress bar. */
function expected(cell: Cell, ttftMs: number): number {
  const perTurn = (name: ModeName): number => {
    const { door, encoder } = modeOf(name)
    return ttftMs + 100_000 / cell.rate + (encoder === 'official' ? 350 : 15) + cell.rttMs * (door === 'new' ? 6 : 1.3)
  }
  let sum = 0
  for (let n = 0; n < cell.rounds; n++) for (const name of modesIn(cell, n)) sum += perTurn(name) * (cell.calls + 1)
  return sum
}
