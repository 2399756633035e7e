// The real Codex CLI does one task over WebSocket mode: node codex.mjs [BASE_URL]. With --http it is to do it over HTTP,
// against a server that has WebSocket mode switched off. Environment besides MODEL and API_KEY:
// COMMANDS, the fewest commands it must run (3); LIMIT, seconds (120); PROMPT; VERBOSE=1 prints Codex's own event lines.
import { spawn } from 'node:child_process'
import { codexProgram, workplace } from './codex-home.mjs'
import { relay } from './relay.mjs'
import { baseUrl, check, end, expect, model } from './report.mjs'

const limit = Number(process.env.LIMIT ?? 120) * 1000
const wanted = Number(process.env.COMMANDS ?? 3)
const prompt = process.env.PROMPT ?? 'List the files in this folder and say what you see.'

function codex({ repo, env }) {
  const child = spawn(
    process.execPath,
    [codexProgram, 'exec', '--json', '--dangerously-bypass-approvals-and-sandbox', '--skip-git-repo-check', prompt],
    {
      cwd: repo,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: limit,
    },
  )
  let out = ''
  let log = ''
  child.stdout.on('data', (piece) => (out += piece))
  child.stderr.on('data', (piece) => (log += piece))
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => resolve({ code, out, log }))
  })
}

// A relay only where it is asked for: otherwise nothing stands between Codex and the server.
const wire = process.argv.includes('--http') ? await relay(baseUrl) : undefined
const place = workplace({ url: wire?.url ?? baseUrl, model })
const start = performance.now()
const { code, out, log } = await codex(place).finally(place.remove)
const seconds = ((performance.now() - start) / 1000).toFixed(1)
if (process.env.VERBOSE) console.log(out + log)

const events = out
  .split('\n')
  .filter((line) => line.startsWith('{'))
  .map((line) => JSON.parse(line))
const done = (type) => events.filter((event) => event.type === 'item.completed' && event.item?.type === type)

await check('codex exec completes the task', () => {
  expect(code === 0, 'exit code 0', { code, log: log.slice(-300), last: events.at(-1) })
  expect(
    events.some((event) => event.type === 'turn.completed'),
    'turn.completed',
    events.map((event) => event.type),
  )
  return { seconds }
})
await check(`it runs at least ${wanted} commands, all of them with success`, () => {
  const commands = done('command_execution')
  expect(commands.length >= wanted, `${wanted} commands`, commands.length)
  expect(
    commands.every(({ item }) => item.exit_code === 0),
    'exit codes 0',
    commands.map(({ item }) => [item.command, item.exit_code]),
  )
  return commands.map(({ item }) => item.command)
})
await check('it says something at the end', () => {
  const said = done('agent_message').map(({ item }) => item.text)
  expect(said.some(Boolean), 'a message', said)
})
if (wire)
  await check('it asks for a socket once, gets 426, and goes on over HTTP at once', () => {
    const { connections } = wire
    const seen = connections.map(({ request, status }) => [request, status])
    const [upgrade, ...others] = connections
    expect(upgrade.request.startsWith('GET ') && upgrade.status === 426, 'an upgrade that gets 426', seen)
    const posts = others.every(({ request, status }) => /^POST \S+\/responses /.test(request) && status === 200)
    expect(others.length > 0 && posts, 'nothing but successful POSTs after it', seen)
    const wait = Math.round(others[0].at - upgrade.at)
    expect(wait < 2000, 'the first of them within 2 s', wait)
    return { wait, connections: connections.length }
  })
await check('it never reconnects or reports trouble', () => {
  const trouble = events.filter(
    (event) =>
      event.type === 'error' ||
      event.type === 'turn.failed' ||
      /reconnect|fall(ing)? ?back/i.test(String(event.message ?? event.item?.message ?? '')),
  )
  expect(trouble.length === 0, 'no trouble', trouble)
  expect(!/reconnect|falling back/i.test(log), 'a quiet log', log.slice(-300))
})
end()
