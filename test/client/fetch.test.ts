import { spawn } from 'node:child_process'
import OpenAI, { APIUserAbortError, BadRequestError, RateLimitError } from 'openai'
import { afterEach, describe, expect, it } from 'vitest'
import { createFetch, type FetchOptions, type SocketFetch } from '../../src/client/fetch.ts'
import { answerHello, ScriptedServer, sleep, until, user, type Script, type ServerOptions } from './ws-server.ts'

const open: (() => void | Promise<void>)[] = []
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
})
type Rig = { server: ScriptedServer; client: OpenAI; socketFetch: SocketFetch; fallbacks: Error[] }
async function rig(
  script: Script = answerHello,
  options: ServerOptions = { continuo: '1' },
  fetchOptions: FetchOptions = {},
): Promise<Rig> {
  const server = await ScriptedServer.start(script, options)
  const fallbacks: Error[] = []
  const socketFetch = createFetch({ onFallback: (reason) => fallbacks.push(reason), ...fetchOptions })
  const client = new OpenAI({ apiKey: 'sk-test', baseURL: server.url, fetch: socketFetch, maxRetries: 0 })
  open.push(
    () => server[Symbol.asyncDispose](),
    () => socketFetch.close(),
  )
  return { server, client, socketFetch, fallbacks }
}
async function types(stream: AsyncIterable<{ type: string }>): Promise<string[]> {
  const all: string[] = []
  for await (const event of stream) all.push(event.type)
  return all
}

