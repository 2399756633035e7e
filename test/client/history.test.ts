import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { History, itemDigest, itemsOf, type CreateBody, type Plan } from '../../src/client/history.ts'

type Item = Record<string, unknown>

// The oracle's own idea of what an item says, written apart from the one under test.
function said(item: Item): string {
  const sort = (value: unknown): unknown =>
    Array.isArray(value)
      ? value.map(sort)
      : typeof value === 'object' && value !== null
        ? Object.fromEntries(
            Object.entries(value)
              .sort(([a], [b]) => (a < b ? -1 : 1))
              .map(([k, v]) => [k, sort(v)]),
          )
        : value
  const { id: _, status: __, ...rest } = item
  return JSON.stringify(sort(rest))
}

/** A server's side of deltas: the conversation behind each response id, ids never looked at for content. */
class Oracle {
  readonly chains = new Map<string, Item[]>()
  readonly byId = new Map<string, Item>()
  resolve(items: readonly Item[]): Item[] {
    return items.map((item) => (item['type'] === 'item_reference' ? (this.byId.get(String(item['id'])) ?? item) : item))
  }
  receive(body: CreateBody, plan: Plan | undefined): Item[] {
    const items = (itemsOf(body.input) ?? []) as Item[]
    if (plan?.previous === undefined) return this.resolve(items)
    const parent = this.chains.get(plan.previous)
    if (!parent) throw new Error('a delta on a response that never was')
    return [...parent, ...this.resolve(items.slice(plan.from))]
  }
}

const word = fc.constantFrom('a', 'b', 'c')
const userItem: fc.Arbitrary<Item> = word.map((text) => ({
  type: 'message',
  role: 'user',
  content: [{ type: 'input_text', text }],
}))
const output: fc.Arbitrary<Item> = fc.oneof(
  word.map((text) => ({ type: 'message', role: 'assistant', content: [{ type: 'output_text', text }] })),
  fc.tuple(word, word).map(([call_id, args]) => ({ type: 'function_call', call_id, name: 'f', arguments: args })),
  word.map((text) => ({ type: 'reasoning', summary: [{ type: 'summary_text', text }] })),
)
const step = fc.record({
  /** How far back the next request starts: 0 goes on, others fork or drop items. */
  fork: fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(4) }),
  fresh: fc.array(userItem, { maxLength: 2 }),
  output: fc.array(output, { maxLength: 3 }),
  /** What a client does to the items it sends back. */
  disguise: fc.constantFrom('none', 'ids', 'order', 'references', 'edit'),
  settings: fc.oneof({ weight: 6, arbitrary: fc.constant('x') }, { weight: 1, arbitrary: word }),
  end: fc.oneof(
    { weight: 6, arbitrary: fc.constant('completed') },
    { weight: 1, arbitrary: fc.constantFrom('failed', 'reconnect') },
  ),
})

function disguised(items: readonly Item[], how: string, nonce: number): Item[] {
  return items.map((item, at) => {
    if (how === 'ids') return { ...item, id: `other_${nonce}_${at}`, status: 'completed' }
    if (how === 'order') return Object.fromEntries(Object.entries(item).reverse())
    if (how === 'references' && typeof item['id'] === 'string') return { type: 'item_reference', id: item['id'] }
    if (how === 'edit' && at === nonce % items.length) return { ...item, role: 'developer' }
    return item
  })
}

