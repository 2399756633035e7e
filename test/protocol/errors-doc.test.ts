// docs/errors.md is what people look codes up in: it lists the table of src/protocol/errors.ts, row by row, and no more.
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { errorTable } from '../../src/protocol/errors.ts'

const doc = readFileSync(new URL('../../docs/errors.md', import.meta.url), 'utf8')
const row = /^\| `([a-z0-9_]+)` \| (\d{3}) \| `([a-z_]+)` \| (yes|no) \| (.*) \|$/gm
const listed = [...doc.matchAll(row)].map(([, code, status, type, transient, about]) => ({
  code,
  status,
  type,
  transient,
  about,
}))
const table = Object.entries(errorTable).map(([code, { status, type, about, ...rest }]) => ({
  code,
  status: String(status),
  type,
  transient: 'transient' in rest ? 'yes' : 'no',
  // A bar would end the cell.
  about: about.replaceAll('|', '\\|'),
}))

describe('docs/errors.md', () => {
  it('lists every code of the table, in its order, with status, type, transience and sentence', () => {
    expect(listed).toEqual(table)
  })
  it('has no table row that the check above does not read', () => {
    const rows = doc.split('\n').filter((line) => line.startsWith('| `'))
    expect(rows).toHaveLength(table.length)
  })
})
