// Law 4 as an automaton: what order of events, numbers and texts one response may have, whoever made it.
import { isDeepStrictEqual } from 'node:util'
import { callOfEvent, partOfEvent, statusOfTerminal, textOfPart } from './grammar-words.ts'

type Fields = Readonly<Record<string, unknown>>
type Part = { readonly kind: string; text: string; said: boolean; done: boolean }
type Open = {
  readonly item: Fields
  readonly parts: Part[]
  readonly summary: Part[]
  text: string
  said: boolean
  compacting: boolean
}
type Phase = 'start' | 'created' | 'running' | 'ended'

/**
 * `joined`: a replay, where deltas of one part may have been joined under the number of the last. `rollout`: the request
 * asked for one, so `response.done` may come.
 */
export type GrammarOptions = { readonly joined?: boolean; readonly rollout?: boolean }

const fields = (value: unknown): Fields => (typeof value === 'object' && value !== null ? (value as Fields) : {})
const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

export class Grammar {
  #phase: Phase = 'start'
  #next = 0
  #last = 0
  #id = ''
  #first: Fields = {}
  #open: Open | undefined = undefined
  readonly #done: Fields[] = []
  readonly #ids = new Set<string>()
  readonly #steers = new Set<string>()
  readonly #pending = new Set<string>()
  #problems: string[] = []
  readonly #joined: boolean
  readonly #rollout: boolean
  /** Items before the newest `response.done`. */
  #rounds = 0

  constructor(options: GrammarOptions = {}) {
    this.#joined = options.joined === true
    this.#rollout = options.rollout === true
  }
  get id(): string {
    return this.#id
  }
  get started(): boolean {
    return this.#phase !== 'start'
  }
  get ended(): boolean {
    return this.#phase === 'ended'
  }

