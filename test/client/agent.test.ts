import { afterEach, describe, expect, it } from 'vitest'
import { AgentFailed, runAgent, type AgentEvent, type AgentOptions, type AgentResult } from '../../src/client/agent.ts'
import { connect, type Connection } from '../../src/client/connection.ts'
import { Cancelled } from '../../src/client/failures.ts'
import type { LocalTool } from '../../src/client/tools.ts'
import { answerHello, ScriptedServer, sleep, until, type Script, type ServerOptions } from './ws-server.ts'

const open: (() => void | Promise<void>)[] = []
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
})
async function rig(
  script: Script,
  options: ServerOptions = { continuo: '1' },
): Promise<{ server: ScriptedServer; connection: Connection }> {
  const server = await ScriptedServer.start(script, options)
  const connection = connect({ url: server.url, reconnect: { initialMs: 5, maxMs: 20 } })
  open.push(
    () => server[Symbol.asyncDispose](),
    () => connection.close(),
  )
  return { server, connection }
}
function tool(name: string, run: LocalTool['run'], more: Partial<LocalTool> = {}): LocalTool {
  const parameters = { type: 'object', properties: {}, required: [], additionalProperties: false }
  return {
    definition: { type: 'function', name, parameters, strict: true },
    parallel: false,
    confirm: false,
    run,
    ...more,
  }
}
async function drive(options: AgentOptions): Promise<AgentResult & { streamed: string }> {
  const run = runAgent(options)
  let streamed = ''
  let part = await run.next()
  for (; part.done !== true; part = await run.next()) streamed += part.value
  return { ...part.value, streamed }
}
const outputsOf = (server: ScriptedServer): string[] =>
  ((server.creates.at(-1)?.input ?? []) as { output: string }[]).map((item) => item.output)
/** Calls `name` for some rounds, then answers. */
const rounds =
  (count: number, name = 'look', args: object = {}): Script =>
  async (turn) => {
    turn.created()
    const done = turn.conversation.filter((item) => (item as { type: string }).type === 'function_call_output').length
    if (done < count) turn.call(name, args)
    else await turn.text('all done')
    turn.complete()
  }

