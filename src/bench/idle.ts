// `continuo bench idle`: what one idle socket costs the server in memory, and what a conversation costs. Sockets are opened,
// or conversations grown, by the dozen, and the memory of the server's process is compared with before, after full collections.
import { type Benchmark, whole } from './benchmark.ts'
import { callIds, Conversation, settingsOf } from './conversation.ts'
import type { Driver, Fields } from './driver.ts'
import { message } from './loop-task.ts'
import { qwen3Folder } from './packages.ts'
import { machine, type OnProgress, type Report, type Spread, spread } from './report.ts'
import { type Memory, serveApart } from './served.ts'
import { tokenEngine } from './token-engine.ts'
import { wsDriver } from './ws-driver.ts'

type Options = {
  readonly sockets?: number
  readonly conversations?: number
  readonly tokens: number
  readonly quick: boolean
  readonly repeats?: number | undefined
}
type Kind = {
  readonly name: string
  readonly turn: boolean
  readonly compression: 'off' | 'tight'
  readonly keepEvents: boolean
}
const kinds: readonly Kind[] = [
  { name: 'one small turn', turn: true, compression: 'off', keepEvents: false },
  { name: 'no turn', turn: false, compression: 'off', keepEvents: false },
  { name: 'no turn, compression tight', turn: false, compression: 'tight', keepEvents: false },
  { name: 'one small turn, compression tight', turn: true, compression: 'tight', keepEvents: false },
  { name: 'one small turn, its events kept for replay', turn: true, compression: 'off', keepEvents: true },
]
/** Items of each conversation, half of them calls, half outputs. */
const items = 200
/** Sockets opened and used before the measurement, so that code is compiled and pools are filled; opened at once. */
const warmUp = 200
const width = 50
/** How long a socket may take to be gone behind its close. */
const quietMs = 300

export const benchmark: Benchmark<Options> = {
  name: 'idle',
  description: 'memory of the server for an idle socket, and for a conversation',
  examples: [
    ['--quick', 'fewer sockets and conversations, within two minutes'],
    ['--sockets 8000', 'more of them, so that a page of memory counts for less'],
  ],
  declare: (command) =>
    void command
      .option('--sockets <n>', 'sockets (default: 2000, or 1000 with --quick)', whole)
      .option('--conversations <n>', 'conversations held at once (default: 12, or 4 with --quick)', whole)
      .option('--tokens <n>', 'tokens of a long conversation; a short one has a tenth', whole, 100_000),
  run,
}

/** Bytes for each. */
export type Cost = { readonly rss: number; readonly heap: number; readonly external: number }
export type Row<Of> = { readonly of: Of; readonly costs: readonly Cost[] }

async function run(options: Options, onProgress: OnProgress): Promise<Report> {
  const { quick, tokens } = options
  const sockets = options.sockets ?? (quick ? 1000 : 2000)
  const conversations = options.conversations ?? (quick ? 4 : 12)
  const repeats = options.repeats ?? (quick ? 2 : 5)
  const measured = quick ? kinds.slice(0, 2) : kinds
  const lengths = [Math.round(tokens / 10), tokens]
  const facts = machine()
  const folder = await qwen3Folder((what) => onProgress(0, what))
  const engine = await tokenEngine({ ids: await callIds(folder) })
  const costs = new Map<Kind | number, Cost[]>()
  const steps = repeats * (measured.length + lengths.length)
  let step = 0
  const told = (what: string) => (share: number) => onProgress((step + share) / steps, what)
  try {
    for (let n = 0; n < repeats; n++) {
      for (const kind of measured) {
        const cost = await socketCost(kind, sockets, told(`sockets: ${kind.name}`))
        costs.set(kind, [...(costs.get(kind) ?? []), cost])
        step++
      }
      for (const length of lengths) {
        const one = { folder, url: engine.url, length, count: conversations }
        const cost = await conversationCost(one, told(`conversations of ${length} tokens`))
        costs.set(length, [...(costs.get(length) ?? []), cost])
        step++
      }
    }
  } finally {
    await engine.stop()
  }
  return {
    title: 'Memory of idle sockets and of conversations',
    command: 'continuo bench idle',
    machine: facts,
    options: { sockets, conversations, tokens, repeats },
    ...reported(
      measured.map((of) => ({ of: of.name, costs: costs.get(of) ?? [] })),
      lengths.map((of) => ({ of, costs: costs.get(of) ?? [] })),
    ),
  }
}

