import { describe, expect, it } from 'vitest'
import { connect } from '../../src/client/connection.ts'
import { Cancelled, RequestRejected, SlowConsumer, Unreachable, UpgradeRefused } from '../../src/client/failures.ts'
import { closeAfterEach, dial, read, serve, textOf } from './dialled.ts'
import { answerHello, ScriptedServer, sleep, until, user, type Script } from './ws-server.ts'

closeAfterEach()

describe('lanes', () => {
  it('never mixes the events of calls that run at once', async () => {
    const server = await serve(
      async (turn) => {
        turn.created()
        await turn.text(`${String(turn.frame.input)} `.repeat(40), { pieces: 20, gapMs: 1 })
        turn.complete()
      },
      { continuo: '1.0.0' },
    )
    const connection = dial(server)
    const texts = await Promise.all(
      Array.from({ length: 24 }, async (_, n) => textOf(await read(connection.create({ model: 'm', input: `w${n}` })))),
    )
    texts.forEach((text, n) => expect(text).toBe(`w${n} `.repeat(40)))
    expect(server.conns).toHaveLength(1)
    expect(server.conns[0]?.headers.authorization).toBe('Bearer sk-test')
  })

  it('uses at most 32 names however many calls there are', async () => {
    const server = await serve(answerHello, { continuo: '1.0.0' })
    const connection = dial(server)
    await Promise.all(Array.from({ length: 100 }, (_, n) => connection.create({ model: 'm', input: `w${n}` }).finished))
    expect(new Set(server.creates.map((frame) => frame.stream_id)).size).toBe(32)
  })

  it('runs calls of one lane one after the other', async () => {
    const server = await serve(
      async (turn) => {
        turn.created()
        await turn.text(String(turn.frame.input), { gapMs: 5 })
        turn.complete()
      },
      { continuo: '1' },
    )
    const lane = dial(server).lane('main')
    const order: string[] = []
    await Promise.all(
      ['a', 'b', 'c'].map(async (input) => order.push(textOf(await read(lane.create({ model: 'm', input }))))),
    )
    expect(order).toEqual(['a', 'b', 'c'])
    expect(server.creates.every((frame) => frame.stream_id === 'main')).toBe(true)
  })

  it('runs one call at a time on a server that does not echo lane names', async () => {
    let running = 0
    let most = 0
    const server = await serve(
      async (turn) => {
        most = Math.max(most, ++running)
        turn.created()
        await turn.text(String(turn.frame.input), { gapMs: 3 })
        running--
        turn.complete()
      },
      { lanes: false },
    )
    const connection = dial(server)
    const texts = await Promise.all(
      ['a', 'b', 'c', 'd'].map(async (input) => textOf(await read(connection.create({ model: 'm', input })))),
    )
    expect(texts).toEqual(['a', 'b', 'c', 'd'])
    expect(most).toBe(1)
    expect(server.conns).toHaveLength(1)
  })

  it('sends a follow-up as a delta on the lane of its conversation', async () => {
    const server = await serve(answerHello, { continuo: '1' })
    const connection = dial(server)
    const one = await connection.create({ model: 'm', input: 'one' }).finished
    await connection.create({ model: 'm', input: 'two' }).finished
    const call = connection.create({ model: 'm', input: [user('one'), ...one.output, user('more')] })
    await call.finished
    expect(call.delta).toBe(true)
    const last = server.creates.at(-1)
    expect(last?.previous_response_id).toBe(one.id)
    expect(last?.input).toEqual([user('more')])
    expect(last?.stream_id).toBe(server.creates[0]?.stream_id)
    expect(server.turns.at(-1)?.conversation).toHaveLength(3)
  })
})

