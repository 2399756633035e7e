// What package.json promises is there: entries, types, the program.
import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { createLog, loadConfig, startApp, version } from '../src/index.ts'

type Manifest = {
  version: string
  bin: Record<string, string>
  exports: Record<string, { types: string; default: string }>
  dependencies: Record<string, string>
  devDependencies: Record<string, string>
}
const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as Manifest
const source = (built: string): string => built.replace(/^(\.\/)?dist\//, 'src/').replace(/(\.d\.ts|\.js)$/, '.ts')
const at = (path: string): URL => new URL(`../${path}`, import.meta.url)

test('every entry of the package has a source', () => {
  const entries = [
    ...Object.values(manifest.bin),
    ...Object.values(manifest.exports).flatMap((e) => [e.types, e.default]),
  ]
  expect(entries.length).toBeGreaterThan(4)
  expect(entries.filter((path) => !existsSync(at(source(path))))).toEqual([])
})

test('the program can be run by its name', () => {
  for (const path of Object.values(manifest.bin))
    expect(readFileSync(at(source(path)), 'utf8')).toMatch(/^#!\/usr\/bin\/env node\n/)
})

test('every dependency has one exact version', () => {
  for (const wanted of Object.values({ ...manifest.dependencies, ...manifest.devDependencies }))
    expect(wanted).toMatch(/^\d+\.\d+\.\d+$/)
})

test('the server can be started as a library', async () => {
  const { config } = loadConfig({ flags: { set: { port: 0, 'store.kind': 'memory' } }, env: {}, cwd: '/' })
  const app = await startApp(config, createLog({ level: 'silent', pretty: false }))
  const answer = await fetch(`http://127.0.0.1:${app.port}/v1/models`)
  expect(answer.headers.get('x-continuo')).toBe(version)
  expect(manifest.version).toBe(version)
  await app.close()
})
