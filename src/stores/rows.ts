// A stored record as rows and back: each distinct item once, and a layout that says where it stands. And what the
// store's thread does.
import type { Transaction } from 'kysely'
import type { Item } from '../protocol/items.ts'
import type { Response } from '../protocol/response.ts'
import type { Page, Stored, StoredLink } from '../turn/ports.ts'
import { idOf, itemsOf } from './record.ts'
import type { ResponseRow, Tables } from './schema.ts'

/** Places of items in a record's list, for each part of it. */
export type Layout = {
  readonly links: readonly (readonly [StoredLink['from'], readonly number[]])[]
  readonly input: readonly number[]
  readonly output: readonly number[]
}
export type Rows = {
  readonly response: Omit<ResponseRow, 'n'>
  readonly items: readonly { readonly id: string | null; readonly json: string }[]
}

/** A response's row, and all its items as JSON. */
export type Loaded = { readonly row: Found; readonly items: readonly { readonly seq: number; readonly json: string }[] }
/**
 * What the store's thread does: it takes records, since cloning them costs less than writing their JSON, and gives JSON,
 * which whoever asked parses.
 */
export type RowStore = {
  save(records: readonly Stored[]): Promise<void>
  load(id: string, owner: string): Promise<Loaded | undefined>
  /** Throws `item_not_found`. */
  input(id: string, owner: string, page: Page): Promise<{ items: readonly string[]; more: boolean } | undefined>
  item(id: string, owner: string): Promise<string | undefined>
  remove(id: string, owner: string): Promise<boolean>
  /** Deletes what was created before this second, in small steps; how many responses went. */
  purge(before: number): Promise<number>
  /** Throws if the file was moved or deleted. */
  present(): Promise<void>
  /** Once everything that was asked is done. What is asked later is refused. */
  close(): Promise<void>
}

/** A record as rows: an item that stands in several places once, at the last, so that later rows are newer items. */
export function rowsOf(record: Stored): Rows {
  type Entry = { readonly id: string | null; readonly json: string; last: number }
  const byItem = new Map<Item, Entry>()
  const byId = new Map<string, Entry>()
  for (const [place, item] of itemsOf(record).entries()) {
    let entry = byItem.get(item)
    if (!entry) {
      const id = idOf(item)
      const json = JSON.stringify(item)
      // Equal but not the same object: an input item and its copy on the chain.
      const twin = id === null ? undefined : byId.get(id)
      entry = twin?.json === json ? twin : { id, json, last: place }
      byItem.set(item, entry)
    }
    if (entry.id !== null) byId.set(entry.id, entry)
    entry.last = place
  }
  const entries = [...new Set(byItem.values())].sort((a, b) => a.last - b.last)
  const seqs = new Map(entries.map((entry, seq) => [entry, seq]))
  const seqOf = (item: Item): number[] => {
    const entry = byItem.get(item)
    const seq = entry && seqs.get(entry)
    return seq === undefined ? [] : [seq]
  }
  const places = (items: readonly Item[]) => items.flatMap(seqOf)
  const layout: Layout = {
    links: record.links.map((link) => [link.from, places(link.items)] as const),
    input: places(record.input),
    output: places(record.response.output),
  }
  return {
    response: {
      owner: record.owner,
      id: record.response.id,
      created_at: Math.floor(record.response.created_at),
      parent: record.parent ?? null,
      body: JSON.stringify({ ...record.response, output: [] }),
      layout: JSON.stringify(layout),
    },
    items: entries,
  }
}

/** Rows per statement: fewer cost more time each. */
const perInsert = 50

export async function insert(tx: Transaction<Tables>, { response, items }: Rows): Promise<void> {
  // The first statement writes, so the transaction never has to become a writing one halfway.
  await tx.deleteFrom('responses').where('owner', '=', response.owner).where('id', '=', response.id).execute()
  const { n } = await tx.insertInto('responses').values(response).returning('n').executeTakeFirstOrThrow()
  const { owner } = response
  for (let from = 0; from < items.length; from += perInsert) {
    const values = items
      .slice(from, from + perInsert)
      .map(({ id, json }, k) => ({ response: n, seq: from + k, owner, id, json }))
    await tx.insertInto('items').values(values).execute()
  }
}

/** What `find` selects of a response. */
export type Found = Omit<ResponseRow, 'n' | 'owner' | 'id' | 'created_at'> & { readonly n: number }
export async function find(tx: Transaction<Tables>, id: string, owner: string): Promise<Found | undefined> {
  return await tx
    .selectFrom('responses')
    .select(['n', 'parent', 'body', 'layout'])
    .where('owner', '=', owner)
    .where('id', '=', id)
    .executeTakeFirst()
}

export function recordFrom({ row, items: found }: Loaded, owner: string): Stored {
  const items = new Map(found.map(({ seq, json }) => [seq, parsed<Item>(json)]))
  const layout = parsed<Layout>(row.layout)
  const at = (places: readonly number[]) => places.map((seq) => present(items.get(seq)))
  return {
    response: { ...parsed<Response>(row.body), output: at(layout.output) },
    owner,
    links: layout.links.map(([from, places]) => ({ from, items: at(places) })),
    parent: row.parent ?? undefined,
    input: at(layout.input),
  }
}

/** What `rowsOf` wrote: our own JSON, from a file nobody else may write. Throws SyntaxError if the bytes have changed. */
export function parsed<T>(json: string): T {
  return JSON.parse(json) as T
}
export function present<T>(item: T | undefined): T {
  if (item === undefined) throw new SyntaxError('an item of a stored response is missing')
  return item
}
