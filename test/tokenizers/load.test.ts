import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { bpeTokenizer } from '../../src/tokenizers/bpe.ts'
import { loadTokenizer } from '../../src/tokenizers/load.ts'
import { smallJson } from './small.ts'

const controls = ['<|im_start|>', '<|im_end|>']
const json = JSON.stringify(smallJson(controls))
const bytes = Buffer.byteLength(json)
const { id } = bpeTokenizer(smallJson(controls))
let folder = ''
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'continuo-tokenizers-'))))
afterEach(() => rmSync(folder, { recursive: true, force: true }))
const put = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}

describe('a tokenizer on disk', () => {
  it('is loaded from its file, and from an object', async () => {
    const loaded = await loadTokenizer(put('tokenizer.json', json))
    expect(loaded.tokenizer.id).toBe(id)
    expect(loaded.template).toBeUndefined()
    expect((await loadTokenizer(smallJson(controls))).tokenizer.id).toBe(id)
  })
  it('is loaded from its folder, with the template that counts', async () => {
    put('tokenizer.json', json)
    expect(await loadTokenizer(folder)).toMatchObject({ template: undefined, config: undefined })
    put('chat_template.json', JSON.stringify({ chat_template: 'third' }))
    expect((await loadTokenizer(folder)).template).toBe('third')
    const named = [
      { name: 'tool_use', template: 'other' },
      { name: 'default', template: 'second' },
    ]
    put('tokenizer_config.json', JSON.stringify({ chat_template: named, model_max_length: 10 }))
    expect(await loadTokenizer(folder)).toMatchObject({ template: 'second', config: { model_max_length: 10 } })
    put('chat_template.jinja', 'first')
    expect((await loadTokenizer(folder)).template).toBe('first')
  })
  it('falls back to the library for other kinds', async () => {
    const lower = { ...smallJson(controls), normalizer: { type: 'Lowercase' } }
    const { tokenizer } = await loadTokenizer(lower)
    expect(tokenizer.id).toMatch(/^hf-/)
    expect(tokenizer.decode(await tokenizer.encode('The DOG'))).toBe('the dog')
  })
  it.each([
    ['broken JSON', '{"model":', 'is not valid JSON'],
    ['a list', '[]', 'no JSON object'],
    ['no model', '{}', 'there is no model in it'],
    ['another kind', '{"model":{"type":"WordPiece","vocab":{}},"decoder":{"type":"WordPiece"}}', '"WordPiece"'],
  ])('is refused with a sentence for %s', async (_, text, sentence) => {
    await expect(loadTokenizer(put('tokenizer.json', text))).rejects.toThrow(sentence)
  })
  it('is refused where it is too big, missing, or no name', async () => {
    await expect(loadTokenizer(put('tokenizer.json', json), { maxBytes: 100 })).rejects.toThrow('at most 100 are read')
    rmSync(join(folder, 'tokenizer.json'))
    await expect(loadTokenizer(folder)).rejects.toThrow('has no tokenizer.json')
    await expect(loadTokenizer('./nowhere/at/all.json')).rejects.toThrow('is no tokenizer')
    await expect(loadTokenizer('../etc/passwd')).rejects.toThrow('is no tokenizer')
  })
})

