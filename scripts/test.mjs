// `npm test [-- arguments of vitest run]`: installs what is missing, the real clients too, and runs every test.
// Without a network the clients stay away: their tests are then named skips, or failures where CI is set.
// CONTINUO_CLIENTS=off does not install them (Codex unpacks to 400 MB), CONTINUO_TOKENIZERS=off not the tokenizer files (480 MB).
import { join } from 'node:path'
import { clients, fail, install, llama, ready, root, run, say, schema, tokenizers } from './prepare.mjs'

const args = process.argv.slice(2)
const ci = !['', '0', 'false', undefined].includes(process.env.CI)

ready()
// What some tests need beside the packages of the root: a run of chosen files needs it only if it chose theirs.
const chosen = args.filter((arg) => !arg.startsWith('-'))
function need(dir, word, what) {
  if (chosen.length > 0 && !chosen.some((arg) => arg.includes(word))) return
  if (install(dir, what)) return
  if (ci) fail(`${what} could not be installed.`)
  say(`${what} could not be installed; the tests that need it are skipped.`)
}
need(schema, 'wire', 'the generator of the wire schemas')
if (process.env.CONTINUO_TOKENIZERS !== 'off')
  need(tokenizers, 'tokenizers', 'real tokenizer files and the native tokenizers to compare with')
need(llama, 'llama', 'llama.cpp for Node')
if (process.env.CONTINUO_CLIENTS !== 'off')
  need(clients, 'clients', 'the real clients (Codex, OpenAI, Agents and AI SDK)')
process.exit(run(process.execPath, [join(root, 'node_modules/vitest/vitest.mjs'), 'run', ...args]))
