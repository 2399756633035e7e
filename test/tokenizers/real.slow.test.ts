// Real tokenizers against the official native binding and the official JavaScript one. Without the packages of this folder
// they are named skips, and failures where CI is set.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Tokenizer as Library } from '@huggingface/tokenizers'
import { describe, expect, it } from 'vitest'
import { bpeTokenizer } from '../../src/tokenizers/bpe.ts'
import { loadTokenizer } from '../../src/tokenizers/load.ts'
import { corpus } from './corpus.ts'
import { ci, families, folderOf, installed, templateOf, tokenizerJson } from './fixtures.ts'
import { nativeEncoder } from './native.ts'

const run = ci || installed ? describe : describe.skip
const minutes = 60_000
const wellFormed = (text: string): string => text.replaceAll(/\p{Surrogate}/gu, '\ufffd')

/** 2 MB of files of our packages: code, prose, data. */
function realTexts(): string[] {
  const modules = fileURLToPath(new URL('../../node_modules/', import.meta.url))
  const texts: string[] = []
  let sum = 0
  for (const name of ['zod', 'undici', 'fastify', 'kysely', 'typescript', 'yaml', 'pino'])
    for (const file of readdirSync(join(modules, name), { recursive: true, encoding: 'utf8' }).sort()) {
      if (!/\.(js|ts|md|json)$/.test(file) || sum >= 2e6) continue
      const text = readFileSync(join(modules, name, file), 'utf8')
      // Some long enough to be cut into slices.
      if (text.length > 300_000) continue
      sum += text.length
      texts.push(text)
    }
  return texts
}

run.each(families)('the tokenizer of %s', (family) => {
  const json = tokenizerJson(family)
  const native = json && nativeEncoder(json)
  if (!json || !native) {
    it('has its packages', () => expect.fail('run `npm ci` in test/tokenizers'))
    return
  }
  const tokenizer = bpeTokenizer(json)
  const library = new (Library as new (
    json: object,
    config: object,
  ) => { encode(text: string, options: object): { ids: number[] } })(
    { ...json, added_tokens: [], post_processor: null },
    {},
  )

  it(
    'gives the ids of both official implementations for texts that tokenizers get wrong',
    async () => {
      for (const text of [...corpus(), ...json.added_tokens.slice(0, 100).map(({ content }) => `x${content} y`)]) {
        const whole = wellFormed(text)
        const ids = Array.from(await tokenizer.encode(text))
        expect(ids, JSON.stringify(text)).toEqual(await native(whole))
        expect(library.encode(whole, { add_special_tokens: false }).ids, JSON.stringify(text)).toEqual(ids)
        expect(ids.filter((id) => tokenizer.nameOf(id) !== undefined)).toEqual([])
        const stream = tokenizer.stream()
        const back = ids.map((id) => stream.push(id)).join('') + stream.end()
        expect(back).toBe(family === 'qwen3' ? whole.normalize('NFC') : whole)
        expect(tokenizer.decode(ids)).toBe(back)
      }
    },
    3 * minutes,
  )
  it(
    'gives the same ids as the native binding for 2 MB of real files',
    async () => {
      const texts = realTexts()
      expect(texts.reduce((sum, text) => sum + text.length, 0)).toBeGreaterThan(1.9e6)
      for (const text of texts)
        expect(Buffer.compare(words(await tokenizer.encode(text)), words(await native(text)))).toBe(0)
    },
    3 * minutes,
  )
  it(
    'does not hold the event loop for megabytes of anything',
    async () => {
      const parts = [
        'a',
        ' ',
        '\n',
        '\r\n',
        '😀',
        '漢',
        '漢字',
        '7',
        '\u0301\u0316',
        "'s",
        'xqzjkv',
        '\0',
        '!?',
        'x\u0301',
        ' \n',
      ]
      for (const part of parts) {
        const text = part.repeat(Math.ceil(300_000 / part.length))
        // The best of three: what the machine does beside is not the encoder's.
        const [first, ids] = await longestHold(() => tokenizer.encode(text))
        let worst = first
        for (let again = 0; worst >= 150 && again < 2; again++) {
          const [next] = await longestHold(() => tokenizer.encode(text))
          worst = Math.min(worst, next)
        }
        expect(worst, JSON.stringify(part)).toBeLessThan(150)
        // Form C of marks in the other order takes String.normalize minutes.
        if (family !== 'qwen3' || part.normalize('NFC') === part) expect(tokenizer.decode(ids) === text).toBe(true)
      }
    },
    3 * minutes,
  )
  it(
    'is loaded from its folder, with its template',
    async () => {
      const loaded = await loadTokenizer(folderOf(family))
      expect(loaded.tokenizer.id).toBe(tokenizer.id)
      expect(loaded.config).toBeDefined()
      const template = templateOf(family)
      if (template !== undefined) expect(loaded.template).toBe(template)
    },
    minutes,
  )
})

const words = (ids: ArrayLike<number>): Buffer => Buffer.from(Uint32Array.from(ids).buffer)
/** The longest that `work` kept others from running, in processor time, and what it gave. */
async function longestHold<T>(work: () => T | Promise<T>): Promise<[number, T]> {
  let [last, worst, ended] = [spentMs(), 0, false]
  const tick = (): void => {
    const now = spentMs()
    worst = Math.max(worst, now - last)
    last = now
    if (!ended) setImmediate(tick)
  }
  setImmediate(tick)
  const made = await work()
  ended = true
  return [worst, made]
}
const spentMs = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
