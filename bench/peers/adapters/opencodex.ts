// opencodex: a translator in front of many providers (TypeScript on Bun), with a socket mode that is off by default.
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Peer } from '../peer.ts'
import { freePort, missing, newFolder, peerFolder, startProgram } from '../program.ts'

const packages = (): string => join(peerFolder('opencodex'), 'node_modules')
const program = (): string => join(packages(), '.bin/ocx')
const install = `npm install --prefix ${peerFolder('opencodex')} @bitkyc08/opencodex`

export const opencodex: Peer = {
  name: 'opencodex',
  what: 'opencodex (TypeScript on Bun), socket mode on; says the arguments of a call in one piece at its end',
  install,
  asks: 'chat',
  ways: ['http-full', 'http-previous', 'ws-full'],
  lacks: 'ws-previous: over the socket its translated responses have the id "", so that nothing can be gone on from',
  available: () => missing(program(), install),
  version: async () => {
    const about = JSON.parse(await readFile(join(packages(), '@bitkyc08/opencodex/package.json'), 'utf8')) as {
      readonly version?: unknown
    }
    return String(about.version)
  },
  start: async ({ engineUrl, model }) => {
    const port = await freePort()
    const folder = await newFolder('opencodex')
    const engine = {
      adapter: 'openai-chat',
      baseUrl: engineUrl,
      apiKey: 'none',
      defaultModel: model,
      models: [model],
      allowPrivateNetwork: true,
    }
    const config = {
      port,
      hostname: '127.0.0.1',
      websockets: true,
      defaultProvider: 'engine',
      providers: { engine },
      codexAutoStart: false,
    }
    // It writes to the configuration of Codex in its home when it starts; that of the folder.
    await mkdir(join(folder, '.codex'))
    await mkdir(join(folder, '.opencodex'))
    await writeFile(join(folder, '.codex/config.toml'), '')
    await writeFile(join(folder, '.opencodex/config.json'), JSON.stringify(config))
    const { stop } = await startProgram({
      name: 'opencodex',
      command: program(),
      args: ['start', '--port', String(port)],
      env: { CODEX_HOME: join(folder, '.codex') },
      folder,
      healthUrl: `http://127.0.0.1:${port}/healthz`,
    })
    return { url: `http://127.0.0.1:${port}/v1`, stop }
  },
}
