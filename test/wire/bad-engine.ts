// A chat-completions server that misbehaves as its model's name says: what engines do to a turn, over a real socket.
import { createServer, type Server, type ServerResponse } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'

const chunk = (content: string): string =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { role: 'assistant', content }, finish_reason: null }] })}\n\n`

const ways: Record<string, (reply: ServerResponse) => void> = {
  // Some words, then the connection breaks.
  cuts: (reply) => {
    reply.writeHead(200, { 'content-type': 'text/event-stream' })
    reply.write(chunk('some words'))
    setTimeout(() => reply.destroy(), 20)
  },
  // Some words, then a proper end of the body in the middle of the answer.
  stops: (reply) => {
    reply.writeHead(200, { 'content-type': 'text/event-stream' })
    reply.end(chunk('some words'))
  },
  garbage: (reply) => {
    reply.writeHead(200, { 'content-type': 'text/event-stream' })
    reply.end(Buffer.from([0xff, 0xfe, 0, 1, 2, 3, 10, 10, 100, 97, 116, 97, 58, 32, 123, 10, 10]))
  },
  html: (reply) => {
    reply.writeHead(200, { 'content-type': 'text/html' })
    reply.end('<html><body>It works!</body></html>')
  },
  breaks: (reply) => {
    reply.writeHead(500, { 'content-type': 'application/json' })
    reply.end('{"error":{"message":"CUDA error at 0x7f3a in /opt/model/secret.py"}}')
  },
  busy: (reply) => {
    reply.writeHead(429, { 'content-type': 'application/json', 'retry-after': '1' })
    reply.end('{"error":{"message":"busy"}}')
  },
  // Neither head nor body ever comes.
  silent: () => {},
  // A head and some words, then silence.
  stalls: (reply) => {
    reply.writeHead(200, { 'content-type': 'text/event-stream' })
    reply.write(chunk('some words'))
  },
  endless: (reply) => {
    reply.writeHead(200, { 'content-type': 'text/event-stream' })
    const timer = setInterval(() => {
      if (!reply.writableNeedDrain) reply.write(chunk('word '.repeat(400)))
    }, 1)
    reply.once('close', () => clearInterval(timer))
  },
}
export const badWays = Object.keys(ways)

export type BadEngine = {
  readonly url: string
  /** Requests that are still open. */ open(): number
  close(): Promise<void>
}
export async function startBadEngine(): Promise<BadEngine> {
  let open = 0
  const server: Server = createServer((request, reply) => {
    open++
    reply.once('close', () => open--)
    let body = ''
    request.on('data', (data: Buffer) => (body += data.toString()))
    request.on('end', () => {
      const { model = '' } = JSON.parse(body || '{}') as { model?: string }
      const way = ways[model]
      if (way) way(reply)
      else reply.writeHead(404).end()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    open: () => open,
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
