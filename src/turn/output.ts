// The only maker of events. Owns the open item and everything finished so far; streaming clients and those that want
// one JSON body read what it makes from the same log.
import { ApiError } from '../protocol/errors.ts'
import type { Body, RequiredInput } from '../protocol/events.ts'
import { newId } from '../protocol/ids.ts'
import type { ClientCall, Compaction, Item, ItemStatus, OutputPart, Reasoning } from '../protocol/items.ts'
import type { Create } from '../protocol/request.ts'
import type { Response, ResponseStatus } from '../protocol/response.ts'
import { baseOf, usageOf } from './envelope.ts'
import type { Log } from './log.ts'
import type { Delta, EngineUsage, Principal, Seal } from './ports.ts'

type TextPart = { type: 'output_text' | 'refusal' | 'reasoning_text'; text: string }
type Phase = 'commentary' | 'final_answer' | undefined
type OpenWords = { kind: 'message' | 'reasoning'; id: string; at: number; parts: TextPart[]; phase: Phase }
type OpenCall = {
  kind: 'function' | 'custom'
  id: string
  at: number
  callId: string
  name: string
  namespace: string | undefined
  text: string
}
type Open = OpenWords | OpenCall | { kind: 'compaction'; id: string; at: number; text: string }

/** Of every delta: there are thousands. */
const none: unknown[] = []
/** What a call counts for besides its text, so that even empty ones come to an end. */
const perCall = 64

/** How a response ends, other than by an error. */
export type Ending = 'stop' | keyof typeof reasons
const reasons = {
  length: 'max_output_tokens',
  filter: 'content_filter',
  steered: 'steered',
  interrupted: 'interrupted',
  cancelled: 'cancelled',
  // Of a rollout, at calls of the model that were not answered.
  append_timeout: 'append_timeout',
  max_rounds: 'max_rounds',
  draining: 'draining',
} as const

export class Output {
  readonly id: string
  /** Finished items as the client sees them. */
  readonly #items: Item[] = []
  /** The same items as the model sees them in the next turn; differs for sealed content only. */
  readonly #seen: Item[] = []
  readonly #log: Log
  readonly #request: Create
  readonly #seal: Seal
  readonly #principal: Principal
  readonly #base: Response
  #open: Open | undefined = undefined
  /** Where the items of this generation begin; behind 0 in a rollout only. */
  #from = 0
  #calls = 0
  #bytes = 0

  constructor(id: string, request: Create, log: Log, principal: Principal, seal: Seal) {
    this.id = id
    this.#request = request
    this.#log = log
    this.#principal = principal
    this.#seal = seal
    this.#base = baseOf(id, request)
  }

  /** response.created and, unless this is a warm-up, response.in_progress. */
  start(): void {
    this.#emit({ type: 'response.created', response: this.snapshot() })
    if (this.#request.generate) this.#emit({ type: 'response.in_progress', response: this.snapshot() })
  }
  /** From here on text is a summary: it is not shown, and becomes one sealed item. */
  compact(): void {
    const open: Open = { kind: 'compaction', id: newId('cmp'), at: this.#items.length, text: '' }
    this.#open = open
    this.#emit({
      type: 'response.output_item.added',
      output_index: open.at,
      item: { type: 'compaction', id: open.id, encrypted_content: '' },
    })
    this.#emit({ type: 'response.compaction.compacting', item_id: open.id, output_index: open.at })
  }
  /** An item that is part of the output as it stands: a message kept through a compaction. */
  keep(item: Item): void {
    const at = this.#items.length
    this.#emit({ type: 'response.output_item.added', output_index: at, item })
    this.#items.push(item)
    this.#emit({ type: 'response.output_item.done', output_index: at, item })
  }

  apply(delta: Delta): void {
    if (this.#open?.kind === 'compaction') {
      if (delta.type === 'text') this.#open.text += delta.text
      return
    }
    switch (delta.type) {
      case 'text':
        return this.#words('message', 'output_text', delta.text, delta.phase)
      case 'refusal':
        return this.#words('message', 'refusal', delta.text)
      case 'reasoning':
        return this.#words('reasoning', 'reasoning_text', delta.text)
      case 'call':
        return this.#call(delta)
      case 'arguments':
        return this.#arguments(delta.text)
      case 'end':
        return this.#end(delta.whole ? 'completed' : 'incomplete')
    }
  }
  /** Characters the model has written, calls without any counted as well. */
  get bytes(): number {
    return this.#bytes
  }
  /** Characters of the item that is open; 0 where none is. */
  get openLength(): number {
    const open = this.#open
    if (!open) return 0
    return 'parts' in open ? open.parts.reduce((sum, part) => sum + part.text.length, 0) : open.text.length
  }
  /** The model has called something: the client answers, and the model must not be cut off behind it. */
  get asks(): boolean {
    return this.#calls > 0
  }
  /** Those of this generation so far, as `seen`, `asks` and `required` are. */
  get items(): readonly Item[] {
    return this.#items.slice(this.#from)
  }
  get seen(): readonly Item[] {
    return this.#seen.slice(this.#from)
  }
  /** What a client must send before this conversation can go on. */
  get required(): RequiredInput[] {
    return this.items.flatMap((item): RequiredInput[] => {
      if (item.type === 'function_call')
        return [{ type: 'function_call_output', call_id: item.call_id, name: item.name }]
      if (item.type === 'custom_tool_call') return [{ type: 'custom_tool_call_output', call_id: item.call_id }]
      return []
    })
  }

