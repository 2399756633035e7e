// codex-relay: a bridge from Responses to chat completions (Rust, with wheels on PyPI) that remembers responses in memory.
import { join } from 'node:path'
import type { Peer } from '../peer.ts'
import { freePort, missing, newFolder, output, peerFolder, startProgram } from '../program.ts'

const bin = (): string => join(peerFolder('codex-relay'), 'bin')
const install = `python3 -m venv ${peerFolder('codex-relay')} && ${bin()}/pip install codex-relay`

export const codexRelay: Peer = {
  name: 'codex-relay',
  what: 'codex-relay (Rust), histories in memory; says the arguments of a call in one piece at its end',
  install,
  asks: 'chat',
  ways: ['http-full', 'http-previous'],
  available: () => missing(join(bin(), 'codex-relay'), install),
  version: async () => (await output(join(bin(), 'codex-relay'), ['--version'])).replace('codex-relay ', ''),
  start: async ({ engineUrl }) => {
    const port = await freePort()
    const { stop } = await startProgram({
      name: 'codex-relay',
      command: join(bin(), 'codex-relay'),
      args: ['--port', String(port), '--bind', '127.0.0.1', '--upstream', engineUrl],
      folder: await newFolder('codex-relay'),
      // It has no path for its health.
      healthUrl: `http://127.0.0.1:${port}/v1/models`,
    })
    return { url: `http://127.0.0.1:${port}/v1`, stop }
  },
}