describe('the incremental rule', () => {
  it('gives a server the same conversation by deltas as by full inputs, whatever clients do to their history', () => {
    let deltas = 0
    fc.assert(
      fc.property(fc.array(step, { minLength: 2, maxLength: 12 }), fc.integer({ min: 1, max: 6 }), (steps, limit) => {
        let history = new History(limit)
        let oracle = new Oracle()
        let items: Item[] = []
        steps.forEach((now, n) => {
          const base = items.slice(0, Math.max(0, items.length - now.fork))
          const input = [...disguised(base, now.disguise, n), ...now.fresh]
          const body: CreateBody = { model: 'm', tools: [{ name: now.settings }], input }
          const plan = history.plan(body)
          const reached = oracle.receive(body, plan)
          expect(reached.map(said)).toEqual(oracle.resolve(input).map(said))
          if (plan?.previous !== undefined) {
            deltas++
            expect(plan.from).toBeLessThan(input.length)
          }
          const made = now.output.map((item, at): Item => ({ ...item, id: `it_${n}_${at}`, status: 'completed' }))
          const received = made.map((item, at) => history.received(at, item))
          for (const item of made) oracle.byId.set(String(item['id']), item)
          if (now.end === 'failed' && plan) history.forget(plan)
          else if (plan) {
            oracle.chains.set(`resp_${n}`, [...reached, ...made])
            history.record(plan, received, `resp_${n}`, 'lane')
          }
          items = [...base, ...now.fresh, ...(now.end === 'failed' ? [] : made)]
          if (now.end === 'reconnect') {
            history = new History(limit)
            const ids = oracle.byId
            oracle = new Oracle()
            for (const [id, item] of ids) oracle.byId.set(id, item)
          }
          expect(history.size).toBeLessThanOrEqual(limit)
        })
      }),
      { numRuns: 400 },
    )
    expect(deltas).toBeGreaterThan(300)
  })

  it('sends a delta at every step of a plain tool loop', () => {
    const history = new History()
    const input: Item[] = [{ role: 'user', content: 'go' }]
    for (let n = 0; n < 200; n++) {
      const plan = history.plan({ model: 'm', input: [...input] })
      expect(plan?.previous).toBe(n === 0 ? undefined : `resp_${n - 1}`)
      expect(plan?.from).toBe(n === 0 ? 0 : input.length - 1)
      const call = {
        type: 'function_call',
        id: `fc_${n}`,
        call_id: `c${n}`,
        name: 'f',
        arguments: '{}',
        status: 'completed',
      }
      if (plan) history.record(plan, [history.received(0, call)], `resp_${n}`, '')
      input.push(
        { ...call, parsed_arguments: null },
        { type: 'function_call_output', call_id: `c${n}`, output: String(n) },
      )
    }
    expect(history.size).toBe(64)
  })

  it.each([
    ['model', { model: 'other' }],
    ['instructions', { instructions: 'be brief' }],
    ['tools', { tools: [] }],
    ['store', { store: false }],
    ['a field it has never heard of', { brand_new: 1 }],
  ])('sends everything when %s changed', (_, change) => {
    const history = new History()
    const first = history.plan({ model: 'm', input: 'a' })
    if (first) history.record(first, [], 'resp_1', '')
    const next = [
      { role: 'user', content: 'a' },
      { role: 'user', content: 'b' },
    ]
    expect(history.plan({ model: 'm', input: next })?.previous).toBe('resp_1')
    expect(history.plan({ model: 'm', input: next, ...change })?.previous).toBeUndefined()
  })

  it.each([
    ['stream', { stream: true }],
    ['stream_options', { stream_options: {} }],
    ['client_metadata', { client_metadata: { turn: '2' } }],
    ['generate', { generate: false }],
    ['a null field', { instructions: null }],
  ])('does not mind a different %s', (_, change) => {
    const history = new History()
    const first = history.plan({ model: 'm', input: [], ...change })
    if (first) history.record(first, [], 'warm', '')
    expect(history.plan({ model: 'm', input: 'b' })).toMatchObject({ previous: 'warm', from: 0 })
  })

  it('keeps out of requests that chain by themselves', () => {
    const history = new History()
    expect(history.plan({ model: 'm', input: 'a', previous_response_id: 'resp_9' })).toBeUndefined()
    expect(history.plan({ model: 'm', input: 'a', conversation: 'conv_1' })).toBeUndefined()
  })

  it('never sends an empty delta', () => {
    const history = new History()
    const first = history.plan({ model: 'm', input: 'a' })
    if (first) history.record(first, [], 'resp_1', '')
    expect(history.plan({ model: 'm', input: 'a' })?.previous).toBeUndefined()
  })

  it('tells unknown references and hosted items apart by their ids', () => {
    expect(itemDigest({ type: 'item_reference', id: 'a' })).not.toBe(itemDigest({ type: 'item_reference', id: 'b' }))
    expect(itemDigest({ type: 'web_search_call', id: 'a' })).not.toBe(itemDigest({ type: 'web_search_call', id: 'b' }))
    expect(itemDigest({ type: 'function_call', call_id: 'c', id: 'a' })).toBe(
      itemDigest({ type: 'function_call', call_id: 'c', id: 'b' }),
    )
  })

  it('reads the spellings of one message as one message', () => {
    const full = {
      type: 'message',
      id: 'm',
      status: 'completed',
      role: 'assistant',
      content: [{ type: 'output_text', text: 'x', annotations: [{ a: 1 }], logprobs: [] }],
    }
    expect(itemDigest({ role: 'assistant', content: 'x' })).toBe(itemDigest(full))
    expect(itemDigest({ role: 'user', content: 'x' })).not.toBe(itemDigest(full))
  })
})
