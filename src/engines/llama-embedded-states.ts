// Sequences on disk: the KV caches of conversations that made room for others, oldest use out first. Lives in the process
// that runs llama.cpp; files are of this run only, because one of another model would end the process.
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Sequence } from './llama-embedded-library.ts'

type Saved = { readonly file: string; readonly ids: Uint32Array; readonly bytes: number }
const suffix = '.kv'

function common(a: Uint32Array, b: Uint32Array): number {
  const most = Math.min(a.length, b.length)
  let n = 0
  while (n < most && a[n] === b[n]) n++
  return n
}

export class SavedStates {
  readonly #dir: string
  readonly #limit: number
  /** Oldest use first. */
  #saved: Saved[] = []
  #bytes = 0
  #next = 0
  savedCount = 0
  restoredCount = 0

  /** `limit`: bytes on disk. What is left of another run in `dir` is removed. */
  constructor(dir: string, limit: number) {
    this.#dir = dir
    this.#limit = limit
    mkdirSync(dir, { recursive: true, mode: 0o700 })
    for (const name of readdirSync(dir)) if (name.endsWith(suffix)) rmSync(join(dir, name), { force: true })
  }
  async save(sequence: Sequence): Promise<void> {
    const ids = Uint32Array.from(sequence.contextTokens)
    const file = join(this.#dir, `${process.pid}-${this.#next++}${suffix}`)
    const { fileSize } = await sequence.saveStateToFile(file)
    this.#saved.push({ file, ids, bytes: fileSize })
    this.#bytes += fileSize
    this.savedCount++
    while (this.#bytes > this.#limit) {
      const [oldest] = this.#saved
      if (!oldest) break
      this.#drop(oldest)
    }
  }
  /** Ids at the start of the best saved state that are the prompt's too. */
  best(ids: Uint32Array): { readonly saved: Saved; readonly common: number } | undefined {
    let found: { saved: Saved; common: number } | undefined
    for (const saved of this.#saved) {
      const length = common(saved.ids, ids)
      if (length > 0 && length >= (found?.common ?? 0)) found = { saved, common: length }
    }
    return found
  }
  /** The sequence holds what was saved; on disk it is no longer. */
  async restore(saved: Saved, into: Sequence): Promise<void> {
    await into.loadStateFromFile(saved.file, { acceptRisk: true })
    this.restoredCount++
    this.#drop(saved)
  }
  #drop(saved: Saved): void {
    this.#saved = this.#saved.filter((one) => one !== saved)
    this.#bytes -= saved.bytes
    rmSync(saved.file, { force: true })
  }
}
