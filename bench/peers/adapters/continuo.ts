// This tree's own server, in a process of its own, over the same engine: chat completions, SQLite as by default.
import { serveApart } from '../../../src/bench/served.ts'
import { version } from '../../../src/version.ts'
import { type Peer, ways } from '../peer.ts'

export const continuo: Peer = {
  name: 'continuo',
  what: 'this tree, engine type `chat`, SQLite; asks its engine for chat completions with all messages each turn',
  install: '',
  asks: 'chat',
  ways,
  available: async () => undefined,
  version: async () => version,
  start: async ({ engineUrl }) => {
    const { url, stop } = await serveApart({
      set: { engines: { engine: { type: 'chat', url: engineUrl } }, 'store.kind': 'sqlite' },
    })
    return { url, stop }
  },
}
