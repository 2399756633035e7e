import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { WebSocket } from 'ws'
import { ca, pairOf, pathOf } from '../tls/files.ts'
import { emptyFolder, run, serving } from './program.ts'

// Every test starts whole processes, and a busy machine takes seconds for each.
vi.setConfig({ testTimeout: 90_000 })

const slow = (ms: number) => ['--set', `engines={simulated: {type: simulated, ttftMs: ${ms}}}`]

async function ask(url: string, key?: string): Promise<{ status: number; text: string }> {
  const answer = await fetch(`${url}/v1/responses`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) },
    body: JSON.stringify({ model: 'gpt-5.5', input: 'canary-question' }),
  })
  return { status: answer.status, text: await answer.text() }
}
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

describe('continuo serve with a certificate', () => {
  const { cert, key } = pairOf('server')
  it('serves HTTPS and WSS, says so, and is dialled by the agent where the CA is named', async () => {
    await using server = await serving(['--set', `tls.cert=${cert}`, '--set', `tls.key=${key}`])
    expect(server.out()).toContain(`serves ${server.url}/v1 (HTTP) and wss://127.0.0.1:`)
    expect(server.out()).toContain(`base_url = "${server.url}/v1"`)
    expect(server.url).toMatch(/^https:/)
    const socket = new WebSocket(`${server.url.replace('https', 'wss')}/v1/responses`, { ca })
    await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
    socket.close()

    const task = ['agent', '--url', `${server.url}/v1`, '--yes', '--model', 'm', '--max-steps', '5', 'list the files']
    const trusting = await run(task, { env: { NODE_EXTRA_CA_CERTS: pathOf('ca.pem') } })
    expect([trusting.code, trusting.err]).toEqual([0, expect.stringContaining('done: ')])
    for (const args of [task, task.filter((word) => word !== '--model' && word !== 'm')]) {
      const strange = await run(args)
      expect([strange.code, strange.err]).toEqual([
        1,
        expect.stringMatching(/is not trusted here.*NODE_EXTRA_CA_CERTS/),
      ])
    }
  })
  it('says what is wrong with it and does not start', async () => {
    const { code, err } = await run(['serve', '--set', `tls.cert=${key}`, '--set', `tls.key=${key}`])
    expect([code, err]).toEqual([
      1,
      expect.stringMatching(/did not start\.\n--set: tls\.cert: .*holds no certificate in PEM/),
    ])
  })
})

