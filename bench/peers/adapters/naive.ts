// The naive proxy of this folder: what people write when they put the Responses API before a chat-completions server.
import { fileURLToPath } from 'node:url'
import type { Peer } from '../peer.ts'
import { freePort, newFolder, startProgram, typescript } from '../program.ts'

export const naive: Peer = {
  name: 'naive',
  what: 'a proxy written for the comparison: translates everything at every turn, one write for each event',
  install: '',
  asks: 'chat',
  ways: ['http-full', 'http-previous'],
  available: async () => undefined,
  version: async () => 'of this tree',
  start: async ({ engineUrl }) => {
    const port = await freePort()
    const { stop } = await startProgram({
      name: 'naive',
      command: process.execPath,
      args: [...typescript, fileURLToPath(new URL('../naive/main.ts', import.meta.url)), String(port), engineUrl],
      folder: await newFolder('naive'),
      healthUrl: `http://127.0.0.1:${port}/health`,
    })
    return { url: `http://127.0.0.1:${port}/v1`, stop }
  },
}
