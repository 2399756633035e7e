// What a conversation of 100,000 tokens holds in memory, all told: its items, links and memos, the ids and their JSON, the
// index that finds it again. Counted over many of them after full collections; and what a fork adds.
import { spread, type Spread } from '../../src/bench/report.ts'
import { kibibytes, pause } from '../figures.ts'
import { Conversation, newIndex, type Server } from './conversation.ts'
import type { Texts } from './texts.ts'

export type MemoryFigures = {
  /** Heap and external memory, in millions of bytes. */
  readonly conversation_100k_mb: Spread
  readonly conversation_heap_mb: Spread
  readonly conversation_items: Spread
  readonly conversation_tokens: Spread
  /** Another answer to its newest call, with the prompt encoded and written. */
  readonly fork_kb: Spread
}
const repeats = 3
const conversations = 12
/** Of each. */
const forksOf = 8
const tokens = 100_000
/** Characters of a tool's output, so that 200 items make so many tokens. */
const length = 4850

type Held = { readonly heap: number; readonly all: number }
async function held(): Promise<Held> {
  const { gc } = globalThis
  if (!gc) throw new Error('memory is counted after collections: run node with --expose-gc')
  // Buffers are freed behind the collection that finds them, and what a finished call still holds is let go.
  for (let n = 0; n < 4; n++) {
    gc()
    await pause(20)
  }
  const { heapUsed, external } = process.memoryUsage()
  return { heap: heapUsed, all: heapUsed + external }
}

type Row = {
  readonly mb: number
  readonly heap: number
  readonly fork: number
  readonly items: number
  readonly tokens: number
}
async function pass(server: Server, texts: Texts): Promise<Row> {
  const index = newIndex()
  const before = await held()
  const all: Conversation[] = []
  while (all.length < conversations) {
    const one = await Conversation.begin({ ...server, index })
    await one.grow(tokens, () => texts.next(length))
    all.push(one)
  }
  const grown = await held()
  const forks = []
  for (const one of all) for (let n = 0; n < forksOf; n++) forks.push(await one.fork(texts.next(length)))
  const forked = await held()
  index.close()
  const each = (sum: number): number => sum / all.length
  return {
    mb: each(grown.all - before.all) / 1e6,
    heap: each(grown.heap - before.heap) / 1e6,
    fork: kibibytes((forked.all - grown.all) / forks.length),
    items: each(all.reduce((sum, one) => sum + one.items.length, 0)),
    tokens: each(all.reduce((sum, one) => sum + one.tokens, 0)),
  }
}

/** Some 20 s. */
export async function memoryBench(server: Server, texts: Texts, step: () => void): Promise<MemoryFigures> {
  const rows: Row[] = []
  // The first pass fills what belongs to the process: caches of the encoder, compiled code.
  for (let n = -1; n < repeats; n++) {
    const row = await pass(server, texts)
    step()
    if (n >= 0) rows.push(row)
  }
  return {
    conversation_100k_mb: spread(rows.map((row) => row.mb)),
    conversation_heap_mb: spread(rows.map((row) => row.heap)),
    conversation_items: spread(rows.map((row) => row.items)),
    conversation_tokens: spread(rows.map((row) => row.tokens)),
    fork_kb: spread(rows.map((row) => row.fork)),
  }
}
export const memorySteps = repeats + 1
