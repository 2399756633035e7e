import { existsSync, mkdirSync, mkdtempSync, renameSync, rmdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test, vi } from 'vitest'
import { sqlStore } from '../../src/stores/sql.ts'
import { SqlThread } from '../../src/stores/sql-thread.ts'
import type { Store } from '../../src/turn/ports.ts'
import { Settle } from '../../src/turn/settle.ts'
import { alice, message, record } from './suite.ts'

// Every thread loads its modules anew, and a busy machine takes seconds for each.
vi.setConfig({ testTimeout: 60_000 })

const folder = mkdtempSync(join(tmpdir(), 'continuo-thread-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
let files = 0

type Opened = { readonly thread: SqlThread; readonly store: Store; readonly path: string; readonly reports: string[] }
async function opened(): Promise<Opened> {
  const path = join(folder, `${++files}.db`)
  const reports: string[] = []
  const file = { path, synchronous: 'normal', maxBytes: 1024 ** 3, lockMs: 5000 } as const
  const thread = new SqlThread(file, (_, what) => reports.push(what))
  await thread.open()
  // Keeping for ever: no purge comes in between.
  return { thread, path, reports, store: sqlStore(thread, { ...file, maxAgeDays: 0 }) }
}
const many = (prefix: string, items: number, bytes: number) =>
  record({
    id: prefix,
    input: Array.from({ length: items }, (_, n) => message(`${prefix}-${n}`, 'x'.repeat(bytes))),
  })
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

describe('a save on the thread of the store', () => {
  test('lets the event loop go round while the records are written', async () => {
    const { store } = await opened()
    await store.save([record({ id: 'first' })])
    let over = false
    const saving = store.save([many('big', 4000, 2000)]).then(() => (over = true))
    let rounds = 0
    for (; !over; rounds++) await turn()
    await saving
    // On this thread a save is one message there and one back; written here, it would leave a few rounds at most.
    expect(rounds).toBeGreaterThan(20)
    expect((await store.load('big', alice))?.input).toHaveLength(4000)
    await store.close()
  })
  test('is seen by reads that are asked after it, before it is over', async () => {
    const { store } = await opened()
    const saves = Array.from({ length: 20 }, (_, n) => store.save([many(`r${n}`, 50, 100)]))
    const reads = Array.from({ length: 20 }, async (_, n) => await store.load(`r${n}`, alice))
    for (const [n, found] of (await Promise.all(reads)).entries()) expect(found?.response.id).toBe(`r${n}`)
    await Promise.all(saves)
    expect(await store.item('r7-49', alice)).toBeDefined()
    await store.close()
  })
  test('is finished by close, which folds the log into the file', async () => {
    const { store, path, reports } = await opened()
    const saves = Array.from({ length: 10 }, (_, n) => store.save([many(`r${n}`, 50, 1000)]))
    const closing = store.close()
    await Promise.all([...saves, closing, store.close()])
    expect(existsSync(`${path}-wal`)).toBe(false)
    await expect(store.load('r1', alice)).rejects.toThrow('The store is closed.')
    const file = { path, synchronous: 'normal', maxBytes: 1024 ** 3, lockMs: 5000 } as const
    const again = new SqlThread(file, () => {})
    for (let n = 0; n < 10; n++) expect(await again.load(`r${n}`, alice)).toBeDefined()
    await again.close()
    expect(reports).toEqual([])
  })
})

describe('a thread that ends', () => {
  test('refuses the calls it has not answered, is reported, and is started again with what was acknowledged', async () => {
    const { store, thread, reports } = await opened()
    await store.save([record({ id: 'kept' })])
    const unanswered = [store.save([many('lost', 4000, 2000)]), store.load('kept', alice), store.remove('kept', alice)]
    const ends = Promise.allSettled(unanswered)
    await turn()
    await thread.kill()
    const sentence = expect.objectContaining({ message: expect.stringMatching(/thread ended before it answered/) })
    // What had been answered by then is fine too, but the big one was not.
    expect((await ends)[0]).toEqual({ status: 'rejected', reason: sentence })
    expect(reports).toEqual(['the thread of the store ended; the next call starts it again'])
    await store.save([record({ id: 'later' })])
    expect(await store.load('later', alice)).toBeDefined()
    expect(await store.load('lost', alice)).toBeUndefined()
    await store.check()
    await store.close()
    expect(reports).toHaveLength(1)
  })
  test('loses no record that waits to be written: it is readable meanwhile and saved again', async () => {
    const { store, thread, reports } = await opened()
    const failures: string[] = []
    const settle = new Settle(store, 1000, (_, what) => failures.push(what))
    const ids = Array.from({ length: 60 }, (_, n) => `r${n}`)
    for (const [n, id] of ids.entries()) {
      settle.add(many(id, 20, 1000), undefined)
      if (n % 20 === 10) {
        await turn()
        await thread.kill()
      }
      expect((await settle.load(id, alice))?.response.id).toBe(id)
    }
    await settle.idle()
    expect(reports.length).toBeGreaterThan(0)
    expect(failures).toEqual([])
    for (const id of ids) expect((await store.load(id, alice))?.input).toHaveLength(20)
    await store.close()
  })
  test('that cannot be started again says why, and is tried again by later calls only', async () => {
    const { store, thread, path, reports } = await opened()
    await store.save([record({ id: 'r1' })])
    await thread.kill()
    for (const end of ['', '-wal', '-shm']) if (existsSync(path + end)) renameSync(path + end, `${path}.away${end}`)
    mkdirSync(path)
    for (let n = 0; n < 2; n++)
      await expect(store.load('r1', alice)).rejects.toThrow(/cannot be opened or made \(EISDIR\)/)
    expect(reports).toHaveLength(3)
    rmdirSync(path)
    for (const end of ['', '-wal', '-shm'])
      if (existsSync(`${path}.away${end}`)) renameSync(`${path}.away${end}`, path + end)
    expect(await store.load('r1', alice)).toBeDefined()
    await store.close()
  })
  test('can be closed while it is down', async () => {
    const { store, thread } = await opened()
    await thread.kill()
    await store.close()
    await expect(store.item('x', alice)).rejects.toThrow('The store is closed.')
  })
})
