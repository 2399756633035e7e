// The store in rows, through Kysely: responses and their items, by owner, with retention. What is special about SQLite
// stands in sqlite.ts, the tables in schema.ts. Runs in the store's thread, or in the process of a reader.
import { setTimeout as sleep } from 'node:timers/promises'
import { Kysely, Migrator, sql, type Transaction } from 'kysely'
import type { Page, Stored } from '../turn/ports.ts'
import { pageOf } from './record.ts'
import { find, insert, type Layout, type Loaded, parsed, present, type RowStore, rowsOf } from './rows.ts'
import { migrations, type Tables } from './schema.ts'
import { type FileOptions, openSqlite, type SqliteFile } from './sqlite.ts'

/** Opens or makes the file and brings its tables up to date. Throws with a sentence that says what to do. */
export async function openRows(options: FileOptions): Promise<RowStore> {
  const file = await openSqlite(options)
  const db = new Kysely<Tables>({ dialect: file.dialect })
  try {
    await file.attempt(async () => await file.locked(async () => await migrate(db, options.path)))
  } catch (error) {
    file.close()
    throw error
  }
  return new SqlRows(db, file)
}

/** Opens a file that a server has made for reading alone. Throws with a sentence that says what to do. */
export async function openRowsToRead(path: string): Promise<RowStore> {
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
  return new SqlRows(db, file)
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

/** Responses per purge step, the pause after it, and steps per run: others read and write in between. */
const step = 20
const pauseMs = 10
const maxSteps = 10_000

class SqlRows implements RowStore {
  readonly #db: Kysely<Tables>
  readonly #file: SqliteFile
  readonly #running = new Set<Promise<unknown>>()
  #closed: Promise<void> | undefined

  constructor(db: Kysely<Tables>, file: SqliteFile) {
    this.#db = db
    this.#file = file
  }

  async save(records: readonly Stored[]): Promise<void> {
    // Serialised before the transaction: it must be short, and nothing in it can then fail but the database.
    const rows = records.map(rowsOf)
    await this.#run(
      async () =>
        await this.#db.transaction().execute(async (tx) => {
          for (const row of rows) await insert(tx, row)
        }),
    )
  }
  async load(id: string, owner: string): Promise<Loaded | undefined> {
    return await this.#read(async (tx) => {
      const row = await find(tx, id, owner)
      if (!row) return undefined
      const items = await tx.selectFrom('items').select(['seq', 'json']).where('response', '=', row.n).execute()
      return { row, items }
    })
  }
  async input(id: string, owner: string, page: Page): Promise<{ items: readonly string[]; more: boolean } | undefined> {
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
      const items = new Map(found.map(({ seq, json }) => [seq, json]))
      return { items: seqs.map((seq) => present(items.get(seq))), more }
    })
  }
  async item(id: string, owner: string): Promise<string | undefined> {
    return await this.#run(async () => {
      const row = await this.#db
        .selectFrom('items')
        .select('json')
        .where('owner', '=', owner)
        .where('id', '=', id)
        .orderBy('n', 'desc')
        .limit(1)
        .executeTakeFirst()
      return row?.json
    })
  }
  async remove(id: string, owner: string): Promise<boolean> {
    const { numDeletedRows } = await this.#run(
      async () =>
        await this.#db.deleteFrom('responses').where('owner', '=', owner).where('id', '=', id).executeTakeFirst(),
    )
    return numDeletedRows > 0n
  }
  async present(): Promise<void> {
    await this.#file.present()
  }
  async purge(before: number): Promise<number> {
    let gone = 0
    for (let n = 0; n < maxSteps && !this.#closed; n++) {
      const deleted = await this.#run(async () => await this.#purgeStep(before))
      gone += deleted
      if (deleted < step) break
      await sleep(pauseMs)
    }
    return gone
  }
  async close(): Promise<void> {
    this.#closed ??= this.#close()
    await this.#closed
  }

  async #close(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled(this.#running)
    // The last one who closes the file folds the write-ahead log into it.
    await this.#db.destroy()
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
