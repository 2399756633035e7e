// The SQLite file under the SQL store: made, opened and set up with its modes and bounds, and what can go wrong with it
// said as a sentence. Knows no table.
import { chmod, mkdir, open, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { SqliteDialect, type SqliteStatement } from 'kysely'

export type FileOptions = {
  readonly path: string
  /** `full` waits for the disk at every save, on the thread that also serves sockets. See docs/storage.md. */
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
  /** Throws if the file was moved or deleted since it was opened: SQLite would go on writing to nowhere. */
  present(): Promise<void>
  /** For a database that no Kysely instance took over. */
  close(): void
}

/** How long SQLite itself waits for a lock. Short, since the whole process waits with it; `attempt` waits the rest. */
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
class NoWal extends Error {}

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

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
}
function isLocked(error: unknown): boolean {
  return /^SQLITE_(BUSY|LOCKED)/.test(codeOf(error))
}

/** The operator's sentence for what SQLite or the file system said; anything else as it came. */
export function explained(
  error: unknown,
  path: string,
  limits: { readonly maxBytes: number; readonly lockMs: number },
): unknown {
  const what = sentence(codeOf(error), error, path, limits)
  return what === undefined ? error : new Error(what, { cause: error })
}
function sentence(
  code: string,
  error: unknown,
  path: string,
  limits: { maxBytes: number; lockMs: number },
): string | undefined {
  const file = `The store file ${path}`
  if (error instanceof NoWal)
    return `${file} lies on a file system that cannot do write-ahead logging; put the data folder on a local disk.`
  // A record that is no JSON any more: some bytes of the file changed under us.
  if (/^SQLITE_(CORRUPT|NOTADB)/.test(code) || error instanceof SyntaxError)
    return (
      `${file} is damaged or is no store. Stop the server and restore the file from a backup, ` +
      'or move it away together with its -wal and -shm files to start with an empty store.'
    )
  if (isLocked(error))
    return (
      `${file} has been locked by another process for ${limits.lockMs} ms. ` +
      'End what holds it (a second server, a backup, an open sqlite3 shell).'
    )
  if (/^(SQLITE_FULL|ENOSPC|EDQUOT)/.test(code))
    return (
      `${file} cannot grow: the disk is full or its limit of ${limits.maxBytes} bytes is reached. ` +
      'Free space, raise the limit, or keep responses for fewer days.'
    )
  if (/^(SQLITE_READONLY|EROFS)/.test(code))
    return `${file} cannot be written. Make it and its folder writable for the user that runs the server; if the file was replaced while the server ran, restart the server.`
  if (
    /^(SQLITE_CANTOPEN|SQLITE_PERM|SQLITE_AUTH|EACCES|EPERM|ENOENT|ENOTDIR|EEXIST|EISDIR|ELOOP|ENAMETOOLONG)/.test(code)
  )
    return `${file} cannot be opened or made (${code}). Let the user that runs the server write its folder, or point the data folder elsewhere.`
  if (/^(SQLITE_IOERR|EIO|EMFILE|ENFILE)/.test(code))
    return `${file} could not be read or written (${code}). Look at the disk and the system's log; a file on a network share should be moved to a local disk.`
  return undefined
}
