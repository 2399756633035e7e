// The store that forgets when the process ends: the reference for what every store does, and enough where nothing may
// stay. Bounded; the oldest record goes first.
import type { Item } from '../protocol/items.ts'
import type { Store, Stored } from '../turn/ports.ts'
import { idOf, itemsOf, pageOf } from './record.ts'

/** `maxRecords`: responses that are kept, of all owners together. */
export function memoryStore({ maxRecords = 10_000 }: { readonly maxRecords?: number } = {}): Store {
  /** Oldest save first. */
  const records = new Map<string, Stored>()
  /** Per item id the records that hold it, oldest save first, with the item as it stands there. */
  const holders = new Map<string, Map<string, Item>>()

  const drop = (key: string): boolean => {
    const record = records.get(key)
    if (!record) return false
    records.delete(key)
    for (const item of itemsOf(record)) {
      const id = idOf(item)
      if (id === null) continue
      const at = keyOf(record.owner, id)
      const held = holders.get(at)
      held?.delete(key)
      if (held?.size === 0) holders.delete(at)
    }
    return true
  }
  const put = (record: Stored): void => {
    const key = keyOf(record.owner, record.response.id)
    drop(key)
    records.set(key, record)
    for (const item of itemsOf(record)) {
      const id = idOf(item)
      if (id === null) continue
      const at = keyOf(record.owner, id)
      const held = holders.get(at)
      if (held) held.set(key, item)
      else holders.set(at, new Map([[key, item]]))
    }
  }

  return {
    async save(batch) {
      for (const record of batch) put(record)
      for (const key of records.keys()) {
        if (records.size <= maxRecords) break
        drop(key)
      }
    },
    async load(id, owner) {
      return records.get(keyOf(owner, id))
    },
    async input(id, owner, page) {
      const input = records.get(keyOf(owner, id))?.input
      if (!input) return undefined
      const { places, more } = pageOf(input.map(idOf), page)
      return { items: places.flatMap((place) => input[place] ?? []), more }
    },
    async item(id, owner) {
      return [...(holders.get(keyOf(owner, id))?.values() ?? [])].at(-1)
    },
    async remove(id, owner) {
      return drop(keyOf(owner, id))
    },
    async check() {},
    async close() {
      records.clear()
      holders.clear()
    },
  }
}

/** No two pairs share a key, whatever characters the ids have. */
const keyOf = (owner: string, id: string): string => JSON.stringify([owner, id])