describe('a tokenizer of a hub', () => {
  type Answer = (request: IncomingMessage, response: ServerResponse) => void
  let asked: string[] = []
  async function hub(answer: Answer): Promise<{ endpoint: string; close: () => void }> {
    asked = []
    const server = createServer((request, response) => {
      asked.push(`${request.url} ${request.headers.authorization ?? ''}`.trim())
      answer(request, response)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    return { endpoint: `http://127.0.0.1:${port}`, close: () => server.closeAllConnections() ?? server.close() }
  }
  const files: Answer = (request, response) => {
    if (request.url?.endsWith('/tokenizer.json')) response.setHeader('content-length', bytes).end(json)
    else if (request.url?.endsWith('/chat_template.jinja')) response.end('{{ messages }}')
    else response.writeHead(404).end('none')
  }
  const left = (): string[] =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => !name.endsWith('.absent'))

  it('is fetched once and then kept', async () => {
    const { endpoint, close } = await hub(files)
    const seen: [string, number, number | undefined][] = []
    const options = {
      endpoint,
      cacheDir: folder,
      token: 'secret',
      onProgress: (file: string, got: number, total: number | undefined) => seen.push([file, got, total]),
    }
    const loaded = await loadTokenizer('org/model@v1', options)
    expect(loaded.tokenizer.id).toBe(id)
    expect(loaded.template).toBe('{{ messages }}')
    expect(asked[0]).toBe('/org/model/resolve/v1/tokenizer.json Bearer secret')
    expect(seen).toContainEqual(['tokenizer.json', bytes, bytes])
    const first = asked.length
    close()
    expect((await loadTokenizer('org/model@v1', options)).tokenizer.id).toBe(id)
    expect(asked).toHaveLength(first)
    expect(left().filter((name) => name.includes('.part'))).toEqual([])
  })
  it('is never half there', async () => {
    let broken = true
    const { endpoint, close } = await hub((request, response) => {
      if (!broken || !request.url?.endsWith('/tokenizer.json')) return files(request, response)
      response.setHeader('content-length', bytes)
      response.write(json.slice(0, 1000), () => response.destroy())
    })
    const options = { endpoint, cacheDir: folder }
    await expect(loadTokenizer('org/model', options)).rejects.toThrow('org/model: tokenizer.json could not be fetched')
    expect(left().filter((name) => name.includes('tokenizer.json'))).toEqual([])
    broken = false
    expect((await loadTokenizer('org/model', options)).tokenizer.id).toBe(id)
    close()
  })
  it('follows a redirect to where it is, without a loop and never to plain http elsewhere', async () => {
    let to = '/moved/tokenizer.json'
    const { endpoint, close } = await hub((request, response) => {
      if (request.url === '/org/model/resolve/main/tokenizer.json') response.writeHead(302, { location: to }).end()
      else if (request.url === '/loop') response.writeHead(302, { location: '/loop' }).end()
      else files(request, response)
    })
    const options = { endpoint, cacheDir: folder }
    to = 'http://example.invalid/x'
    await expect(loadTokenizer('org/model', options)).rejects.toThrow('not https')
    to = '/loop'
    await expect(loadTokenizer('org/model', options)).rejects.toThrow('redirects more than 5 times')
    to = '/moved/tokenizer.json'
    expect((await loadTokenizer('org/model', options)).tokenizer.id).toBe(id)
    close()
  })
  it('is refused where it is too big, even where its size was not told', async () => {
    const { endpoint, close } = await hub((_, response) => {
      response.write(' '.repeat(5000))
      response.end(json)
    })
    const options = { endpoint, cacheDir: folder, maxBytes: 3000 }
    await expect(loadTokenizer('org/model', options)).rejects.toThrow('larger than 3000 bytes')
    expect(left().filter((name) => name.includes('tokenizer.json'))).toEqual([])
    close()
  })
  it('says what to do where it is not open to everybody, or not there', async () => {
    const { endpoint, close } = await hub((request, response) =>
      response.writeHead(request.url?.startsWith('/closed') ? 401 : 404).end(),
    )
    const options = { endpoint, cacheDir: folder }
    await expect(loadTokenizer('closed/model', options)).rejects.toThrow('HF_TOKEN')
    await expect(loadTokenizer('org/model', options)).rejects.toThrow('has no tokenizer.json')
    close()
    await expect(loadTokenizer('other/model', options)).rejects.toThrow('could not be fetched')
  })
  it('ends when it is told to', async () => {
    const { endpoint, close } = await hub(() => undefined)
    const stop = new AbortController()
    const loading = loadTokenizer('org/model', { endpoint, cacheDir: folder, signal: stop.signal })
    setTimeout(() => stop.abort(new Error('enough')), 50)
    await expect(loading).rejects.toThrow('enough')
    close()
  })
})