describe('continuo serve', () => {
  it('serves without any configuration, says plainly what it is, and ends with 0 at SIGTERM', async () => {
    const cwd = emptyFolder()
    await using server = await serving([], { cwd })
    expect((await fetch(`${server.url}/healthz`)).status).toBe(200)
    expect(await ask(server.url)).toMatchObject({ status: 200 })
    const out = server.out()
    expect(out).toContain('The engine is SIMULATED')
    expect(out).toContain('--engine-url')
    expect(out).toContain(`Data folder: ${join(cwd, 'data')}`)
    expect(out).toContain(
      `[model_providers.continuo]\nname = "Continuo"\nbase_url = "${server.url}/v1"\nwire_api = "responses"\nsupports_websockets = true\nenv_key = "CONTINUO_API_KEY"\n`,
    )
    expect(readdirSync(cwd)).toEqual(['data'])
    server.child.kill('SIGTERM')
    const { code, err } = await server.ended
    expect(code).toBe(0)
    // The log is JSON lines on stderr, and what the user said is not in it.
    for (const line of err.trim().split('\n')) expect(JSON.parse(line)).toHaveProperty('level')
    expect(err + out).not.toContain('canary')
  })

  it('reads its configuration, says which, and keeps keys out of what it prints', async () => {
    const cwd = emptyFolder()
    const file = join(cwd, 'team.yaml')
    writeFileSync(
      file,
      'keys:\n  - {id: ci, tenant: team, secret: sk-canary-4711}\nengines:\n  gpu: {type: chat, url: "http://127.0.0.1:1/v1"}\nmodels:\n  qwen: {engine: gpu}\nstore: {kind: memory}\n',
    )
    await using server = await serving(['-c', 'team.yaml'], { cwd })
    expect(server.out()).toContain(`Configuration: ${file}`)
    expect(server.out()).toContain('Engines: gpu (chat)')
    expect(server.out()).not.toContain('SIMULATED')
    expect(server.out()).toContain('model = "qwen"')
    expect((await ask(server.url)).status).toBe(401)
    expect((await ask(server.url, 'sk-canary-4711')).status).toBe(404)
    server.child.kill('SIGINT')
    const { code, err, out } = await server.ended
    expect(code).toBe(0)
    expect(err + out).not.toContain('canary')
  })

  it('lets a running response finish after the first signal', async () => {
    await using server = await serving(slow(1500))
    const answer = ask(server.url)
    await pause(500)
    server.child.kill('SIGTERM')
    expect(await answer).toMatchObject({ status: 200, text: expect.stringContaining('"status":"completed"') })
    expect((await server.ended).code).toBe(0)
  })

  it('ends at once after the second signal', async () => {
    await using server = await serving(slow(600_000))
    const answer = ask(server.url).catch(() => undefined)
    await pause(500)
    server.child.kill('SIGTERM')
    await server.says('draining')
    await pause(200)
    expect(server.child.exitCode).toBeNull()
    const began = Date.now()
    server.child.kill('SIGTERM')
    expect((await server.ended).code).toBe(0)
    expect(Date.now() - began).toBeLessThan(4000)
    await answer
  })

  it('says in one sentence why it cannot start, and ends with 1', async () => {
    const taken = createServer()
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
    const address = taken.address()
    const port = String(typeof address === 'object' && address ? address.port : 0)
    const [busy, open, wrong, folder, far] = await Promise.all([
      run(['--port', port]),
      run(['--host', '0.0.0.0']),
      run(['--set', 'limits.drainMS=1']),
      run(['--data', '/dev/null/data', '--port', '0']),
      run(['--engine-url', 'nonsense', '--port', '0']),
    ])
    await new Promise((resolve) => taken.close(resolve))
    expect(busy).toMatchObject({ code: 1, out: '' })
    expect(busy.err).toBe(
      `continuo did not start.\nPort ${port} on 127.0.0.1 is taken, perhaps by another continuo; stop that program, or choose another port with --port or PORT.\n`,
    )
    expect(open).toMatchObject({ code: 1, out: '', err: expect.stringContaining('no keys are configured') })
    expect(wrong).toMatchObject({ code: 1, out: '', err: expect.stringContaining('did you mean "limits.drainMs"?') })
    expect(folder).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringContaining('choose another with --data or CONTINUO_DATA'),
    })
    expect(far).toMatchObject({ code: 1, out: '', err: expect.stringContaining('--engine-url: engines.main.url: ') })
    for (const { err } of [busy, open, wrong, folder, far]) expect(err).not.toMatch(/\n\s+at /)
  })

  it('goes on after a rejected promise that nobody looked at, and logs it', async () => {
    await using server = await serving([], {
      preload: "process.on('SIGUSR2', () => void Promise.reject(new Error('a bug')))",
    })
    server.child.kill('SIGUSR2')
    await server.says('a promise was rejected')
    expect((await fetch(`${server.url}/healthz`)).status).toBe(200)
  })

  it('ends with 1 after an error that nobody caught, and tells its sockets to come back', async () => {
    await using server = await serving([], { preload: "process.on('SIGUSR2', () => { throw new Error('a bug') })" })
    const socket = new WebSocket(`${server.url.replace('http', 'ws')}/v1/responses`)
    await new Promise((resolve) => socket.on('open', resolve))
    const closed = new Promise<number>((resolve) => socket.on('close', resolve))
    server.child.kill('SIGUSR2')
    expect(await closed).toBe(1012)
    expect(await server.ended).toMatchObject({ code: 1, err: expect.stringContaining('"level":"fatal"') })
  })

  it('keeps what it stored over a restart in the same data folder', async () => {
    const cwd = emptyFolder()
    const first = await serving([], { cwd })
    const made: unknown = JSON.parse((await ask(first.url)).text)
    const id = typeof made === 'object' && made !== null && 'id' in made ? String(made.id) : ''
    first.child.kill('SIGTERM')
    await first.ended
    await using second = await serving([], { cwd })
    const again: unknown = await (await fetch(`${second.url}/v1/responses/${id}`)).json()
    expect(again).toMatchObject({ id, status: 'completed' })
    expect(readFileSync(join(cwd, 'data', 'seal.key')).length).toBeGreaterThan(0)
  })
})
