// The HTTP doors: JSON and SSE say the same, bodies come packed, and everything that can be asked about a response.
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { compileSchemas, lastPrompt, readTool, simulated, startWith } from '../session/started.ts'
import type { Http, Streamed } from '../wire/http.ts'
import type { TestServer } from '../wire/server.ts'
import type { WireResponse } from '../wire/socket.ts'

let server: TestServer
let http: Http
beforeAll(async () => {
  compileSchemas()
  const turns = [
    {
      when: { contains: 'everything' },
      steps: [
        { reasoning: 'Let me see.' },
        { text: 'A word — ein Wört 🙂.' },
        { call: { name: 'read_file', arguments: { path: 'ä' } } },
      ],
    },
    {
      when: { contains: 'two calls' },
      steps: [
        { call: { name: 'read_file', arguments: { path: 'a' } } },
        { call: { name: 'read_file', arguments: { path: 'b' } } },
      ],
    },
    { when: { contains: 'replaced by a summary' }, steps: [{ text: 'They spoke of whales.' }] },
  ]
  server = await startWith({
    ...simulated({ scenario: { turns } }),
    limits: { http: { maxBodyBytes: 100_000 } },
    models: { '*': { engine: 'sim' }, 'a/b': { engine: 'sim' } },
  })
  http = server.http()
})
afterAll(() => server.close())

/** Without what is new each time. */
const plain = (response: unknown): unknown =>
  JSON.parse(
    JSON.stringify(response, (key, value: unknown) =>
      ['id', 'call_id', 'created_at', 'completed_at', 'encrypted_content', 'usage'].includes(key) ? null : value,
    ),
  )

describe('a turn', () => {
  test.each([
    ['everything', { tools: [readTool] }],
    ['nothing but words', { instructions: 'Be brief.', metadata: { a: 'b' } }],
    ['a cut', { max_output_tokens: 3 }],
    ['a filter [fault:filter]', {}],
    ['a warm-up', { generate: false }],
  ])('is the same as JSON and as events: %s', async (input, more) => {
    const streamed = await http.stream({ model: 'm', input, ...more })
    const { status, json } = await http.post('/v1/responses', { model: 'm', input, ...more })
    expect(status).toBe(200)
    expect(plain(json)).toEqual(plain(streamed.response))
  })
  const failures: [string, number, string][] = [
    ['[fault:error]', 500, 'server_error'],
    ['[fault:cut]', 500, 'server_error'],
    ['[fault:overlap]', 500, 'server_error'],
    ['x'.repeat(60_000), 400, 'context_length_exceeded'],
  ]
  test.each(failures)('that fails is a status and an error body: %#', async (input, status, code) => {
    const small = await startWith(simulated({ context: 10_000 }))
    const answer = await small.http().post('/v1/responses', { model: 'm', input })
    expect(answer).toMatchObject({ status, json: { error: { code } } })
    if (status === 500) expect(answer.headers.get('retry-after')).toBe('1')
    await small.close()
  })
  test('that fails in a stream ends it with response.failed', async () => {
    const streamed: Streamed = await http.stream({ model: 'm', input: '[fault:cut]' })
    expect(streamed).toMatchObject({ status: 200, response: { status: 'failed', error: { code: 'server_error' } } })
  })
  test('has request ids and the usual headers, refused or not', async () => {
    for (const body of [{ model: 'm', input: 'hi' }, { model: 'm', input: 'hi', stream: true }, { input: 5 }]) {
      const reply = await fetch(`${server.url}/v1/responses`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-client-request-id': 'mine-1' },
        body: JSON.stringify(body),
      })
      await reply.text()
      expect(reply.headers.get('x-request-id')).toMatch(/^req_/)
      expect(reply.headers.get('x-client-request-id')).toBe('mine-1')
      expect(reply.headers.get('openai-version')).toBe('2020-10-01')
      expect(reply.headers.get('openai-processing-ms')).toMatch(/^\d+$/)
    }
  })
})

