import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { Ajv } from 'ajv'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { HeadAndTail } from '../../src/client/command.ts'
import { localTools } from '../../src/client/tools.ts'

let top: string
let cwd: string
beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), 'continuo-tools-'))
  cwd = join(top, 'work')
  await mkdir(cwd)
})
afterEach(() => rm(top, { recursive: true, force: true }))
const never = new AbortController().signal
function call(
  name: string,
  args: Record<string, unknown>,
  options: { maxOutput?: number; timeoutMs?: number; signal?: AbortSignal } = {},
): Promise<string> {
  const { signal = never, ...limits } = options
  const tool = localTools({ cwd, ...limits }).find((one) => one.definition.name === name)
  if (!tool) throw new Error(name)
  return tool.run(args, signal)
}

describe('files', () => {
  it('are written and read, folders included', async () => {
    expect(await call('write_file', { path: 'a/b/c.txt', content: 'one\ntwo\nthrée\n' })).toBe('Wrote 15 bytes.')
    expect(await call('read_file', { path: 'a/b/c.txt', offset: null, limit: null })).toBe('one\ntwo\nthrée\n')
  })
  it('are read by lines, whatever the chunks', async () => {
    const lines = Array.from({ length: 20_000 }, (_, n) => `line ${n + 1}\n`)
    await writeFile(join(cwd, 'long'), lines.join(''))
    for (const [offset, limit] of [
      [1, 2],
      [2, 1],
      [9000, 3],
      [19_999, 10],
      [1, 20_000],
      [20_001, 5],
    ] as const)
      expect(await call('read_file', { path: 'long', offset, limit }, { maxOutput: 1 << 20 })).toBe(
        lines.slice(offset - 1, offset - 1 + limit).join(''),
      )
  })
  it('come back with head and tail when they are long', async () => {
    await writeFile(join(cwd, 'long'), `BEGIN${'x'.repeat(300_000)}END`)
    const text = await call('read_file', { path: 'long' })
    expect(text).toMatch(/^BEGIN/)
    expect(text).toMatch(/END$/)
    expect(text).toContain('bytes left out')
    expect(text.length).toBeLessThan(65_536 + 100)
  })
  it.each(['../secret', '/etc/passwd', 'a/../../secret', 'out/secret', 'out/new/file', 'direct', 'dangling'])(
    'outside of the folder are out of reach: %s',
    async (path) => {
      await writeFile(join(top, 'secret'), 'secret')
      await symlink(top, join(cwd, 'out'))
      await symlink(join(top, 'secret'), join(cwd, 'direct'))
      await symlink(join(top, 'not-there-yet'), join(cwd, 'dangling'))
      await expect(call('read_file', { path })).rejects.toThrow()
      await expect(call('write_file', { path, content: 'overwritten' })).rejects.toThrow()
      expect(await readFile(join(top, 'secret'), 'utf8')).toBe('secret')
      await expect(readFile(join(top, 'not-there-yet'))).rejects.toThrow('ENOENT')
    },
  )
  it('that are no files are refused, pipes without waiting for a writer', async () => {
    execFileSync('mkfifo', [join(cwd, 'pipe')])
    await expect(call('read_file', { path: 'pipe' })).rejects.toThrow('not a regular file')
    await expect(call('read_file', { path: '.' })).rejects.toThrow('not a regular file')
    await expect(call('write_file', { path: '.', content: '' })).rejects.toThrow()
  })
})

describe('commands', () => {
  it('run in the folder and bring both streams and the exit code', async () => {
    await writeFile(join(cwd, 'here'), '')
    expect(await call('run_command', { command: 'ls; echo problem >&2; exit 3' })).toBe('exit code 3\nhere\nproblem\n')
  })
  it('are stopped with all they started when their time is over', async () => {
    const start = performance.now()
    const text = await call('run_command', { command: '(sleep 30; echo late > late) & sleep 30', timeout_ms: 200 })
    expect(text).toContain('stopped after 200 ms')
    expect(performance.now() - start).toBeLessThan(5000)
    expect(execFileSync('sh', ['-c', `ps -eo args | grep -c "[s]leep 30" || true`]).toString().trim()).toBe('0')
  })
  it('do not wait for what they leave in the background', async () => {
    const start = performance.now()
    expect(await call('run_command', { command: 'sleep 5 & echo started' })).toContain('started')
    expect(performance.now() - start).toBeLessThan(3000)
  })
  it('are stopped when the agent is cancelled', async () => {
    const abort = new AbortController()
    setTimeout(() => abort.abort(), 100)
    await expect(call('run_command', { command: 'sleep 30' }, { signal: abort.signal })).rejects.toThrow()
  })
  it('come back with head and tail when they say much', async () => {
    const text = await call('run_command', { command: 'echo BEGIN; head -c 3000000 /dev/zero | tr "\\0" x; echo END' })
    expect(text).toMatch(/^exit code 0\nBEGIN/)
    expect(text).toMatch(/END\n$/)
    expect(text.length).toBeLessThan(65_536 + 200)
  })
  it('do not see the key of the server', async () => {
    process.env['CONTINUO_API_KEY'] = 'secret-key'
    expect(await call('run_command', { command: 'echo "[$CONTINUO_API_KEY]"' })).toContain('[]')
    delete process.env['CONTINUO_API_KEY']
  })
})

it('head and tail keep exactly the ends, whatever the chunks', () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ maxLength: 30, unit: 'grapheme-ascii' }), { maxLength: 20 }),
      fc.integer({ min: 1, max: 40 }),
      (chunks, half) => {
        const kept = new HeadAndTail(half * 2)
        for (const chunk of chunks) kept.add(Buffer.from(chunk))
        const all = chunks.join('')
        const expected =
          all.length <= half * 2
            ? all
            : `${all.slice(0, half)}\n[… ${all.length - half * 2} bytes left out …]\n${all.slice(-half)}`
        expect(kept.toString()).toBe(expected)
      },
    ),
  )
})

it('the schemas are strict and accept what the tools take', () => {
  const examples: Record<string, object> = {
    read_file: { path: 'a', offset: null, limit: 3 },
    write_file: { path: 'a', content: '' },
    run_command: { command: 'ls', timeout_ms: null },
  }
  for (const { definition } of localTools({ cwd })) {
    expect(definition.strict).toBe(true)
    const check = new Ajv({ strict: true, allowUnionTypes: true }).compile(definition.parameters as object)
    expect(check(examples[definition.name])).toBe(true)
    expect(check({ ...examples[definition.name], more: 1 })).toBe(false)
    expect(check({})).toBe(false)
  }
})
