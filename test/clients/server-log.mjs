// What the server's own log says of a Codex task: node server-log.mjs FILE, after codex.mjs ran against that server.
// FILE holds the JSON lines that the server writes to stderr.
import { readFileSync } from 'node:fs'
import { check, end, expect } from './report.mjs'

const lines = readFileSync(process.argv[2], 'utf8')
  .split('\n')
  .filter((line) => line.startsWith('{'))
  .map((line) => JSON.parse(line))
const sockets = lines.filter((line) => line.msg === 'socket opened' && line.client?.startsWith('codex'))
const from = lines.indexOf(sockets[0])
const to = lines.findIndex((line) => line.msg === 'socket closed' && line.connection === sockets[0]?.connection)
// What happened while that socket was open.
const turns = lines
  .slice(from, to < 0 ? undefined : to)
  .filter((line) => line.msg === 'turn' || line.msg === 'turn refused')
const onSocket = turns.filter((line) => line.connection === sockets[0]?.connection)

await check('the log shows one Codex socket, and meanwhile no turn over HTTP', () => {
  expect(sockets.length === 1, 'one socket', sockets.length)
  expect(turns.length > 0 && turns.length === onSocket.length, 'turns on that socket only', turns)
})
await check('the log shows a tool loop: at least four turns on that socket, all of them well ended', () => {
  const spoken = onSocket.filter((line) => !line.warmup)
  expect(spoken.length >= 4, 'four turns', spoken.length)
  const endings = spoken.map((line) => line.ending)
  expect(
    endings.every((ending) => ending === 'stop'),
    'stop',
    endings,
  )
  return { turns: spoken.length }
})
await check('the log shows a warm-up first, and only there', () => {
  const warmups = onSocket.map((line) => line.warmup)
  expect(warmups[0] && !warmups.slice(1).some(Boolean), 'one warm-up', warmups)
})
await check('the log shows that every turn after the first sent only what was new', () => {
  const later = onSocket.slice(1)
  expect(later.length >= 3, 'later turns', later.length)
  expect(
    later.every((line) => line.delta),
    'deltas',
    later.map((line) => line.delta),
  )
  return { items: later.map((line) => line.items) }
})
end()
