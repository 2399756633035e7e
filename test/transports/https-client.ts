// A client of one kept-alive HTTPS connection in a thread of its own, which says when it has sent a request: so a server in
// this thread can be made to look at its sockets just when the next request lies there.
import { Worker } from 'node:worker_threads'

export type Run = {
  readonly port: number
  readonly ca: string
  readonly path?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Sent in turn. */
  readonly bodies: readonly string[]
  readonly requests: number
}
export type Outcome = {
  /** Answers by status, `ECONNRESET` and the like among them. */
  readonly answers: Readonly<Record<string, number>>
  readonly connections: number
  /** Ends of the answers, one for each of `bodies`. */
  readonly ends: readonly string[]
}

const program = `
const { workerData: { run, sent }, parentPort } = require('node:worker_threads')
const { Agent, request } = require('node:https')
const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: run.ca })
const answers = {}, ends = []
const sockets = new Set()
const count = (what) => (answers[what] = (answers[what] ?? 0) + 1)
const one = (n) => new Promise((done) => {
  const body = run.bodies[n % run.bodies.length]
  const headers = { 'content-length': Buffer.byteLength(body), ...run.headers }
  const ask = request({ host: '127.0.0.1', port: run.port, path: run.path ?? '/', method: 'POST', agent, headers }, (answer) => {
    let end = ''
    answer.setEncoding('utf8').on('data', (text) => (end = (end + text).slice(-200)))
    answer.on('end', () => { count(answer.statusCode); ends[n % run.bodies.length] = end; done() })
  })
  ask.on('socket', (socket) => sockets.add(socket))
  ask.on('error', (e) => { count(e.code); done() })
  ask.end(body, () => { Atomics.add(sent, 0, 1); Atomics.notify(sent, 0) })
})
;(async () => {
  for (let n = 0; n < run.requests; n++) await one(n)
  parentPort.postMessage({ answers, connections: sockets.size, ends })
  agent.destroy()
})()
`
export class Client {
  readonly #sent = new Int32Array(new SharedArrayBuffer(4))
  /** Blocks this thread until the next request is sent, at most 50 ms: whoever has answered calls it. */
  awaitNext(): void {
    Atomics.wait(this.#sent, 0, Atomics.load(this.#sent, 0), 50)
  }
  async run(run: Run): Promise<Outcome> {
    const worker = new Worker(program, { eval: true, workerData: { run, sent: this.#sent } })
    return await new Promise<Outcome>((resolve, reject) => {
      worker.once('message', resolve)
      worker.once('error', reject)
    })
  }
}
