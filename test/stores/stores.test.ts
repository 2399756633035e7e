// Both stores held to one suite, and what is special about each: eviction in memory; the file, its locks and its
// retention in SQLite.
import { mkdtempSync, rmSync } from 'node:fs'
import { chmod, mkdir, readFile, rename, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterAll, describe, expect, test } from 'vitest'
import { memoryStore } from '../../src/stores/memory.ts'
import { sqliteStore } from '../../src/stores/sql.ts'
import { alice, message, page, record, storeSuite } from './suite.ts'

const folder = mkdtempSync(join(tmpdir(), 'continuo-store-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
let files = 0
const fresh = () => join(folder, `s${++files}`, 'data', 'responses.db')

storeSuite('memoryStore', async () => memoryStore())
storeSuite('sqliteStore', async () => await sqliteStore({ path: fresh() }))

test('memoryStore keeps the newest records and forgets the items of the others', async () => {
  const store = memoryStore({ maxRecords: 2 })
  await store.save(['r1', 'r2', 'r3'].map((id) => record({ id, input: [message(`m-${id}`), message('same', id)] })))
  await store.save([record({ id: 'r2', input: [message('m-r2')] }), record({ id: 'r4' })])
  expect(
    await Promise.all(['r1', 'r2', 'r3', 'r4'].map(async (id) => (await store.load(id, alice)) !== undefined)),
  ).toEqual([false, true, false, true])
  expect(await store.item('m-r1', alice)).toBeUndefined()
  expect(await store.item('same', alice)).toBeUndefined()
  expect(await store.item('m-r2', alice)).toEqual(message('m-r2'))
})

describe('the SQLite file', () => {
  test('keeps everything over a restart', async () => {
    const path = fresh()
    const saved = record({ id: 'r1', input: [message('i')], output: [message('o')], parent: 'r0' })
    const first = await sqliteStore({ path })
    await first.save([saved])
    await first.close()
    await first.close()
    await expect(first.load('r1', alice)).rejects.toThrow('The store is closed.')
    const second = await sqliteStore({ path })
    expect(await second.load('r1', alice)).toEqual(saved)
    await second.close()
  })
  test('is readable for its owner only, with its side files, in a folder of the same kind', async () => {
    const path = fresh()
    const store = await sqliteStore({ path })
    await store.save([record({ id: 'r1' })])
    for (const file of [path, `${path}-wal`, `${path}-shm`]) expect((await stat(file)).mode & 0o777, file).toBe(0o600)
    expect((await stat(join(path, '..'))).mode & 0o777).toBe(0o700)
    await store.close()
    await chmod(path, 0o644)
    await (await sqliteStore({ path })).close()
    expect((await stat(path)).mode & 0o777).toBe(0o600)
  })
  test('is in WAL mode with incremental vacuum, and its tables have a version', async () => {
    const path = fresh()
    const store = await sqliteStore({ path })
    const look = new Database(path, { readonly: true })
    expect(look.pragma('journal_mode', { simple: true })).toBe('wal')
    expect(look.pragma('auto_vacuum', { simple: true })).toBe(2)
    expect(look.prepare('select name from schema_version').all()).toEqual([{ name: '0001_responses_and_items' }])
    look.close()
    await store.close()
  })
  test('serves two handles, also when both make it at once', async () => {
    const path = fresh()
    const [a, b] = await Promise.all([sqliteStore({ path }), sqliteStore({ path })])
    await Promise.all([
      ...Array.from({ length: 20 }, (_, n) => a.save([record({ id: `a${n}` })])),
      ...Array.from({ length: 20 }, (_, n) => b.save([record({ id: `b${n}` })])),
    ])
    for (let n = 0; n < 20; n++) {
      expect(await a.load(`b${n}`, alice)).toBeDefined()
      expect(await b.load(`a${n}`, alice)).toBeDefined()
    }
    await Promise.all([a.close(), b.close()])
  })
  test('saves a batch whole or not at all', async () => {
    const path = fresh()
    const store = await sqliteStore({ path, maxBytes: 400_000 })
    const big = record({ id: 'big', input: [message('m', 'x'.repeat(1_000_000))] })
    await expect(store.save([record({ id: 'small' }), big])).rejects.toThrow(
      /cannot grow: the disk is full or its limit of 400000 bytes/,
    )
    expect(await store.load('small', alice)).toBeUndefined()
    await store.save([record({ id: 'small' })])
    expect(await store.load('small', alice)).toBeDefined()
    await store.close()
  })
  test('waits for a lock without holding up the process, and says so when it waited long enough', async () => {
    const path = fresh()
    const store = await sqliteStore({ path, lockMs: 400 })
    const other = new Database(path)
    other.exec('begin immediate')
    let ticks = 0
    const clock = setInterval(() => ticks++, 5)
    await expect(store.save([record({ id: 'r1' })])).rejects.toThrow(
      /locked by another process for 400 ms.*End what holds it/,
    )
    clearInterval(clock)
    expect(ticks).toBeGreaterThan(4)
    expect(await store.load('r1', alice)).toBeUndefined()
    setTimeout(() => other.exec('rollback'), 100)
    await store.save([record({ id: 'r1' })])
    expect(await store.load('r1', alice)).toBeDefined()
    other.close()
    await store.close()
  })
  test('leaves nothing of a deleted conversation in the file', async () => {
    const path = fresh()
    const secret = 'the-launch-code-is-0000'
    const store = await sqliteStore({ path })
    await store.save([record({ id: 'r1', input: [message('m', secret)] })])
    await store.remove('r1', alice)
    await store.close()
    expect((await readFile(path)).includes(secret)).toBe(false)
    const look = new Database(path, { readonly: true })
    expect(look.prepare('select count(*) as n from items').get()).toEqual({ n: 0 })
    look.close()
  })
})

describe('retention', () => {
  const day = 24 * 60 * 60
  test('deletes what is older than maxAgeDays, with its items, and gives the space back', async () => {
    const path = fresh()
    const now = 1_800_000_000
    const store = await sqliteStore({ path, maxAgeDays: 30, now: () => now * 1000 })
    const old = Array.from({ length: 50 }, (_, n) =>
      record({ id: `old${n}`, createdAt: now - 30 * day - 1, input: [message(`m${n}`, 'x'.repeat(20_000))] }),
    )
    await store.save([...old, record({ id: 'young', createdAt: now - 30 * day, input: [message('y')] })])
    const look = new Database(path, { readonly: true })
    const pages = () => Number(look.pragma('page_count', { simple: true }))
    const full = pages()
    expect(await Promise.all([store.purge(), store.purge()])).toEqual([50, 50])
    expect(await store.purge()).toBe(0)
    expect(pages()).toBeLessThan(full / 4)
    look.close()
    expect(await store.load('old7', alice)).toBeUndefined()
    expect(await store.item('m7', alice)).toBeUndefined()
    expect(await store.input('young', alice, page())).toEqual({ items: [message('y')], more: false })
    await store.close()
  })
  test('keeps everything with 0 days', async () => {
    const store = await sqliteStore({ path: fresh(), maxAgeDays: 0 })
    await store.save([record({ id: 'r1', createdAt: 1 })])
    expect(await store.purge()).toBe(0)
    expect(await store.load('r1', alice)).toBeDefined()
    await store.close()
  })
})

describe('what can be wrong with the file is said with what to do', () => {
  test('a file that is no store', async () => {
    const path = join(folder, 'letter.db')
    await writeFile(path, 'Dear store, '.repeat(500))
    await expect(sqliteStore({ path })).rejects.toThrow(/damaged or is no store.*restore the file from a backup/)
    expect(await readFile(path, 'utf8')).toContain('Dear store')
  })
  test('a file damaged inside', async () => {
    const path = fresh()
    const store = await sqliteStore({ path })
    await store.save(
      Array.from({ length: 30 }, (_, n) => record({ id: `r${n}`, input: [message(`m${n}`, 'x'.repeat(9000))] })),
    )
    await store.close()
    const bytes = await readFile(path)
    await writeFile(path, Buffer.concat([bytes.subarray(0, 4096), Buffer.alloc(bytes.length - 4096, 0x5a)]))
    const reopened = async () => {
      const again = await sqliteStore({ path })
      try {
        await again.check()
        for (let n = 0; n < 30; n++) await again.load(`r${n}`, alice)
      } finally {
        await again.close()
      }
    }
    await expect(reopened()).rejects.toThrow(/is damaged/)
  })
  test('a record whose JSON was changed', async () => {
    const path = fresh()
    const store = await sqliteStore({ path })
    await store.save([record({ id: 'r1', input: [message('m')] })])
    const other = new Database(path)
    other.exec(`update items set json = '{"type":'`)
    other.close()
    await expect(store.load('r1', alice)).rejects.toThrow(/is damaged/)
    await expect(store.item('m', alice)).rejects.toThrow(/is damaged/)
    await store.close()
  })
  test('a file of a newer version', async () => {
    const path = fresh()
    await (await sqliteStore({ path })).close()
    const later = new Database(path)
    later.exec(`insert into schema_version values ('9999_later', '2099-01-01T00:00:00.000Z')`)
    later.close()
    await expect(sqliteStore({ path })).rejects.toThrow(/written by a newer version/)
  })
  test('a file where the folder should be, and a folder where the file should be', async () => {
    await writeFile(join(folder, 'plain'), '')
    await expect(sqliteStore({ path: join(folder, 'plain', 'responses.db') })).rejects.toThrow(
      /cannot be opened or made \((EEXIST|ENOTDIR)\)/,
    )
    await mkdir(join(folder, 'dir.db'))
    await expect(sqliteStore({ path: join(folder, 'dir.db') })).rejects.toThrow(/cannot be opened or made \(EISDIR\)/)
  })
  test('a folder that may not be written', async () => {
    const locked = join(folder, 'read-only')
    await mkdir(locked, { mode: 0o500 })
    await asNobody(async () => {
      await expect(sqliteStore({ path: join(locked, 'responses.db') })).rejects.toThrow(
        /cannot be opened or made \(EACCES\)/,
      )
      await expect(sqliteStore({ path: join(locked, 'data', 'responses.db') })).rejects.toThrow(
        /Let the user that runs the server/,
      )
    })
  })
  test('a file that was moved away while open, by check', async () => {
    const path = fresh()
    const store = await sqliteStore({ path })
    await store.check()
    await rename(path, `${path}.away`)
    await expect(store.check()).rejects.toThrow(/was moved or deleted.*restart the server/)
    await store.close()
  })
})

/** Root may write anywhere; then somebody else must be asked. */
async function asNobody(work: () => Promise<void>): Promise<void> {
  if (process.geteuid?.() !== 0) return await work()
  await chmod(folder, 0o755)
  process.seteuid?.(65534)
  try {
    await work()
  } finally {
    process.seteuid?.(0)
  }
}
