// vllm-project/agentic-api: a stateful gateway (Rust, with wheels on PyPI) for engines that speak Responses themselves.
import { join } from 'node:path'
import type { Peer } from '../peer.ts'
import { freePort, missing, newFolder, output, peerFolder, startProgram } from '../program.ts'

const bin = (): string => join(peerFolder('agentic-api'), 'bin')
const install = `python3 -m venv ${peerFolder('agentic-api')} && ${bin()}/pip install agentic-api`

export const agenticApi: Peer = {
  name: 'agentic-api',
  what: 'vllm-project/agentic-api (Rust), with SQLite; asks its engine for Responses, with all items each turn',
  install,
  asks: 'responses',
  ways: ['http-full', 'http-previous', 'ws-full', 'ws-previous'],
  available: () => missing(join(bin(), 'agentic-server'), install),
  version: async () => (await output(join(bin(), 'agentic-server'), ['--version'])).replace('agentic-server ', ''),
  start: async ({ engineUrl }) => {
    const port = await freePort()
    const folder = await newFolder('agentic-api')
    const { stop } = await startProgram({
      name: 'agentic-api',
      command: join(bin(), 'agentic-server'),
      args: [
        ...['--llm-api-base', engineUrl.replace(/\/v1$/, ''), '--skip-llm-ready-check'],
        ...['--gateway-host', '127.0.0.1', '--gateway-port', String(port)],
        ...['--db-url', `sqlite://${join(folder, 'responses.db')}?mode=rwc`],
      ],
      folder,
      healthUrl: `http://127.0.0.1:${port}/health`,
    })
    return { url: `http://127.0.0.1:${port}/v1`, stop }
  },
}