describe('the openai SDK over the socket', () => {
  it('streams, and the stream ends right after response.completed', async () => {
    const { client, server } = await rig()
    const stream = await client.responses.create({ model: 'm', input: 'hi', stream: true })
    const seen = await types(stream)
    expect(seen[0]).toBe('response.created')
    expect(seen.at(-1)).toBe('response.completed')
    expect(seen).toContain('response.output_text.delta')
    expect(server.posts).toHaveLength(0)
    expect(server.creates[0]).toMatchObject({ type: 'response.create', model: 'm', input: 'hi' })
    expect(server.creates[0]).not.toHaveProperty('stream')
    expect(server.conns[0]?.headers.authorization).toBe('Bearer sk-test')
  })

  it('works with the stream helper, also when the terminal event has no output', async () => {
    const { client } = await rig(async (turn) => {
      turn.created()
      await turn.text('put together')
      turn.send({ type: 'response.completed', response: turn.response('completed', { output: undefined }) })
    })
    const final = await client.responses.stream({ model: 'm', input: 'hi' }).finalResponse()
    expect(final.output_text).toBe('put together')
  })

  it('gives one body when no stream is asked for', async () => {
    const { client } = await rig()
    const response = await client.responses.create({ model: 'm', input: 'hi' })
    expect(response).toMatchObject({ status: 'completed', output_text: 'hello 1' })
  })

  it('sends a tool loop as deltas that no caller notices', async () => {
    const { client, server } = await rig(async (turn) => {
      turn.created()
      if (turn.conversation.length < 7) turn.call('look', { n: turn.conversation.length })
      else await turn.text('seen')
      turn.complete()
    })
    const input: OpenAI.Responses.ResponseInputItem[] = [{ role: 'user', content: 'go' }]
    for (let n = 0; n < 8; n++) {
      const stream = client.responses.stream({ model: 'm', input, store: false })
      for await (const event of stream) if ('response' in event) expect(event.response.previous_response_id).toBeNull()
      const response = await stream.finalResponse()
      input.push(...(response.output as OpenAI.Responses.ResponseInputItem[]))
      const calls = response.output.filter((item) => item.type === 'function_call')
      if (calls.length === 0) break
      for (const call of calls) input.push({ type: 'function_call_output', call_id: call.call_id, output: 'ok' })
    }
    expect(server.creates.map((frame) => (frame.input as unknown[]).length)).toEqual([1, 1, 1, 1])
    expect(server.creates.slice(1).every((frame) => frame.previous_response_id !== undefined)).toBe(true)
    expect(server.turns.at(-1)?.conversation).toHaveLength(7)
  })

  it('takes item references for the items they stand for', async () => {
    const { client, server } = await rig()
    const one = await client.responses.create({ model: 'm', input: 'one' })
    const id = one.output[0]?.type === 'message' ? one.output[0].id : ''
    await client.responses.create({
      model: 'm',
      input: [user('one') as never, { type: 'item_reference', id }, { role: 'user', content: 'two' }],
    })
    expect(server.creates[1]).toMatchObject({ previous_response_id: one.id, input: [{ role: 'user', content: 'two' }] })
  })

  it('leaves previous_response_id and store of the caller alone', async () => {
    const { client, server } = await rig()
    const one = await client.responses.create({ model: 'm', input: 'one', store: true })
    const two = await client.responses.create({ model: 'm', input: 'two', store: true, previous_response_id: one.id })
    expect(server.creates[1]).toMatchObject({ input: 'two', store: true, previous_response_id: one.id })
    expect(two.previous_response_id).toBe(one.id)
  })

  it('ends after response.failed', async () => {
    const { client } = await rig((turn) => turn.created().fail('server_error', 'engine gone'))
    const seen: { type: string }[] = []
    for await (const event of await client.responses.create({ model: 'm', input: 'hi', stream: true })) seen.push(event)
    expect(seen.at(-1)).toMatchObject({
      type: 'response.failed',
      response: { error: { code: 'server_error', message: 'engine gone' } },
    })
    await expect(client.responses.create({ model: 'm', input: 'hi' })).rejects.toMatchObject({
      status: 500,
      code: 'server_error',
    })
  })

  it('ends after response.incomplete', async () => {
    const { client } = await rig(async (turn) => {
      turn.created()
      await turn.text('cut')
      turn.incomplete('max_output_tokens')
    })
    expect((await types(await client.responses.create({ model: 'm', input: 'hi', stream: true }))).at(-1)).toBe(
      'response.incomplete',
    )
    const response = await client.responses.create({ model: 'm', input: 'hi' })
    expect(response).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output_text: 'cut',
    })
  })

  it.each([true, false])('throws what an error frame says as HTTP would have (stream: %s)', async (stream) => {
    const { client } = await rig((turn) => turn.error(400, 'context_length_exceeded', 'too long'))
    const error = await client.responses.create({ model: 'm', input: 'hi', stream }).catch((e: unknown) => e)
    expect(error).toBeInstanceOf(BadRequestError)
    expect(error).toMatchObject({ status: 400, code: 'context_length_exceeded', type: 'invalid_request_error' })
  })

  it('lets the SDK retry after a 429 frame', async () => {
    let turns = 0
    const { server, socketFetch } = await rig((turn) =>
      ++turns === 1
        ? turn.error(429, 'rate_limit_exceeded', 'slow down', { headers: { 'retry-after-ms': '1' } })
        : answerHello(turn),
    )
    const once = new OpenAI({ apiKey: 'k', baseURL: server.url, fetch: socketFetch, maxRetries: 0 })
    await expect(once.responses.create({ model: 'm', input: 'hi' })).rejects.toThrow(RateLimitError)
    turns = 0
    const patient = new OpenAI({ apiKey: 'k', baseURL: server.url, fetch: socketFetch, maxRetries: 1 })
    await expect(patient.responses.create({ model: 'm', input: 'hi' })).resolves.toMatchObject({ status: 'completed' })
  })

  it('throws an error frame that comes after the answer began', async () => {
    const { client } = await rig(async (turn) => {
      turn.created()
      await turn.text('half')
      turn.error(500, 'server_error', 'broke')
    })
    const stream = await client.responses.create({ model: 'm', input: 'hi', stream: true })
    await expect(types(stream)).rejects.toThrow('broke')
  })

  it('throws when the socket is lost in the middle of the answer', async () => {
    const { client, server } = await rig(async (turn) => {
      turn.created()
      await turn.text('half')
      turn.socket.ws.terminate()
    })
    const stream = await client.responses.create({ model: 'm', input: 'hi', stream: true })
    await expect(types(stream)).rejects.toThrow('terminated')
    expect(server.creates).toHaveLength(1)
  })

  it('hides a socket that is lost before the answer began', async () => {
    let turns = 0
    const { client, server, fallbacks } = await rig((turn) =>
      ++turns === 1 ? turn.created().socket.ws.close(1012) : answerHello(turn),
    )
    const seen = await types(await client.responses.create({ model: 'm', input: 'hi', stream: true }))
    expect(seen.filter((type) => type === 'response.created')).toHaveLength(1)
    expect(server.conns).toHaveLength(2)
    expect(fallbacks).toHaveLength(0)
  })

  it('aborts in the middle of a stream, and the next call is clean', async () => {
    const { client, server, socketFetch } = await rig(async (turn) => {
      if (turn.frame.input !== 'endless') return answerHello(turn)
      turn.created()
      await Promise.race([turn.interrupted, turn.text('x'.repeat(2000), { pieces: 1000, gapMs: 5 })])
      turn.incomplete('interrupted')
    })
    const stream = await client.responses.create({ model: 'm', input: 'endless', stream: true })
    for await (const event of stream) if (event.type === 'response.output_text.delta') stream.controller.abort()
    await until(() => server.frames.some((frame) => frame.type === 'response.interrupt'))
    await until(() => socketFetch.busy === 0)
    expect((await client.responses.create({ model: 'm', input: 'next' })).output_text).toBe('hello 1')
    expect(server.conns).toHaveLength(1)
  })

  it('aborts before anything came', async () => {
    const { client, server } = await rig(() => sleep(100))
    const abort = new AbortController()
    const asked = client.responses.create({ model: 'm', input: 'hi', stream: true }, { signal: abort.signal })
    await until(() => server.creates.length === 1)
    abort.abort()
    await expect(asked).rejects.toThrow(APIUserAbortError)
  })

  it('keeps concurrent calls and their conversations apart', async () => {
    const { client, server } = await rig(async (turn) => {
      turn.created()
      await turn.text(`${JSON.stringify(turn.conversation)}`, { pieces: 10, gapMs: 1 })
      turn.complete()
    })
    const talk = async (name: string): Promise<void> => {
      const input: OpenAI.Responses.ResponseInputItem[] = []
      for (let n = 0; n < 4; n++) {
        input.push({ role: 'user', content: `${name}${n}` })
        const response = await client.responses.stream({ model: 'm', input }).finalResponse()
        for (let m = 0; m <= n; m++) expect(response.output_text).toContain(`${name}${m}`)
        expect(response.output_text).not.toContain(name === 'a' ? 'b' : 'a0b')
        input.push(...(response.output as OpenAI.Responses.ResponseInputItem[]))
      }
    }
    // Letters that occur in no key or value of the wire's items.
    await Promise.all([talk('Q'), talk('Z')])
    expect(server.conns).toHaveLength(1)
    expect(server.creates.filter((frame) => frame.previous_response_id !== undefined)).toHaveLength(6)
    expect(server.creates.every((frame) => (frame.input as unknown[]).length === 1)).toBe(true)
  })
})

