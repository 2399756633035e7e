// What a conversation of 100,000 tokens holds in memory, all told: its items, links and memos, the ids and their JSON, the
// index that finds it again. Counted over many of them after full collections; and what a fork adds.
import { kibibytes, spread, type Spread } from '../figures.ts'
import { Conversation, newIndex, type Server } from './conversation.ts'
import type { Texts } from './texts.ts'

export type MemoryFigures = {
  /** Heap and external memory, in millions of bytes. */
  readonly conversation_100k_mb: Spread
  readonly conversation_heap_mb: Spread
  readonly conversation_items: Spread
  readonly conversation_tokens: Spread
  /** Another turn from its last but one link, with its prompt encoded and written. */
  readonly fork_kb: Spread
}
const repeats = 3
const conversations = 12
const tokens = 100_000
/** Characters of a tool's output, so that 200 items make so many tokens. */
const length = 4300

type Held = { readonly heap: number; readonly all: number }
function held(): Held {
  if (!globalThis.gc) throw new Error('memory is counted after collections: run node with --expose-gc')
  // Buffers are freed behind the first one.
  for (let n = 0; n < 3; n++) globalThis.gc()
  const { heapUsed, external } = process.memoryUsage()
  return { heap: heapUsed, all: heapUsed + external }
}

/** Some 20 s. */
export async function memoryBench(server: Server, texts: Texts, step: () => void): Promise<MemoryFigures> {
  const rows: { mb: number; heap: number; fork: number; items: number; tokens: number }[] = []
  // The first pass fills what belongs to the process: caches of the encoder, compiled code.
  for (let pass = -1; pass < repeats; pass++) {
    const index = newIndex()
    const before = held()
    const all: Conversation[] = []
    while (all.length < conversations) {
      const one = await Conversation.begin({ ...server, index })
      await one.grow(tokens, () => texts.next(length))
      all.push(one)
    }
    const grown = held()
    const forks = []
    for (const one of all) forks.push(await one.fork(texts.next(length)))
    const forked = held()
    index.close()
    step()
    if (pass < 0) continue
    const each = (bytes: number): number => bytes / all.length
    rows.push({
      mb: each(grown.all - before.all) / 1e6,
      heap: each(grown.heap - before.heap) / 1e6,
      fork: kibibytes((forked.all - grown.all) / forks.length),
      items: each(all.reduce((sum, one) => sum + one.items.length, 0)),
      tokens: each(all.reduce((sum, one) => sum + one.tokens, 0)),
    })
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
