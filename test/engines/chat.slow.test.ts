import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { chat, type ChatEngine, type ChatInput, chatOptions } from '../../src/engines/chat.ts'
import { ApiError } from '../../src/protocol/errors.ts'
import type { Item } from '../../src/protocol/items.ts'
import type { Settings } from '../../src/protocol/request.ts'
import { Chain } from '../../src/turn/chain.ts'
import type { Chunk } from '../../src/turn/ports.ts'
import { ChatServer, defaultScript, type Script, type Step } from './chat-server.ts'
import { callTo, chainOf, customTool, itemsOf, output, read, settings, tool, user } from './simulated-generations.ts'

const open: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close()
})
async function setUp(
  script: Script | Step = defaultScript,
  options: Partial<ChatInput> = {},
): Promise<{ server: ChatServer; engine: ChatEngine }> {
  const server = await ChatServer.start(typeof script === 'function' ? script : () => script)
  const engine = chat({ url: server.url, name: 'test', ...options })
  open.push(server, engine)
  return { server, engine }
}
async function until(what: () => boolean, ms = 3000): Promise<void> {
  for (const end = Date.now() + ms; !what();) {
    if (Date.now() > end) throw new Error('did not come to be')
    await sleep(5)
  }
}
const errorOf = (e: unknown): ApiError => {
  if (e instanceof ApiError) return e
  throw new Error(`not an ApiError: ${String(e)}`)
}
const hello = chainOf([user('hello')])
const shell = tool('exec_command', { cmd: { type: 'string' } })

