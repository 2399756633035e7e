// What a streamed turn costs in writes: numbers that are the same on every machine, so that a test can hold them. The
// engine says its next chunk only when the client has all of the last one.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { mkdtemp, rm } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startApp } from '../app.ts'
import { loadConfig } from '../config.ts'
import { createLog } from '../observe/log.ts'
import { Reading } from './driver.ts'
import { WebSocket } from 'ws'

export type Script = {
  /** Reads of the engine's stream that have tokens in them. */
  readonly chunks: number
  /** Tokens in each. */
  readonly tokens: number
}
/** Of one turn, from its request on. `writes`: calls into the system on the client's socket. */
export type Writes = { readonly writes: number; readonly events: number; readonly bytes: number }
/** What a token says. */
const word = ' so'
const patienceMs = 60_000

/** Plays a turn in this process, over a socket of WebSocket mode without compression. */
export async function countWrites({ chunks, tokens }: Script): Promise<Writes> {
  const data = await mkdtemp(join(tmpdir(), 'continuo-count-'))
  const engine = createServer((_, answer) => {
    answer.writeHead(200, { 'content-type': 'text/event-stream' })
    answer.flushHeaders()
    speaker = answer
    next()
  })
  let speaker: ServerResponse | undefined
  let said = 0
  let heard = 0
  const next = (): void => {
    if (!speaker || heard < said * tokens * word.length) return
    if (said++ < chunks) speaker.write(event({ content: word }).repeat(tokens))
    else if (said === chunks + 1) speaker.end(`${event({}, 'stop')}${usageOf(chunks * tokens)}data: [DONE]\n\n`)
  }
  engine.listen(0, '127.0.0.1')
  await once(engine, 'listening')
  const address = engine.address()
  const url = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}/v1`
  const set = {
    ...{ host: '127.0.0.1', port: 0, data, 'store.kind': 'memory' },
    ...{ engines: { e: { type: 'chat', url } }, models: { m: { engine: 'e' } } },
  }
  const { config } = loadConfig({ flags: { set }, env: {} })
  const app = await startApp(config, createLog({ level: 'silent', pretty: false }))
  const sockets = new Map<Socket, number>()
  const stop = watch(app.port, sockets)
  const client = new WebSocket(`ws://127.0.0.1:${app.port}/v1/responses`, { perMessageDeflate: false })
  const late = setTimeout(() => client.terminate(), patienceMs)
  try {
    await once(client, 'open')
    const [[socket, before] = [undefined, 0]] = sockets
    if (!socket) throw new Error('The server has no socket.')
    const reading = new Reading()
    client.send(JSON.stringify({ type: 'response.create', model: 'm', store: false, input: 'Speak.' }))
    const seen = await new Promise<{ events: number; bytes: number }>((resolve, reject) => {
      client.on('close', () => reject(new Error('The socket closed in the middle of the turn.')))
      client.on('message', (message: Buffer) => {
        reading.bytesDown += message.length
        // An event of the server's, which Reading looks at.
        const { type, delta } = JSON.parse(String(message)) as { type?: string; delta?: string }
        if (type === 'response.output_text.delta') heard += delta?.length ?? 0
        try {
          const done = reading.take(String(message))
          if (done) resolve({ events: done.events, bytes: done.bytesDown })
          else next()
        } catch (e) {
          reject(e instanceof Error ? e : new Error(String(e)))
        }
      })
    })
    return { writes: (sockets.get(socket) ?? 0) - before, ...seen }
  } finally {
    clearTimeout(late)
    stop()
    client.terminate()
    engine.closeAllConnections()
    engine.close()
    await app.close()
    await rm(data, { recursive: true, force: true })
  }
}

/** Counts what Node hands to the system on every socket that is accepted on `port`. */
function watch(port: number, writes: Map<Socket, number>): () => void {
  const onSocket = (message: unknown): void => {
    // Published by node:net.
    const { socket } = message as { socket: Socket }
    if (socket.localPort !== port) return
    writes.set(socket, 0)
    const count = (): void => void writes.set(socket, (writes.get(socket) ?? 0) + 1)
    const { _write: one, _writev: many } = socket
    socket._write = (chunk, encoding, done) => (count(), one.call(socket, chunk, encoding, done))
    if (many) socket._writev = (list, done) => (count(), many.call(socket, list, done))
  }
  subscribe('net.server.socket', onSocket)
  return () => unsubscribe('net.server.socket', onSocket)
}

const event = (delta: object, finish_reason: string | null = null): string =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason }] })}\n\n`
const usageOf = (output: number): string =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [], usage: { prompt_tokens: 1, completion_tokens: output, total_tokens: output + 1 } })}\n\n`