// ── sockets ──────────────────────────────────────────────────────────────────────────────────────────────────────────
async function socketCost(kind: Kind, count: number, onShare: (share: number) => void): Promise<Cost> {
  const served = await serveApart({
    set: {
      'limits.websocket.compression': kind.compression,
      // Events of ended responses are the server's memory, not the socket's: left out unless they are what is asked for.
      ...(kind.keepEvents ? {} : { 'limits.events.keepBytes': 0 }),
    },
  })
  try {
    await closeAll(await open(served.url, kind, warmUp, () => {}))
    await pause(quietMs)
    const before = await served.memory()
    let opened = 0
    const held = await open(served.url, kind, count, () => onShare(++opened / count))
    await served.take()
    const after = await served.memory()
    await closeAll(held)
    return each(before, after, count)
  } finally {
    await served.stop()
  }
}
async function open(url: string, kind: Kind, count: number, onOpen: () => void): Promise<Driver[]> {
  const all: Driver[] = []
  let started = 0
  const one = async (): Promise<void> => {
    while (started++ < count) {
      const driver = await wsDriver({ url, deflate: kind.compression === 'tight' })
      all.push(driver)
      // Without tools the engine answers at once. The frame is larger than what compression leaves alone.
      if (kind.turn) await driver.turn({ ...smallTurn, input: [message('user', 'How are you?')] })
      onOpen()
    }
  }
  await Promise.all(Array.from({ length: width }, one))
  return all
}
const smallTurn: Fields = { model: 'simulated', store: false, instructions: settingsOf().instructions.slice(0, 2000) }
const closeAll = async (all: readonly Driver[]): Promise<unknown> => Promise.all(all.map((one) => one.close()))

// ── conversations ────────────────────────────────────────────────────────────────────────────────────────────────────
type Grown = { readonly folder: string; readonly url: string; readonly length: number; readonly count: number }

/** With an engine that is sent ids over HTTP: of all kinds it makes a conversation hold most, ids and their digits. */
async function conversationCost(
  { folder, url, length, count }: Grown,
  onShare: (share: number) => void,
): Promise<Cost> {
  const served = await serveApart({
    set: {
      engines: { remote: { type: 'vllm', url, context: 1_000_000 } },
      models: { remote: { engine: 'remote', codec: 'qwen3', tokenizer: folder } },
      'limits.events.keepBytes': 0,
      'limits.prefixes.keepBytes': '4 GiB',
      'limits.websocket.continuableBytes': '4 GiB',
    },
  })
  const drivers: Driver[] = []
  try {
    const grow = async (name: number, output: number): Promise<number> => {
      const driver = await wsDriver(served)
      drivers.push(driver)
      const body = { model: 'remote', store: false, ...settingsOf(length / 20) }
      const conversation = new Conversation(driver, body, { output, seed: 3, name })
      let tokens = 0
      for (let turn = 0; turn < items / 2; turn++) {
        const { previous } = await conversation.step()
        const { turns } = await served.take()
        tokens = turns.find(({ id }) => id === previous)?.tokens ?? tokens
      }
      return tokens
    }
    // The first fills what belongs to the process: pools, compiled code, and the encoder's cache, since all say the same.
    // And it shows how dense the text is.
    const guess = (length * 0.95) / (items / 2)
    const output = guess + (length - (await grow(count, guess))) / (items / 2)
    const before = await served.memory()
    let tokens = 0
    for (let n = 0; n < count; n++) {
      tokens += await grow(n, output)
      onShare((n + 1) / count)
    }
    const after = await served.memory()
    // What is still missing, or too much.
    const scale = (length * count) / tokens
    const cost = each(before, after, count)
    return { rss: cost.rss * scale, heap: cost.heap * scale, external: cost.external * scale }
  } finally {
    await closeAll(drivers).catch(() => {})
    await served.stop()
  }
}

