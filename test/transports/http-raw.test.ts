// HTTP as no client library speaks it: pipelined, cut off, with no key, with a path that is none.
import { connect, type Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { probeOf, simulated, startWith } from '../session/started.ts'
import { checkErrorBody } from '../wire/check.ts'
import { eventually, pause, type TestServer } from '../wire/server.ts'

let server: TestServer
const secret = 'sk-of-the-tests'
beforeAll(async () => {
  server = await startWith({ ...simulated(), keys: [{ id: '1', tenant: 'a', secret }] })
})
afterAll(() => server.close())

type Raw = { readonly tcp: Socket; readonly said: () => string }
function raw(text: string): Raw {
  const tcp = connect(server.app.port, '127.0.0.1')
  let said = ''
  tcp.on('data', (bytes: Buffer) => (said += bytes.toString()))
  tcp.on('error', () => {})
  tcp.write(text)
  return { tcp, said: () => said }
}
function request(
  method: string,
  path: string,
  headers: Record<string, string> = {},
  body: string | Buffer = '',
): string {
  const all = { host: 'x', authorization: `Bearer ${secret}`, 'content-length': String(body.length), ...headers }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body.toString()}`
}
const hang = JSON.stringify({ model: 'm', input: 'x [fault:hang]', stream: true })

test('a client that goes takes its pipelined requests with it', async () => {
  const one = request('POST', '/v1/responses', {}, hang)
  const { tcp } = raw(one + one + one)
  await eventually(() => expect(server.app.counts().running).toBe(3))
  const { aborted } = probeOf(server)
  tcp.destroy()
  await server.quiet()
  expect(probeOf(server).aborted).toBe(aborted + 3)
  expect(server.app.ledger.open).toBe(0)
})

test('a client that went while its body was unpacked is not answered, and no engine works for it', async () => {
  const packed = gzipSync(
    Buffer.concat([Buffer.from('{"model":"m","input":"'), Buffer.alloc(40_000_000, 'a'), Buffer.from('"}')]),
  )
  const { calls } = probeOf(server)
  const { tcp } = raw(
    request('POST', '/v1/responses', { 'content-encoding': 'gzip', 'content-length': String(packed.length) }),
  )
  tcp.write(packed)
  await pause(30)
  tcp.destroy()
  await pause(1000)
  await server.quiet()
  expect(probeOf(server).calls).toBe(calls)
})

test.each([
  ['POST', '/v1/responses', 401],
  ['POST', '/v1/responses/compact', 401],
  ['POST', '/v1/nowhere', 404],
])('nobody without a key can make the server take in a body: %s %s', async (method, path, status) => {
  const length = { 'content-length': '50000000', authorization: 'Bearer sk-not-this-one' }
  const { tcp, said } = raw(`${request(method, path, length)}{`)
  await eventually(() => expect(said()).toContain('\r\n\r\n'))
  expect(said()).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
  tcp.destroy()
})

test.each([
  '/%zz',
  '/v1/responses/%zz',
  `/v1/responses/${'a'.repeat(300)}`,
  '/a(b',
  '/:x(',
  '/a*b',
  '/v1/responses?%zz',
])('a path that is none gets an error of the table: %s', async (path) => {
  const { tcp, said } = raw(request('GET', path, { connection: 'close' }))
  await eventually(() => expect(said()).toContain('\r\n\r\n{'))
  const [head = '', body = ''] = said().split('\r\n\r\n')
  expect(checkErrorBody(JSON.parse(body))).toEqual([])
  expect(head).toMatch(/^HTTP\/1.1 4/)
  expect(head).toContain('x-request-id: req_')
  tcp.destroy()
})
