// Where a Codex of these tests lives: a home and a repository of its own, so that nothing of the user's is read or written.
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { apiKey } from './report.mjs'

/** The program, to be run by `process.execPath`. */
export const codexProgram = fileURLToPath(new URL('node_modules/@openai/codex/bin/codex.js', import.meta.url))

const config = (url, model, provider) => `
model = "${model}"
model_provider = "continuo"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.continuo]
name = "${provider}"
base_url = "${url}"
wire_api = "responses"
env_key = "CONTINUO_API_KEY"
supports_websockets = true
`

/** `provider`: the name that Codex knows the server by; one called OpenAI is spoken to differently in places. */
export function workplace({ url, model, provider = 'Continuo' }) {
  const dir = mkdtempSync(join(tmpdir(), 'continuo-codex-'))
  const home = join(dir, 'home')
  const repo = join(dir, 'repo')
  mkdirSync(home)
  mkdirSync(repo)
  writeFileSync(join(home, 'config.toml'), config(url, model, provider))
  writeFileSync(join(repo, 'README.md'), 'hello\n')
  spawnSync('git', ['init', '-q', repo])
  const env = { ...process.env, CODEX_HOME: home, HOME: home, CONTINUO_API_KEY: apiKey }
  return { repo, env, remove: () => rmSync(dir, { recursive: true, force: true }) }
}
