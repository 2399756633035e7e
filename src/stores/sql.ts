// The store in SQL, through Kysely: responses and their items, by owner, with retention. What is special about SQLite
// stands in sqlite.ts, the tables in schema.ts.
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Kysely, Migrator, sql, type Transaction } from 'kysely'
import { newId } from '../protocol/ids.ts'
import type { Item } from '../protocol/items.ts'
import type { ItemPage, Page, Store, Stored } from '../turn/ports.ts'
import { checkOwner, checkRecord, pageOf } from './record.ts'
import { find, insert, type Layout, parsed, present, recordFrom, rowsOf } from './rows.ts'
import { migrations, type Tables } from './schema.ts'
import { openSqlite, type SqliteFile } from './sqlite.ts'

export type SqliteOptions = {
  readonly path: string
  /** Responses older than this are deleted, within the hour; 0 keeps them for ever. */
  readonly maxAgeDays?: number
  /** `normal` survives the end of the process, `full` also the loss of power, and stalls the server for every sync. */
  readonly synchronous?: 'normal' | 'full'
  /** Default 32 GiB. Saves fail once the file is so large. */
  readonly maxBytes?: number
  /** Longest wait for another process's lock. */
  readonly lockMs?: number
  /** Milliseconds since 1970. */
  readonly now?: () => number
  /** Hears of a purge that failed; it is tried again an hour later. */
  readonly report?: (error: unknown, what: string) => void
}
export type SqlStore = Store & {
  /** Deletes what is too old, in small steps. Returns how many responses went. Runs by itself every hour. */
  purge(): Promise<number>
}

/** Opens or makes the file and brings its tables up to date. Throws with a sentence that says what to do. */
export async function sqliteStore(options: SqliteOptions): Promise<SqlStore> {
  const { path, synchronous = 'normal', maxBytes = 32 * 1024 ** 3, lockMs = 5000 } = options
  const file = await openSqlite({ path, synchronous, maxBytes, lockMs })
  const db = new Kysely<Tables>({ dialect: file.dialect })
  try {
    await file.attempt(async () => await migrate(db, path))
  } catch (error) {
    file.close()
    throw error
  }
  return new Sql(db, file, options)
}

/** Reads a file that a server has made, perhaps while it runs. Throws with a sentence that says what to do. */
export async function sqliteReader(path: string): Promise<Store> {
  if (!existsSync(path))
    throw new Error(`There is no store at ${path}; say with --data or -c where the server keeps its data.`)
  const file = await openSqlite({ path, synchronous: 'normal', maxBytes: 1, lockMs: 5000, readOnly: true })
  const db = new Kysely<Tables>({ dialect: file.dialect })
  try {
    const { rows } = await file.attempt(
      async () => await sql<{ name: string }>`select name from schema_version order by name`.execute(db),
    )
    if (rows.map(({ name }) => name).join() !== Object.keys(migrations).join())
      throw new Error(
        `The store file ${path} was written by another version of the server; use that version's program.`,
      )
  } catch (error) {
    await db.destroy()
    if (error instanceof Error && error.message.startsWith('no such table'))
      throw new Error(`The file ${path} is no store of this server.`, { cause: error })
    throw error
  }
  // Keeping for ever: a reader deletes nothing.
  return new Sql(db, file, { path, maxAgeDays: 0 })
}

async function migrate(db: Kysely<Tables>, path: string): Promise<void> {
  const { error } = await new Migrator({
    db,
    provider: { getMigrations: async () => migrations },
    migrationTableName: 'schema_version',
    migrationLockTableName: 'schema_version_lock',
  }).migrateToLatest()
  if (error instanceof Error && error.message.startsWith('corrupted migrations'))
    throw new Error(
      `The store file ${path} was written by a newer version; run that version, or start with another data folder.`,
      {
        cause: error,
      },
    )
  if (error !== undefined) throw error instanceof Error ? error : new Error(String(error))
}

const day = 24 * 60 * 60
const hourMs = 60 * 60 * 1000
/** Responses per purge step, the pause after it, and steps per run: sockets are served in between. */
const step = 20
const pauseMs = 10
const maxSteps = 10_000

class Sql implements SqlStore {
  readonly #db: Kysely<Tables>
  readonly #file: SqliteFile
  readonly #maxAge: number
  readonly #now: () => number
  readonly #timer: NodeJS.Timeout
  readonly #running = new Set<Promise<unknown>>()
  #purging: Promise<number> | undefined
  #closed: Promise<void> | undefined

