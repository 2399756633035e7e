// What a loop of turns costs in things that can be counted: the same on every machine, so that CI can hold them where it
// cannot hold times. One server in a process of its own, one socket, an engine that takes ids.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { countWrites } from '../../src/bench/counts-stream.ts'
import type { Driver, Fields, Seen } from '../../src/bench/driver.ts'
import { median } from '../../src/bench/report.ts'
import { type Served, serveApart } from '../../src/bench/served.ts'
import { tinyControls } from '../../src/bench/tiny-gguf.ts'
import { wsDriver } from '../../src/bench/ws-driver.ts'
import { smallJson } from '../../test/tokenizers/small.ts'

/** Of one turn in the middle of a loop, except where the name says otherwise. */
export type Counts = {
  /** Ids made of text, and ids of the prompt; how many of them the engine did not have from the turn before. */
  readonly tokensEncoded: number
  readonly tokensSent: number
  readonly tokensNew: number
  readonly bytesUp: number
  readonly bytesDown: number
  readonly leanBytesUp: number
  readonly leanBytesDown: number
  readonly engineCalls: number
  readonly events: number
  /** Of an answer that comes in chunks of four tokens. */
  readonly writesPerChunk: number
  readonly eventsPerChunk: number
}
/** What the server allocates, in bytes: about the same each time, not exactly. */
export type Allocations = { readonly bytesPerTurn: number; readonly bytesPerEvent: number }
export type Options = {
  /** Settings of the server: those that make it worse, in tests. */
  readonly set?: Readonly<Record<string, unknown>>
}
const calls = 12
const chunks = 50
/** So much is allocated before anything is collected. */
const roomMb = 256
const events = 4000

const settings = {
  model: 'm',
  store: false,
  instructions: 'You are a careful agent in a terminal. '.repeat(50),
  tools: ['exec_command', 'apply_change', 'open_page'].map((name) => ({
    type: 'function',
    name,
    description: `The tool ${name}. `.repeat(20),
    parameters: {
      type: 'object',
      properties: { cmd: { type: 'string' } },
      required: ['cmd'],
      additionalProperties: false,
    },
    strict: false,
  })),
}
const tellMore = 'Tell me more.'
const message = (text: string): Fields => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] })
/** As long each time. */
const outputs = (seen: Seen, n: number): Fields[] =>
  seen.calls.map(({ call_id }) => ({
    type: 'function_call_output',
    call_id,
    output: `line ${String(n).padStart(3, '0')} of the file\n`.repeat(100),
  }))

/** Starts a server, plays the loop, and counts. */
export async function count({ set = {} }: Options = {}): Promise<Counts> {
  return withServer({ set }, async (server, socket) => {
    const plain = await loop(server, socket, {})
    const lean = await loop(server, socket, { continuo: { inherit: ['instructions', 'tools'], echo: false } })
    const one = await countWrites({ chunks, tokens: 4 })
    const two = await countWrites({ chunks: chunks * 2, tokens: 4 })
    return {
      ...plain,
      leanBytesUp: lean.bytesUp,
      leanBytesDown: lean.bytesDown,
      writesPerChunk: (two.writes - one.writes) / chunks,
      eventsPerChunk: (two.events - one.events) / chunks,
    }
  })
}
export async function allocations({ set = {} }: Options = {}): Promise<Allocations> {
  const flags = [`--min-semi-space-size=${roomMb}`, `--max-semi-space-size=${roomMb}`]
  return withServer({ set, flags }, async (server, socket) => {
    await loop(server, socket, {})
    const long = { ...settings, tools: [], input: [message(tellMore)] }
    for (let n = 0; n < 5; n++) await socket.turn(long)
    const ofAnswer = await grows(server, () => socket.turn(long))
    const ofLoop = await grows(server, () => grown(socket, {}, calls))
    return { bytesPerEvent: Math.round(ofAnswer / events), bytesPerTurn: Math.round(ofLoop / calls) }
  })
}

type Counted = Omit<Counts, 'leanBytesUp' | 'leanBytesDown' | 'writesPerChunk' | 'eventsPerChunk'>
/** Counts of the last turn of a loop. */
async function loop(server: Served, socket: Driver, extra: Fields): Promise<Counted> {
  const before = await grown(socket, extra, calls - 1)
  await server.take()
  const seen = await next(socket, before, extra, calls)
  const { turns, encoded } = await server.take()
  const [turn] = turns
  const tokensSent = turn?.tokens ?? NaN
  return {
    tokensEncoded: encoded,
    tokensSent,
    tokensNew: tokensSent - (turn?.common ?? NaN),
    bytesUp: seen.bytesUp,
    bytesDown: seen.bytesDown,
    engineCalls: turns.length,
    events: seen.events,
  }
}
async function grown(socket: Driver, extra: Fields, turns: number): Promise<Seen> {
  let seen = await socket.turn({ ...settings, input: [message('Look around.')] })
  for (let n = 1; n < turns; n++) seen = await next(socket, seen, extra, n)
  return seen
}
function next(socket: Driver, seen: Seen, extra: Fields, n: number): Promise<Seen> {
  const { instructions: _, tools: __, ...rest } = settings
  const said = 'continuo' in extra ? rest : settings
  return socket.turn({ ...said, ...extra, previous_response_id: seen.id, input: outputs(seen, n) })
}
/** Bytes that the heap grows by while this goes on, the median of three; what is collected meanwhile counts as less. */
async function grows(server: Served, work: () => Promise<Seen>): Promise<number> {
  const grew: number[] = []
  for (let n = 0; n < 3; n++) {
    await server.memory()
    const before = (await server.take()).heap
    await work()
    grew.push((await server.take()).heap - before)
  }
  return median(grew)
}
async function withServer<T>(
  { set, flags = [] }: { readonly set: Options['set'] & {}; readonly flags?: readonly string[] },
  work: (server: Served, socket: Driver) => Promise<T>,
): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'continuo-counts-'))
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(smallJson(tinyControls)))
  const scenario = { turns: [{ when: { contains: tellMore }, steps: [{ tokens: events }] }] }
  const server = await serveApart({
    flags,
    set: {
      engines: { sim: { type: 'simulated', tokens: true, rounds: 10_000, scenario } },
      models: { m: { engine: 'sim', codec: 'qwen3', tokenizer: folder } },
      ...set,
    },
  })
  try {
    const socket = await wsDriver({ url: server.url })
    try {
      return await work(server, socket)
    } finally {
      await socket.close()
    }
  } finally {
    await server.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}
