// `npm test [-- arguments of vitest run]`: installs what is missing, the real clients too, and runs every test.
// Without a network the clients stay away: their tests are then named skips, or failures where CI is set.
// CONTINUO_CLIENTS=off does not install them (Codex unpacks to 400 MB).
import { join } from 'node:path'
import { clients, fail, install, ready, root, run, say } from './prepare.mjs'

const args = process.argv.slice(2)
const ci = !['', '0', 'false', undefined].includes(process.env.CI)

ready()
// A run of chosen files needs the clients only if it chose theirs.
const chosen = args.filter((arg) => !arg.startsWith('-'))
const wanted = chosen.length === 0 || chosen.some((arg) => arg.includes('clients'))
if (
  wanted &&
  process.env.CONTINUO_CLIENTS !== 'off' &&
  !install(clients, 'the real clients (Codex, OpenAI, Agents and AI SDK)')
) {
  if (ci) fail('the real clients could not be installed.')
  say('the real clients could not be installed; their tests are skipped.')
}
process.exit(run(process.execPath, [join(root, 'node_modules/vitest/vitest.mjs'), 'run', ...args]))
