// A revision of this repository, built in a folder of its own, with the packages of its own lockfile.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export type Revision = {
  /** As asked for, and the commit it is. */
  readonly name: string
  readonly commit: string
  /** Its `dist/cli/main.js`. */
  readonly program: string
  remove(): void
}
const root = fileURLToPath(new URL('../..', import.meta.url))
const most = 64 * 1024 * 1024

/** `rev`: whatever git understands, or `.` for the working tree as it is. Throws an Error with the step that failed. */
export function buildRevision(rev: string, onNote: (what: string) => void): Revision {
  if (rev === '.') {
    onNote('building the working tree')
    run(process.execPath, ['scripts/build.mjs'], root)
    const head = run('git', ['rev-parse', '--short', 'HEAD'], root).trim()
    const changed = run('git', ['status', '--porcelain'], root).trim() !== ''
    return { name: rev, commit: changed ? `${head}+` : head, program: join(root, 'dist/cli/main.js'), remove: () => {} }
  }
  const commit = run('git', ['rev-parse', '--short', `${rev}^{commit}`], root).trim()
  const folder = mkdtempSync(join(tmpdir(), 'continuo-rev-'))
  const remove = (): void => rmSync(folder, { recursive: true, force: true })
  try {
    onNote(`building ${rev} (${commit})`)
    // An archive, not a worktree: nothing stays behind in the repository.
    run('sh', ['-c', `git archive ${commit} | tar -x -C '${folder}'`], root)
    packages(folder, onNote)
    run(process.execPath, ['scripts/build.mjs'], folder)
    return { name: rev, commit, program: join(folder, 'dist/cli/main.js'), remove }
  } catch (e) {
    remove()
    throw e
  }
}
/** Those of this tree where it has all that the revision's lockfile asks for; else its own. */
function packages(folder: string, onNote: (what: string) => void): void {
  const ours = join(root, 'node_modules')
  const there = lockOf(join(ours, '.package-lock.json'))
  const wanted = Object.entries(lockOf(join(folder, 'package-lock.json')))
  const has = wanted.every(
    ([path, { version, optional }]) => path === '' || optional === true || there[path]?.version === version,
  )
  if (has) return symlinkSync(ours, join(folder, 'node_modules'))
  onNote('installing its packages')
  run('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], folder)
}
type Lock = Readonly<Record<string, { readonly version?: string; readonly optional?: boolean }>>
function lockOf(file: string): Lock {
  if (!existsSync(file)) return {}
  // Written by npm.
  return (JSON.parse(readFileSync(file, 'utf8')) as { packages?: Lock }).packages ?? {}
}
function run(command: string, args: readonly string[], cwd: string): string {
  const done = spawnSync(command, args, { cwd, encoding: 'utf8', maxBuffer: most, shell: false })
  if (done.status === 0) return done.stdout
  const why = done.error?.message ?? (done.stderr.trim() || done.stdout.trim()).split('\n').slice(-3).join(' ')
  throw new Error(`${command} ${args.slice(0, 2).join(' ')} failed: ${why}`)
}
