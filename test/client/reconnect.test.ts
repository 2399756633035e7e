import { describe, expect, it } from 'vitest'
import { ConnectionLost } from '../../src/client/failures.ts'
import { closeAfterEach, dial, read, serve, textOf } from './dialled.ts'
import { answerHello, sleep, until, user } from './ws-server.ts'

closeAfterEach()

describe('reconnecting', () => {
  it.each([1001, 1006, 1011, 1012, 1013])('sends the full input on a new socket after close code %i', async (code) => {
    let turns = 0
    const server = await serve(async (turn) => {
      turn.created()
      if (++turns !== 2) {
        await turn.text('fine')
        return turn.complete()
      }
      if (code === 1006) turn.socket.ws.terminate()
      else turn.socket.ws.close(code)
    })
    const connection = dial(server)
    const first = await connection.create({ model: 'm', input: 'one' }).finished
    const input = [user('one'), ...first.output, user('two')]
    const events = await read(connection.create({ model: 'm', input }))
    expect(textOf(events)).toBe('fine')
    expect(server.conns).toHaveLength(2)
    expect(server.creates.map((frame) => frame.previous_response_id)).toEqual([undefined, first.id, undefined])
    expect(server.creates[2]?.input).toEqual(input)
  })

  it.each([1000, 1008, 1009, 4000])('fails its calls on close code %i and dials anew for the next', async (code) => {
    let turns = 0
    const server = await serve((turn) => {
      if (turns++ > 0) return answerHello(turn)
      turn.created().socket.ws.close(code, 'because')
    })
    const connection = dial(server)
    await expect(connection.create({ model: 'm', input: 'one' }).finished).rejects.toMatchObject({
      name: 'ConnectionLost',
      closeCode: code,
    })
    await expect(connection.create({ model: 'm', input: 'two' }).finished).resolves.toMatchObject({
      status: 'completed',
    })
  })

  it('does not send a call again whose output has begun', async () => {
    const server = await serve(async (turn) => {
      turn.created()
      await turn.text('half')
      turn.socket.ws.close(1012)
    })
    const call = dial(server).create({ model: 'm', input: 'one' })
    await expect(read(call)).rejects.toThrow(ConnectionLost)
    expect(server.creates).toHaveLength(1)
  })

  it('does so with resend: always, and says it by a second response.created', async () => {
    let turns = 0
    const server = await serve(async (turn) => {
      turn.created()
      await turn.text('half')
      if (++turns === 1) turn.socket.ws.close(1012)
      else turn.complete()
    })
    const events = await read(dial(server, { resend: 'always' }).create({ model: 'm', input: 'one' }))
    expect(events.filter((event) => event.type === 'response.created')).toHaveLength(2)
  })

  it('hides the loss altogether with quietStart', async () => {
    let turns = 0
    const server = await serve((turn) => (++turns === 1 ? turn.created().socket.ws.terminate() : answerHello(turn)))
    const events = await read(dial(server).create({ model: 'm', input: 'one' }, { quietStart: true }))
    expect(events.filter((event) => event.type === 'response.created')).toHaveLength(1)
    expect(events[0]).toMatchObject({ type: 'response.created', response: { id: 'resp_2' } })
  })

  it('gives up after its tries, also when the server accepts and closes', async () => {
    const server = await serve((turn) => turn.socket.ws.close(1013))
    await expect(dial(server).create({ model: 'm', input: 'one' }).finished).rejects.toThrow(ConnectionLost)
    expect(server.conns).toHaveLength(5)
  })

  it('sends everything at once, on the same socket, after previous_response_not_found', async () => {
    const server = await serve(answerHello, { continuo: '1' })
    const connection = dial(server)
    const first = await connection.create({ model: 'm', input: 'one' }).finished
    server.conns[0]?.conversations.clear()
    const input = [user('one'), ...first.output, user('two')]
    const second = await connection.create({ model: 'm', input }).finished
    expect(server.conns).toHaveLength(1)
    expect(server.turns.at(-1)?.conversation).toEqual(input)
    const third = connection.create({ model: 'm', input: [...input, ...second.output, user('three')] })
    await third.finished
    expect(third.delta).toBe(true)
  })

  it('reports previous_response_not_found for an id the caller gave', async () => {
    const server = await serve()
    const call = dial(server).create({ model: 'm', input: 'x', previous_response_id: 'resp_unknown' })
    await expect(call.finished).rejects.toMatchObject({
      name: 'RequestRejected',
      status: 400,
      error: { code: 'previous_response_not_found' },
    })
    expect(server.creates).toHaveLength(1)
  })

  it.each([true, false])(
    'moves to a new socket at the connection limit and lets running calls finish (lane named: %s)',
    async (named) => {
      let turns = 0
      const server = await serve(
        async (turn) => {
          if (++turns === 2) {
            const error = {
              type: 'error',
              status: 400,
              error: {
                type: 'invalid_request_error',
                code: 'websocket_connection_limit_reached',
                message: '60 minutes',
                param: null,
              },
            }
            return turn.socket.send(error, named ? turn.frame.stream_id : undefined)
          }
          turn.created()
          await turn.text('slow', { gapMs: 20 })
          turn.complete()
        },
        { continuo: '1' },
      )
      const connection = dial(server)
      const first = read(connection.create({ model: 'm', input: 'one' }))
      await until(() => turns === 1)
      const second = read(connection.create({ model: 'm', input: 'two' }))
      expect(textOf(await first)).toBe('slow')
      expect(textOf(await second)).toBe('slow')
      expect(server.conns).toHaveLength(2)
      await until(() => server.conns[0]?.isOpen === false)
    },
  )

  it('asks a silent server for a sign of life and moves on when there is none', async () => {
    let turns = 0
    const server = await serve((turn) => {
      if (++turns > 1) return answerHello(turn)
      // Nothing is read any more, so the ping stays unanswered.
      turn.socket.ws.pause()
    })
    const connection = dial(server, { quietMs: 60, pongMs: 60 })
    expect(textOf(await read(connection.create({ model: 'm', input: 'one' })))).toBe('hello 1')
    expect(server.conns).toHaveLength(2)
  })

  it('waits for a server that is silent but alive', async () => {
    const server = await serve(async (turn) => {
      turn.created()
      await sleep(400)
      await turn.text('late')
      turn.complete()
    })
    expect(textOf(await read(dial(server, { quietMs: 40, pongMs: 100 }).create({ model: 'm', input: 'one' })))).toBe(
      'late',
    )
    expect(server.conns).toHaveLength(1)
  })

  it('takes a gap in the numbers of Continuo for a lost connection', async () => {
    let turns = 0
    const server = await serve(
      (turn) => {
        if (++turns === 1) {
          turn.number = 1
          turn.send({ type: 'response.in_progress', response: turn.response('in_progress') })
          return
        }
        return answerHello(turn)
      },
      { continuo: '1' },
    )
    expect(textOf(await read(dial(server).create({ model: 'm', input: 'one' })))).toBe('hello 1')
    expect(server.conns).toHaveLength(2)
  })
})
