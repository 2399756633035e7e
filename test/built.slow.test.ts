// What is shipped is what the compiler made of the sources, not the sources that all other tests run.
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, expect, test } from 'vitest'
import { tinyControls } from '../src/bench/tiny-gguf.ts'
import { smallJson } from './tokenizers/small.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
/** Programs: they begin when they are loaded. */
const programs = /^(cli\/main|bench\/(child|minimal-gateway|naive-gateway)|.*-(child|worker))\.js$/
const minute = 60_000

beforeAll(() => {
  expect(spawnSync(process.execPath, [join(root, 'scripts/build.mjs')], { stdio: 'inherit' }).status).toBe(0)
}, 3 * minute)

test('every module of the build can be loaded', { timeout: minute }, () => {
  const modules = readdirSync(join(root, 'dist'), { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.js') && !programs.test(name),
  )
  expect(modules.length).toBeGreaterThan(150)
  const load = modules.map((name) => `await import(${JSON.stringify(`./dist/${name}`)})`).join('\n')
  const done = spawnSync(process.execPath, ['--input-type=module', '-e', `${load}\nprocess.exit(0)`], {
    cwd: root,
    encoding: 'utf8',
  })
  expect(done.stderr).toBe('')
  expect(done.status).toBe(0)
})

test('the built program serves a model that takes tokens', { timeout: minute }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'continuo-built-'))
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(smallJson(tinyControls)))
  const set = (name: string, value: unknown): string[] => ['--set', `${name}=${JSON.stringify(value)}`]
  const child = spawn(
    process.execPath,
    [
      join(root, 'dist/cli/main.js'),
      'serve',
      '--port',
      '0',
      ...set('store.kind', 'memory'),
      ...set('engines', { sim: { type: 'simulated', tokens: true } }),
      ...set('models', { m: { engine: 'sim', codec: 'qwen3', tokenizer: folder } }),
    ],
    { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] },
  )
  try {
    const url = await new Promise<string>((resolve, reject) => {
      let said = ''
      const hear = (bytes: Buffer): void => {
        const found = /http:\/\/127\.0\.0\.1:\d+/.exec((said += String(bytes)))
        if (found) resolve(found[0])
      }
      child.stdout.on('data', hear)
      child.stderr.on('data', (bytes: Buffer) => (said += String(bytes)))
      child.once('exit', () => reject(new Error(said)))
    })
    const answer = await fetch(`${url}/v1/responses`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', input: 'hello' }),
    })
    const body: unknown = await answer.json()
    expect(body).toMatchObject({ status: 'completed', usage: { input_tokens: expect.any(Number) } })
  } finally {
    child.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
})