  /** A rollout waits for the client, and another generation follows. */
  ask(usage: EngineUsage): void {
    const { id: response_id, required: required_input } = this
    this.#emit({ type: 'response.done', response_id, required_input, usage: usageOf(usage) })
    this.#from = this.#items.length
    this.#calls = 0
  }

  /** The engine has ended; an open item is whole if it ended by itself. A summary that ran into a limit is still one. */
  endOpen(whole: boolean): void {
    this.#end(whole || this.#open?.kind === 'compaction' ? 'completed' : 'incomplete')
  }
  get compacting(): boolean {
    return this.#open?.kind === 'compaction'
  }
  /** Was a summary made that replaces the conversation before it? */
  get summarised(): boolean {
    return this.#items.some((item) => item.type === 'compaction')
  }
  /** Ends the open item as broken off, or leaves it out (`discard`): then it is announced, but never done. */
  breakOff(discard: boolean): void {
    if (discard || this.#open?.kind === 'compaction') this.#open = undefined
    else this.#end('incomplete')
  }
  /** Ends what is open and says how it all ended. Nothing leaves yet. */
  close(how: Ending | ApiError, usage: EngineUsage): Response {
    // Clients run a call once it is done, whatever its status: after a failure, half of one must not be.
    this.breakOff(how instanceof ApiError && (this.#open?.kind === 'function' || this.#open?.kind === 'custom'))
    const last = { completed_at: now(), usage: usageOf(usage) }
    if (how instanceof ApiError) {
      const error = {
        code: how.responseCode,
        message: how.message,
        ...(how.param === null ? {} : { param: how.param }),
      }
      return { ...this.#response('failed'), ...last, completed_at: null, error }
    }
    if (how === 'stop') return { ...this.#response('completed'), ...last }
    const status = how === 'cancelled' ? 'cancelled' : 'incomplete'
    const broken = { ...last, completed_at: null, incomplete_details: { reason: reasons[how] } }
    return { ...this.#response(status), ...broken, ...(how === 'interrupted' ? { end_turn: false as const } : {}) }
  }
  /** The terminal event. There is none for `cancelled` on the wire: it is an incomplete response with that status. */
  finish(response: Response): void {
    const { status } = response
    const type =
      status === 'completed' ? 'response.completed' : status === 'failed' ? 'response.failed' : 'response.incomplete'
    this.#emit({ type, response })
  }
  steerAccepted(id: string): void {
    this.#emit({ type: 'response.steer.accepted', steer: { id, previous_response_id: this.id } })
  }
  steerPending(id: string): void {
    const steer = { id, previous_response_id: this.id }
    this.#emit({
      type: 'response.steer.pending',
      steer,
      reason: 'waiting_for_required_input',
      required_input: this.required,
    })
  }
  flush(): Promise<void> | undefined {
    return this.#log.flush()
  }
  /** The response as it stands. */
  snapshot(): Response {
    return this.#response('in_progress')
  }

  #words(kind: 'message' | 'reasoning', type: TextPart['type'], text: string, phase?: Phase): void {
    if (text === '') return
    this.#bytes += text.length
    let open = this.#open
    if (open === undefined) {
      const id = newId(kind === 'message' ? 'msg' : 'rs')
      const words: OpenWords = { kind, id, at: this.#items.length, parts: [], phase }
      open = this.#open = words
      this.#emit({
        type: 'response.output_item.added',
        output_index: words.at,
        item: this.#wordsItem(words, 'in_progress'),
      })
    }
    if (open.kind !== 'message' && open.kind !== 'reasoning') throw overlap(kind, open.kind)
    if (open.kind !== kind) throw overlap(kind, open.kind)
    let part = open.parts.at(-1)
    if (part?.type !== type) {
      if (part) this.#endPart(open, part)
      part = { type, text: '' }
      open.parts.push(part)
      this.#emit({ type: 'response.content_part.added', ...this.#place(open), part: partOf(part) })
    }
    part.text += text
    const place = this.#place(open)
    if (type === 'output_text')
      this.#emit({ type: 'response.output_text.delta', ...place, delta: text, logprobs: none })
    else if (type === 'refusal') this.#emit({ type: 'response.refusal.delta', ...place, delta: text })
    else this.#emit({ type: 'response.reasoning_text.delta', ...place, delta: text })
  }
  #endPart(open: OpenWords, part: TextPart): void {
    const place = this.#place(open)
    if (part.type === 'output_text')
      this.#emit({ type: 'response.output_text.done', ...place, text: part.text, logprobs: [] })
    else if (part.type === 'refusal') this.#emit({ type: 'response.refusal.done', ...place, refusal: part.text })
    else this.#emit({ type: 'response.reasoning_text.done', ...place, text: part.text })
    this.#emit({ type: 'response.content_part.done', ...place, part: partOf(part) })
  }
  #place(open: OpenWords): { item_id: string; output_index: number; content_index: number } {
    return { item_id: open.id, output_index: open.at, content_index: open.parts.length - 1 }
  }
  #call(d: Extract<Delta, { type: 'call' }>): void {
    if (this.#open) throw overlap(d.kind, this.#open.kind)
    this.#bytes += d.name.length + perCall
    const open: OpenCall = {
      kind: d.kind,
      id: newId(d.kind === 'function' ? 'fc' : 'ctc'),
      at: this.#items.length,
      callId: d.callId ?? newId('call'),
      name: d.name,
      namespace: d.namespace,
      text: '',
    }
    this.#open = open
    this.#emit({ type: 'response.output_item.added', output_index: open.at, item: callOf(open, 'in_progress') })
  }
  #arguments(text: string): void {
    if (text === '') return
    const open = this.#open
    if (open?.kind !== 'function' && open?.kind !== 'custom') throw overlap('arguments', open?.kind)
    this.#bytes += text.length
    open.text += text
    const type =
      open.kind === 'function' ? 'response.function_call_arguments.delta' : 'response.custom_tool_call_input.delta'
    this.#emit({ type, item_id: open.id, output_index: open.at, delta: text })
  }
  #end(status: ItemStatus): void {
    const open = this.#open
    if (!open) return
    this.#open = undefined
    const at = { item_id: open.id, output_index: open.at }
    switch (open.kind) {
      case 'message':
      case 'reasoning': {
        const part = open.parts.at(-1)
        if (part) this.#endPart(open, part)
        return this.#done(open.at, this.#wordsItem(open, status))
      }
      case 'function':
        this.#calls++
        this.#emit({ type: 'response.function_call_arguments.done', ...at, arguments: open.text })
        return this.#done(open.at, callOf(open, status))
      case 'custom':
        this.#calls++
        this.#emit({ type: 'response.custom_tool_call_input.done', ...at, input: open.text })
        return this.#done(open.at, callOf(open, status))
      case 'compaction': {
        if (open.text.trim() === '') throw new ApiError('server_error', 'The model wrote no summary; try again.')
        const encrypted_content = this.#seal.seal(open.text, this.#principal.tenant, 'compaction')
        const item: Compaction = { type: 'compaction', id: open.id, encrypted_content }
        return this.#done(open.at, item, summaryMessage(open.text))
      }
    }
  }
  #done(at: number, item: Item, seen: Item = item): void {
    this.#items.push(item)
    this.#seen.push(seen)
    this.#emit({ type: 'response.output_item.done', output_index: at, item })
  }
  #wordsItem(open: OpenWords, status: ItemStatus): Item {
    const done = status !== 'in_progress'
    if (open.kind === 'message')
      return {
        type: 'message',
        id: open.id,
        status,
        role: 'assistant',
        ...(open.phase ? { phase: open.phase } : {}),
        content: open.parts.map((p) => partOf(p) as OutputPart),
      }
    const content = open.parts.map((p) => ({ type: 'reasoning_text' as const, text: p.text }))
    const item: Reasoning = { type: 'reasoning', id: open.id, status, summary: [], content }
    if (done)
      item.encrypted_content = this.#seal.seal(
        open.parts.map((p) => p.text).join(''),
        this.#principal.tenant,
        'reasoning',
      )
    return item
  }
  #response(status: ResponseStatus): Response {
    return { ...this.#base, status, output: [...this.#items] }
  }
  #emit(body: Body): void {
    // Whatever comes late must not follow the terminal event.
    if (!this.#log.ended || body.type === 'response.steer.pending') this.#log.append(body)
  }
}

