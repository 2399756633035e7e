// The SQLite file under the SQL store: made, opened and set up with its modes and bounds, and what can go wrong with it
// said as a sentence. Knows no table.
import { chmod, mkdir, open, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { SqliteDialect, type SqliteStatement } from 'kysely'
import { explained, isLocked, NoWal } from './sqlite-errors.ts'

export type FileOptions = {
  readonly path: string
  /** `full` waits for the disk at every save. See docs/storage.md. */
  readonly synchronous: 'normal' | 'full'
  /** The file may not grow past this; saves then fail. */
  readonly maxBytes: number
  /** Longest to wait for another process's lock. */
  readonly lockMs: number
  /** Neither made nor changed. */
  readonly readOnly?: boolean
}
export type SqliteFile = {
  readonly dialect: SqliteDialect
  /** Runs `work`, again while another process holds the lock, up to `lockMs`. What it throws at last is explained. */
  attempt<T>(work: () => Promise<T>): Promise<T>
  /** One transaction around `work`, which begins none itself; it holds the lock of those who write from its start. */
  locked<T>(work: () => Promise<T>): Promise<T>
  /** Throws if the file was moved or deleted since it was opened: SQLite would go on writing to nowhere. */
  present(): Promise<void>
  /** For a database that no Kysely instance took over. */
  close(): void
}

/** How long SQLite itself waits for a lock. Short, since the whole thread waits with it; `attempt` waits the rest. */
const blockingMs = 20
const pageBytes = 4096
/** Statements that stay prepared. The store has about a dozen. */
const maxPrepared = 64

/** Opens or makes the file: 0600, in a folder made with 0700. Throws with a sentence that says what to do. */
export async function openSqlite(options: FileOptions): Promise<SqliteFile> {
  const path = resolve(options.path)
  const attempt = async <T>(work: () => Promise<T>): Promise<T> => {
    const until = performance.now() + options.lockMs
    for (let pause = 5; ; pause = Math.min(pause * 2, 100))
      try {
        return await work()
      } catch (error) {
        if (!isLocked(error) || performance.now() >= until) throw explained(error, path, options)
        await sleep(pause)
      }
  }
  const { db, inode } = await attempt(async () => {
    if (options.readOnly) {
      const { ino } = await stat(path)
      return { db: new Database(path, { readonly: true, fileMustExist: true, timeout: blockingMs }), inode: ino }
    }
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    // SQLite gives its side files the mode of the main one, so that is made first.
    await (await open(path, 'a', 0o600)).close()
    await chmod(path, 0o600).catch(() => undefined)
    return { db: setUp(path, options), inode: (await stat(path)).ino }
  })
  return {
    attempt,
    dialect: new SqliteDialect({ database: preparing(db) }),
    async locked(work) {
      db.exec('begin immediate')
      try {
        const result = await work()
        db.exec('commit')
        return result
      } finally {
        if (db.inTransaction) db.exec('rollback')
      }
    },
    async present() {
      const now = await stat(path).catch(() => undefined)
      if (now?.ino !== inode)
        throw new Error(`The store file ${path} was moved or deleted while the server had it open; restart the server.`)
    },
    close: () => db.close(),
  }
}

function setUp(path: string, options: FileOptions): Database.Database {
  const db = new Database(path, { timeout: blockingMs })
  try {
    // Takes effect on a new file only, and only before anything else is written.
    db.pragma('auto_vacuum = incremental')
    if (db.pragma('journal_mode = wal', { simple: true }) !== 'wal') throw new NoWal()
    db.pragma(`synchronous = ${options.synchronous}`)
    db.pragma('foreign_keys = on')
    // Deleted conversations are overwritten, not only unlinked.
    db.pragma('secure_delete = on')
    db.pragma(`journal_size_limit = ${64 * 1024 * 1024}`)
    db.pragma(`max_page_count = ${Math.max(1, Math.floor(options.maxBytes / pageBytes))}`)
    return db
  } catch (error) {
    db.close()
    throw error
  }
}
/** Kysely's driver prepares at every call; this hands it the statement it had before. */
function preparing(db: Database.Database) {
  const prepared = new Map<string, SqliteStatement>()
  return {
    close() {
      prepared.clear()
      db.close()
    },
    prepare(sql: string): SqliteStatement {
      // After a full disk SQLite has rolled back by itself, and a second time would hide why.
      if (sql === 'rollback' && !db.inTransaction) return nothing
      const known = prepared.get(sql)
      if (known) return known
      const made = db.prepare<unknown[]>(sql)
      const statement: SqliteStatement = {
        reader: made.reader,
        all: (parameters) => made.all(...parameters),
        // A pragma works row by row, and `run` would do the first only.
        run: (parameters) => (sql.startsWith('pragma ') ? (db.exec(sql), none) : made.run(...parameters)),
        iterate: (parameters) => made.iterate(...parameters),
      }
      if (prepared.size < maxPrepared) prepared.set(sql, statement)
      return statement
    },
  }
}
const none = { changes: 0, lastInsertRowid: 0 }
const nothing: SqliteStatement = {
  reader: false,
  all: () => [],
  run: () => none,
  iterate: () => [].values(),
}
