// Writing behind: what is pending can be read, is let go once written, and a record that cannot be written takes no other along.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { memoryStore } from '../../src/stores/memory.ts'
import { parseCreate } from '../../src/protocol/request.ts'
import { Chain } from '../../src/turn/chain.ts'
import { Log } from '../../src/turn/log.ts'
import { Output } from '../../src/turn/output.ts'
import type { Seal, Store, Stored } from '../../src/turn/ports.ts'
import { recordOf, Settle } from '../../src/turn/settle.ts'

const owner = 'a/1'
const seal: Seal = { seal: (text) => text, open: (text) => text }
function record(id: string): Stored {
  const request = parseCreate({ model: 'm', input: 'x' })
  const output = new Output(id, request, new Log(id, owner, 1e6), { tenant: 'a', key: '1', owner }, seal)
  const response = output.close('stop', { input: 0, cached: 0, output: 0, reasoning: 0 })
  const input = [
    {
      type: 'message' as const,
      role: 'user' as const,
      id: `msg_${id}`,
      content: [{ type: 'input_text' as const, text: id }],
    },
  ]
  const root = Chain.root(owner)
  const asked = root.add({ response: id, from: 'input', items: input })
  return recordOf(response, owner, input, asked, asked, root, asked)
}
const page = { limit: 10, order: 'asc', after: undefined } as const
const reports: unknown[] = []
const report = (error: unknown): void => void reports.push(error)
beforeEach(() => {
  reports.length = 0
})
afterEach(() => {
  vi.useRealTimers()
})
/** A store whose saves wait until they are let go, one batch at a time. */
function gated(): Store & { readonly waiting: (() => void)[]; readonly batches: number[] } {
  const inner = memoryStore()
  const waiting: (() => void)[] = []
  const batches: number[] = []
  return {
    ...inner,
    waiting,
    batches,
    async save(records) {
      batches.push(records.length)
      await new Promise<void>((resolve) => waiting.push(resolve))
      await inner.save(records)
    },
  }
}
const tick = (): Promise<void> => new Promise((resolve) => setImmediate(() => setImmediate(resolve)))

describe('what is pending', () => {
  test('is read from memory by its owner, and by nobody else', async () => {
    const settle = new Settle(gated(), 10, report)
    settle.add(record('one'), undefined)
    expect((await settle.load('one', owner))?.response.id).toBe('one')
    expect(await settle.item('msg_one', owner)).toMatchObject({ id: 'msg_one' })
    expect(await settle.load('one', 'b/1')).toBeUndefined()
    expect(await settle.item('msg_one', 'b/1')).toBeUndefined()
    expect(await settle.remove('one', 'b/1')).toBe(false)
  })
  test('is waited for record by record: a reader does not wait for what came later', async () => {
    const store = gated()
    const settle = new Settle(store, 10, report)
    settle.add(record('one'), undefined)
    await tick()
    settle.add(record('two'), undefined)
    const removed = settle.remove('one', owner)
    const listed = settle.input('one', owner, page)
    store.waiting[0]?.()
    await tick()
    expect(settle.waiting).toBe(1)
    expect(store.waiting).toHaveLength(2)
    expect(await removed).toBe(true)
    await listed
  })
  test('goes in one transaction, in order, and items are let go with their record while others wait', async () => {
    const store = gated()
    const item = vi.spyOn(store, 'item')
    const settle = new Settle(store, 100, report)
    for (const id of ['one', 'two']) settle.add(record(id), undefined)
    await tick()
    settle.add(record('three'), undefined)
    store.waiting[0]?.()
    await tick()
    expect(store.batches).toEqual([2, 1])
    await settle.item('msg_three', owner)
    expect(item).not.toHaveBeenCalled()
    await settle.item('msg_one', owner)
    expect(item).toHaveBeenCalledOnce()
  })
  test('is refused beyond the limit', () => {
    const settle = new Settle(gated(), 1, report)
    settle.admit()
    settle.add(record('one'), undefined)
    expect(() => settle.admit()).toThrow('Storage is behind')
  })
})

test('a store that stays broken is tried five times, reported, and forgotten; the next record is tried again', async () => {
  vi.useFakeTimers()
  const inner = memoryStore()
  let saves = 0
  const store: Store = {
    ...inner,
    async save() {
      saves++
      throw new Error('no space')
    },
  }
  const settle = new Settle(store, 10, report)
  settle.add(record('one'), undefined)
  await vi.runAllTimersAsync()
  await settle.idle()
  expect(saves).toBe(5)
  expect(reports).toHaveLength(1)
  expect(settle.waiting).toBe(0)
  settle.add(record('two'), undefined)
  await vi.runAllTimersAsync()
  expect(saves).toBe(10)
})
test('a record that cannot be written takes no other of its batch along', async () => {
  vi.useFakeTimers()
  const inner = memoryStore()
  const store: Store = {
    ...inner,
    async save(records) {
      if (records.some((r) => r.response.id === 'bad')) throw new Error('cannot')
      await inner.save(records)
    },
  }
  const settle = new Settle(store, 10, report)
  for (const id of ['one', 'bad', 'two']) settle.add(record(id), undefined)
  await vi.runAllTimersAsync()
  await settle.idle()
  expect(reports).toHaveLength(1)
  expect((await inner.load('one', owner))?.response.id).toBe('one')
  expect((await inner.load('two', owner))?.response.id).toBe('two')
  expect(await inner.load('bad', owner)).toBeUndefined()
})