  /** What is wrong with this event at this place; [] is fine. After a problem the automaton goes on as well as it can. */
  feed(event: unknown): string[] {
    this.#problems = []
    const e = fields(event)
    const type = String(e['type'])
    if (type === 'keepalive')
      this.#expect(
        e['sequence_number'] === this.#last,
        `keepalive has number ${String(e['sequence_number'])}, not ${this.#last}`,
      )
    else {
      this.#number(e, type)
      this.#place(e, type)
    }
    return this.#problems.map((problem) => `${this.#id || 'before created'}, ${type}: ${problem}`)
  }
  /** Call it when no event can follow. */
  end(): string[] {
    return this.#phase === 'ended' ? [] : [`${this.#id || 'response'} has no terminal event`]
  }

  #expect(holds: boolean, problem: string): void {
    if (!holds) this.#problems.push(problem)
  }
  #number(e: Fields, type: string): void {
    const n = e['sequence_number']
    if (typeof n !== 'number') return this.#expect(false, 'no sequence_number')
    const fits = this.#joined && type.endsWith('.delta') ? n >= this.#next : n === this.#next
    this.#expect(fits, `sequence_number is ${n}, not ${this.#next}`)
    this.#last = n
    this.#next = n + 1
  }
  #place(e: Fields, type: string): void {
    if (type === 'response.steer.pending') return this.#steerPending(e)
    if (this.#phase === 'ended') return this.#expect(false, 'follows the terminal event')
    if (type === 'response.created') return this.#created(e)
    if (this.#phase === 'start') return this.#expect(false, 'comes before response.created')
    const statuses = statusOfTerminal[type]
    if (statuses) return this.#terminal(e, type, statuses)
    if (type === 'response.steer.accepted') return this.#steerAccepted(e)
    if (type === 'response.in_progress') {
      this.#expect(this.#phase === 'created', 'comes twice')
      this.#phase = 'running'
      return this.#snapshot(e, 'in_progress')
    }
    this.#expect(this.#phase === 'running', 'comes before response.in_progress')
    if (type === 'response.output_item.added') return this.#added(e)
    if (type === 'response.done') return this.#waits(e)
    if (this.#open === undefined) return this.#expect(false, 'no item is open')
    this.#inItem(e, type, this.#open)
  }
  #created(e: Fields): void {
    this.#expect(this.#phase === 'start', 'comes twice')
    this.#phase = 'created'
    this.#first = fields(e['response'])
    this.#id = String(this.#first['id'])
    this.#snapshot(e, 'in_progress')
  }
  #snapshot(e: Fields, status: string): void {
    const response = fields(e['response'])
    this.#same(response)
    this.#expect(response['status'] === status, `status is ${String(response['status'])}`)
    this.#expect(list(response['output']).length === 0, 'output is not empty yet')
    this.#expect(
      response['usage'] == null && response['completed_at'] == null && response['error'] == null,
      'says how it ended',
    )
  }
  /** What a response says about its request never changes. */
  #same(response: Fields): void {
    const differs = [
      'id',
      'created_at',
      'model',
      'previous_response_id',
      'instructions',
      'tools',
      'tool_choice',
      'store',
      'metadata',
    ].filter((key) => !isDeepStrictEqual(response[key], this.#first[key]))
    this.#expect(differs.length === 0, `changed: ${differs.join(', ')}`)
  }

  #added(e: Fields): void {
    this.#expect(this.#open === undefined, 'an item is still open')
    this.#expect(
      e['output_index'] === this.#done.length,
      `output_index is ${String(e['output_index'])}, not ${this.#done.length}`,
    )
    const item = fields(e['item'])
    const id = item['id']
    this.#expect(typeof id === 'string' && id !== '', 'item has no id')
    this.#expect(!this.#ids.has(String(id)), 'item id was used before')
    this.#ids.add(String(id))
    this.#expect(
      item['status'] === undefined || item['status'] === 'in_progress',
      `item status is ${String(item['status'])}`,
    )
    for (const key of ['content', 'summary']) this.#expect(list(item[key]).length === 0, `item begins with ${key}`)
    for (const key of ['arguments', 'input']) this.#expect((item[key] ?? '') === '', `item begins with ${key}`)
    if (String(item['type']).endsWith('_call') && 'call_id' in item)
      this.#expect(typeof item['call_id'] === 'string' && item['call_id'] !== '', 'call has no call_id')
    this.#open = { item, parts: [], summary: [], text: '', said: false, compacting: false }
  }
  #inItem(e: Fields, type: string, open: Open): void {
    this.#expect(
      e['output_index'] === this.#done.length,
      `output_index is ${String(e['output_index'])}, not ${this.#done.length}`,
    )
    if (type === 'response.output_item.done') return this.#itemDone(e, open)
    this.#expect(e['item_id'] === open.item['id'], 'item_id is not the open item')
    if (type === 'response.compaction.compacting') {
      this.#expect(open.item['type'] === 'compaction' && !open.compacting, 'no compaction item waits for it')
      open.compacting = true
      return
    }
    if (type === 'response.content_part.added') return this.#partAdded(e, open.parts, 'content_index')
    if (type === 'response.reasoning_summary_part.added') return this.#partAdded(e, open.summary, 'summary_index')
    if (type === 'response.content_part.done') return this.#partDone(e, open.parts, 'content_index')
    if (type === 'response.reasoning_summary_part.done') return this.#partDone(e, open.summary, 'summary_index')
    const [, stem = '', verb = ''] = /^(.*)\.(delta|done)$/.exec(type) ?? []
    const call = callOfEvent[stem]
    if (call) return this.#callText(e, verb, call, open)
    const kind = partOfEvent[stem]
    if (kind === undefined) return this.#expect(false, 'is no event of the grammar')
    const inSummary = kind === 'summary_text'
    this.#partText(e, verb, kind, inSummary ? open.summary : open.parts, inSummary ? 'summary_index' : 'content_index')
  }
  #partAdded(e: Fields, parts: Part[], index: string): void {
    this.#expect(parts.at(-1)?.done !== false, 'a part is still open')
    this.#expect(e[index] === parts.length, `${index} is ${String(e[index])}, not ${parts.length}`)
    const part = fields(e['part'])
    const kind = String(part['type'])
    this.#expect(part[textOfPart[kind] ?? 'text'] === '', 'part does not begin empty')
    const wanted: Readonly<Record<string, readonly string[]>> = {
      message: ['output_text', 'refusal'],
      reasoning: ['reasoning_text', 'summary_text'],
    }
    this.#expect((wanted[String(this.#open?.item['type'])] ?? []).includes(kind), `${kind} is no part of this item`)
    parts.push({ kind, text: '', said: false, done: false })
  }
  #partText(e: Fields, verb: string, kind: string, parts: Part[], index: string): void {
    const part = parts.at(-1)
    if (!part || part.done || part.said) return this.#expect(false, 'no part is open for it')
    this.#expect(part.kind === kind, `the open part is ${part.kind}`)
    this.#expect(e[index] === parts.length - 1, `${index} is ${String(e[index])}, not ${parts.length - 1}`)
    if (verb === 'delta') {
      this.#expect(typeof e['delta'] === 'string' && e['delta'] !== '', 'delta is empty')
      part.text += String(e['delta'])
    } else {
      part.said = true
      this.#expect(e[textOfPart[kind] ?? 'text'] === part.text, 'text is not the sum of its deltas')
    }
  }
  #partDone(e: Fields, parts: Part[], index: string): void {
    const part = parts.at(-1)
    if (!part || part.done) return this.#expect(false, 'no part is open')
    this.#expect(part.said, 'the text of the part is not done')
    this.#expect(e[index] === parts.length - 1, `${index} is ${String(e[index])}, not ${parts.length - 1}`)
    const said = fields(e['part'])
    this.#expect(
      said['type'] === part.kind && said[textOfPart[part.kind] ?? 'text'] === part.text,
      'part is not what its deltas said',
    )
    part.done = true
  }
  #callText(e: Fields, verb: string, [type, field]: readonly [string, string], open: Open): void {
    this.#expect(open.item['type'] === type, `the open item is ${String(open.item['type'])}`)
    this.#expect(!open.said, 'comes after done')
    if (verb === 'delta') {
      this.#expect(typeof e['delta'] === 'string' && e['delta'] !== '', 'delta is empty')
      open.text += String(e['delta'])
    } else {
      open.said = true
      this.#expect(e[field] === open.text, `${field} is not the sum of its deltas`)
    }
  }
  #itemDone(e: Fields, open: Open): void {
    const item = fields(e['item'])
    const type = String(open.item['type'])
    for (const key of ['id', 'type', 'role', 'call_id', 'name', 'namespace'])
      this.#expect(isDeepStrictEqual(item[key], open.item[key]), `${key} differs from what was added`)
    this.#expect(item['status'] !== 'in_progress', 'item is still in progress')
    for (const part of [...open.parts, ...open.summary]) this.#expect(part.done, 'a part is still open')
    this.#expect(sameParts(item['content'], open.parts), 'content is not what the events said')
    this.#expect(sameParts(item['summary'], open.summary), 'summary is not what the events said')
    for (const [of, field] of Object.values(callOfEvent))
      if (of === type) this.#expect(open.said && item[field] === open.text, `${field} is not what the events said`)
    this.#done.push(item)
    this.#open = undefined
  }

  #terminal(e: Fields, type: string, statuses: readonly string[]): void {
    const response = fields(e['response'])
    const reason = fields(response['incomplete_details'])['reason']
    const status = String(response['status'])
    this.#expect(statuses.includes(status), `status is ${status}`)
    // A warm-up: created, then completed, nothing between.
    if (this.#phase === 'created' && type === 'response.completed')
      this.#expect(list(response['output']).length === 0, 'has output, but no response.in_progress')
    if (this.#open) {
      const left =
        reason === 'interrupted' ||
        reason === 'cancelled' ||
        (this.#open.item['type'] === 'compaction' && status !== 'completed') ||
        (String(this.#open.item['type']).endsWith('_call') && status === 'failed')
      this.#expect(left, 'an item is still open')
    }
    this.#same(response)
    const { output } = response
    this.#expect(
      Array.isArray(output) && isDeepStrictEqual(output, this.#done),
      'output is not the items that were done',
    )
    this.#expect((status === 'failed') === (response['error'] != null), 'error and status disagree')
    this.#expect((type === 'response.incomplete') === (reason !== undefined), 'incomplete_details and status disagree')
    this.#expect(
      (status === 'completed') === (typeof response['completed_at'] === 'number'),
      'completed_at and status disagree',
    )
    this.#expect(typeof response['usage'] === 'object' && response['usage'] !== null, 'has no usage')
    const broken = this.#done.some((item) => item['status'] === 'incomplete')
    this.#expect(!broken || status !== 'completed', 'is completed with a broken-off item')
    this.#phase = 'ended'
  }
  /** A rollout waits for the outputs of the calls since it waited last. */
  #waits(e: Fields): void {
    this.#expect(this.#rollout, 'comes outside a rollout')
    this.#expect(this.#open === undefined, 'an item is still open')
    this.#expect(e['response_id'] === this.#id, 'is about another response')
    this.#asks(e, this.#done.slice(this.#rounds))
    this.#rounds = this.#done.length
  }
  #steerAccepted(e: Fields): void {
    const steer = fields(e['steer'])
    this.#expect(steer['previous_response_id'] === this.#id, 'is about another response')
    this.#expect(!this.#steers.has(String(steer['id'])), 'steer id was used before')
    this.#steers.add(String(steer['id']))
  }
  #steerPending(e: Fields): void {
    const steer = fields(e['steer'])
    const id = String(steer['id'])
    this.#expect(this.#phase === 'ended', 'comes before the terminal event')
    this.#expect(steer['previous_response_id'] === this.#id, 'is about another response')
    this.#expect(this.#steers.has(id), 'this steer was not accepted')
    this.#expect(!this.#pending.has(id), 'comes twice for one steer')
    this.#pending.add(id)
    this.#asks(e, this.#done)
  }
  #asks(e: Fields, items: readonly Fields[]): void {
    const calls = items.flatMap((item) => (String(item['type']).endsWith('_call') ? [item['call_id']] : []))
    const asked = list(e['required_input']).map((input) => fields(input)['call_id'])
    this.#expect(asked.length > 0 && isDeepStrictEqual(asked, calls), 'required_input is not the calls of the response')
  }
}

function sameParts(value: unknown, parts: readonly Part[]): boolean {
  const said = list(value).map(fields)
  return (
    said.length === parts.length &&
    parts.every((p, n) => said[n]?.['type'] === p.kind && said[n]?.[textOfPart[p.kind] ?? 'text'] === p.text)
  )
}