describe('refusals', () => {
  it.each([401, 403, 404, 426])('says at once that the upgrade was refused with %i', async (status) => {
    const server = await serve(answerHello, { refuse: () => status })
    const connection = dial(server)
    const refusal = await connection.create({ model: 'm', input: 'one' }).finished.catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(UpgradeRefused)
    expect(refusal).toMatchObject({ status, code: 'refused_here' })
    expect(server.upgrades).toBe(1)
    await expect(connection.ready()).rejects.toThrow(UpgradeRefused)
  })

  it('dials again after a 503', async () => {
    const server = await serve(answerHello, { refuse: (n) => (n < 2 ? 503 : undefined) })
    await expect(dial(server).create({ model: 'm', input: 'one' }).finished).resolves.toMatchObject({
      status: 'completed',
    })
  })

  it('says when nobody listens', async () => {
    const server = await ScriptedServer.start()
    const { url } = server
    await server[Symbol.asyncDispose]()
    const connection = connect({ url, reconnect: { attempts: 1, initialMs: 1 } })
    await expect(connection.create({ model: 'm', input: 'one' }).finished).rejects.toThrow(Unreachable)
    connection.close()
  })

  it.each([
    [
      'nested',
      {
        type: 'error',
        status: 429,
        error: { type: 'rate_limit_error', code: 'rate_limit_exceeded', message: 'slow down', param: null },
      },
    ],
    ['flat', { type: 'error', code: 'rate_limit_exceeded', message: 'slow down', param: null }],
  ])('ends only the call that a %s error frame is about', async (_, frame) => {
    const server = await serve(
      (turn) => (turn.frame.input === 'bad' ? turn.socket.send(frame, turn.frame.stream_id) : answerHello(turn)),
      { continuo: '1' },
    )
    const connection = dial(server)
    const [bad, good] = await Promise.allSettled([
      read(connection.create({ model: 'm', input: 'bad' })),
      read(connection.create({ model: 'm', input: 'good' })),
    ])
    expect(bad).toMatchObject({
      status: 'rejected',
      reason: { status: 429, error: { code: 'rate_limit_exceeded', message: 'slow down' } },
    })
    expect(bad.status === 'rejected' && bad.reason).toBeInstanceOf(RequestRejected)
    expect(good.status).toBe('fulfilled')
  })

  it('survives frames it cannot make sense of', async () => {
    const server = await serve(async (turn) => {
      turn.socket.ws.send('{broken')
      turn.socket.ws.send('[1]')
      turn.socket.ws.send('{"no":"type"}')
      turn.socket.ws.send(Buffer.from([1, 2, 3]))
      turn.socket.send({ type: 'response.from_the_future', sequence_number: 0 }, 'nobody')
      await answerHello(turn)
    })
    expect(textOf(await read(dial(server).create({ model: 'm', input: 'one' })))).toBe('hello 1')
  })

  it('fails a call whose end cannot be read instead of hanging', async () => {
    const server = await serve((turn) => turn.created().send({ type: 'response.completed' }))
    await expect(dial(server).create({ model: 'm', input: 'one' }).finished).rejects.toMatchObject({ closeCode: 1007 })
  })
})

describe('slow readers', () => {
  const flood: Script = async (turn) => {
    turn.created()
    await turn.text('x'.repeat(500), { pieces: 500 })
    turn.complete()
  }
  it('get an error, and other calls do not notice', async () => {
    const server = await serve(flood, { continuo: '1' })
    const connection = dial(server, { buffer: { maxEvents: 50 } })
    const slow = connection.create({ model: 'm', input: 'one' })
    const iterator = slow[Symbol.asyncIterator]()
    await until(() => server.turns[0]?.over === true)
    await sleep(50)
    await expect(
      (async () => {
        for (;;) if ((await iterator.next()).done === true) return
      })(),
    ).rejects.toThrow(SlowConsumer)
    await expect(slow.finished).rejects.toThrow(SlowConsumer)
    server.script = answerHello
    expect(textOf(await read(connection.create({ model: 'm', input: 'two' })))).toBe('hello 1')
  })
  it('who only wait for the end get it, whatever the size of the buffer', async () => {
    const server = await serve(flood)
    const call = dial(server, { buffer: { maxEvents: 50 } }).create({ model: 'm', input: 'one' })
    await expect(call.finished).resolves.toMatchObject({ status: 'completed' })
    await expect(read(call)).rejects.toThrow(SlowConsumer)
  })
})

