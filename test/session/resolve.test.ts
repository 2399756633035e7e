// What a request may make the store read: each item once, and never so much at once that others have to wait.
import { expect, test } from 'vitest'
import { parseCreate } from '../../src/protocol/request.ts'
import { Continuations } from '../../src/session/continuations.ts'
import { resolve } from '../../src/session/resolve.ts'
import { checkRecord } from '../../src/stores/record.ts'
import { memoryStore } from '../../src/stores/memory.ts'
import type { Store } from '../../src/turn/ports.ts'
import { Settle } from '../../src/turn/settle.ts'
import { PrefixIndex } from '../../src/turn/prefix-index.ts'
import type { Start } from '../../src/turn/run.ts'

const principal = { tenant: 'a', key: '1', owner: 'a/1' }
const seal = { seal: () => '', open: () => undefined }
const start = async (body: object, store: Store): Promise<Start> =>
  await resolve(parseCreate({ model: 'm', ...body }), principal, new Continuations(1), {
    settle: new Settle(store, 10, () => {}),
    seal,
    index: new PrefixIndex({ keepBytes: 0, keepMs: 1000 }),
  })
/** Saves `n` responses, each the next one's parent; their input items are `resp_N_in`. */
async function stored(n: number): Promise<Store> {
  const store = memoryStore()
  const records = Array.from({ length: n }, (_, at) => ({
    ...checkRecord(`resp_${at}`, 0),
    owner: principal.owner,
    parent: at === 0 ? undefined : `resp_${at - 1}`,
  }))
  await store.save(records)
  return store
}
/** How often something else got to run meanwhile. */
async function turnsOfOthers(work: () => Promise<unknown>): Promise<number> {
  let turns = 0
  let over = false
  const other = (): void => {
    turns++
    if (!over) setImmediate(other)
  }
  setImmediate(other)
  await work()
  over = true
  return turns
}

test('an item that is referred to many times is read once', async () => {
  const store = await stored(2)
  let reads = 0
  const counting: Store = { ...store, item: (id, owner) => (reads++, store.item(id, owner)) }
  const input = Array.from({ length: 1000 }, (_, n) => ({ type: 'item_reference', id: `resp_${n % 2}_in` }))
  const { fresh } = await start({ input }, counting)
  expect(fresh.map((item) => item.id)).toEqual(input.map(({ id }) => id))
  expect(reads).toBe(2)
})

test('a conversation that is read back from the store may be stored', async () => {
  const { named } = await start({ previous_response_id: 'resp_2', input: 'on' }, await stored(3))
  expect([named.response, named.mayStore]).toEqual(['resp_2', true])
})

test('the first reference that leads nowhere is named, and nothing is read after it', async () => {
  const store = await stored(500)
  let reads = 0
  const counting: Store = { ...store, item: (id, owner) => (reads++, store.item(id, owner)) }
  const input = Array.from({ length: 500 }, (_, n) => ({
    type: 'item_reference',
    id: `${n === 3 ? 'no' : 'resp'}_${n}_in`,
  }))
  await expect(start({ input }, counting)).rejects.toMatchObject({ code: 'item_not_found', param: 'input.3.id' })
  expect(reads).toBeLessThan(100)
})

test('others run while many items or a long conversation are read', async () => {
  const store = await stored(1000)
  const input = Array.from({ length: 1000 }, (_, n) => ({ type: 'item_reference', id: `resp_${n}_in` }))
  expect(await turnsOfOthers(() => start({ input }, store))).toBeGreaterThan(20)
  expect(
    await turnsOfOthers(async () => {
      const { named } = await start({ previous_response_id: 'resp_999', input: [] }, store)
      expect(named.all()).toHaveLength(1000)
    }),
  ).toBeGreaterThan(20)
})