describe('the chat engine', () => {
  it('works through a tool loop, and sends the same bytes for items that come as deltas and in full (law 6)', async () => {
    const { server, engine } = await setUp()
    let chain = chainOf([user('look around')])
    const flat: Item[] = [...chain.all()]
    const texts: string[] = []
    for (let round = 0; round < 4; round++) {
      const got = await read(engine, callTo(chain, { tools: [shell], instructions: 'Be brief.' }))
      expect(got.error).toBeUndefined()
      expect(got.finish).toBe('stop')
      const before = engine.messages.rendered
      const full = await read(engine, callTo(chainOf([...flat]), { tools: [shell], instructions: 'Be brief.' }))
      expect(full.calls).toEqual(got.calls)
      expect(engine.messages.rendered - before).toBe(flat.length)
      expect(server.requests.at(-1)?.raw).toBe(server.requests.at(-2)?.raw)
      const made = itemsOf(got.deltas, `r${round}_`)
      const outputs = made.flatMap((i) => (i.type === 'function_call' ? [output(i.call_id, `out ${round}`)] : []))
      chain = chain.add({ response: `r${round}`, from: 'model', items: made })
      if (outputs.length > 0) chain = chain.add({ response: `r${round}`, from: 'input', items: outputs })
      flat.push(...made, ...outputs)
      texts.push(got.text)
    }
    expect(texts).toEqual(['', '', '', 'Done after 3 tool calls.'])
    const { body, headers } = server.last
    expect(body.messages.map((m) => m.role)).toEqual([
      'system',
      'user',
      'assistant',
      'tool',
      'assistant',
      'tool',
      'assistant',
      'tool',
    ])
    expect(body.messages[2]).toMatchObject({
      reasoning_content: 'Round 1.',
      tool_calls: [{ function: { name: 'exec_command', arguments: '{"cmd":"ls"}' } }],
    })
    expect(Number(headers['content-length'])).toBe(Buffer.byteLength(server.last.raw))
    expect(headers['transfer-encoding']).toBeUndefined()
    // Connections are kept: a second one only where the end of an answer was still on its way.
    expect(server.connections).toBeLessThanOrEqual(2)
  })
  it('sends what the settings ask for in the fields of chat completions', async () => {
    const { server, engine } = await setUp(
      { text: 'ok' },
      {
        model: 'upstream',
        apiKey: 'secret',
        headers: { 'x-team': 'a' },
        body: { chat_template_kwargs: { thinking: true } },
        can: { logprobs: true },
      },
    )
    await read(
      engine,
      callTo(hello, {
        tools: [
          { ...shell, strict: true },
          customTool('apply_patch', { type: 'grammar', syntax: 'lark', definition: 'start: "x"' }),
          { type: 'namespace', name: 'fs', description: '', tools: [tool('read')] },
        ],
        tool_choice: { type: 'function', name: 'exec_command' },
        parallel_tool_calls: false,
        max_output_tokens: 99,
        temperature: 0.5,
        top_p: 0.9,
        presence_penalty: 1,
        frequency_penalty: -1,
        top_logprobs: 3,
        reasoning: { effort: 'low' },
        text: { format: { type: 'json_schema', name: 'out', schema: { type: 'object' }, strict: true } },
      }),
    )
    const { body, headers } = server.last
    expect(headers).toMatchObject({ authorization: 'Bearer secret', 'x-team': 'a', 'accept-encoding': 'identity' })
    expect(body).toMatchObject({
      model: 'upstream',
      stream: true,
      stream_options: { include_usage: true },
      tool_choice: { type: 'function', function: { name: 'exec_command' } },
      parallel_tool_calls: false,
      max_tokens: 99,
      temperature: 0.5,
      top_p: 0.9,
      presence_penalty: 1,
      frequency_penalty: -1,
      logprobs: true,
      top_logprobs: 3,
      reasoning_effort: 'low',
      response_format: { type: 'json_schema', json_schema: { name: 'out', schema: { type: 'object' }, strict: true } },
      chat_template_kwargs: { thinking: true },
    })
    expect(body.tools?.map((t) => t.function.name)).toEqual(['exec_command', 'apply_patch', 'fs__read'])
    expect(body.tools?.[0]?.function.strict).toBe(true)
    expect(body.tools?.[1]?.function.description).toContain('start: "x"')
    expect(body.tools?.[1]?.function.parameters).toMatchObject({ required: ['input'] })
  })
  it.each<[string, Settings['tool_choice'], unknown, string[]]>([
    ['none', 'none', 'none', ['exec_command', 'get_x']],
    ['auto', 'auto', undefined, ['exec_command', 'get_x']],
    ['required', 'required', 'required', ['exec_command', 'get_x']],
    [
      'allowed_tools',
      { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'get_x' }] },
      undefined,
      ['get_x'],
    ],
    [
      'allowed_tools required',
      { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'get_x' }] },
      'required',
      ['get_x'],
    ],
  ])('puts tool_choice %s into choice and tools', async (_, choice, sent, names) => {
    const { server, engine } = await setUp({ text: 'ok' })
    await read(engine, callTo(hello, { tools: [shell, tool('get_x')], tool_choice: choice }))
    expect(server.last.body.tool_choice).toEqual(sent)
    expect(server.last.body.tools?.map((t) => t.function.name)).toEqual(names)
  })
  it('rounds reasoning effort to what the server knows, but never none', async () => {
    const { server, engine } = await setUp({ text: 'ok' }, { can: { reasoning_effort: ['low', 'medium', 'high'] } })
    for (const [asked, sent] of [
      ['minimal', 'low'],
      ['xhigh', 'high'],
      ['medium', 'medium'],
    ] as const) {
      await read(engine, callTo(hello, { reasoning: { effort: asked } }))
      expect(server.last.body['reasoning_effort']).toBe(sent)
    }
    expect(() => engine.admit(settings({ reasoning: { effort: 'none' } }), hello)).toThrow(/effort 'none'/)
  })
  const image: Item = {
    type: 'message',
    role: 'user',
    content: [{ type: 'input_image', image_url: 'data:image/png;base64,AA==' }],
  }
  const file: Item = {
    type: 'message',
    role: 'user',
    content: [{ type: 'input_file', file_data: 'data:text/plain;base64,AA==' }],
  }
  it.each<[string, NonNullable<ChatInput['can']>, Partial<Settings>, Item[]]>([
    ['tools', { tools: false }, { tools: [shell] }, []],
    ['tool_choice', { tool_choice: false }, { tools: [shell], tool_choice: 'required' }, []],
    ['tool_choice', {}, { tools: [shell], tool_choice: { type: 'web_search' } }, []],
    ['text.format', { json_schema: false }, { text: { format: { type: 'json_schema', name: 'a', schema: {} } } }, []],
    ['text.format', { json_object: false }, { text: { format: { type: 'json_object' } } }, []],
    ['reasoning.effort', { reasoning_effort: false }, { reasoning: { effort: 'high' } }, []],
    ['top_logprobs', {}, { top_logprobs: 2 }, []],
    ['presence_penalty', { penalties: false }, { presence_penalty: 1 }, []],
    ['input_image', { images: false }, {}, [image]],
    ['input_file', {}, {}, [file]],
  ])('refuses %s before the turn where it cannot do it, and names both', async (param, can, some, items) => {
    const { server, engine } = await setUp({ text: 'ok' }, { can })
    const chain = chainOf([user('x')], items)
    const refused = (): void => engine.admit(settings(some), chain)
    expect(refused).toThrow(ApiError)
    try {
      refused()
    } catch (e) {
      expect(errorOf(e)).toMatchObject({
        code: 'unsupported_by_engine',
        param,
        message: expect.stringContaining("'test'") as string,
      })
      expect(errorOf(e).message).toContain(param)
    }
    // What joined the chain after admission is held back too.
    expect(() => engine.generate(callTo(chain, some))).toThrow(ApiError)
    expect(server.requests).toHaveLength(0)
    engine.admit(settings({ tools: [], max_output_tokens: 5, parallel_tool_calls: false }), chainOf([user('x')]))
  })
  it.each(['reasoning_content', 'reasoning', 'reasoning_text', 'thinking', 'tags'] as const)(
    'reads a thought spelled %s, in bytes one by one',
    async (spelling) => {
      const step: Step = { reasoning: 'Zürich 🏔️?', spelling, text: 'Grüezi 👋🏽 日本', bytes: 1, piece: 3 }
      const { engine } = await setUp(step, { thinkTags: spelling === 'tags' })
      const got = await read(engine, callTo(hello))
      expect(got.error).toBeUndefined()
      expect(got.text).toBe(step.text)
      expect(
        got.deltas
          .map((d) => (d.type === 'reasoning' ? d.text : ''))
          .join('')
          .trim(),
      ).toBe(step.reasoning)
      expect(got.usage).toEqual({ input: 100, cached: 64, output: 20, reasoning: 5 })
    },
  )
  it.each<[Step['usage'], boolean]>([
    ['once', true],
    ['along', true],
    ['none', false],
    ['double', false],
    ['zero', false],
    ['impossible', false],
  ])('with usage %s: taken %s, else left to our own count', async (usage, taken) => {
    const { engine } = await setUp({ text: 'hi', usage })
    const got = await read(engine, callTo(hello))
    expect(got.error).toBeUndefined()
    expect(got.usage !== undefined).toBe(taken)
    expect(got.finish).toBe('stop')
  })
  it('reads servers that do not stream', async () => {
    const { engine, server } = await setUp()
    server.script = () => ({
      fault: {
        status: 200,
        body: {
          choices: [
            {
              index: 0,
              message: {
                role: 'assistant',
                content: 'whole',
                tool_calls: [{ id: 'a', function: { name: 'exec_command', arguments: '{"cmd":"ls"}' } }],
              },
              finish_reason: 'tool_calls',
            },
          ],
          usage: { prompt_tokens: 3, completion_tokens: 2 },
        },
      },
    })
    const got = await read(engine, callTo(hello, { tools: [shell] }))
    expect([got.text, got.calls[0]?.input, got.usage?.input, got.finish]).toEqual(['whole', '{"cmd":"ls"}', 3, 'stop'])
  })
  it('stops the server after the first call where one was allowed', async () => {
    const chunks = [0, 1].map((index) => ({
      choices: [
        {
          index: 0,
          delta: {
            tool_calls: [{ index, id: `c${index}`, function: { name: 'exec_command', arguments: '{"cmd":"ls"}' } }],
          },
        },
      ],
    }))
    const { engine, server } = await setUp({
      chunks: [...chunks, ...Array.from({ length: 2000 }, () => ({ choices: [{ delta: { content: 'more' } }] }))],
      pace: 5,
    })
    const got = await read(engine, callTo(hello, { tools: [shell], parallel_tool_calls: false }))
    expect([got.calls.length, got.finish]).toEqual([1, 'stop'])
    await until(() => server.dropped === 1)
  })
  it('does not wait for usage that never comes', async () => {
    const chunks = [
      { choices: [{ index: 0, delta: { content: 'hi' }, finish_reason: 'stop' }] },
      ...Array.from({ length: 400 }, () => ({ choices: [] })),
    ]
    const { engine, server } = await setUp({ chunks, pace: 20 }, { lingerMs: 60 })
    const got = await read(engine, callTo(hello))
    expect([got.text, got.finish, got.usage]).toEqual(['hi', 'stop', undefined])
    await until(() => server.running === 0)
  })
  it('sends nothing for a warm-up, or one token where it may prefill', async () => {
    const cold = await setUp({ text: 'x' })
    expect((await read(cold.engine, callTo(hello, {}, { generate: false }))).chunks).toEqual([])
    expect(cold.server.requests).toHaveLength(0)
    const warm = await setUp({ text: 'x' }, { prefill: true })
    expect((await read(warm.engine, callTo(hello, { max_output_tokens: 500 }, { generate: false }))).chunks).toEqual([])
    expect(warm.server.last.body['max_tokens']).toBe(1)
  })
  it('lists the models of the server, and says what to do where it cannot', async () => {
    const { engine, server } = await setUp()
    server.models = ['a', 'b']
    expect(await engine.probe(new AbortController().signal)).toEqual(['a', 'b'])
    await server.close()
    await expect(engine.probe(new AbortController().signal)).rejects.toThrow(
      /is down at 127\.0\.0\.1:\d+ \(connection refused\)/,
    )
  })
  it('has options with a default for everything but the URL', () => {
    expect(chatOptions.parse({ url: 'http://127.0.0.1:1/v1' })).toMatchObject({
      connectMs: 5000,
      can: { tools: true, max_tokens_field: 'max_tokens', images: true },
    })
    expect(() => chat({ url: 'file:///etc/passwd' })).toThrow()
    expect(() => chat({ url: 'http://127.0.0.1/v1', can: { tols: true } as never })).toThrow(/tols/)
  })
})