describe('a body', () => {
  const zstd = (text: string): Buffer => {
    // One frame with one raw block, as RFC 8878 allows.
    const bytes = Buffer.from(text)
    const head = Buffer.alloc(7)
    head.writeUInt32BE(0x28b52ffd)
    head[4] = 0x40 | 0x20
    head.writeUInt16LE(bytes.length - 256, 5)
    const block = Buffer.alloc(3)
    block.writeUIntLE((bytes.length << 3) | 1, 0, 3)
    return Buffer.concat([head, block, bytes])
  }
  const text = JSON.stringify({ model: 'm', store: false, input: 'packed '.repeat(60) })
  test.each([
    ['gzip', gzipSync(text)],
    ['x-gzip', gzipSync(text)],
    ['deflate', deflateSync(text)],
    ['br', brotliCompressSync(text)],
    ['zstd', zstd(text)],
    ['identity', Buffer.from(text)],
  ])('may be packed with %s', async (encoding, body) => {
    const answer = await http.post('/v1/responses', new Uint8Array(body), { headers: { 'content-encoding': encoding } })
    expect(answer.status).toBe(200)
    expect(lastPrompt(server)).toBe(`user: ${'packed '.repeat(60)}\n`)
  })
  const bomb = JSON.stringify({ model: 'm', input: 'x'.repeat(20_000_000) })
  test.each([
    ['gzip', gzipSync(bomb)],
    ['deflate', deflateSync(bomb)],
    ['br', brotliCompressSync(bomb)],
  ])('that unpacks to more than the limit is 413: %s', async (encoding, body) => {
    expect(body.length).toBeLessThan(100_000)
    const answer = await http.post('/v1/responses', new Uint8Array(body), { headers: { 'content-encoding': encoding } })
    expect(answer).toMatchObject({ status: 413, json: { error: { code: 'payload_too_large' } } })
  })
  test('that claims to unpack with zstd to more than the limit is 413', async () => {
    // A frame of 64 blocks, each one byte repeated 128 KiB times.
    const blocks = Array.from({ length: 64 }, (_, n) => {
      const block = Buffer.alloc(4, 0x20)
      block.writeUIntLE((131_072 << 3) | 2 | (n === 63 ? 1 : 0), 0, 3)
      return block
    })
    const frame = Buffer.concat([Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58]), ...blocks])
    const answer = await http.post('/v1/responses', new Uint8Array(frame), { headers: { 'content-encoding': 'zstd' } })
    expect(answer).toMatchObject({ status: 413, json: { error: { code: 'payload_too_large' } } })
  })
  test('cannot make zstd take room for windows, nor take it again and again', async () => {
    // Magic, no flags, a window, one block that is the last and empty.
    const frame = (window: number): Buffer => Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, window, 1, 0, 0])
    const post = (body: Buffer) =>
      http.post('/v1/responses', new Uint8Array(body), { headers: { 'content-encoding': 'zstd' } })
    const begun = performance.now()
    expect((await post(frame(0xa0))).json).toMatchObject({ error: { code: 'payload_too_large' } })
    expect((await post(frame(0x50))).json).toMatchObject({ error: { code: 'invalid_json' } })
    const many = Buffer.concat(Array.from({ length: 5000 }, () => frame(0x68)))
    expect((await post(many)).json).toMatchObject({ error: { code: 'invalid_json' } })
    expect((await post(many.subarray(0, 5))).json).toMatchObject({ error: { code: 'invalid_json' } })
    expect(performance.now() - begun).toBeLessThan(2000)
  })
})

describe('what a request says about its answer is enforced', () => {
  const post = async (body: object): Promise<WireResponse> =>
    (await http.post('/v1/responses', { model: 'm', store: false, ...body })).json as unknown as WireResponse
  test('max_output_tokens', async () => {
    const cut = await post({ input: 'hello', max_output_tokens: 4 })
    expect(cut).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output: [{ status: 'incomplete' }],
      usage: { output_tokens: 4 },
    })
  })
  test('parallel_tool_calls: false', async () => {
    expect((await post({ input: 'two calls', tools: [readTool] })).output).toHaveLength(2)
    const one = await post({ input: 'two calls', tools: [readTool], parallel_tool_calls: false })
    expect(one).toMatchObject({ status: 'completed', output: [{ type: 'function_call', arguments: '{"path":"a"}' }] })
    expect(one.output).toHaveLength(1)
  })
  test('tool_choice', async () => {
    const other = { ...readTool, name: 'other' }
    const kinds = async (tool_choice: unknown): Promise<unknown[]> =>
      (await post({ input: 'hi', tools: [readTool, other], tool_choice })).output.map(
        (item) => item['name'] ?? item.type,
      )
    expect(await kinds('none')).toEqual(['message'])
    expect(await kinds('required')).toEqual(['read_file'])
    expect(await kinds({ type: 'function', name: 'other' })).toEqual(['other'])
    expect(
      await kinds({ type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'other' }] }),
    ).toEqual(['other'])
    expect(
      await http.post('/v1/responses', {
        model: 'm',
        input: 'hi',
        tools: [readTool],
        tool_choice: { type: 'function', name: 'none' },
      }),
    ).toMatchObject({ status: 400 })
  })
  test('text.format', async () => {
    const schema = {
      type: 'object',
      properties: { n: { type: 'integer', minimum: 7 } },
      required: ['n'],
      additionalProperties: false,
    }
    const { output } = await post({
      input: 'hi',
      text: { format: { type: 'json_schema', name: 'answer', schema, strict: true } },
    })
    const [part] = (output[0]?.['content'] ?? []) as { text: string }[]
    expect(JSON.parse(part?.text ?? '')).toEqual({ n: expect.any(Number) })
  })
})

test('models are listed and found by their names, slashes included; any name resolves through "*"', async () => {
  const { json } = await http.get('/v1/models')
  expect((json['data'] as { id: string }[]).map((m) => m.id)).toEqual(['a/b'])
  expect((await http.get('/v1/models/a/b')).json).toMatchObject({ id: 'a/b', object: 'model' })
  expect((await http.get('/v1/models/anything')).json).toMatchObject({ id: 'anything' })
  expect((await http.post('/v1/responses', { model: 'gpt-7', input: 'hi' })).json).toMatchObject({ model: 'gpt-7' })
  const strict = await startWith({ ...simulated(), models: { only: { engine: 'sim' } } })
  expect((await strict.http().get('/v1/models/other')).status).toBe(404)
  expect(await strict.http().post('/v1/responses', { model: 'other', input: 'hi' })).toMatchObject({
    status: 404,
    json: { error: { code: 'model_not_found', param: 'model' } },
  })
  await strict.close()
})
