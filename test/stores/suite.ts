// What every store does, whatever it is made of: a table of behaviours, and a model that random histories are held to.
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Item } from '../../src/protocol/items.ts'
import { checkRecord } from '../../src/stores/record.ts'
import type { Page, Store, Stored } from '../../src/turn/ports.ts'

export const alice = 'team/alice'
export const bob = 'team/bob'
export const page = (over: Partial<Page> = {}): Page => ({ limit: 20, order: 'asc', after: undefined, ...over })
export const message = (id: string, text = id): Item => ({
  type: 'message',
  id,
  role: 'user',
  content: [{ type: 'input_text', text }],
})
type Parts = {
  id: string
  owner?: string
  input?: readonly Item[]
  output?: readonly Item[]
  context?: readonly Item[]
  parent?: string
  createdAt?: number
}
/** A record as a turn makes one: what came before, the request's input, the model's output. */
export function record({ id, owner = alice, input = [], output = [], context = [], parent, createdAt }: Parts): Stored {
  const { response } = checkRecord(id, createdAt ?? Math.floor(Date.now() / 1000))
  return {
    owner,
    parent,
    input,
    links: [
      ...(context.length > 0 ? [{ from: 'model' as const, items: context }] : []),
      { from: 'input', items: input },
      ...(output.length > 0 ? [{ from: 'model' as const, items: output }] : []),
    ],
    response: { ...response, output, previous_response_id: parent ?? null },
  }
}

