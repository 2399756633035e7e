// Where a turn starts: the conversation that its request names, and its new items as client and model see them.
// Done when the turn starts, not when its frame arrives; stays synchronous while everything is in memory.
import { setImmediate as others } from 'node:timers/promises'
import { ApiError } from '../protocol/errors.ts'
import { type IdPrefix, newId } from '../protocol/ids.ts'
import { type Item, textOf } from '../protocol/items.ts'
import type { Create } from '../protocol/request.ts'
import { Chain } from '../turn/chain.ts'
import { summaryMessage } from '../turn/output.ts'
import type { Principal, Seal } from '../turn/ports.ts'
import type { Start } from '../turn/run.ts'
import type { PrefixIndex } from '../turn/prefix-index.ts'
import type { Settle } from '../turn/settle.ts'
import { weigh } from '../turn/weigh.ts'
import type { Continuations } from './continuations.ts'

type Near = { readonly settle: Settle; readonly seal: Seal; readonly index: PrefixIndex }
/** Stored responses a conversation may be rebuilt from; estimated tokens of messages that survive a compaction. */
const longestChain = 20_000
const keptTokens = 20_000
/** Records and items that are read before everybody else gets a turn: a store on this thread would hold them all up. */
const reads = 32

/** Throws previous_response_not_found, item_not_found, tool_call_not_found, invalid_encrypted_content, invalid_request. */
export function resolve(
  request: Create,
  principal: Principal,
  cache: Continuations,
  near: Near,
): Start | Promise<Start> {
  if (request.lean !== undefined && request.lean.inherit.length > 0) throw nothingToInherit(request.previous)
  const named = namedChain(request.previous, principal, cache, near)
  const items = withoutReferences(request.input, principal.owner, near.settle)
  if (named instanceof Promise || items instanceof Promise)
    return Promise.all([named, items]).then(([chain, input]) => start(request, principal, chain, input, near))
  return start(request, principal, named, items, near)
}

function start(
  request: Create,
  principal: Principal,
  named: Chain,
  sent: readonly Item[],
  { seal, index }: Near,
): Start {
  const triggered = sent.at(-1)?.type === 'compaction_trigger'
  const fresh = (triggered ? sent.slice(0, -1) : sent).map(withId)
  if (fresh.some((item) => item.type === 'compaction_trigger'))
    throw new ApiError('invalid_request', 'A compaction_trigger must be the last input item.', 'input')
  if (request.previous !== undefined) {
    const call = named.unanswerable(fresh)
    if (call !== undefined)
      throw new ApiError('tool_call_not_found', `No tool call found for the output with call_id '${call}'.`, 'input')
  }
  const seen = fresh.map((item) => asSeen(item, principal.tenant, seal))
  // A conversation that was sent whole may be known all the same. Its record is that of a first turn in any case.
  const found = named.from === 'root' ? index.find(principal.owner, seen) : undefined
  const begun = { named, known: found?.chain ?? named, held: found?.items ?? 0, fresh, seen }
  if (!triggered || !request.generate) return begun
  const kept = request.window ? latestUserMessages([...named.all(), ...seen]) : []
  return { ...begun, compact: { ask: summaryRequest, kept } }
}

function namedChain(
  id: string | undefined,
  principal: Principal,
  cache: Continuations,
  near: Near,
): Chain | Promise<Chain> {
  if (id === undefined) return Chain.root(principal.owner)
  if (near.settle.isGone(id)) throw notFound(id)
  return cache.get(id) ?? inMemory(id, principal.owner, near) ?? loadChain(id, principal, near)
}
const inMemory = (id: string, owner: string, { settle, index }: Near): Chain | undefined =>
  settle.chain(id, owner) ?? index.stored(id, owner)