  constructor(db: Kysely<Tables>, file: SqliteFile, options: SqliteOptions) {
    this.#db = db
    this.#file = file
    this.#maxAge = (options.maxAgeDays ?? 30) * day
    this.#now = options.now ?? Date.now
    const report = options.report ?? ((error, what) => process.emitWarning(`${what}: ${String(error)}`))
    const purge = () =>
      void this.purge().catch((e: unknown) => this.#closed ?? report(e, 'Old responses were not deleted'))
    this.#timer = setInterval(purge, hourMs).unref()
    setTimeout(purge, 1000).unref()
  }

  async save(records: readonly Stored[]): Promise<void> {
    if (records.length === 0) return
    // Serialised before the transaction: it must be short, and nothing in it can then fail but the database.
    const rows = records.map(rowsOf)
    await this.#run(
      async () =>
        await this.#db.transaction().execute(async (tx) => {
          for (const row of rows) await insert(tx, row)
        }),
    )
  }
  async load(id: string, owner: string): Promise<Stored | undefined> {
    return await this.#read(async (tx) => {
      const row = await find(tx, id, owner)
      if (!row) return undefined
      const items = await tx.selectFrom('items').select(['seq', 'json']).where('response', '=', row.n).execute()
      return recordFrom(row, owner, new Map(items.map(({ seq, json }) => [seq, parsed<Item>(json)])))
    })
  }
  async input(id: string, owner: string, page: Page): Promise<ItemPage | undefined> {
    return await this.#read(async (tx) => {
      const row = await find(tx, id, owner)
      if (!row) return undefined
      const { input } = parsed<Layout>(row.layout)
      const known = await tx.selectFrom('items').select(['seq', 'id']).where('response', '=', row.n).execute()
      const ids = new Map(known.map((item) => [item.seq, item.id]))
      const { places, more } = pageOf(
        input.map((seq) => ids.get(seq) ?? null),
        page,
      )
      const seqs = places.flatMap((place) => input[place] ?? [])
      if (seqs.length === 0) return { items: [], more }
      const found = await tx
        .selectFrom('items')
        .select(['seq', 'json'])
        .where('response', '=', row.n)
        .where('seq', 'in', seqs)
        .execute()
      const items = new Map(found.map(({ seq, json }) => [seq, parsed<Item>(json)]))
      return { items: seqs.map((seq) => present(items.get(seq))), more }
    })
  }
  async item(id: string, owner: string): Promise<Item | undefined> {
    return await this.#run(async () => {
      const row = await this.#db
        .selectFrom('items')
        .select('json')
        .where('owner', '=', owner)
        .where('id', '=', id)
        .orderBy('n', 'desc')
        .limit(1)
        .executeTakeFirst()
      return row && parsed<Item>(row.json)
    })
  }
  async remove(id: string, owner: string): Promise<boolean> {
    const { numDeletedRows } = await this.#run(
      async () =>
        await this.#db.deleteFrom('responses').where('owner', '=', owner).where('id', '=', id).executeTakeFirst(),
    )
    return numDeletedRows > 0n
  }
  async check(): Promise<void> {
    await this.#file.present()
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
    if (this.#maxAge <= 0) return 0
    this.#purging ??= this.#purge().finally(() => (this.#purging = undefined))
    return await this.#purging
  }
  async close(): Promise<void> {
    this.#closed ??= this.#close()
    await this.#closed
  }

  async #close(): Promise<void> {
    clearInterval(this.#timer)
    while (this.#running.size > 0) await Promise.allSettled(this.#running)
    await this.#db.destroy()
  }
  async #purge(): Promise<number> {
    let gone = 0
    for (let n = 0; n < maxSteps && !this.#closed; n++) {
      const before = Math.floor(this.#now() / 1000) - this.#maxAge
      const deleted = await this.#run(async () => await this.#purgeStep(before))
      gone += deleted
      if (deleted < step) break
      await sleep(pauseMs)
    }
    return gone
  }
  async #purgeStep(before: number): Promise<number> {
    const old = this.#db
      .selectFrom('responses')
      .select('n')
      .where('created_at', '<', before)
      .orderBy('created_at')
      .limit(step)
    const { numDeletedRows } = await this.#db.deleteFrom('responses').where('n', 'in', old).executeTakeFirst()
    // Gives the pages back to the file system, a bounded number at a time.
    if (numDeletedRows > 0n) await sql`pragma incremental_vacuum(1024)`.execute(this.#db)
    return Number(numDeletedRows)
  }
  /** Reads that belong together see one state. */
  async #read<T>(work: (tx: Transaction<Tables>) => Promise<T>): Promise<T> {
    return await this.#run(async () => await this.#db.transaction().execute(work))
  }
  async #run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closed) throw new Error('The store is closed.')
    const running = this.#file.attempt(work)
    this.#running.add(running)
    try {
      return await running
    } finally {
      this.#running.delete(running)
    }
  }
}
