import { existsSync, readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { join } from 'node:path'
import OpenAI from 'openai'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { naive } from '../../bench/peers/adapters/naive.ts'
import { difference } from '../../bench/peers/comparison.ts'
import type { Started } from '../../bench/peers/peer.ts'
import { peers } from '../../bench/peers/peers.ts'
import { freePort, missing, newFolder, type Program, startProgram } from '../../bench/peers/program.ts'

/** A chat-completions engine: calls `read` until two outputs stand in the messages, then says so. `break`: ends in the middle. */
function engine(seen: { messages: Record<string, unknown>[] }[]): Server {
  return createServer((request, response) => {
    let text = ''
    request.on('data', (part) => (text += part))
    request.on('end', () => {
      const body = JSON.parse(text)
      seen.push(body)
      const outputs = body.messages.filter((m: { role: string }) => m.role === 'tool').length
      const chunk = (delta: object) => response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`)
      if (body.model === 'refused') return void response.writeHead(429).end('too many')
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      chunk({ role: 'assistant', content: '' })
      if (body.model === 'breaks') {
        chunk({ content: 'half' })
        return void response.end()
      }
      if (outputs < 2) {
        const path = `{"path":"file-${outputs}"}`
        chunk({
          tool_calls: [
            { index: 0, id: `call_${outputs}`, type: 'function', function: { name: 'read', arguments: '' } },
          ],
        })
        for (const piece of [path.slice(0, 5), path.slice(5)])
          chunk({ tool_calls: [{ index: 0, function: { arguments: piece } }] })
      } else for (const content of ['Read ', 'both – ', 'done.']) chunk({ content })
      const usage = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 }
      response.end(`data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`)
    })
  })
}

describe('the naive proxy', () => {
  const seen: { messages: Record<string, unknown>[] }[] = []
  const server = engine(seen)
  let proxy: Started
  let client: OpenAI
  beforeAll(async () => {
    const port = await freePort()
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
    proxy = await naive.start({ engineUrl: `http://127.0.0.1:${port}/v1`, model: 'm' })
    client = new OpenAI({ baseURL: proxy.url, apiKey: 'none', maxRetries: 0 })
  })
  afterAll(async () => {
    await proxy.stop()
    server.close()
  })
  afterEach(() => seen.splice(0))

  const tools: OpenAI.Responses.FunctionTool[] = [
    { type: 'function', name: 'read', description: 'Reads.', parameters: { type: 'object' }, strict: false },
  ]
  const settings = { model: 'm', instructions: 'Be brief.', tools }
  const calls = (response: OpenAI.Responses.Response) => response.output.filter((item) => item.type === 'function_call')
  const outputs = (response: OpenAI.Responses.Response) =>
    calls(response).map(
      (call) => ({ type: 'function_call_output', call_id: call.call_id, output: `text of ${call.arguments}` }) as const,
    )
  /** What the engine must have been shown in the end. */
  const whole = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Read two files.' },
    ...[0, 1].flatMap((n) => [
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: `call_${n}`, type: 'function', function: { name: 'read', arguments: `{"path":"file-${n}"}` } },
        ],
      },
      { role: 'tool', tool_call_id: `call_${n}`, content: `text of {"path":"file-${n}"}` },
    ]),
  ]

  const asked: Record<
    string,
    (body: OpenAI.Responses.ResponseCreateParamsNonStreaming) => Promise<OpenAI.Responses.Response>
  > = {
    streaming: (body) => client.responses.stream(body as Parameters<typeof client.responses.stream>[0]).finalResponse(),
    'not streaming': (body) => client.responses.create(body),
  }
  for (const [how, ask] of Object.entries(asked)) {
    it(`carries the official client through a tool loop, ${how}, with the whole history each time`, async () => {
      const input: OpenAI.Responses.ResponseInput = [{ role: 'user', content: 'Read two files.' }]
      let response = await ask({ ...settings, input, store: false })
      for (let turn = 0; turn < 2; turn++) {
        input.push(...calls(response), ...outputs(response))
        response = await ask({ ...settings, input, store: false })
      }
      expect(response.output_text ?? '').toBe('Read both – done.')
      expect(response.usage).toMatchObject({ input_tokens: 7, output_tokens: 3, total_tokens: 10 })
      expect(seen.at(-1)?.messages).toEqual(whole)
    })
    it(`carries it through the same loop, ${how}, with previous_response_id`, async () => {
      let response = await ask({ ...settings, input: 'Read two files.' })
      for (let turn = 0; turn < 2; turn++)
        response = await ask({ ...settings, input: outputs(response), previous_response_id: response.id })
      expect(response.output_text ?? '').toBe('Read both – done.')
      expect(seen.at(-1)?.messages).toEqual(whole)
    })
  }
  it('numbers its events and says each piece of text as an event', async () => {
    const input: OpenAI.Responses.ResponseInput = [0, 1].flatMap((n) => [
      { type: 'function_call', call_id: `call_${n}`, name: 'read', arguments: '{}' } as const,
      { type: 'function_call_output', call_id: `call_${n}`, output: 'text' } as const,
    ])
    const events = []
    for await (const event of await client.responses.create({ ...settings, input, stream: true })) events.push(event)
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, n) => n))
    expect(events.map(({ type }) => type.replace('response.', ''))).toEqual([
      ...['created', 'in_progress', 'output_item.added', 'content_part.added'],
      ...['output_text.delta', 'output_text.delta', 'output_text.delta'],
      ...['output_text.done', 'content_part.done', 'output_item.done', 'completed'],
    ])
  })
  it('refuses to go on from a response that it does not know, or was not to keep', async () => {
    const { id } = await client.responses.create({ ...settings, input: 'Hello', store: false })
    for (const previous_response_id of [id, 'resp_none'])
      await expect(client.responses.create({ ...settings, input: 'Hello', previous_response_id })).rejects.toThrow(
        /404/,
      )
  })
  it('says so where the engine refuses, or ends in the middle', async () => {
    await expect(client.responses.create({ model: 'refused', input: 'Hello' })).rejects.toThrow(/429/)
    await expect(client.responses.create({ model: 'breaks', input: 'Hello' })).rejects.toThrow(/502.*in the middle/)
    const events = []
    for await (const event of await client.responses.create({ model: 'breaks', input: 'Hello', stream: true }))
      events.push(event.type)
    expect(events.at(-1)).toBe('response.failed')
  })
  it('refuses what is no JSON, and other paths', async () => {
    const post = (path: string, body: string) => fetch(`${proxy.url}${path}`, { method: 'POST', body })
    expect((await post('/responses', '{')).status).toBe(400)
    expect((await post('/elsewhere', '{}')).status).toBe(404)
  })
})

