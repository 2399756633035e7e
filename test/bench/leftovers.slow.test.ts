// What a benchmark leaves behind: nothing, however it ends.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../../src/bench/leftovers.ts'

const root = join(import.meta.dirname, '../..')
const until = async (holds: () => boolean): Promise<void> => {
  for (const end = Date.now() + 60_000; !holds() && Date.now() < end;) await pause(50)
}
/** Processes whose environment has this word in it; where there is a /proc. */
const running = (word: string): number =>
  readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/environ`, 'latin1').includes(word)
    } catch {
      return false
    }
  }).length

describe('what is left of a benchmark', () => {
  it('is no folder once it is removed', async () => {
    const folder = await temporaryFolder('continuo-left-')
    expect(existsSync(folder.path)).toBe(true)
    await folder.remove()
    expect(existsSync(folder.path)).toBe(false)
  })
  it.skipIf(process.platform !== 'linux').each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)(
    'is no folder and no process after %s in the middle',
    async (signal, code) => {
      const folder = mkdtempSync(join(tmpdir(), 'continuo-signal-'))
      const program = spawn(
        process.execPath,
        ['--import', 'tsx', join(root, 'src/cli/main.ts'), 'bench', 'idle', '--tokens', '1000'],
        { cwd: root, env: { ...process.env, TMPDIR: folder }, stdio: 'ignore' },
      )
      const mine = (): string[] => readdirSync(folder).filter((name) => name.startsWith('continuo-'))
      await until(() => mine().length > 0)
      expect(mine()).not.toEqual([])
      program.kill(signal)
      expect(await once(program, 'exit')).toEqual([code, null])
      expect(mine()).toEqual([])
      await until(() => running(folder) === 0)
      expect(running(folder)).toBe(0)
    },
    180_000,
  )
})
