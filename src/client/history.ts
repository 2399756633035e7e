// The incremental rule: when a request may be sent as the new part of its input with `previous_response_id`.
// A conversation is known by one digest over its settings and items, so remembering it costs the same at any length.
import { hash } from 'node:crypto'
import type { Response } from '../protocol/response.ts'
import { type Echo, echoOf } from './lean.ts'

/** A create body: the fields of the HTTP body, `generate` besides. */
export type CreateBody = { readonly model: string; readonly input?: unknown } & Readonly<Record<string, unknown>>

/** How one request goes out, and what is needed to remember its answer. */
export type Plan = {
  /** Set: a delta on this response, of the items from `from` on. Unset: everything, as the caller gave it. */
  readonly previous: string | undefined
  readonly from: number
  /** The lane the parent ran on: the place where a server is most likely to still know it. */
  readonly lane: string | undefined
  /** The entry that `previous` comes from, and the conversation up to and with this input. */
  readonly parent: string | undefined
  readonly settings: string
  readonly digest: string
}

/** One finished output item: its place, its id if it has one, and what it says. */
export type Received = { readonly index: number; readonly id: string | undefined; readonly digest: string }

// They say how to send or answer, not what: a delta is the same with any of them, and each request brings its own.
const aside = new Set([
  'type',
  'stream_id',
  'input',
  'stream',
  'stream_options',
  'generate',
  'rollout',
  'client_metadata',
  'previous_response_id',
])
const empty = sha('')

/**
 * The conversations that one connection can continue, newest last, at most `limit` (the server keeps 64).
 * Item ids are remembered (at most `maxIds`) so that an `item_reference` counts as the item it stands for.
 */
export class History {
  readonly #known = new Map<string, { readonly id: string; readonly lane: string }>()
  readonly #ids = new Map<string, string>()
  /** By the digest of settings. */
  readonly #echoes = new Map<string, Echo>()
  readonly #limit: number
  readonly #maxIds: number
  constructor(limit = 64, maxIds = 8192) {
    this.#limit = limit
    this.#maxIds = maxIds
  }
  get size(): number {
    return this.#known.size
  }

