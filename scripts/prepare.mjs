// What every script needs first: packages as the lockfiles say, the native module loadable, a build as the sources say.
// Plain Node, no packages. Each function looks before it acts, so that a second run does nothing.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('..', import.meta.url))
export const clients = join(root, 'test/clients')
export const schema = join(root, 'test/schema')
export const llama = join(root, 'test/llama')
export const tokenizers = join(root, 'test/tokenizers')

/** One progress line, on stderr so that stdout stays what the program itself prints. */
export const say = (text) => process.stderr.write(`continuo: ${text}\n`)

/** Runs a program to its end with our terminal; returns its exit code, 130 and the like after a signal. */
export function run(command, args, options = {}) {
  const done = spawnSync(command, args, { cwd: root, stdio: 'inherit', ...options })
  if (done.error) fail(`${command} cannot be run: ${done.error.message}`)
  if (done.signal) return done.signal === 'SIGINT' ? 130 : 143
  return done.status ?? 1
}

/** Stops the script with one sentence. */
export function fail(text, code = 1) {
  say(text)
  process.exit(code)
}

// npm tells its scripts where it is; without it (plain `node scripts/…`) the one on the PATH is used.
function npm(args, cwd) {
  const own = process.env.npm_execpath
  const options = { cwd, stdio: ['inherit', 2, 2] }
  return own?.endsWith('.js')
    ? run(process.execPath, [own, ...args], options)
    : run('npm', args, { ...options, shell: process.platform === 'win32' })
}

const read = (file) => JSON.parse(readFileSync(file, 'utf8'))

/** Is every package of the folder's lockfile there, at the locked version? Optional ones may be for another platform. */
export function installed(dir) {
  const record = join(dir, 'node_modules/.package-lock.json')
  if (!existsSync(record)) return false
  const there = read(record).packages
  return Object.entries(read(join(dir, 'package-lock.json')).packages).every(
    ([path, wanted]) =>
      path === '' || wanted.optional || (there[path]?.version === wanted.version && existsSync(join(dir, path))),
  )
}

/** `npm ci` in a folder, unless everything is there. Returns whether it is there now. */
export function install(dir, why) {
  if (installed(dir)) return true
  say(`installing ${why}; the first time takes a minute or two …`)
  // Development packages hold the compiler, so they are wanted even where NODE_ENV says production.
  return npm(['ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error'], dir) === 0 && installed(dir)
}

const native = "new (require('better-sqlite3'))(':memory:').close()"
const loads = () => spawnSync(process.execPath, ['-e', native], { cwd: root, stdio: 'ignore' }).status === 0

/** Everything the root package needs. Ends the script when that cannot be had. */
export function ready() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  if (major < 20 || (major === 20 && minor < 19))
    fail(`Node ${process.versions.node} is too old; install 20.19 or newer.`)
  if (!install(root, 'packages'))
    fail('npm could not install the packages; its messages are above. Run the command again once they are dealt with.')
  if (loads()) return
  // Another Node version than at the last install, or an npm that did not run install scripts.
  say('building the SQLite module for this Node …')
  npm(['rebuild', 'better-sqlite3', '--loglevel=error'], root)
  if (!loads())
    fail(
      'better-sqlite3 does not load. Where no prebuilt file can be downloaded it needs python3, make and a C++ compiler.',
    )
}

function files(dir) {
  return readdirSync(dir, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
}

/** Compiles src/ to dist/ unless the last build was of the same files. Ends the script when they do not compile. */
export function build() {
  const sources = [
    ...files(join(root, 'src')),
    ...['tsconfig.json', 'tsconfig.build.json', 'package-lock.json'].map((name) => join(root, name)),
  ]
  const state = sources.map((file) => `${file} ${statSync(file).size} ${statSync(file).mtimeMs}`).join('\n')
  const stamp = join(root, 'dist/.built')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === state) return
  say('building …')
  rmSync(join(root, 'dist'), { recursive: true, force: true })
  const code = run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', 'tsconfig.build.json'])
  if (code !== 0) fail('the sources do not compile; the compiler says where.', code)
  writeFileSync(stamp, state)
}