export function storeSuite(name: string, open: () => Promise<Store>): void {
  describe(name, () => {
    let store: Store
    beforeEach(async () => {
      store = await open()
    })
    afterEach(async () => {
      await store.close()
    })

    test('gives back a record as it was saved', async () => {
      const odd = {
        type: 'later_kind',
        id: 'x',
        deep: { list: [1.5, null, 'é\u0000😀'], no: false },
      } as unknown as Item
      const saved = record({
        id: 'r1',
        context: [message('c1'), odd],
        input: [message('i1'), message('i2')],
        output: [message('o1')],
        parent: 'r0',
      })
      await store.save([saved])
      expect(await store.load('r1', alice)).toEqual(saved)
    })
    test('keeps the order of keys in a response, output in its place', async () => {
      const saved = record({ id: 'r1', output: [message('o1')] })
      await store.save([saved])
      expect(JSON.stringify((await store.load('r1', alice))?.response)).toBe(JSON.stringify(saved.response))
    })
    test('saves a batch, and an empty one', async () => {
      await store.save([])
      await store.save([record({ id: 'r1' }), record({ id: 'r2' }), record({ id: 'r1', owner: bob })])
      expect((await store.load('r1', bob))?.owner).toBe(bob)
      expect(await store.load('r2', alice)).toBeDefined()
      expect(await store.load('r2', bob)).toBeUndefined()
    })
    test('replaces a record that is saved again, and what only the old one held is gone', async () => {
      await store.save([record({ id: 'r1', input: [message('old')] })])
      await store.save([record({ id: 'r1', input: [message('new')] })])
      expect(await store.item('old', alice)).toBeUndefined()
      expect(await store.item('new', alice)).toEqual(message('new'))
      expect(await store.input('r1', alice, page())).toEqual({ items: [message('new')], more: false })
    })
    test('finds input, output and earlier items by id', async () => {
      await store.save([record({ id: 'r1', context: [message('c')], input: [message('i')], output: [message('o')] })])
      for (const id of ['c', 'i', 'o']) expect(await store.item(id, alice)).toEqual(message(id))
    })
    test('gives the newest item where an id was used twice, and the older once the newer is gone', async () => {
      await store.save([record({ id: 'r1', input: [message('m', 'first')] })])
      await store.save([record({ id: 'r2', output: [message('m', 'second')] })])
      await store.save([record({ id: 'r3', owner: bob, output: [message('m', 'foreign')] })])
      expect(await store.item('m', alice)).toEqual(message('m', 'second'))
      expect(await store.remove('r2', alice)).toBe(true)
      expect(await store.item('m', alice)).toEqual(message('m', 'first'))
      await store.save([record({ id: 'r1', input: [message('m', 'third')] })])
      expect(await store.item('m', alice)).toEqual(message('m', 'third'))
    })
    test('of two items with one id in one response finds the one that stands last', async () => {
      const again = message('m', 'again')
      await store.save([record({ id: 'r1', context: [again], input: [message('m', 'between')], output: [again] })])
      expect(await store.item('m', alice)).toEqual(again)
      await store.save([record({ id: 'r2', context: [again], input: [message('m', 'between')] })])
      expect(await store.item('m', alice)).toEqual(message('m', 'between'))
    })
    test('keeps an item that another response holds too', async () => {
      await store.save([record({ id: 'r1', output: [message('m')] })])
      await store.save([record({ id: 'r2', parent: 'r1', context: [message('m')] })])
      await store.remove('r1', alice)
      expect(await store.item('m', alice)).toEqual(message('m'))
      await store.remove('r2', alice)
      expect(await store.item('m', alice)).toBeUndefined()
    })
    test('leaves a child readable when its parent is removed, and the parent unknown', async () => {
      await store.save([record({ id: 'r1' }), record({ id: 'r2', parent: 'r1' })])
      await store.remove('r1', alice)
      expect((await store.load('r2', alice))?.parent).toBe('r1')
      expect(await store.load('r1', alice)).toBeUndefined()
    })
    test('answers alike for foreign, deleted and unknown ids', async () => {
      await store.save([record({ id: 'foreign', owner: bob, input: [message('f')] })])
      await store.save([record({ id: 'deleted', input: [message('d')] })])
      await store.remove('deleted', alice)
      for (const id of ['foreign', 'deleted', 'unknown', 'f', 'd', '', "' or 1=1 --", '%', '\u0000']) {
        expect(await store.load(id, alice), id).toBeUndefined()
        expect(await store.input(id, alice, page({ after: 'nothing' })), id).toBeUndefined()
        expect(await store.item(id, alice), id).toBeUndefined()
        expect(await store.remove(id, alice), id).toBe(false)
      }
      expect(await store.load('foreign', bob)).toBeDefined()
      expect(await store.item('f', bob)).toBeDefined()
    })
    test('does not confuse owners and ids that look alike when joined', async () => {
      await store.save([record({ id: 'b/c', owner: 'a' }), record({ id: 'c', owner: 'a/b' })])
      await store.remove('c', 'a/b')
      expect(await store.load('b/c', 'a')).toBeDefined()
      expect(await store.load('c', 'a/b')).toBeUndefined()
    })
    test('pages input in both orders, and an unknown after is item_not_found', async () => {
      const input = ['a', 'b', 'c', 'd', 'e'].map((id) => message(id))
      await store.save([record({ id: 'r1', input, output: [message('o')] })])
      const ids = async (p: Page) => {
        const got = await store.input('r1', alice, p)
        return [got?.items.map((i) => i.id).join(''), got?.more]
      }
      expect(await ids(page())).toEqual(['abcde', false])
      expect(await ids(page({ limit: 5 }))).toEqual(['abcde', false])
      expect(await ids(page({ limit: 2 }))).toEqual(['ab', true])
      expect(await ids(page({ limit: 2, after: 'b' }))).toEqual(['cd', true])
      expect(await ids(page({ limit: 2, after: 'd' }))).toEqual(['e', false])
      expect(await ids(page({ after: 'e' }))).toEqual(['', false])
      expect(await ids(page({ limit: 2, order: 'desc' }))).toEqual(['ed', true])
      expect(await ids(page({ limit: 3, order: 'desc', after: 'd' }))).toEqual(['cba', false])
      for (const after of ['o', 'nothing', ''])
        await expect(store.input('r1', alice, page({ after }))).rejects.toMatchObject({
          code: 'item_not_found',
          param: 'after',
        })
    })
    test('pages to the end though an item stands in the input twice', async () => {
      const input = ['a', 'b', 'a', 'c'].map((id) => message(id))
      await store.save([record({ id: 'r1', input })])
      let after: string | undefined
      let pages = 0
      for (let more = true; more; pages++) {
        const got = await store.input('r1', alice, page({ limit: 1, after }))
        more = got?.more ?? false
        after = got?.items[0]?.id ?? undefined
        expect(pages).toBeLessThan(5)
      }
      expect(after).toBe('c')
    })
    test('lets many saves and reads run at once', async () => {
      await Promise.all(
        Array.from({ length: 40 }, async (_, n) => {
          await store.save([record({ id: `r${n}`, input: [message(`m${n}`)] })])
          expect((await store.load(`r${n}`, alice))?.response.id).toBe(`r${n}`)
        }),
      )
      for (let n = 0; n < 40; n++) expect(await store.item(`m${n}`, alice)).toEqual(message(`m${n}`))
    })
    test('check passes and leaves nothing behind', async () => {
      await store.save([record({ id: 'r1' })])
      await store.check()
      await store.check()
      expect(await store.load('r1', alice)).toBeDefined()
    })
    test('agrees with a plain list of records over random histories of two owners', async () => {
      let run = 0
      await fc.assert(
        fc.asyncProperty(fc.array(operation, { minLength: 1, maxLength: 25 }), async (operations) => {
          // Owners of their own make a history start empty in the same store.
          await compare(store, operations, ++run)
        }),
        { numRuns: 100 },
      )
    })
  })
}