describe('an agent', () => {
  it('warms up, then sends nothing but what is new, on one socket', async () => {
    const { server, connection } = await rig(rounds(5))
    let runs = 0
    const result = await drive({
      via: connection,
      model: 'm',
      instructions: 'work',
      input: 'go',
      tools: [tool('look', async () => `seen ${++runs}`)],
    })
    expect(result).toMatchObject({
      status: 'completed',
      steps: 6,
      text: 'all done',
      streamed: 'all done',
      usage: { input: 60, cached: 24, output: 30 },
    })
    expect(result.items).toHaveLength(12)
    expect(server.conns).toHaveLength(1)
    expect(server.creates[0]).toMatchObject({
      generate: false,
      input: [],
      store: false,
      instructions: 'work',
      tools: [{ name: 'look' }],
    })
    expect(server.creates).toHaveLength(7)
    expect(
      server.creates
        .slice(1)
        .every((frame) => frame.previous_response_id !== undefined && (frame.input as unknown[]).length === 1),
    ).toBe(true)
    expect(server.creates.at(-1)?.input).toEqual([
      { type: 'function_call_output', call_id: expect.any(String), output: 'seen 5' },
    ])
  })

  it('works on when its socket is lost between two steps', async () => {
    const { server, connection } = await rig(async (turn) => {
      await rounds(3)(turn)
      if (server.turns.length === 3) turn.socket.ws.close(1012)
    })
    const result = await drive({
      via: connection,
      model: 'm',
      input: 'go',
      tools: [tool('look', () => sleep(30).then(() => 'seen'))],
    })
    expect(result).toMatchObject({ status: 'completed', steps: 4 })
    expect(server.conns).toHaveLength(2)
    expect(server.turns.at(-1)?.conversation).toHaveLength(7)
  })

  it('works without a warm-up where the server refuses one', async () => {
    const server = await ScriptedServer.start(answerHello)
    open.push(() => server[Symbol.asyncDispose]())
    const connection = connect({ url: server.url })
    open.push(() => connection.close())
    const refuse = {
      create: (...[body, options]: Parameters<Connection['create']>) =>
        connection.create(body['generate'] === false ? { ...body, previous_response_id: 'none' } : body, options),
    }
    expect(await drive({ via: refuse, model: 'm', input: 'go', tools: [] })).toMatchObject({
      status: 'completed',
      text: 'hello 1',
    })
  })

  it('makes an output of whatever goes wrong with a tool', async () => {
    const { server, connection } = await rig(async (turn) => {
      turn.created()
      if (turn.conversation.length === 1)
        turn.call('throws', {}).call('unknown', {}).call('refused', {}).call('throws', [1])
      else await turn.text('ok')
      turn.complete()
    })
    const tools = [
      tool('throws', () => Promise.reject(new Error('broken'))),
      tool('refused', async () => 'ran', { confirm: true }),
    ]
    await drive({ via: connection, model: 'm', input: 'go', tools, approve: () => false })
    expect(outputsOf(server)).toEqual([
      'Error: broken',
      "Error: There is no tool named 'unknown'",
      'Error: The user did not allow this call',
      'Error: The arguments are no JSON object',
    ])
  })

  it('runs neighbours at once where all of them allow it, and keeps the order of outputs', async () => {
    const { server, connection } = await rig(async (turn) => {
      turn.created()
      if (turn.conversation.length === 1)
        turn
          .call('read', { n: 1 })
          .call('read', { n: 2 })
          .call('write', { n: 3 })
          .call('write', { n: 4 })
          .call('read', { n: 5 })
      else await turn.text('ok')
      turn.complete()
    })
    const log: string[] = []
    const run: LocalTool['run'] = async ({ n }) => {
      log.push(`+${String(n)}`)
      await sleep(n === 1 ? 30 : 10)
      log.push(`-${String(n)}`)
      return String(n)
    }
    await drive({
      via: connection,
      model: 'm',
      input: 'go',
      tools: [tool('read', run, { parallel: true }), tool('write', run)],
    })
    expect(log).toEqual(['+1', '+2', '-2', '-1', '+3', '-3', '+4', '-4', '+5', '-5'])
    expect(outputsOf(server)).toEqual(['1', '2', '3', '4', '5'])
  })

  it('stops at its step limit', async () => {
    const { connection } = await rig(rounds(100))
    expect(
      await drive({ via: connection, model: 'm', input: 'go', maxSteps: 3, tools: [tool('look', async () => 'x')] }),
    ).toMatchObject({ status: 'max_steps', steps: 3 })
  })

  it('ends with what there is when a response is incomplete', async () => {
    const { connection } = await rig(async (turn) => {
      turn.created()
      await turn.text('cut')
      turn.incomplete('max_output_tokens')
    })
    expect(await drive({ via: connection, model: 'm', input: 'go', tools: [] })).toMatchObject({
      status: 'incomplete',
      text: 'cut',
    })
  })

  it('asks again after a failure that may pass, and gives up on one that does not', async () => {
    let turns = 0
    const { server, connection } = await rig((turn) =>
      ++turns === 1 ? turn.created().fail('server_error', 'busy') : answerHello(turn),
    )
    const events: AgentEvent[] = []
    const result = await drive({
      via: connection,
      model: 'm',
      input: 'go',
      tools: [],
      retryMs: 5,
      onEvent: (event) => events.push(event),
    })
    expect(result.text).toBe('hello 1')
    expect(events).toContainEqual({ type: 'retry', step: 1, reason: 'busy' })
    server.script = (turn) => turn.created().fail('invalid_prompt', 'no')
    const failed = drive({ via: connection, model: 'm', input: 'go', tools: [], retryMs: 5 })
    await expect(failed).rejects.toThrow(AgentFailed)
    await expect(failed).rejects.toMatchObject({ code: 'invalid_prompt' })
  })

  it('stops a running tool and sends nothing more when cancelled', async () => {
    const { server, connection } = await rig(rounds(5))
    const abort = new AbortController()
    let stopped = false
    const slow = tool(
      'look',
      (_args, signal) =>
        new Promise((_resolve, reject) =>
          signal.addEventListener('abort', () => {
            stopped = true
            reject(new Error('stopped'))
          }),
        ),
    )
    const run = drive({
      via: connection,
      model: 'm',
      input: 'go',
      tools: [slow],
      signal: abort.signal,
      onEvent: (event) => event.type === 'tool_started' && setTimeout(() => abort.abort(), 10),
    })
    await expect(run).rejects.toThrow(Cancelled)
    expect(stopped).toBe(true)
    expect(server.creates).toHaveLength(2)
  })

  it('interrupts the model when cancelled in the middle of its words', async () => {
    const { server, connection } = await rig(async (turn) => {
      turn.created()
      await Promise.race([turn.interrupted, turn.text('x'.repeat(2000), { pieces: 1000, gapMs: 5 })])
      turn.incomplete('interrupted')
    })
    const abort = new AbortController()
    const run = runAgent({ via: connection, model: 'm', input: 'go', tools: [], signal: abort.signal })
    await run.next()
    abort.abort()
    await expect(
      (async () => {
        for (;;) if ((await run.next()).done === true) return
      })(),
    ).rejects.toThrow(Cancelled)
    await until(() => server.frames.at(-1)?.type === 'response.interrupt')
  })

  it('leaves nothing running when its reader leaves', async () => {
    const { server, connection } = await rig(async (turn) => {
      turn.created()
      await Promise.race([turn.interrupted, turn.text('x'.repeat(2000), { pieces: 1000, gapMs: 5 })])
      turn.incomplete('interrupted')
    })
    for await (const text of runAgent({ via: connection, model: 'm', input: 'go', tools: [] })) if (text !== '') break
    await until(() => server.frames.at(-1)?.type === 'response.interrupt')
    await until(() => connection.busy === 0)
  })
})
