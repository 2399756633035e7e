import { writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { scan } from '../../src/cli/local-engines.ts'
import { serves, warmUp } from '../../src/cli/warm-up.ts'
import { loadConfig } from '../../src/config.ts'
import { pairOf } from '../tls/files.ts'
import { emptyFolder, run, serving } from './program.ts'

// Every test starts whole processes, and a busy machine takes seconds for each.
vi.setConfig({ testTimeout: 90_000 })

type Report = {
  ok: boolean
  settings: { setting: string; value: unknown; origin: string; where?: string }[]
  checks: { name: string; result: string; message: string; advice?: string }[]
}
async function report(
  args: readonly string[],
  options: Parameters<typeof run>[1] = {},
): Promise<Report & { code: number | null; out: string }> {
  const { code, out, err } = await run(['doctor', '--json', ...args], options)
  expect(err).toBe('')
  return { ...(JSON.parse(out) as Report), code, out }
}
const check = (of: Report, name: string) => of.checks.find((c) => c.name === name)

async function listening(answer: RequestListener): Promise<{ port: number; url: string } & AsyncDisposable> {
  const server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () =>
      void (server.closeAllConnections(), await new Promise((resolve) => server.close(resolve))),
  }
}
const closedPort = async () => {
  await using server = await listening(() => {})
  return server.port
}

describe('continuo doctor', () => {
  it('tries everything by the real paths where all is well, and says where values come from', async () => {
    const cwd = emptyFolder()
    writeFileSync(
      join(cwd, 'continuo.yaml'),
      'limits:\n  drainMs: 5 s\nkeys:\n  - {id: ci, tenant: team, secret: sk-canary-4711}\n',
    )
    const found = await report(['--set', 'limits.unsettled=7'], { cwd, env: { PORT: String(await closedPort()) } })
    expect(found.checks.map((c) => [c.name, c.result])).toEqual([
      ['configuration', 'ok'],
      ['engine simulated', 'ok'],
      ['store', 'ok'],
      ['socket', 'ok'],
    ])
    expect(check(found, 'socket')?.message).toMatch(/a warm-up turn over ws:.* took \d+ ms/)
    expect([found.ok, found.code]).toEqual([true, 0])
    const rows = ['port', 'limits.drainMs', 'limits.unsettled', 'host'].map((name) =>
      found.settings.find((s) => s.setting === name),
    )
    expect(rows).toMatchObject([
      { origin: 'env', where: 'PORT' },
      { origin: 'file', where: 'continuo.yaml:2', value: 5000 },
      { origin: 'flag', where: '--set', value: 7 },
      { origin: 'default', value: '127.0.0.1' },
    ])
    expect(found.out).not.toContain('canary')
  })

  it('dials a server of its own and one that runs over TLS, and says until when the certificate is valid', async () => {
    const { cert, key } = pairOf('server')
    const tls = ['--set', `tls.cert=${cert}`, '--set', `tls.key=${key}`]
    const alone = await report([...tls, '--port', String(await closedPort())])
    expect(check(alone, 'certificate')).toMatchObject({ result: 'ok' })
    expect(check(alone, 'certificate')?.message).toContain('valid until 2124-01-01')
    expect(check(alone, 'socket')).toMatchObject({ result: 'ok' })
    expect(check(alone, 'socket')?.message).toMatch(/none runs at https:.*a warm-up turn over wss:/)

    await using server = await serving(tls)
    const beside = await report([...tls, '--port', new URL(server.url).port])
    expect(check(beside, 'socket')?.message).toMatch(/a server runs at https:.*a warm-up turn over wss:/)
  })

  it('says what is wrong with a certificate', async () => {
    const cwd = emptyFolder()
    const { cert, key } = pairOf('expired')
    const file = (text: string) => writeFileSync(join(cwd, 'continuo.yaml'), text)
    file(`port: ${await closedPort()}\ntls: {cert: "${cert}", key: "${key}"}\n`)
    const expired = await report([], { cwd })
    expect(expired.ok).toBe(false)
    expect(check(expired, 'certificate')).toMatchObject({ result: 'failed' })
    expect(check(expired, 'certificate')?.message).toContain('expired on 2021-01-01')
    file(`port: ${await closedPort()}\ntls:\n  cert: "${cert}"\n  key: "${pairOf('server').key}"\n`)
    const foreign = await report([], { cwd })
    expect(check(foreign, 'certificate')?.message).toMatch(/continuo.yaml:4: tls.key: .* is not the key of/)
    expect(check(foreign, 'certificate')?.advice).toContain('tls.cert and tls.key')
  })

  it('says what to do for an engine that is down and a folder that cannot be, and ends with 1', async () => {
    const port = await closedPort()
    const found = await report([
      '--engine-url',
      `http://user:canary@127.0.0.1:${port}/v1`,
      '--data',
      '/dev/null/data',
      '--port',
      '0',
    ])
    expect(check(found, 'engine main')).toMatchObject({
      result: 'failed',
      advice: expect.stringContaining('Start the engine'),
    })
    expect(check(found, 'store')).toMatchObject({ result: 'failed', advice: expect.stringContaining('--data') })
    expect(check(found, 'socket')).toMatchObject({ result: 'failed' })
    expect([found.ok, found.code]).toEqual([false, 1])
    expect(found.out).not.toContain('canary')
  })

  it('lists the models of an engine that is up', async () => {
    await using engine = await listening((_, answer) =>
      answer.setHeader('content-type', 'application/json').end('{"data":[{"id":"qwen"}]}'),
    )
    const found = await report(['--engine-url', `${engine.url}/v1`, '--port', '0'])
    expect(check(found, 'engine main')).toMatchObject({ result: 'ok', message: 'chat; it serves qwen' })
    expect(found.code).toBe(0)
  })

  it('reports a configuration that does not hold', async () => {
    const found = await report([], { env: { PORT: 'eighty' } })
    expect(found).toMatchObject({
      ok: false,
      code: 1,
      checks: [{ name: 'configuration', result: 'failed', message: expect.stringContaining('PORT: port: must be') }],
    })
  })

  it('dials the server that runs, with the key it was given', async () => {
    const cwd = emptyFolder()
    writeFileSync(
      join(cwd, 'continuo.yaml'),
      'keys:\n  - {id: ci, tenant: team, secret: sk-canary-4711}\nstore: {kind: memory}\n',
    )
    await using server = await serving([], { cwd })
    const port = new URL(server.url).port
    const [without, wrong, right] = await Promise.all([
      report(['--port', port], { cwd }),
      report(['--port', port, '--key', 'sk-some-other'], { cwd }),
      report(['--port', port], { cwd, env: { CONTINUO_API_KEY: 'sk-canary-4711' } }),
    ])
    expect(check(without, 'socket')).toMatchObject({ result: 'skipped', advice: expect.stringContaining('--key') })
    expect(check(wrong, 'socket')).toMatchObject({
      result: 'failed',
      message: expect.stringContaining('HTTP 401; the key is wrong'),
    })
    expect(check(right, 'socket')).toMatchObject({
      result: 'ok',
      message: expect.stringContaining(`a server runs at ${server.url}`),
    })
    expect([without.code, wrong.code, right.code]).toEqual([0, 1, 0])
  })

  it('prints a table and a verdict for people', async () => {
    const { code, out } = await run(['doctor', '--port', '0'])
    expect(code).toBe(0)
    expect(out).toMatch(/^ {2}port +0 +flag \(--port\)$/m)
    expect(out).toContain('Everything that is set up works.')
    expect(out).toContain('Only the simulated engine is configured')
  })
})