describe('cancelling', () => {
  const endless: Script = async (turn) => {
    turn.created()
    await Promise.race([turn.interrupted, turn.text('x'.repeat(2000), { pieces: 1000, gapMs: 5 })])
    if (turn.socket.isOpen) turn.incomplete('interrupted')
  }
  it('interrupts the response at Continuo and keeps the socket for others', async () => {
    const server = await serve((turn) => (turn.frame.input === 'endless' ? endless(turn) : answerHello(turn)), {
      continuo: '1',
    })
    const connection = dial(server)
    const call = connection.create({ model: 'm', input: 'endless' })
    let seen = 0
    for await (const event of call) if (event.type === 'response.output_text.delta' && ++seen === 2) break
    await expect(call.finished).rejects.toThrow(Cancelled)
    await until(() => server.frames.some((frame) => frame.type === 'response.interrupt'))
    expect(server.frames.at(-1)).toEqual({ type: 'response.interrupt', response_id: call.responseId })
    await until(() => connection.busy === 0)
    await connection.create({ model: 'm', input: 'next' }).finished
    expect(server.conns).toHaveLength(1)
  })
  it('interrupts as soon as the id is known when cancelled before', async () => {
    const server = await serve(
      async (turn) => {
        await sleep(50)
        await endless(turn)
      },
      { continuo: '1' },
    )
    const connection = dial(server)
    const call = connection.create({ model: 'm', input: 'endless' })
    await until(() => server.creates.length === 1)
    call.cancel()
    await until(() => connection.busy === 0)
    expect(server.frames.map((frame) => frame.type)).toEqual(['response.create', 'response.interrupt'])
  })
  it('drops the socket of another server when the call is alone on it', async () => {
    const server = await serve(endless)
    const abort = new AbortController()
    const call = dial(server).create({ model: 'm', input: 'endless' }, { signal: abort.signal })
    await until(() => server.turns.length === 1)
    abort.abort()
    await expect(read(call)).rejects.toThrow(Cancelled)
    await until(() => server.conns[0]?.isOpen === false)
  })
  it('reads past the rest of the response while others use the socket of another server', async () => {
    const server = await serve(async (turn) => {
      turn.created()
      await turn.text(String(turn.frame.input).repeat(20), { pieces: 20, gapMs: 3 })
      turn.complete()
    })
    const connection = dial(server)
    await connection.create({ model: 'm', input: 'x' }).finished
    const gone = connection.create({ model: 'm', input: 'a' })
    const stays = read(connection.create({ model: 'm', input: 'b' }))
    await until(() => server.turns.length === 3)
    gone.cancel()
    expect(textOf(await stays)).toBe('b'.repeat(20))
    expect(server.conns).toHaveLength(1)
  })
  it('takes a call that waits out of the queue without a frame', async () => {
    const server = await serve(endless, { continuo: '1' })
    const lane = dial(server).lane('one')
    const first = lane.create({ model: 'm', input: 'endless' })
    const second = lane.create({ model: 'm', input: 'never' })
    await until(() => server.turns.length === 1)
    second.cancel()
    first.cancel()
    await until(() => server.frames.length === 2)
    await sleep(30)
    expect(server.creates).toHaveLength(1)
  })
  it('ends everything when the connection is closed', async () => {
    const server = await serve(endless, { continuo: '1' })
    const connection = dial(server)
    const call = connection.create({ model: 'm', input: 'endless' })
    await until(() => server.turns.length === 1)
    connection.close()
    await expect(call.finished).rejects.toThrow(Cancelled)
    await expect(connection.create({ model: 'm', input: 'late' }).finished).rejects.toThrow(Cancelled)
    await until(() => server.conns[0]?.isOpen === false)
  })
})