/** A summary as the model sees it in front of what follows; `user`, since many templates take one system message only. */
export function summaryMessage(text: string): Item {
  return {
    type: 'message',
    role: 'user',
    content: [{ type: 'input_text', text: `[Summary of the conversation so far]\n${text}` }],
  }
}
const now = (): number => Math.floor(Date.now() / 1000)
const overlap = (next: string, open: string | undefined): Error =>
  new Error(`engine: ${next} while ${open ?? 'nothing'} is open`)

function partOf(part: TextPart): OutputPart | { type: 'reasoning_text'; text: string } {
  if (part.type === 'output_text') return { type: 'output_text', text: part.text, annotations: [], logprobs: [] }
  if (part.type === 'refusal') return { type: 'refusal', refusal: part.text }
  return { type: 'reasoning_text', text: part.text }
}
function callOf(open: OpenCall, status: ItemStatus): ClientCall {
  const { id, callId: call_id, name, text } = open
  const namespace = open.namespace === undefined ? {} : { namespace: open.namespace }
  const input = status === 'in_progress' ? '' : text
  if (open.kind === 'function')
    return { type: 'function_call', id, status, call_id, name, ...namespace, arguments: input }
  return { type: 'custom_tool_call', id, status, call_id, name, ...namespace, input }
}
