import { describe, expect, it, vi } from 'vitest'
import { version } from '../../src/version.ts'
import { run } from './program.ts'

// Every test starts whole processes, and a busy machine takes seconds for each.
vi.setConfig({ testTimeout: 90_000 })

describe('the program', () => {
  it('prints its version', async () => {
    expect(await run(['--version'])).toEqual({ code: 0, out: `${version}\n`, err: '' })
  })

  it('teaches its use with examples', async () => {
    const { code, out } = await run(['--help'])
    expect(code).toBe(0)
    for (const text of ['serve', 'agent', 'doctor', 'Examples:', '--engine-url', 'docs/config.md'])
      expect(out).toContain(text)
    const serve = await run(['serve', '--help'])
    for (const text of ['--config', '--port', '--host', '--data', '--log-level', '--set'])
      expect(serve.out).toContain(text)
  })

  it('refuses a flag that does not exist and names the nearest', async () => {
    const { code, err } = await run(['--prot', '1'])
    expect(code).toBe(1)
    expect(err).toContain("unknown option '--prot'")
    expect(err).toContain('--port')
  })
})
