// What a turn costs, counted: in a long tool loop, and for a client that sends everything every time, a turn at the end
// renders, encodes, hashes and copies no more than one at the start.
import { beforeAll, expect, test } from 'vitest'
import { familyCodec, type FamilyCodec } from '../../src/codecs/codec.ts'
import { qwen3 } from '../../src/codecs/hermes.ts'
import { vllm } from '../../src/engines/vllm.ts'
import { hashed } from '../../src/protocol/item-hash.ts'
import type { Item } from '../../src/protocol/items.ts'
import { parseCreate } from '../../src/protocol/request.ts'
import { Continuations } from '../../src/session/continuations.ts'
import { resolve } from '../../src/session/resolve.ts'
import { memoryStore } from '../../src/stores/memory.ts'
import { Chain } from '../../src/turn/chain.ts'
import type { Codec, Prompt, Tokenizer } from '../../src/turn/ports.ts'
import { PrefixIndex } from '../../src/turn/prefix-index.ts'
import { Settle } from '../../src/turn/settle.ts'
import { TokenRun } from '../../src/turn/tokens.ts'
import { encodeChain } from '../../src/turn/voice.ts'
import { now, settingsOf, smallBpe, speakInto, writtenIds } from '../codecs/talks.ts'

const turns = 200
const resends = 60
const settings = settingsOf({
  instructions: 'Look around in the thing.',
  tools: [{ type: 'function', name: 'ls', description: 'Lists.', parameters: { type: 'object' }, strict: false }],
})
const owner = 'a/1'
const began = Date.parse('2026-07-26')
const task: Item = { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'What is in there?' }] }
const padded = (n: number): string => String(n).padStart(4, '0')
const said = (n: number): Item[] => [
  { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: `In ${padded(n)} there is more.` }] },
  { type: 'function_call', call_id: '', name: 'ls', arguments: `{"path": "${padded(n)}"}` },
]
const answer = (chain: Chain, n: number): Item => {
  const call = chain.items.at(-1)
  if (call?.type !== 'function_call') throw new Error('nothing was called')
  return { type: 'function_call_output', call_id: call.call_id, output: `the thing of ${padded(n)}\n`.repeat(20) }
}

type Counts = { rendered: number; heads: number; copies: number; hashed: number; encoded: number }
let plain: Codec
let codec: FamilyCodec
/** Characters that the codec had encoded. */
let encoded = 0
beforeAll(() => {
  const tokenizer = smallBpe(qwen3)
  const counting: Tokenizer = {
    ...tokenizer,
    encode(text) {
      encoded += text.length
      return tokenizer.encode(text)
    },
  }
  codec = familyCodec(qwen3, counting)
  plain = familyCodec(qwen3, tokenizer)
})
const counts = (): Counts => ({
  rendered: codec.rendered.items,
  heads: codec.rendered.heads,
  copies: TokenRun.copies,
  hashed: hashed.items,
  encoded,
})
const since = (before: Counts): Counts => {
  const after = counts()
  return {
    rendered: after.rendered - before.rendered,
    heads: after.heads - before.heads,
    copies: after.copies - before.copies,
    hashed: after.hashed - before.hashed,
    encoded: after.encoded - before.encoded,
  }
}

test('in a tool loop of 200 turns every turn renders, encodes and hashes what is new in it, once, and copies nothing', () => {
  let chain = Chain.root(owner, began).add({ response: 'r', from: 'input', items: [task] })
  now(encodeChain(chain, settings, codec))
  const seen: Counts[] = []
  for (let n = 0; n < turns; n++) {
    const ids = writtenIds(plain, said(n), settings, chain)
    const before = counts()
    chain = speakInto(chain, codec, settings, ids)
    chain = chain.add({ response: `r${n}`, from: 'input', items: [answer(chain, n)] })
    now(encodeChain(chain, settings, codec))
    seen.push(since(before))
  }
  const [first] = seen
  // What the model wrote is not rendered: its ids are there. The output is, with what stands around it.
  expect(first).toMatchObject({ rendered: 1, heads: 0, copies: 0, hashed: 3 })
  expect(first?.encoded).toBeGreaterThan(20 * 'the thing of 0000\n'.length)
  expect(first?.encoded).toBeLessThan(20 * 'the thing of 0000\n'.length + 100)
  for (const turn of seen) expect(turn).toEqual(first)
  expect(chain.all()).toHaveLength(1 + 3 * turns)
})

test('a client that sends everything every time has only what is new rendered and encoded, and nothing copied', () => {
  const index = new PrefixIndex({ keepBytes: 1e9, keepMs: 60_000 })
  const near = {
    index,
    settle: new Settle(memoryStore(), 10, () => {}),
    seal: { seal: () => '', open: () => undefined },
  }
  const principal = { tenant: 'a', key: '1', owner }
  const cache = new Continuations(1)
  const history: object[] = [task]
  const seen: Counts[] = []
  for (let n = 0; n < resends; n++) {
    const before = counts()
    const request = parseCreate(JSON.parse(JSON.stringify({ model: 'm', input: history })))
    const { known, held, seen: items } = now(resolve(request, principal, cache, near))
    let chain = known.add({ response: `r${n}`, from: 'input', items: items.slice(held) })
    now(encodeChain(chain, settings, codec))
    const all = since(before)
    // Each item once to look it up, and the new one once more for its link.
    expect(all.hashed).toBe(n === 0 ? 1 : history.length + 1)
    seen.push({ ...all, hashed: 0 })
    chain = speakInto(chain, codec, settings, writtenIds(plain, said(n), settings, chain))
    index.add(chain, false)
    history.push(...chain.items, answer(chain, n))
  }
  const [, second] = seen
  expect(second).toMatchObject({ rendered: 1, heads: 0, copies: 0 })
  for (const turn of seen.slice(1)) expect(turn).toEqual(second)
  index.close()
})

test("an engine's request holds the digits of the run itself, not a copy of them", async () => {
  const engine = vllm({ url: 'http://127.0.0.1:9' }, 'none')
  const run = TokenRun.empty.append(Array.from({ length: 5000 }, (_, n) => n * 7))
  const prompt: Prompt = {
    run,
    common: 0,
    tokenizer: plain.tokenizer,
    stops: [1],
    constraint: undefined,
    pictures: [],
    written: () => [],
  }
  const chain = Chain.root(owner)
  const call = { id: 'r', chain, settings, principal: { tenant: 'a', key: '1', owner }, generate: true }
  const parts = engine.body(call, prompt, 'generate')
  for (const kept of run.json())
    expect(parts.some((part) => part.buffer === kept.buffer && part.length === kept.length)).toBe(true)
  expect(JSON.parse(Buffer.concat(parts).toString())).toMatchObject({ token_ids: [...run.view()] })
  await engine.close()
})

test('what every request says again is held once, however many links there are', () => {
  let chain = Chain.root(owner, began)
  const bases = new Set<unknown>()
  for (let n = 0; n < 5; n++) {
    // As it comes in: instructions and tools of its own.
    const request = parseCreate(JSON.parse(JSON.stringify({ ...settings, input: [task] })))
    chain = chain.add({ response: `r${n}`, from: 'input', items: request.input })
    const { state } = now(encodeChain(chain, request.settings, plain))
    bases.add((state as { readonly base: unknown }).base)
  }
  expect(bases.size).toBe(1)
})
