// `codex app-server` as a program drives it: JSON-RPC, one message a line, over stdin and stdout.
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { codexProgram, workplace } from './codex-home.mjs'

/** Calls `read` until it returns something; an Error with `what` after `limit` milliseconds. */
export async function until(what, read, limit = 10_000) {
  for (const end = performance.now() + limit; performance.now() < end;) {
    const found = await read()
    if (found) return found
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  throw new Error(`waited ${limit} ms for ${what}`)
}

/**
 * Starts Codex against a server. `seen`: all notifications so far, as `{ method, params }`; `call` throws what the
 * app server answers as an error.
 */
export async function appServer({ url, model, provider }) {
  const place = workplace({ url, model, provider })
  const child = spawn(process.execPath, [codexProgram, 'app-server'], {
    cwd: place.repo,
    env: place.env,
    stdio: ['pipe', 'pipe', process.env.VERBOSE ? 'inherit' : 'ignore'],
  })
  const gone = new Promise((resolve) => child.once('close', resolve))
  const waiting = new Map()
  const seen = []
  let count = 0
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (process.env.VERBOSE) console.log(line.slice(0, 500))
    const message = JSON.parse(line)
    if (message.method !== undefined) return void seen.push(message)
    waiting.get(message.id)?.(message)
    waiting.delete(message.id)
  })
  const send = (message) => child.stdin.write(`${JSON.stringify(message)}\n`)

  async function call(method, params) {
    const id = ++count
    const { error, result } = await new Promise((resolve) => {
      waiting.set(id, resolve)
      void gone.then(() => resolve({ error: { message: 'the app server has ended' } }))
      send({ id, method, params })
    })
    if (error) throw new Error(`${method}: ${error.message}`)
    return result
  }
  await call('initialize', { clientInfo: { name: 'continuo_tests', title: null, version: '1' }, capabilities: null })
  send({ method: 'initialized' })
  const { thread } = await call('thread/start', {})
  const threadId = thread.id
  const input = (text) => [{ type: 'text', text, text_elements: [] }]
  const turns = (method) => seen.filter((message) => message.method === method).map(({ params }) => params.turn)

  return {
    seen,
    /** What Codex would show as trouble: errors, and reconnects among them. */
    trouble: () => seen.filter(({ method }) => method === 'error').map(({ params }) => params.error.message),
    /** Completed items of this type, over all turns. */
    items: (type) =>
      seen
        .filter(({ method, params }) => method === 'item/completed' && params.item.type === type)
        .map(({ params }) => params.item),
    /** Starts a turn and returns its id while it runs. */
    start: async (text) => (await call('turn/start', { threadId, input: input(text) })).turn.id,
    steer: (turn, text) => call('turn/steer', { threadId, expectedTurnId: turn, input: input(text) }),
    interrupt: (turn) => call('turn/interrupt', { threadId, turnId: turn }),
    /** Starts a compaction, which is a turn too, and returns that turn's id. */
    async compact() {
      const before = turns('turn/started').length
      await call('thread/compact/start', { threadId })
      return (await until('the turn of the compaction', () => turns('turn/started')[before])).id
    },
    /** The turn as it ended: `status`, `error`. */
    ended: (id, limit) =>
      until(`the end of turn ${id}`, () => turns('turn/completed').find((turn) => turn.id === id), limit),
    async stop() {
      child.stdin.end()
      const timer = setTimeout(() => child.kill('SIGKILL'), 3000)
      await gone
      clearTimeout(timer)
      place.remove()
    },
  }
}