describe('a program that is started for a while', () => {
  let started: Program | undefined
  afterEach(async () => {
    await started?.stop()
    started = undefined
  })
  /** `script` is run by Node with PORT in its environment. */
  async function fake(script: string, options: { startMs?: number; stopMs?: number; command?: string } = {}) {
    const [port, folder] = [await freePort(), await newFolder('fake')]
    return {
      folder,
      url: `http://127.0.0.1:${port}/`,
      start: async () =>
        (started = await startProgram({
          name: 'fake',
          command: options.command ?? process.execPath,
          args: ['-e', script],
          env: { PORT: String(port) },
          folder,
          healthUrl: `http://127.0.0.1:${port}/`,
          startMs: options.startMs ?? 15_000,
          stopMs: options.stopMs ?? 3000,
        })),
    }
  }
  const serve = (body: string) =>
    `require('node:http').createServer((_, r) => r.end(${body})).listen(process.env.PORT, '127.0.0.1');`
  const lives = (pid: number): boolean => {
    try {
      return process.kill(pid, 0)
    } catch {
      return false
    }
  }

  it('is ready when its health answers, sees nothing of our environment but its own home, and leaves no folder', async () => {
    process.env['SECRET_OF_OURS'] = 'hidden'
    const { start, folder, url } = await fake(
      serve('JSON.stringify([process.env.SECRET_OF_OURS ?? null, process.env.HOME, process.cwd()])'),
    )
    const { stop, pid } = await start()
    expect(await (await fetch(url)).json()).toEqual([null, folder, folder])
    await stop()
    expect(lives(pid)).toBe(false)
    expect(existsSync(folder)).toBe(false)
  })
  it('is not taken for ready while its health answers with an error', async () => {
    const { start, url } = await fake(
      `let n = 0; require('node:http').createServer((_, r) => { r.statusCode = ++n < 4 ? 503 : 200; r.end(String(n)) }).listen(process.env.PORT, '127.0.0.1')`,
    )
    await start()
    expect(await (await fetch(url)).text()).toBe('5')
  })
  it('is ended with all that it started, even where that ignores the signal', async () => {
    const stubborn = `process.on('SIGTERM', () => {}); setInterval(() => {}, 1000)`
    const { start, folder } = await fake(
      `process.on('SIGTERM', () => {});
       const child = require('node:child_process').spawn(process.execPath, ['-e', ${JSON.stringify(stubborn)}], { stdio: 'ignore' });
       require('node:fs').writeFileSync('child.pid', String(child.pid));
       ${serve("'ok'")}`,
      { stopMs: 500 },
    )
    const { stop, pid } = await start()
    const child = Number(readFileSync(join(folder, 'child.pid'), 'utf8'))
    expect([lives(pid), lives(child)]).toEqual([true, true])
    await stop()
    // What was killed may stay as a zombie until it is reaped; that it runs no more is what counts.
    expect([running(pid), running(child)]).toEqual([false, false])
  })
  const running = (pid: number): boolean => {
    if (!lives(pid)) return false
    return existsSync('/proc') ? !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8')) : true
  }
  it('that dies at start is reported with its last lines, and leaves no folder', async () => {
    const { start, folder } = await fake(
      `for (let n = 0; n < 100; n++) console.error('line ' + n); console.error('\\x1b[31mno key is set\\x1b[0m'); process.exit(3)`,
    )
    const said = await start().then(
      () => '',
      (e: Error) => e.message,
    )
    expect(said).toMatch(/^fake did not start: it ended with code 3\. Its last lines:\n/)
    expect(said.split('\n').slice(-2)).toEqual(['line 99', 'no key is set'])
    expect(said.split('\n').length).toBeLessThan(15)
    expect(existsSync(folder)).toBe(false)
  })
  it('that never answers is given up in time, and ended', async () => {
    const { start, folder } = await fake(`console.log('pid', process.pid); setInterval(() => {}, 1000)`, {
      startMs: 1500,
    })
    const said = await start().then(
      () => '',
      (e: Error) => e.message,
    )
    expect(said).toContain('did not answer within 2 s')
    const pid = Number(/pid (\d+)/.exec(said)?.[1])
    expect(pid).toBeGreaterThan(1)
    expect(running(pid)).toBe(false)
    expect(existsSync(folder)).toBe(false)
  })
  it('that is not there is reported by its name', async () => {
    const { start } = await fake('', { command: '/nowhere/program' })
    await expect(start()).rejects.toThrow(/fake did not start: spawn \/nowhere\/program ENOENT/)
  })
})

