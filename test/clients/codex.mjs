// The real Codex CLI does one task over WebSocket mode: node codex.mjs [BASE_URL]. Environment besides MODEL and API_KEY:
// COMMANDS, the fewest commands it must run (3); LIMIT, seconds (120); PROMPT; VERBOSE=1 prints Codex's own event lines.
import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { apiKey, baseUrl, check, end, expect, model } from './report.mjs'

const limit = Number(process.env.LIMIT ?? 120) * 1000
const wanted = Number(process.env.COMMANDS ?? 3)
const prompt = process.env.PROMPT ?? 'List the files in this folder and say what you see.'
const program = fileURLToPath(new URL('node_modules/@openai/codex/bin/codex.js', import.meta.url))

const config = `
model = "${model}"
model_provider = "continuo"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.continuo]
name = "Continuo"
base_url = "${baseUrl}"
wire_api = "responses"
env_key = "CONTINUO_API_KEY"
supports_websockets = true
`

/** A home and a repository of its own, so that nothing of the user's is read or written. */
function workplace() {
  const dir = mkdtempSync(join(tmpdir(), 'continuo-codex-'))
  const home = join(dir, 'home')
  const repo = join(dir, 'repo')
  mkdirSync(home)
  mkdirSync(repo)
  writeFileSync(join(home, 'config.toml'), config)
  writeFileSync(join(repo, 'README.md'), 'hello\n')
  spawnSync('git', ['init', '-q', repo])
  return { dir, home, repo }
}

function codex({ home, repo }) {
  const child = spawn(
    process.execPath,
    [program, 'exec', '--json', '--dangerously-bypass-approvals-and-sandbox', '--skip-git-repo-check', prompt],
    {
      cwd: repo,
      env: { ...process.env, CODEX_HOME: home, HOME: home, CONTINUO_API_KEY: apiKey },
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

const place = workplace()
const start = performance.now()
const { code, out, log } = await codex(place).finally(() => rmSync(place.dir, { recursive: true, force: true }))
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
await check('it never reconnects, falls back to HTTP or reports trouble', () => {
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
