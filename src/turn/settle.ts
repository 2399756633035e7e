// What happens after the terminal event: writing behind, and reading what is not written yet. Nothing between a model
// and a socket waits for it.
import { ApiError } from '../protocol/errors.ts'
import type { Item } from '../protocol/items.ts'
import type { Response } from '../protocol/response.ts'
import type { Chain } from './chain.ts'
import type { ItemPage, Page, Store, Stored } from './ports.ts'
import { mark } from './trace.ts'

type Pending = { readonly record: Stored; readonly chain: Chain | undefined }
/** Records per transaction; tries before a record is given up. */
const batch = 64
const tries = 5
/** Deleted ids that are remembered. */
const mostGone = 65_536

export class Settle {
  readonly #store: Store
  readonly #limit: number
  readonly #report: (error: unknown, what: string) => void
  readonly #pending = new Map<string, Pending>()
  /** Items of what is pending, each with the newest record that has it. */
  readonly #pendingItems = new Map<string, { readonly item: Item; readonly record: Stored }>()
  /** Ids that were deleted while a socket may still hold their chains. */
  readonly #gone = new Set<string>()
  #writing: Promise<void> | undefined
  /** The batch that is on its way. */
  #saving: Promise<void> | undefined

  /** `limit`: records that may wait to be written. `report` hears of writes that failed for good. */
  constructor(store: Store, limit: number, report: (error: unknown, what: string) => void) {
    this.#store = store
    this.#limit = limit
    this.#report = report
  }
  /** Refuses a response that would have to be stored while storage is too far behind. */
  admit(): void {
    if (this.#pending.size >= this.#limit)
      throw new ApiError('server_is_overloaded', 'Storage is behind; try again, or send `store: false`.', null, 5)
  }
  /** Synchronous: from here on every door can read it. Call it before the terminal event leaves. */
  add(record: Stored, chain: Chain | undefined): void {
    const { id } = record.response
    if (this.isGone(id)) return
    this.#pending.set(id, { record, chain })
    for (const item of itemsOf(record)) this.#pendingItems.set(`${record.owner}\0${item.id}`, { item, record })
    this.#writing ??= this.#write()
  }
  /** The chain of a response of this owner that is not written yet. */
  chain(id: string, owner: string): Chain | undefined {
    const chain = this.#pending.get(id)?.chain
    return chain?.owner === owner ? chain : undefined
  }
  async load(id: string, owner: string): Promise<Stored | undefined> {
    if (this.isGone(id)) return undefined
    const waiting = this.#pending.get(id)?.record
    if (waiting) return waiting.owner === owner ? waiting : undefined
    return await this.#store.load(id, owner)
  }
  async item(id: string, owner: string): Promise<Item | undefined> {
    return this.#pendingItems.get(`${owner}\0${id}`)?.item ?? (await this.#store.item(id, owner))
  }
  async input(id: string, owner: string, page: Page): Promise<ItemPage | undefined> {
    if (this.isGone(id)) return undefined
    if (this.#pending.get(id)?.record.owner === owner) await this.#written(id)
    return await this.#store.input(id, owner, page)
  }
  /** Deletes everywhere, also where a write is still on its way. False for foreign, deleted and unknown ids. */
  async remove(id: string, owner: string): Promise<boolean> {
    const waiting = this.#pending.get(id)
    if (waiting && waiting.record.owner !== owner) return false
    if (waiting) await this.#written(id)
    const removed = await this.#store.remove(id, owner)
    if (removed || waiting) this.forget(id)
    return removed || waiting !== undefined
  }
  /** Nobody may continue or store this response any more. */
  forget(id: string): void {
    this.#gone.add(id)
    for (const oldest of this.#gone) {
      if (this.#gone.size <= mostGone) break
      this.#gone.delete(oldest)
    }
    const record = this.#pending.get(id)?.record
    if (record) this.#forgetItems(record)
  }
  isGone(id: string): boolean {
    return this.#gone.has(id)
  }
  get waiting(): number {
    return this.#pending.size
  }
  /** Everything that was added is written, or given up and reported. */
  async idle(): Promise<void> {
    while (this.#writing) await this.#writing
  }

  #forgetItems(record: Stored): void {
    for (const { id } of itemsOf(record)) {
      const key = `${record.owner}\0${id}`
      if (this.#pendingItems.get(key)?.record === record) this.#pendingItems.delete(key)
    }
  }
  /** Resolves when this one is written or given up; others may still wait behind it. */
  async #written(id: string): Promise<void> {
    while (this.#pending.has(id)) await (this.#saving ?? new Promise<void>((resolve) => setImmediate(resolve)))
  }
  async #write(): Promise<void> {
    // Not in the turn that added it: its terminal event leaves first.
    await new Promise<void>((resolve) => setImmediate(resolve))
    while (this.#pending.size > 0) {
      const some = [...this.#pending.values()].slice(0, batch).map((p) => p.record)
      await (this.#saving = this.#save(some))
      for (const record of some) {
        if (this.#pending.get(record.response.id)?.record === record) this.#pending.delete(record.response.id)
        this.#forgetItems(record)
        mark(record.response.id, 'settled')
      }
    }
    this.#saving = undefined
    this.#writing = undefined
  }
  /** All together; where that fails, one by one, so that a record that cannot be written takes no other with it. */
  async #save(records: readonly Stored[]): Promise<void> {
    const wanted = records.filter((r) => !this.isGone(r.response.id))
    for (let n = 1; ; n++)
      try {
        return await this.#store.save(wanted)
      } catch (error) {
        if (n < tries) await new Promise<void>((resolve) => setTimeout(resolve, 50 * 4 ** n))
        else if (wanted.length === 1) return this.#report(error, 'a response could not be stored and is lost')
        else break
      }
    for (const record of wanted)
      await this.#store
        .save([record])
        .catch((error: unknown) => this.#report(error, 'a response could not be stored and is lost'))
  }
}
/** Every item of a record that has an id, input and output. */
const itemsOf = ({ input, links }: Stored): Item[] =>
  [...input, ...links.flatMap((link) => link.items)].filter((item) => typeof item.id === 'string')

/**
 * What must be written so that this response can be continued from the store: its own links, and the response they
 * follow. Where that one was not stored the record leads nowhere and cannot be continued once memory has forgotten it:
 * `store: false` content is never written for the sake of another response. What a rollout was told is its input, too.
 */
export function recordOf(
  response: Response,
  owner: string,
  input: readonly Item[],
  chain: Chain,
  asked: Chain,
  named: Chain,
  kept: Chain | undefined,
): Stored {
  // Behind what was asked stands what the model said; where that replaces the conversation, nothing is in front of it.
  const since = kept?.since(asked)
  const said = since ?? kept?.since(undefined) ?? []
  const sent = since && input.length > 0 ? [{ from: 'input' as const, items: input }] : []
  const links = said.flatMap((l) =>
    l.from === 'root' || l.items.length === 0 ? [] : [{ from: l.from, items: l.wire }],
  )
  const told = chain.since(asked)?.flatMap((l) => (l.from === 'input' ? l.wire : [])) ?? []
  return {
    response,
    owner,
    input: [...input, ...told],
    links: [...sent, ...links],
    parent: since && named.from !== 'root' ? named.response : undefined,
  }
}
