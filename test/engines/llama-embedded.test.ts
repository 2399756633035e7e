import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { download, modelFile } from '../../src/engines/llama-embedded-hub.ts'
import { llamaEmbedded } from '../../src/engines/llama-embedded.ts'
import { metadataOf, tokenizerOf } from '../../src/engines/llama-embedded-gguf.ts'
import { tinyGguf, tinyTokenizer } from '../../src/bench/tiny-gguf.ts'

const folder = (): string => mkdtempSync(join(tmpdir(), 'continuo-models-'))
const hash = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

describe('a tiny model', () => {
  it('has the same bytes every time, and others for another seed', () => {
    const bytes = tinyGguf()
    expect(bytes.subarray(0, 4).toString()).toBe('GGUF')
    expect(hash(tinyGguf())).toBe(hash(bytes))
    expect(hash(tinyGguf({ seed: 2 }))).not.toBe(hash(bytes))
  })
  it('may have the first ids of a given tokenizer, its control tokens behind them', () => {
    const whole = tinyTokenizer()
    const bytes = tinyGguf({ tokenizer: whole, vocab: 300 })
    const text = bytes.toString('latin1')
    expect(bytes.length).toBeLessThan(tinyGguf({ tokenizer: whole }).length)
    for (const { content } of whole.added_tokens ?? []) expect(text).toContain(content)
  })
})

describe('the options of embedded llama.cpp', () => {
  const model = join(folder(), 'm.gguf')
  writeFileSync(model, 'GGUF')

  it('name what is missing, and how to get it', () => {
    const modules = folder()
    expect(() => llamaEmbedded({ model, modules })).toThrow(
      `node-llama-cpp is not installed in ${modules}; install it with "npm install --prefix ${modules} --save-exact node-llama-cpp@3.21.1"`,
    )
    for (const wrong of ['./nowhere.gguf', '/nowhere.gguf', '../a/b/c.gguf', 'org/../x.gguf', 'org/repo/file.bin'])
      expect(() => llamaEmbedded({ model: wrong, modules })).toThrow('there is no model file')
    expect(() => llamaEmbedded({ model, modules, saveState: true })).toThrow('saveState needs stateDir')
  })
})

describe('a vocabulary', () => {
  it('that is no byte-level BPE, or is cut in an unknown way, makes no tokenizer', () => {
    const ggml = { model: 'gpt2', pre: 'qwen2', tokens: ['a'], merges: [], token_type: [1] }
    expect(tokenizerOf(metadataOf({ tokenizer: { ggml } }))).toMatchObject({ model: { vocab: { a: 0 } } })
    for (const wrong of [{ model: 'llama' }, { pre: 'constructor' }, { merges: 3 }, { tokens: [1] }, { token_type: 1 }])
      expect(tokenizerOf(metadataOf({ tokenizer: { ggml: { ...ggml, ...wrong } } }))).toBeUndefined()
    expect(tokenizerOf(metadataOf(null))).toBeUndefined()
  })
})

describe('a model of the hub', () => {
  async function served<T>(listener: RequestListener, run: (base: string) => Promise<T>): Promise<T> {
    const server = createServer(listener).listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    try {
      return await run(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
    } finally {
      server.closeAllConnections()
      server.close()
    }
  }
  const bytes = Buffer.concat([Buffer.from('GGUF'), Buffer.alloc(300_000, 7)])
  const limits = { limit: 1e6, stallMs: 10_000 }

  it('is fetched once, from the base URL that is set, and said how far it is', async () => {
    const cache = folder()
    const asked: (string | undefined)[] = []
    const file = await served(
      (request, response) => {
        asked.push(request.url)
        response.writeHead(200, { 'content-length': bytes.length }).end(bytes)
      },
      async (base) => {
        const { file, url } = modelFile('org/repo/sub/m.gguf', cache, base)
        let last: [number, number | undefined] = [0, 0]
        await download({ url: url ?? '', file, ...limits }, (...got) => (last = got))
        expect(last).toEqual([bytes.length, bytes.length])
        return file
      },
    )
    expect(asked).toEqual(['/org/repo/resolve/main/sub/m.gguf'])
    expect(file).toBe(join(cache, 'org/repo/sub/m.gguf'))
    expect(hash(readFileSync(file))).toBe(hash(bytes))
    expect(modelFile('org/repo/sub/m.gguf', cache, undefined)).toEqual({ file })
    expect(readdirSync(dirname(file))).toEqual(['m.gguf'])
  })
  const faults: readonly (readonly [string, string, RequestListener])[] = [
    ['that is not there', 'the hub answered 404', (_, r) => void r.writeHead(404).end()],
    ['that is too large', 'over the limit', (_, r) => void r.writeHead(200).end(Buffer.alloc(2e6))],
    [
      'that says it is too large',
      'over the limit',
      (_, r) => void r.writeHead(200, { 'content-length': 2e9 }).flushHeaders(),
    ],
    ['that is something else', 'no GGUF', (_, r) => void r.writeHead(200).end('<html>')],
    [
      'that breaks off',
      'Try again',
      (_, r) => {
        r.writeHead(200, { 'content-length': bytes.length }).write(bytes.subarray(0, 1000))
        setTimeout(() => r.destroy(), 50)
      },
    ],
    ['that stalls', 'no byte came for 0.5 s', (_, r) => void r.writeHead(200).write(bytes.subarray(0, 1000))],
  ]
  it.each(faults)('%s leaves nothing behind and says so', async (name, sentence, listener) => {
    const cache = folder()
    const file = join(cache, 'org/repo/m.gguf')
    const failed = served(listener, (base) =>
      download({ url: `${base}x`, file, ...limits, ...(name === 'that stalls' && { stallMs: 500 }) }, () => {}),
    )
    await expect(failed).rejects.toThrow(sentence)
    expect(existsSync(dirname(file)) ? readdirSync(dirname(file)) : []).toEqual([])
    expect(statSync(cache).isDirectory()).toBe(true)
  })
})