const owners = ['alice', 'bob'] as const
const responseIds = ['r1', 'r2', 'r3', 'r4']
const itemIds = ['m1', 'm2', 'm3', 'm4']
const anyOwner = fc.constantFrom(...owners)
const anyId = fc.constantFrom(...responseIds)
const anyItem = fc.oneof(
  fc
    .record({ id: fc.constantFrom(...itemIds), text: fc.constantFrom('x', 'y', 'é"\\\n') })
    .map((m) => message(m.id, m.text)),
  fc
    .record({ id: fc.constantFrom(...itemIds), value: fc.jsonValue({ maxDepth: 2, noUnicodeString: false }) })
    // -0 is no JSON number of its own.
    .map((o) => ({ type: 'later_kind', id: o.id, value: JSON.parse(JSON.stringify(o.value)) }) as unknown as Item),
)
const someItems = fc.array(anyItem, { maxLength: 4 })
const anyRecord = fc
  .record({ id: anyId, owner: anyOwner, input: someItems, output: someItems, context: someItems, parent: anyId })
  .map((parts) => record({ ...parts, createdAt: 1_800_000_000 }))
const operation = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('save' as const),
      records: fc.array(anyRecord, { minLength: 1, maxLength: 3 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('remove' as const), id: anyId, owner: anyOwner }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('page' as const),
      id: anyId,
      owner: anyOwner,
      limit: fc.integer({ min: 1, max: 4 }),
      order: fc.constantFrom('asc' as const, 'desc' as const),
    }),
  },
)
type Operation = typeof operation extends fc.Arbitrary<infer O> ? O : never

/** The model: all records that are there, oldest save first. */
async function compare(store: Store, operations: readonly Operation[], run: number): Promise<void> {
  let model: Stored[] = []
  const has = (r: Stored, id: string, owner: string) => r.response.id === id && r.owner === owner
  const named = (owner: string) => `run${run}/${owner}`
  for (const op of operations) {
    const owner = op.do === 'save' ? '' : named(op.owner)
    if (op.do === 'save') {
      const records = op.records.map((r) => ({ ...r, owner: named(r.owner) }))
      await store.save(records)
      for (const saved of records) model = [...model.filter((r) => !has(r, saved.response.id, saved.owner)), saved]
    } else if (op.do === 'remove') {
      const before = model.length
      model = model.filter((r) => !has(r, op.id, owner))
      expect(await store.remove(op.id, owner)).toBe(model.length < before)
    } else {
      const input = model.find((r) => has(r, op.id, owner))?.input
      const got = await store.input(op.id, owner, page({ limit: op.limit, order: op.order }))
      const ordered = op.order === 'asc' ? input : input?.toReversed()
      expect(got).toEqual(ordered && { items: ordered.slice(0, op.limit), more: ordered.length > op.limit })
    }
  }
  for (const owner of owners.map(named)) {
    for (const id of responseIds) expect(await store.load(id, owner)).toEqual(model.find((r) => has(r, id, owner)))
    for (const id of itemIds) {
      const all = model
        .filter((r) => r.owner === owner)
        .flatMap((r) => [...r.links.flatMap((l) => l.items), ...r.input, ...r.response.output])
      expect(await store.item(id, owner)).toEqual(all.findLast((item) => item.id === id))
    }
  }
}
