// The real server in this process, on a free port with a data folder of its own: what the black-box tests talk to.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type App, startApp } from '../../src/app.ts'
import { configSchema } from '../../src/config.ts'
import { createLog } from '../../src/observe/log.ts'
import { connect, type ConnectOptions, type Socket } from './socket.ts'
import { Http } from './http.ts'
import { violation } from './violations.ts'

type Settings = { readonly [key: string]: unknown }
export type TestServer = {
  /** `http://127.0.0.1:PORT`. */
  readonly url: string
  /** `ws://127.0.0.1:PORT/v1/responses`. */
  readonly wsUrl: string
  readonly app: App
  readonly data: string
  /** Lines of the server's log. */
  readonly log: readonly string[]
  http(key?: string): Http
  socket(options?: ConnectOptions): Promise<Socket>
  /** Waits until nothing runs, is held or waits to be written. Rejects when that does not come. */
  quiet(withoutSockets?: boolean): Promise<void>
  close(): Promise<void>
}

/** `settings`: as in a configuration file; objects are laid over the defaults. The simulated engine obeys `[fault:KIND]`; the store is in memory unless it says otherwise. */
export async function startTestServer(settings: Settings = {}): Promise<TestServer> {
  const data = await mkdtemp(join(tmpdir(), 'continuo-wire-'))
  const log: string[] = []
  const engines = { simulated: { type: 'simulated', faultMarkers: true } }
  const config = configSchema.parse({
    host: '127.0.0.1',
    port: 0,
    data,
    store: { kind: 'memory' },
    tokens: { shadow: 1 },
    engines,
    ...settings,
  })
  const app = await startApp(
    config,
    createLog({ level: 'warn', pretty: false }, { write: (line) => void log.push(line) }),
  )
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
    quiet: (withoutSockets = false) =>
      eventually(() => {
        const { running, heldBytes, unsettled, sockets } = app.counts()
        if (running + heldBytes + unsettled + (withoutSockets ? sockets : 0) > 0)
          throw new Error(`not quiet: ${JSON.stringify(app.counts())}`)
      }),
    close: async () => {
      const { shadowMismatches } = app.counts()
      violation(shadowMismatches > 0 ? [`${shadowMismatches} conversations were rendered wrongly`] : [], log.join('\n'))
      await app.close()
      await rm(data, { recursive: true, force: true })
    },
  }
}

/** Tries until it does not throw, for at most `limitMs`; then throws what it threw last. */
export async function eventually(look: () => unknown, limitMs = 5000): Promise<void> {
  for (const end = Date.now() + limitMs; ;) {
    try {
      await look()
      return
    } catch (e) {
      if (Date.now() > end) throw e
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
}
export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