/** Reads back from response to response until memory knows one, then builds the links forward again. */
async function loadChain(id: string, { owner, tenant }: Principal, near: Near): Promise<Chain> {
  const { settle, seal, index } = near
  const records = []
  let chain: Chain | undefined
  for (let at: string | undefined = id; at !== undefined && chain === undefined;) {
    const record = await settle.load(at, owner)
    const ended = record?.response.status
    if (!record || ended === 'failed' || ended === 'cancelled' || records.length === longestChain) throw notFound(id)
    records.push(record)
    if (records.length % reads === 0) await others()
    at = record.parent
    chain = at === undefined ? undefined : inMemory(at, owner, near)
  }
  if (records.some((record) => settle.isGone(record.response.id))) throw notFound(id)
  // The day on which it began is part of some prompts.
  const oldest = records.at(-1)?.response.created_at
  chain ??= Chain.root(owner, oldest === undefined ? undefined : oldest * 1000)
  for (const { response, links } of records.reverse()) {
    const of = { response: response.id, store: true }
    for (const { from, items: wire } of links)
      chain = chain.add({ ...of, from, items: wire.map((item) => asSeen(item, tenant, seal)), wire })
    if (chain.response !== response.id) chain = chain.add({ ...of, from: 'input', items: [] })
  }
  index.add(chain, true)
  return chain
}
const notFound = (id: string): ApiError =>
  new ApiError('previous_response_not_found', `Previous response with id '${id}' not found.`, 'previous_response_id')
/** The same code: what a client does about it is the same. */
const nothingToInherit = (id = ''): ApiError =>
  new ApiError(
    'previous_response_not_found',
    `This connection does not know the settings of response '${id}'; send the request with all of its settings.`,
    'continuo.inherit',
  )

function withoutReferences(
  items: readonly Item[],
  owner: string,
  settle: Settle,
): readonly Item[] | Promise<readonly Item[]> {
  /** Each id once, with the first place that names it: an item may be large, and be named a hundred thousand times. */
  const wanted = new Map<string, number>()
  for (const [n, item] of items.entries())
    if (item.type === 'item_reference' && !wanted.has(item.id)) wanted.set(item.id, n)
  return wanted.size === 0 ? items : withItems(items, [...wanted], owner, settle)
}
async function withItems(
  items: readonly Item[],
  wanted: readonly (readonly [id: string, place: number])[],
  owner: string,
  settle: Settle,
): Promise<readonly Item[]> {
  const found = new Map<string, Item>()
  for (let at = 0; at < wanted.length; at += reads) {
    if (at > 0) await others()
    await Promise.all(
      wanted.slice(at, at + reads).map(async ([id, place]) => {
        const item = await settle.item(id, owner)
        if (!item) throw new ApiError('item_not_found', `Item with id '${id}' not found.`, `input.${place}.id`)
        found.set(id, item)
      }),
    )
  }
  return items.map((item) => (item.type === 'item_reference' ? (found.get(item.id) ?? item) : item))
}

const prefixes: Record<string, IdPrefix> = {
  message: 'msg',
  reasoning: 'rs',
  function_call: 'fc',
  function_call_output: 'fco',
  custom_tool_call: 'ctc',
  custom_tool_call_output: 'ctco',
  compaction: 'cmp',
  additional_tools: 'at',
}
/** Ids that a client made are kept; the list of a response's input needs one for every item. */
export function withId(item: Item): Item {
  if (typeof item.id === 'string' && item.id !== '') return item
  return { ...item, id: newId(prefixes[item.type] ?? 'item') } as Item
}

/** Sealed content is opened for the model; everything else it sees as it was sent. */
function asSeen(item: Item, tenant: string, seal: Seal): Item {
  if (item.type === 'compaction') {
    const text = seal.open(item.encrypted_content, tenant, 'compaction')
    return text === undefined ? item : summaryMessage(text)
  }
  if (item.type !== 'reasoning' || typeof item.encrypted_content !== 'string') return item
  // Opened even where the text is there too: what was tampered with must not pass.
  const text = seal.open(item.encrypted_content, tenant, 'reasoning')
  if (text === undefined || textOf(item.content) !== '') return item
  return { ...item, content: [{ type: 'reasoning_text', text }] }
}

const summaryRequest: Item = {
  type: 'message',
  role: 'user',
  content: [
    {
      type: 'input_text',
      text: [
        'The conversation above is about to be replaced by a summary that you write now.',
        'Write down, for yourself, all that is needed to go on with the task without it: what the user wants, decisions',
        'and constraints, what was done and found out (names, paths, commands, results), what is still open, and the next',
        'step. Be complete and brief. Answer with the summary alone.',
      ].join(' '),
    },
  ],
}
function latestUserMessages(items: readonly Item[]): Item[] {
  const kept: Item[] = []
  let left = keptTokens
  for (const item of items.toReversed()) {
    if (item.type !== 'message' || item.role !== 'user') continue
    left -= weigh([item])
    if (left < 0) break
    kept.push({ ...(withId(item) as typeof item), status: 'completed' })
  }
  return kept.reverse()
}
