// No server at all: the client asks the engine's own Responses door. What remains is the engine, the client and the wire.
import type { Peer } from '../peer.ts'

export const direct: Peer = {
  name: 'direct',
  what: 'nothing in between: the engine itself, the floor for the others',
  install: '',
  asks: 'responses',
  ways: ['http-full'],
  available: async () => undefined,
  version: async () => 'of this tree',
  start: async ({ engineUrl }) => ({ url: engineUrl, stop: async () => undefined }),
}