describe('trouble with the server', () => {
  it.each<[string, Step['fault'], string, RegExp]>([
    [
      '400 about the context',
      { status: 400, body: { error: { message: "This model's maximum context length is 4096 tokens." } } },
      'context_length_exceeded',
      /context window/,
    ],
    [
      '400 in llama-server words',
      {
        status: 400,
        body: {
          error: {
            code: 400,
            message: 'request (9 tokens) exceeds the available context size (4 tokens)',
            type: 'exceed_context_size_error',
          },
        },
      },
      'context_length_exceeded',
      /context window/,
    ],
    [
      '400 otherwise',
      { status: 400, body: { error: { message: 'bad field at /srv/app/x.py' } } },
      'unsupported_by_engine',
      /refused the request \(HTTP 400\): "bad field at …"/,
    ],
    [
      '401',
      { status: 401, body: { error: { message: 'Invalid key sk-verysecret123' } } },
      'server_error',
      /refused its API key/,
    ],
    ['403', { status: 403 }, 'server_error', /refused its API key/],
    [
      '404 of a model',
      { status: 404, body: { error: { message: 'The model `m` does not exist.' } } },
      'server_error',
      /knows no model 'm'/,
    ],
    [
      '404 of a path',
      { status: 404, body: 'nothing', type: 'text/plain' },
      'server_error',
      /no chat completions under this URL/,
    ],
    ['429', { status: 429, headers: { 'retry-after': '7' } }, 'rate_limit_exceeded', /no more requests/],
    [
      '500',
      { status: 500, body: { error: { message: 'CUDA error at 0xdeadbeef' } } },
      'server_error',
      /is down at 127\.0\.0\.1:\d+ \(HTTP 500\): "CUDA error at …"/,
    ],
    ['503 as HTML', { status: 503, body: '<html>busy</html>', type: 'text/html' }, 'server_error', /\(HTTP 503\)\.$/],
    ['a redirect', { status: 302, headers: { location: 'http://127.0.0.1:1/' } }, 'server_error', /redirects/],
    [
      'a page in place of a stream',
      { status: 200, body: '<html>hi</html>', type: 'text/html' },
      'server_error',
      /'text\/html' and no event stream/,
    ],
    ['a connection that is dropped', 'down', 'server_error', /closed the connection without an answer/],
    ['an answer that is cut off', 'cut', 'server_error', /cut its answer off/],
    ['garbage', 'garbage', 'server_error', /no chat completion chunk/],
    ['a line without end', 'longline', 'server_error', /too long/],
    ['an answer without end', 'endless', 'server_error', /more than one answer may have/],
  ])('%s is one clear error, and the next turn works', async (_, fault, code, words) => {
    const { engine, server } = await setUp(undefined, { lineBytes: 1024 * 1024, totalBytes: 4 * 1024 * 1024 })
    server.script = () => ({ text: 'some text that is long enough', fault: fault ?? 'down' })
    const error = errorOf((await read(engine, callTo(hello))).error)
    expect([error.code, error.message]).toEqual([code, expect.stringMatching(words)])
    expect(error.message).not.toMatch(/\/srv|0xdead|sk-very|<html/)
    if (code === 'rate_limit_exceeded') expect(error.retryAfter).toBe(7)
    server.script = () => ({ text: 'fine' })
    expect((await read(engine, callTo(hello))).text).toBe('fine')
    await until(() => server.running === 0)
  })
  it('a stream that just ends is a cut', async () => {
    const { engine } = await setUp({ text: 'half', finish: null, done: false, usage: 'none' })
    expect(errorOf((await read(engine, callTo(hello))).error).message).toContain('before it was finished')
  })
  it('silence is bounded, before the answer and within it', async () => {
    const { engine, server } = await setUp({ fault: 'silent' }, { idleMs: 1000, headersMs: 1000 })
    const silent = errorOf((await read(engine, callTo(hello))).error)
    expect([silent.code, silent.message]).toEqual(['server_error', expect.stringContaining('was silent for 1000 ms')])
    server.script = () => ({ fault: 'mute' })
    const mute = errorOf((await read(engine, callTo(hello))).error)
    expect([mute.code, mute.message]).toEqual([
      'server_error',
      expect.stringContaining('did not begin to answer within 1000 ms'),
    ])
    await until(() => server.running === 0)
  })
  it('a server that is down is named by host, without the rest of its URL', async () => {
    const { engine, server } = await setUp()
    const { port } = server
    await server.close()
    const error = errorOf((await read(engine, callTo(hello))).error)
    expect([error.code, error.message]).toEqual([
      'server_error',
      `The engine 'test' is down at 127.0.0.1:${port} (connection refused).`,
    ])
  })
  it('a kept connection that the server closed is opened anew without an error', async () => {
    let asked = 0
    const { engine, server } = await setUp(() => (++asked === 2 ? { fault: 'down' } : { text: 'ok' }))
    expect((await read(engine, callTo(hello))).text).toBe('ok')
    expect((await read(engine, callTo(hello))).text).toBe('ok')
    expect(server.requests).toHaveLength(3)
  })
  it('more requests at once than allowed are refused as overload', async () => {
    const { engine, server } = await setUp({ fault: 'mute' }, { requests: 2 })
    const stop = new AbortController()
    const running = [1, 2].map(() => read(engine, callTo(hello, {}, { signal: stop.signal })))
    await until(() => server.running === 2)
    expect(() => engine.generate(callTo(hello))).toThrow(/as many requests/)
    stop.abort(new ApiError('server_error', 'over'))
    await Promise.all(running)
    server.script = () => ({ text: 'room' })
    expect((await read(engine, callTo(hello))).text).toBe('room')
  })
})

