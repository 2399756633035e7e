// The client against the real server: the one in this tree, or the one that CONTINUO_TEST_URL names (`http://host/v1`,
// simulated engine with its defaults).
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runAgent, type AgentResult } from '../../src/client/agent.ts'
import { connect } from '../../src/client/connection.ts'
import { createFetch } from '../../src/client/fetch.ts'
import { localTools } from '../../src/client/tools.ts'
import { run, start } from '../cli/program.ts'
import { eventually, startTestServer, type TestServer } from '../wire/server.ts'
import '../wire/tap.ts'

const outside = process.env['CONTINUO_TEST_URL']
let own: TestServer | undefined
let url: string
let cwd: string
beforeAll(async () => {
  own = outside === undefined ? await startTestServer() : undefined
  url = outside ?? `${own?.url}/v1`
  cwd = await mkdtemp(join(tmpdir(), 'continuo-agent-'))
  await writeFile(join(cwd, 'notes.txt'), 'hello')
})
afterAll(async () => {
  await own?.close()
  await rm(cwd, { recursive: true, force: true })
})
const words = 'Say something.'
type Input = OpenAI.Responses.ResponseInputItem[]

describe('against the real server', () => {
  it('an agent runs its tools over one socket, in deltas', async () => {
    const connection = connect({ url })
    const deltas: boolean[] = []
    const via = {
      create: (...args: Parameters<typeof connection.create>) => {
        const call = connection.create(...args)
        void call.finished.then(() => deltas.push(call.delta))
        return call
      },
    }
    const agent = runAgent({
      via,
      model: 'any',
      instructions: 'Work.',
      input: 'List the files.',
      tools: localTools({ cwd }),
    })
    let part = await agent.next()
    let text = ''
    for (; part.done !== true; part = await agent.next()) text += part.value
    const result: AgentResult = part.value
    expect(connection.server).toMatch(/^\d/)
    connection.close()
    expect(result.status).toBe('completed')
    expect(result.steps).toBeGreaterThan(2)
    expect(text).toBe(result.text)
    expect(JSON.stringify(result.items)).toContain('notes.txt')
    // The first is the warm-up; every turn after it builds on the one before.
    expect(deltas).toEqual([false, ...Array.from({ length: result.steps }, () => true)])
    expect(result.usage.cached).toBeGreaterThan(0)
  })

  it('a delta gives the same answer as the full input over HTTP', async () => {
    const socketFetch = createFetch()
    const socket = new OpenAI({ apiKey: 'k', baseURL: url, fetch: socketFetch, maxRetries: 0 })
    const http = new OpenAI({ apiKey: 'k', baseURL: url, maxRetries: 0 })
    const input: Input = []
    for (let n = 0; n < 4; n++) {
      input.push({ role: 'user', content: `${words} ${n}` })
      const overSocket = await socket.responses.stream({ model: 'any', input }).finalResponse()
      const overHttp = await http.responses.create({ model: 'any', input })
      expect(overSocket.output_text).toBe(overHttp.output_text)
      expect(overSocket.usage?.input_tokens).toBe(overHttp.usage?.input_tokens)
      input.push(...(overSocket.output as Input))
    }
    socketFetch.close()
  })

  it('the stream over the socket is the stream over HTTP, but for ids and times', async () => {
    const socketFetch = createFetch()
    const body = JSON.stringify({ model: 'any', input: words, stream: true, reasoning: { effort: 'low' } })
    const read = async (f: typeof fetch): Promise<string> =>
      (
        await f(`${url}/responses`, {
          method: 'POST',
          body,
          headers: { 'content-type': 'application/json', authorization: 'Bearer k' },
        })
      ).text()
    const plain = (text: string): string =>
      text.replace(/\b(resp|msg|rs)_[0-9a-f]+/g, '$1').replace(/"(created_at|completed_at)":\d+/g, '"$1":0')
    const [overSocket, overHttp] = [plain(await read(socketFetch)), plain(await read(fetch))]
    socketFetch.close()
    expect(overSocket).toContain('event: response.completed')
    // Token counts of the cache depend on who came first.
    const uncached = (text: string): string => text.replace(/"(cached_tokens|cache_write_tokens)":\d+/g, '"$1":0')
    expect(uncached(overSocket)).toBe(uncached(overHttp))
  })

  it('what went wrong has the same status over the socket as over HTTP', async () => {
    const bodies = [
      { model: 'any', input: [{ type: 'message', role: 'nobody' }] },
      { model: 'any', input: 'x', temperature: 9 },
      { model: 'any', input: 'x', previous_response_id: 'resp_none' },
    ]
    const socketFetch = createFetch()
    for (const body of bodies) {
      const answer = async (f: typeof fetch): Promise<[number, unknown]> => {
        const response = await f(`${url}/responses`, {
          method: 'POST',
          body: JSON.stringify(body),
          headers: { 'content-type': 'application/json' },
        })
        return [response.status, await response.json()]
      }
      expect(await answer(socketFetch)).toEqual(await answer(fetch))
    }
    socketFetch.close()
  })

  it('a cancelled call frees the server and leaves the socket usable', async () => {
    const connection = connect({ url })
    const call = connection.create({ model: 'any', input: words })
    for await (const event of call) if (event.type === 'response.output_text.delta') break
    await eventually(() => {
      if (connection.busy > 0) throw new Error('still busy')
    })
    await expect(connection.create({ model: 'any', input: words }).finished).resolves.toMatchObject({
      status: 'completed',
    })
    connection.close()
    await own?.quiet()
  })

  it('forty calls at once share one socket and thirty-two lanes', async () => {
    const connection = connect({ url })
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, n) => connection.create({ model: 'any', input: `${words} ${n}` }).finished),
    )
    expect(new Set(answers.map((answer) => answer.id)).size).toBe(40)
    if (own) expect(own.app.counts().sockets).toBe(1)
    connection.close()
  })

  it('`continuo agent` does a task in the terminal and says what it used', async () => {
    const ended = await run(['agent', '--url', url, '--yes', '--cwd', cwd, 'list', 'the', 'files'], { cwd })
    expect(ended.err).toMatch(/· run_command .* → \d+ bytes \(\d+ ms\)/)
    expect(ended.err).toMatch(/done: \d+ steps, \d+ tokens in \(\d+ cached\), \d+ out/)
    expect(ended.out.trim()).not.toBe('')
    expect(ended.code).toBe(0)
  })

  it('`continuo agent` runs nothing where nobody can be asked', async () => {
    const ended = await run(['agent', '--url', url, '--max-steps', '2', '--cwd', cwd, 'list'], { cwd })
    expect(ended.err).toContain('not allowed, since nobody can be asked here')
    expect(ended.err).toContain('out of steps: 2 steps')
    expect(ended.code).toBe(1)
    expect(await readFile(join(cwd, 'notes.txt'), 'utf8')).toBe('hello')
  })

  it('`continuo agent` ends with the first Ctrl-C, and so does the response it waits for', async () => {
    const slow = await startTestServer({ engines: { simulated: { type: 'simulated', tokensPerSecond: 5, rounds: 0 } } })
    await using program = start(['agent', '--url', `${slow.url}/v1`, '--cwd', cwd, words], { cwd })
    await eventually(() => expect(program.out().length).toBeGreaterThan(3))
    program.child.kill('SIGINT')
    const ended = await program.ended
    expect(ended.err).toContain('cancelling')
    expect(ended.code).toBe(130)
    await slow.quiet(true)
    await slow.close()
  })

  it('`continuo agent` says what to do when no server answers', async () => {
    const gone = await startTestServer()
    await gone.close()
    const ended = await run(['agent', '--url', `${gone.url}/v1`, 'list'], { cwd })
    expect(ended.err).toContain(`no server answers at ${gone.url}/v1`)
    const named = await run(['agent', '--url', `${gone.url}/v1`, '--model', 'm', 'list'], { cwd })
    expect(named.err).toContain(`no server answers at ${gone.url}/v1`)
    expect([ended.code, named.code]).toEqual([1, 1])
  })
})