describe('what does not go over the socket', () => {
  const overHttp: ServerOptions['http'] = (request, _body, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(
      JSON.stringify({
        id: 'resp_http',
        object: 'response',
        status: 'completed',
        output: [],
        path: request.url,
        data: [],
      }),
    )
  }
  it.each([426, 404, 401])('goes over HTTP when the upgrade is refused with %i', async (status) => {
    const { client, server, fallbacks } = await rig(answerHello, { refuse: () => status, http: overHttp })
    for (let n = 0; n < 2; n++)
      expect((await client.responses.create({ model: 'm', input: 'hi' })).id).toBe('resp_http')
    expect(server.posts[0]).toMatchObject({
      body: { model: 'm', input: 'hi' },
      headers: { authorization: 'Bearer sk-test' },
    })
    expect(fallbacks).toHaveLength(2)
    expect(server.upgrades).toBe(status === 401 ? 2 : 1)
  })
  it('tries the socket again when the time is over', async () => {
    const { client } = await rig(
      answerHello,
      { refuse: (n) => (n === 0 ? 426 : undefined), http: overHttp },
      { coolDownMs: { refused: 30 } },
    )
    expect((await client.responses.create({ model: 'm', input: 'hi' })).id).toBe('resp_http')
    await sleep(40)
    expect((await client.responses.create({ model: 'm', input: 'hi' })).id).toBe('resp_1')
  })
  it('are other paths, other methods and background responses', async () => {
    const { client, server } = await rig(answerHello, { http: overHttp })
    await client.models.list()
    await client.responses.retrieve('resp_9')
    await client.responses.create({ model: 'm', input: 'hi', background: true })
    await client.responses.inputTokens.count({ model: 'm', input: 'hi' })
    expect(server.conns).toHaveLength(0)
    expect(server.posts).toHaveLength(4)
  })
  it('is anything after close', async () => {
    const { client, socketFetch } = await rig(answerHello, { http: overHttp })
    socketFetch.close()
    expect((await client.responses.create({ model: 'm', input: 'hi' })).id).toBe('resp_http')
  })
})

it('takes a Request object as well', async () => {
  const { server, socketFetch } = await rig()
  const request = new Request(`${server.url}/responses`, {
    method: 'POST',
    body: JSON.stringify({ model: 'm', input: 'hi', stream: true }),
    headers: { authorization: 'Bearer other' },
  })
  const response = await socketFetch(request)
  expect(response.headers.get('content-type')).toContain('text/event-stream')
  const text = await response.text()
  const events = text.trimEnd().split('\n\n')
  expect(events.every((event) => /^event: (\S+)\ndata: \{"type":"\1",.*\}$/.test(event))).toBe(true)
  expect(text).not.toContain('stream_id')
  expect(server.conns[0]?.headers.authorization).toBe('Bearer other')
})

it('lets a program end while its socket is idle', async () => {
  const { server } = await rig()
  const code = `import { createFetch } from ${JSON.stringify(new URL('../../src/client/fetch.ts', import.meta.url).href)}
    const f = createFetch()
    const r = await f('${server.url}/responses', { method: 'POST', body: JSON.stringify({ model: 'm', input: 'hi' }) })
    console.log((await r.json()).status)`
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', code], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let out = ''
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
  const exit = await new Promise((resolve) => child.on('exit', resolve))
  expect([exit, out.trim()]).toEqual([0, 'completed'])
})
