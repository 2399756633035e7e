// The real server with plug-ins of a test's own, on a data folder that may outlive it; and the words tests share.
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Ports, startApp } from '../../src/app.ts'
import { configSchema } from '../../src/config.ts'
import type { SimulatedProbe } from '../../src/engines/simulated.ts'
import { createLog } from '../../src/observe/log.ts'
import { checkEvent } from '../wire/check.ts'
import { Http } from '../wire/http.ts'
import { eventually, type TestServer } from '../wire/server.ts'
import { connect, type Frame, type Socket, type WireResponse } from '../wire/socket.ts'

export type Settings = { readonly [key: string]: unknown }

/** As `startTestServer`, but with plug-ins, the log from `info` on, and a data folder that is left where it is. */
export async function startWith(settings: Settings, ports: Ports = {}): Promise<TestServer> {
  const data =
    typeof settings['data'] === 'string' ? settings['data'] : await mkdtemp(join(tmpdir(), 'continuo-session-'))
  const log: string[] = []
  const config = configSchema.parse({ host: '127.0.0.1', port: 0, store: { kind: 'memory' }, ...settings, data })
  const logger = createLog({ level: 'info', pretty: false }, { write: (line) => void log.push(line) })
  const app = await startApp(config, logger, ports)
  const url = `http://127.0.0.1:${app.port}`
  const wsUrl = `ws://127.0.0.1:${app.port}/v1/responses`
  return {
    url,
    wsUrl,
    app,
    data,
    log,
    http: (key) => new Http(url, key),
    socket: (options) => connect(wsUrl, options),
    quiet: () =>
      eventually(() => {
        const { running, heldBytes, unsettled } = app.counts()
        if (running + heldBytes + unsettled > 0) throw new Error(`not quiet: ${JSON.stringify(app.counts())}`)
      }),
    close: () => app.close(),
  }
}

/** Settings with one simulated engine that remembers what it got. */
export const simulated = (options: Settings = {}): Settings => ({
  engines: { sim: { type: 'simulated', record: true, faultMarkers: true, ...options } },
  models: { '*': { engine: 'sim' } },
})
export function probeOf(server: TestServer): SimulatedProbe {
  const engine = server.app.models.engines.get('sim')
  if (!engine || !('got' in engine)) throw new Error('no simulated engine')
  return engine as unknown as SimulatedProbe
}
/** The newest prompt that was generated from, or brought into the cache. */
export const lastPrompt = (server: TestServer, generate = true): string =>
  probeOf(server).got.findLast((g) => g.generate === generate)?.prompt ?? ''

export const responseIn = (frame: Frame): WireResponse => frame['response'] as WireResponse
/** Sends a create and waits for its `response.created`. */
export async function begin(socket: Socket, body: Settings): Promise<WireResponse> {
  const before = new Set(socket.frames)
  socket.send({ type: 'response.create', model: 'm', store: false, ...body })
  return responseIn(await socket.next((f) => f.type === 'response.created' && !before.has(f)))
}
export const isEnd = ({ type }: Frame): boolean =>
  type === 'response.completed' || type === 'response.incomplete' || type === 'response.failed'
/** The terminal event's response of the one with this id. */
export const endOf = async (socket: Socket, id: string): Promise<WireResponse> =>
  responseIn(await socket.next((f) => isEnd(f) && responseIn(f).id === id))

export const readTool = {
  type: 'function',
  name: 'read_file',
  parameters: {
    type: 'object',
    properties: { path: { type: 'string' } },
    required: ['path'],
    additionalProperties: false,
  },
  strict: false,
} as const

const usual = ['created', 'in_progress', 'completed', 'incomplete', 'failed', 'output_item.added', 'output_item.done']
const words = ['content_part.added', 'content_part.done', 'output_text.delta', 'output_text.done']
const steers = [
  'steer.accepted',
  'steer.pending',
  'steer.failed',
  'function_call_arguments.delta',
  'function_call_arguments.done',
]
/** The oracle compiles a schema when it first meets it, for up to a second: tests that look at the clock do that before. */
export function compileSchemas(): void {
  for (const name of [...usual, ...words, ...steers]) checkEvent({ type: `response.${name}` }, { transport: 'socket' })
  for (const type of ['error', 'keepalive']) checkEvent({ type }, { transport: 'socket' })
}