const each = (before: Memory, after: Memory, count: number): Cost => ({
  rss: (after.rss - before.rss) / count,
  heap: (after.heap - before.heap) / count,
  external: (after.external - before.external) / count,
})
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

// ── the report ───────────────────────────────────────────────────────────────────────────────────────────────────────
type Reported = Pick<Report, 'ratios' | 'targets' | 'tables' | 'plots' | 'notes'>
const KiB = 1024
const MB = 1e6

/** Pure, so that a test can hold it against figures of its own. The first kind of socket is the one of the target. */
export function reported(sockets: readonly Row<string>[], conversations: readonly Row<number>[]): Reported {
  const of = (costs: readonly Cost[], what: (cost: Cost) => number, unit: number): Spread =>
    spread(costs.map((cost) => what(cost) / unit))
  const all = ({ heap, external }: Cost): number => heap + external
  // RSS may show too little: pages that garbage took before are used again.
  const most = (cost: Cost): number => Math.max(cost.rss, all(cost))
  const [idle] = sockets
  if (!idle) throw new Error('There are no sockets.')
  const named = conversations.map((row) => [`conversation_${row.of / 1000}k_mb`, of(row.costs, all, MB)] as const)
  const longest = named.at(-1)?.[0] ?? ''
  return {
    ratios: { idle_socket_kib: of(idle.costs, most, KiB), ...Object.fromEntries(named) },
    targets: [
      {
        ratio: 'idle_socket_kib',
        what: `KiB for a socket, of RSS or of heap and outside, whichever is more: ${idle.of}`,
        atMost: 16,
      },
      {
        ratio: longest,
        what: `millions of bytes for a conversation of ${(conversations.at(-1)?.of ?? 0) / 1000}k tokens and ${items} items`,
        ...(longest === 'conversation_100k_mb' ? { atMost: 2.5 } : {}),
      },
    ],
    tables: [
      {
        title: 'An idle socket, KiB',
        note: 'Compression is as configured; where it is tight, the clients offer deflate.',
        head: ['socket', 'RSS', 'of it heap', 'of it outside'],
        rows: sockets.map(({ of: name, costs }) => [
          name,
          of(costs, ({ rss }) => rss, KiB),
          of(costs, ({ heap }) => heap, KiB),
          of(costs, ({ external }) => external, KiB),
        ]),
      },
      {
        title: `A conversation of ${items} items, millions of bytes`,
        note: 'Items, links, ids and their digits, memos, and the index that finds it again, of the whole server; on a socket of its own, with an engine that is sent ids over HTTP.',
        head: ['tokens', 'heap and outside', 'heap', 'outside', 'RSS'],
        rows: conversations.map(({ of: tokens, costs }) => [
          tokens,
          of(costs, all, MB),
          of(costs, ({ heap }) => heap, MB),
          of(costs, ({ external }) => external, MB),
          of(costs, ({ rss }) => rss, MB),
        ]),
      },
    ],
    plots: [
      {
        title: 'Memory of a conversation',
        kind: 'bars',
        x: {
          label: 'tokens',
          values: conversations.map((_, n) => n),
          names: conversations.map(({ of: tokens }) => `${tokens / 1000}k`),
        },
        y: { label: 'millions of bytes' },
        series: (['heap', 'external'] as const).map((what) => ({
          name: what === 'heap' ? 'heap' : 'outside',
          values: conversations.map(({ costs }) => of(costs, (cost) => cost[what], MB).median),
        })),
      },
    ],
    notes: [
      'After three full collections, against the same server before; each repeat has servers of its own.',
      'Events of ended responses are left out: they are kept for replay in one buffer of the server, 64 MiB at most (limits.events.keepBytes).',
      'What an idle socket holds of its conversation comes on top of the socket; here it is one message and its answer.',
    ],
  }
}
