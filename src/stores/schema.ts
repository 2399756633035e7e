// The tables of the SQL store and how they came to be. A released migration is never changed: add one after it.
import type { Generated, Kysely, Migration } from 'kysely'

/** One row per stored response. `n` rises with every save. */
export type ResponseRow = {
  n: Generated<number>
  owner: string
  id: string
  /** Unix seconds, from the response. */
  created_at: number
  /** The stored response this one follows. No foreign key: deleting a parent leaves its children. */
  parent: string | null
  /** The response object with an empty `output`. */
  body: string
  /** JSON of `Layout`: where each item of the row's record stands. */
  layout: string
}
/** One row per distinct item of a response; another response that holds the same item has its own. */
export type ItemRow = {
  n: Generated<number>
  response: number
  /** Place in the response's list of items. */
  seq: number
  owner: string
  id: string | null
  json: string
}
export type Tables = { responses: ResponseRow; items: ItemRow }

/** By name, in alphabetical order. Kysely keeps what has run in `schema_version`. */
export const migrations: Record<string, Migration> = {
  '0001_responses_and_items': {
    async up(db: Kysely<unknown>) {
      await db.schema
        .createTable('responses')
        .addColumn('n', 'integer', (c) => c.primaryKey())
        .addColumn('owner', 'text', (c) => c.notNull())
        .addColumn('id', 'text', (c) => c.notNull())
        .addColumn('created_at', 'integer', (c) => c.notNull())
        .addColumn('parent', 'text')
        .addColumn('body', 'text', (c) => c.notNull())
        .addColumn('layout', 'text', (c) => c.notNull())
        .addUniqueConstraint('responses_owner_id', ['owner', 'id'])
        .execute()
      await db.schema.createIndex('responses_created_at').on('responses').column('created_at').execute()
      await db.schema
        .createTable('items')
        .addColumn('n', 'integer', (c) => c.primaryKey())
        .addColumn('response', 'integer', (c) => c.notNull().references('responses.n').onDelete('cascade'))
        .addColumn('seq', 'integer', (c) => c.notNull())
        .addColumn('owner', 'text', (c) => c.notNull())
        .addColumn('id', 'text')
        .addColumn('json', 'text', (c) => c.notNull())
        .addUniqueConstraint('items_response_seq', ['response', 'seq'])
        .execute()
      await db.schema.createIndex('items_owner_id').on('items').columns(['owner', 'id']).execute()
    },
  },
}