  /**
   * The plan for `body`; undefined where the rule does not apply because the caller chains by itself.
   * With `frozen` the caller promises that item objects do not change once sent; their digests are then kept.
   */
  plan(body: CreateBody, frozen = false): Plan | undefined {
    if (body['previous_response_id'] != null || body['conversation'] != null) return undefined
    const items = itemsOf(body.input)
    if (items === undefined) return undefined
    const settings = settingsDigest(body)
    const prefixes = [empty]
    let at = empty
    for (const item of items) prefixes.push((at = sha(at + this.#digest(item, frozen))))
    // The longest known beginning wins. Something new must be left to send: an empty delta means nothing on its own.
    for (let from = items.length - 1; from >= 0; from--) {
      const key = settings + (prefixes[from] ?? '')
      const parent = this.#known.get(key)
      if (parent) return { previous: parent.id, from, lane: parent.lane, parent: key, settings, digest: at }
    }
    return { previous: undefined, from: 0, lane: undefined, parent: undefined, settings, digest: at }
  }

  /** What an item of `response.output_item.done` says, for `record`. */
  received(index: number, item: unknown, frozen = false): Received {
    const digest = this.#digest(item, frozen)
    const id = isRecord(item) && typeof item['id'] === 'string' ? item['id'] : undefined
    if (id !== undefined) {
      this.#ids.delete(id)
      this.#ids.set(id, digest)
      trim(this.#ids, this.#maxIds)
    }
    return { index, id, digest }
  }

  /** Remembers that `responseId`, made on `lane`, holds the conversation of `plan` followed by `output`. */
  record(plan: Plan, output: readonly Received[], responseId: string, lane: string): void {
    let at = plan.digest
    for (const item of output.toSorted((a, b) => a.index - b.index)) at = sha(at + item.digest)
    const key = plan.settings + at
    this.#known.delete(key)
    this.#known.set(key, { id: responseId, lane })
    trim(this.#known, this.#limit)
  }

  /** Remembers what a response echoed of the settings it was made under. */
  learn({ settings }: Plan, response: Response): void {
    this.#echoes.delete(settings)
    this.#echoes.set(settings, echoOf(response))
    trim(this.#echoes, this.#limit)
  }
  /** What a response that goes by this plan would echo, where one under the same settings has. */
  echo({ settings }: Plan): Echo | undefined {
    const echo = this.#echoes.get(settings)
    if (echo !== undefined && this.#echoes.delete(settings)) this.#echoes.set(settings, echo)
    return echo
  }

  /** Forgets the parent of a plan: the server does not know it, or evicted it because its continuation failed. */
  forget(plan: Plan): void {
    if (plan.parent !== undefined) this.#known.delete(plan.parent)
  }

  #digest(item: unknown, frozen: boolean): string {
    if (isRecord(item) && item['type'] === 'item_reference' && typeof item['id'] === 'string') {
      const known = this.#ids.get(item['id'])
      if (known !== undefined) return known
    }
    return itemDigest(item, frozen)
  }
}

/** The same plan with everything sent. */
export const inFull = (plan: Plan): Plan => ({
  ...plan,
  previous: undefined,
  from: 0,
  lane: undefined,
  parent: undefined,
})

/** Input as a list of items, a string being one message of the user; undefined for what is neither. */
export function itemsOf(input: unknown): readonly unknown[] | undefined {
  if (input === undefined || input === null) return []
  if (typeof input === 'string') return [{ type: 'message', role: 'user', content: input }]
  return Array.isArray(input) ? input : undefined
}

const kept = new WeakMap<object, string>()

/** Digest of what an item says: not its id, its status, its key order, or which of the wire's spellings it uses. */
export function itemDigest(item: unknown, frozen = false): string {
  if (typeof item !== 'object' || item === null) return sha(canonical(item))
  if (!frozen) return sha(canonical(normal(item)))
  let digest = kept.get(item)
  if (digest === undefined) kept.set(item, (digest = sha(canonical(normal(item)))))
  return digest
}

export function settingsDigest(body: CreateBody): string {
  return sha(
    canonical(Object.fromEntries(Object.entries(body).filter(([key, value]) => !aside.has(key) && value != null))),
  )
}

// SDK helpers add `parsed` fields to what they received; annotations and logprobs are about a text, not part of it.
const silent = new Set(['id', 'status', 'parsed', 'parsed_arguments', 'annotations', 'logprobs', 'created_by'])

// Items that say all they say in their other fields. Any other item (a reference, what a hosted tool did, an output
// without a call_id) may mean something by its id alone, so there the id counts.
const anonymous = new Set(['message', 'reasoning', 'compaction', 'compaction_trigger', 'additional_tools'])

function normal(item: object): Readonly<Record<string, unknown>> {
  const said: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(item)) if (value != null && !silent.has(key)) said[key] = value
  if (said['type'] === undefined && said['role'] !== undefined) said['type'] = 'message'
  const { id } = item as { id?: unknown }
  if (id != null && said['call_id'] === undefined && !anonymous.has(String(said['type']))) said['id'] = id
  // Sealed reasoning is what the server reads back; clients differ in how much of the plain text they return with it.
  if (said['type'] === 'reasoning' && typeof said['encrypted_content'] === 'string')
    return { type: 'reasoning', encrypted_content: said['encrypted_content'] }
  if (said['type'] === 'message') {
    const part = said['role'] === 'assistant' ? 'output_text' : 'input_text'
    if (typeof said['content'] === 'string') said['content'] = [{ type: part, text: said['content'] }]
    else if (Array.isArray(said['content'])) said['content'] = said['content'].map(plainPart)
  }
  return said
}

function plainPart(part: unknown): unknown {
  if (!isRecord(part)) return part
  return Object.fromEntries(Object.entries(part).filter(([key, value]) => value != null && !silent.has(key)))
}

/** JSON with sorted keys; undefined values are left out as JSON.stringify does. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (!isRecord(value)) return JSON.stringify(value) ?? 'null'
  const keys = Object.keys(value).sort()
  const pairs: string[] = []
  for (const key of keys) if (value[key] !== undefined) pairs.push(`${JSON.stringify(key)}:${canonical(value[key])}`)
  return `{${pairs.join(',')}}`
}

function sha(text: string): string {
  return hash('sha256', text, 'base64')
}
function trim(map: Map<string, unknown>, limit: number): void {
  for (const key of map.keys()) {
    if (map.size <= limit) return
    map.delete(key)
  }
}
function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