describe('stopping', () => {
  it.each<[string, Step]>([
    ['while the server is silent', { fault: 'silent' }],
    ['before it answers', { fault: 'mute' }],
    ['while it talks', { fault: 'endless' }],
  ])('cancels at the server %s', async (_, step) => {
    const { engine, server } = await setUp(step)
    const stop = new AbortController()
    const reading = read(engine, callTo(hello, {}, { signal: stop.signal }))
    await until(() => server.running === 1)
    await sleep(20)
    const reason = new ApiError('server_error', 'cancelled')
    const at = performance.now()
    stop.abort(reason)
    expect((await reading).error).toBe(reason)
    expect(performance.now() - at).toBeLessThan(200)
    await until(() => server.dropped === 1)
  })
  it('cancels at the server when the reader leaves', async () => {
    const { engine, server } = await setUp({ fault: 'endless' })
    for await (const chunk of engine.generate(callTo(hello))) if (chunk.deltas) break
    await until(() => server.dropped === 1)
  })
  it('asks nothing for a turn that was stopped before', async () => {
    const { engine, server } = await setUp()
    const got = await read(
      engine,
      callTo(hello, {}, { signal: AbortSignal.abort(new ApiError('server_error', 'gone')) }),
    )
    expect(errorOf(got.error).message).toBe('gone')
    await sleep(30)
    expect(server.requests).toHaveLength(0)
  })
  it('lets a slow reader slow the server down', async () => {
    const { engine, server } = await setUp({ fault: 'endless' })
    const it = engine.generate(callTo(hello))[Symbol.asyncIterator]()
    await it.next()
    let before = -1
    await until(() => {
      const still = server.written === before
      before = server.written
      return still && server.written > 0
    }, 10_000)
    await sleep(100)
    const held = server.written
    await sleep(100)
    expect(server.written).toBe(held)
    let chunk: IteratorResult<Chunk> = await it.next()
    for (let n = 0; n < 200 && server.written === held; n++) chunk = await it.next()
    expect(chunk.done).toBe(false)
    expect(server.written).toBeGreaterThan(held)
    await it.return?.()
    await until(() => server.dropped === 1)
  })
})

describe('an empty conversation', () => {
  it('is sent as one without messages of its own', async () => {
    const { engine, server } = await setUp({ text: 'hm' })
    await read(engine, callTo(Chain.root('local/k'), { instructions: 'Say something.' }))
    expect(server.last.body.messages).toEqual([{ role: 'system', content: 'Say something.' }])
  })
})
