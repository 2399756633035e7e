// Portkey's gateway: for Responses it passes requests on to providers that speak them, and refuses all others. Version 1.15.2
// answers every streamed response with a 500 on Node (Portkey-AI/gateway#1550), which a run then reports.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Peer } from '../peer.ts'
import { freePort, missing, newFolder, peerFolder, startProgram } from '../program.ts'

const home = (): string => join(peerFolder('portkey'), 'node_modules/@portkey-ai/gateway')
const program = (): string => join(home(), 'build/start-server.js')
const install = `npm install --prefix ${peerFolder('portkey')} @portkey-ai/gateway`

export const portkey: Peer = {
  name: 'portkey',
  what: 'Portkey AI gateway (Node), which passes Responses on; no state, no socket mode',
  install,
  asks: 'responses',
  ways: ['http-full'],
  lacks: 'http-previous: it is for the provider to know what it points to; ws-*: it has no socket mode',
  available: () => missing(program(), install),
  version: async () => {
    const about = JSON.parse(await readFile(join(home(), 'package.json'), 'utf8')) as { readonly version?: unknown }
    return String(about.version)
  },
  start: async ({ engineUrl }) => {
    const port = await freePort()
    const { stop } = await startProgram({
      name: 'portkey',
      command: process.execPath,
      args: [program(), `--port=${port}`, '--headless'],
      folder: await newFolder('portkey'),
      healthUrl: `http://127.0.0.1:${port}/`,
    })
    const headers = { 'x-portkey-provider': 'openai', 'x-portkey-custom-host': engineUrl }
    return { url: `http://127.0.0.1:${port}/v1`, key: 'none', headers, stop }
  },
}
