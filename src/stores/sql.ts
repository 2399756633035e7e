// The SQL store: SQLite on a thread of its own, which takes records and gives JSON. What is read is parsed here, where it
// is wanted; when to delete what is old is decided here.
import { existsSync } from 'node:fs'
import { newId } from '../protocol/ids.ts'
import type { Item } from '../protocol/items.ts'
import type { ItemPage, Page, Store, Stored } from '../turn/ports.ts'
import { checkOwner, checkRecord } from './record.ts'
import { parsed, recordFrom, type RowStore } from './rows.ts'
import { SqlThread } from './sql-thread.ts'
import { explained } from './sqlite-errors.ts'

export type SqliteOptions = {
  readonly path: string
  /** Responses older than this are deleted, within the hour; 0 keeps them for ever. */
  readonly maxAgeDays?: number
  /** `normal` survives the end of the process, `full` also the loss of power. */
  readonly synchronous?: 'normal' | 'full'
  /** Default 32 GiB. Saves fail once the file is so large. */
  readonly maxBytes?: number
  /** Longest wait for another process's lock. */
  readonly lockMs?: number
  /** Milliseconds since 1970. */
  readonly now?: () => number
  /** Hears of a purge that failed, which is tried again an hour later, and of a thread that ended. */
  readonly report?: (error: unknown, what: string) => void
}
export type SqlStore = Store & {
  /** Deletes what is too old, in small steps. Returns how many responses went. Runs by itself every hour. */
  purge(): Promise<number>
}
const warn = (error: unknown, what: string): void => process.emitWarning(`${what}: ${String(error)}`)

/** Opens or makes the file and brings its tables up to date. Throws with a sentence that says what to do. */
export async function sqliteStore(options: SqliteOptions): Promise<SqlStore> {
  const { path, synchronous = 'normal', maxBytes = 32 * 1024 ** 3, lockMs = 5000, report = warn } = options
  const file = { path, synchronous, maxBytes, lockMs }
  const thread = new SqlThread(file, report)
  await thread.open()
  return sqlStore(thread, { ...options, ...file })
}

/** Reads a file that a server has made, perhaps while it runs. Throws with a sentence that says what to do. */
export async function sqliteReader(path: string): Promise<Store> {
  if (!existsSync(path))
    throw new Error(`There is no store at ${path}; say with --data or -c where the server keeps its data.`)
  // A program that only reads has no sockets to hold up.
  const { openRowsToRead } = await import('./sql-rows.ts')
  // Keeping for ever: a reader deletes nothing.
  return sqlStore(await openRowsToRead(path), { path, maxAgeDays: 0, maxBytes: 1, lockMs: 5000 })
}

/** The store over rows that are open. */
export function sqlStore(
  rows: RowStore,
  options: SqliteOptions & { readonly maxBytes: number; readonly lockMs: number },
): SqlStore {
  return new Sql(rows, options)
}

const day = 24 * 60 * 60
const hourMs = 60 * 60 * 1000

class Sql implements SqlStore {
  readonly #rows: RowStore
  readonly #options: SqliteOptions & { readonly maxBytes: number; readonly lockMs: number }
  readonly #maxAge: number
  readonly #now: () => number
  readonly #timers: readonly NodeJS.Timeout[]
  #purging: Promise<number> | undefined
  #closed: Promise<void> | undefined

  constructor(rows: RowStore, options: SqliteOptions & { readonly maxBytes: number; readonly lockMs: number }) {
    this.#rows = rows
    this.#options = options
    this.#maxAge = (options.maxAgeDays ?? 30) * day
    this.#now = options.now ?? Date.now
    const { report = warn } = options
    const purge = () =>
      void this.purge().catch((e: unknown) => this.#closed ?? report(e, 'Old responses were not deleted'))
    this.#timers = [setInterval(purge, hourMs).unref(), setTimeout(purge, 1000).unref()]
  }

  async save(records: readonly Stored[]): Promise<void> {
    if (records.length > 0) await this.#rows.save(records)
  }
  async load(id: string, owner: string): Promise<Stored | undefined> {
    const found = await this.#rows.load(id, owner)
    return found && this.#parse(() => recordFrom(found, owner))
  }
  async input(id: string, owner: string, page: Page): Promise<ItemPage | undefined> {
    const found = await this.#rows.input(id, owner, page)
    return found && this.#parse(() => ({ items: found.items.map((json) => parsed<Item>(json)), more: found.more }))
  }
  async item(id: string, owner: string): Promise<Item | undefined> {
    const json = await this.#rows.item(id, owner)
    return json === undefined ? undefined : this.#parse(() => parsed<Item>(json))
  }
  async remove(id: string, owner: string): Promise<boolean> {
    return await this.#rows.remove(id, owner)
  }
  async check(): Promise<void> {
    await this.#rows.present()
    const record = checkRecord(newId('resp'), Math.floor(this.#now() / 1000))
    const { id } = record.response
    await this.save([record])
    const back = await this.load(id, checkOwner)
    const removed = await this.remove(id, checkOwner)
    if (back?.input.length !== record.input.length || !removed)
      throw new Error(
        'The store did not give back what was saved in it; look at its disk and restore the file from a backup.',
      )
  }
  async purge(): Promise<number> {
    if (this.#maxAge <= 0 || this.#closed) return 0
    this.#purging ??= this.#rows
      .purge(Math.floor(this.#now() / 1000) - this.#maxAge)
      .finally(() => (this.#purging = undefined))
    return await this.#purging
  }
  async close(): Promise<void> {
    for (const timer of this.#timers) clearTimeout(timer)
    await (this.#closed ??= this.#rows.close())
  }
  /** Throws a sentence where the bytes of the file have changed. */
  #parse<T>(read: () => T): T {
    try {
      return read()
    } catch (error) {
      throw explained(error, this.#options.path, this.#options)
    }
  }
}
