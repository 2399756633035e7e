// A scripted server and a connection to it, both closed after the test that asked for them.
import { afterEach } from 'vitest'
import { connect, type Connection } from '../../src/client/connection.ts'
import type { ConnectOptions } from '../../src/client/connect-options.ts'
import type { Call } from '../../src/client/flight.ts'
import type { ServerEvent } from '../../src/client/frame.ts'
import { answerHello, ScriptedServer, type Script, type ServerOptions } from './ws-server.ts'

const open: (AsyncDisposable | Disposable)[] = []
/** Every file that uses this registers it: modules may be shared between files. */
export const closeAfterEach = (): void =>
  afterEach(async () => {
    for (const one of open.splice(0).reverse())
      await (Symbol.asyncDispose in one ? one[Symbol.asyncDispose]() : one[Symbol.dispose]())
  })
export async function serve(script: Script = answerHello, options: ServerOptions = {}): Promise<ScriptedServer> {
  const server = await ScriptedServer.start(script, options)
  open.push(server)
  return server
}
export function dial(server: ScriptedServer, options: Partial<ConnectOptions> = {}): Connection {
  const connection = connect({
    url: server.url,
    apiKey: 'sk-test',
    reconnect: { attempts: 4, initialMs: 5, maxMs: 40 },
    ...options,
  })
  open.push({ [Symbol.dispose]: () => connection.close() })
  return connection
}
export async function read(call: Call): Promise<ServerEvent[]> {
  const events: ServerEvent[] = []
  for await (const event of call) events.push(event)
  return events
}
export const textOf = (events: readonly ServerEvent[]): string =>
  events.map((event) => (event.type === 'response.output_text.delta' ? event.delta : '')).join('')