describe('the peers', () => {
  it('that are not installed say with which command they are', async () => {
    expect(await missing('/nowhere/program', 'pip install it')).toBe(
      'not installed (there is no /nowhere/program); run: pip install it',
    )
    expect(await missing(process.execPath, 'pip install it')).toBeUndefined()
  })
  it('have names of their own, and at least one way each', () => {
    expect(new Set(peers.map(({ name }) => name)).size).toBe(peers.length)
    for (const { name, ways } of peers) expect(ways.length, name).toBeGreaterThan(0)
  })
})

describe('a run counts only if it was the task', () => {
  const right = { calls: ['read {"n":0}', 'read {"n":1}'], text: 'Done' }
  const turns = [1, 1, 1]
  const engineSaw = { requests: 3, bytes: 1000 }
  const run = { said: right, shownChars: 900, turns }
  it('with the same calls, the same text, as many requests, and everything shown to the engine', () => {
    expect(difference(run, right, engineSaw)).toBeUndefined()
  })
  it.each([
    ['another call', { ...run, said: { ...right, calls: ['read {"n":0}', 'read {"n":0}'] } }, engineSaw, /call 2 is/],
    ['a call missing', { ...run, said: { ...right, calls: ['read {"n":0}'] } }, engineSaw, /call 2 is missing/],
    ['a call more', { ...run, said: { ...right, calls: [...right.calls, 'x'] } }, engineSaw, /3 calls, not 2/],
    ['another text', { ...run, said: { ...right, text: 'Do' } }, engineSaw, /text at the end is "Do"/],
    ['a request more', run, { ...engineSaw, requests: 4 }, /asked 4 times for 3 turns/],
    ['history that the engine was not sent', run, { ...engineSaw, bytes: 899 }, /sent 899 bytes/],
  ])('not with %s', (_, given, saw, complaint) => {
    expect(difference(given, right, saw)).toMatch(complaint)
  })
})