describe('the search for engines on this machine', () => {
  it('finds those that answer, those with models first, and gives lines that are a valid configuration', async () => {
    await using empty = await listening((_, answer) => answer.end('{"object":"list","data":null}'))
    await using full = await listening((request, answer) =>
      answer.end(request.url === '/v1/models' ? '{"data":[{"id":"qwen3:8b"},{"id":"b"}]}' : '{}'),
    )
    await using guarded = await listening((_, answer) => answer.writeHead(401).end('{"error":"key"}'))
    await using page = await listening((_, answer) => answer.end('<html>'))
    const engines = { empty, full, guarded, page, off: { port: await closedPort() } }
    const found = await scan(Object.entries(engines).map(([name, { port }]) => ({ name, port })))
    expect(found.map((f) => [f.name, f.models])).toEqual([
      ['full', ['qwen3:8b', 'b']],
      ['empty', []],
      ['guarded', []],
    ])
    for (const { yaml, url, name } of found) {
      const cwd = emptyFolder()
      writeFileSync(join(cwd, 'continuo.yaml'), yaml)
      const { config } = loadConfig({ cwd, env: {} })
      expect(config.models).toEqual({ '*': { engine: name } })
      expect(config.engines[name]).toMatchObject({ type: 'chat', url })
    }
  })

  it('is not held up by what never ends', async () => {
    await using endless = await listening((_, answer) => {
      const timer = setInterval(() => answer.write('x'.repeat(100_000)), 1)
      answer.on('close', () => clearInterval(timer))
    })
    await using silent = await listening(() => {})
    const began = Date.now()
    expect(
      await scan([
        { name: 'a', port: endless.port },
        { name: 'b', port: silent.port },
      ]),
    ).toEqual([])
    expect(Date.now() - began).toBeLessThan(4000)
  })
})

describe('the warm-up turn', () => {
  it('says how a socket was refused', async () => {
    await using plain = await listening((_, answer) => answer.writeHead(426).end())
    await expect(warmUp(plain.url, 'm', undefined)).rejects.toThrow(
      'refused the socket with HTTP 426; WebSocket mode is off there',
    )
    expect(await serves(plain.url)).toBe(false)
    await expect(warmUp(`http://127.0.0.1:${await closedPort()}`, 'm', undefined)).rejects.toThrow('cannot be reached')
  })
})
