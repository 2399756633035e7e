// What SQLite or the file system said about the store's file, as the operator's sentence. Knows no native module, so that
// the thread that serves sockets can say them too.

/** The file system under the file cannot do write-ahead logging. */
export class NoWal extends Error {}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
}
/** Another process, or another handle, holds the file. */
export function isLocked(error: unknown): boolean {
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
