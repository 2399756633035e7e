// Chat completions in, Responses out: the chunks of one completion become the events of one response.
import { randomUUID } from 'node:crypto'
import { type Json, list } from './messages.ts'

export type Event = { readonly type: string } & Json
type Message = { id: string; type: 'message'; role: 'assistant'; status: string; content: Json[] }
type Call = { id: string; type: 'function_call'; status: string; call_id: string; name: string; arguments: string }

const newId = (kind: string): string => `${kind}_${randomUUID().replaceAll('-', '')}`

export class Answer {
  readonly id = newId('resp')
  readonly output: (Message | Call)[] = []
  readonly #emit: (event: Event) => void
  readonly #response: Json
  readonly #calls = new Map<unknown, Call>()
  #open: Message | Call | undefined
  #text = ''
  #usage: Json | null = null
  #number = 0

  constructor(request: Json, emit: (event: Event) => void) {
    this.#emit = emit
    this.#response = {
      id: this.id,
      object: 'response',
      created_at: Math.floor(Date.now() / 1000),
      model: request['model'],
      instructions: request['instructions'] ?? null,
      tools: request['tools'] ?? [],
      tool_choice: request['tool_choice'] ?? 'auto',
      parallel_tool_calls: request['parallel_tool_calls'] ?? true,
      previous_response_id: request['previous_response_id'] ?? null,
      store: request['store'] ?? true,
      metadata: request['metadata'] ?? {},
      error: null,
      incomplete_details: null,
    }
  }
  begin(): void {
    this.#send('response.created', { response: this.#now('in_progress') })
    this.#send('response.in_progress', { response: this.#now('in_progress') })
  }
  take(chunk: Json): void {
    const { usage } = chunk
    if (typeof usage === 'object' && usage !== null) this.#usage = usage as Json
    const delta = (list(chunk['choices'])[0]?.['delta'] ?? {}) as Json
    if (typeof delta['content'] === 'string' && delta['content'] !== '') this.#say(delta['content'])
    for (const piece of list(delta['tool_calls'])) this.#call(piece)
  }
  /** The whole response, as it completed. */
  end(): Json {
    this.#close()
    const response = this.#now('completed')
    this.#send('response.completed', { response })
    return response
  }
  fail(message: string): void {
    this.#send('response.failed', { response: { ...this.#now('failed'), error: { code: 'server_error', message } } })
  }

  #say(delta: string): void {
    let item = this.#open
    if (item?.type !== 'message') {
      this.#close()
      item = { id: newId('msg'), type: 'message', role: 'assistant', status: 'in_progress', content: [] }
      this.#add(item)
      this.#part('response.content_part.added', { part: { type: 'output_text', text: '', annotations: [] } })
    }
    this.#text += delta
    this.#part('response.output_text.delta', { delta })
  }
  #call(piece: Json): void {
    const { name, arguments: delta } = (piece['function'] ?? {}) as Json
    let call = this.#calls.get(piece['index'])
    if (!call) {
      this.#close()
      const callId = typeof piece['id'] === 'string' ? piece['id'] : newId('call')
      const fresh = { id: newId('fc'), type: 'function_call', status: 'in_progress', call_id: callId } as const
      call = { ...fresh, name: String(name), arguments: '' }
      this.#calls.set(piece['index'], call)
      this.#add(call)
    }
    if (typeof delta !== 'string' || delta === '') return
    call.arguments += delta
    const at = { item_id: call.id, output_index: this.output.indexOf(call) }
    this.#send('response.function_call_arguments.delta', { ...at, delta })
  }
  #add(item: Message | Call): void {
    this.#open = item
    this.output.push(item)
    this.#send('response.output_item.added', { output_index: this.output.length - 1, item })
  }
  #part(type: string, fields: Json): void {
    const at = { item_id: this.#open?.id, output_index: this.output.length - 1, content_index: 0 }
    this.#send(type, { ...at, ...fields })
  }
  #close(): void {
    const item = this.#open
    if (!item) return
    const at = { output_index: this.output.length - 1 }
    item.status = 'completed'
    if (item.type === 'message') {
      const part = { type: 'output_text', text: this.#text, annotations: [] }
      item.content.push(part)
      this.#part('response.output_text.done', { text: this.#text })
      this.#part('response.content_part.done', { part })
      this.#text = ''
    } else {
      const done = { item_id: item.id, name: item.name, arguments: item.arguments }
      this.#send('response.function_call_arguments.done', { ...at, ...done })
    }
    this.#send('response.output_item.done', { ...at, item })
    this.#open = undefined
  }
  #now(status: string): Json {
    const { prompt_tokens: input = 0, completion_tokens: output = 0, total_tokens: total = 0 } = this.#usage ?? {}
    const details = { input_tokens_details: { cached_tokens: 0 }, output_tokens_details: { reasoning_tokens: 0 } }
    const usage = { input_tokens: input, output_tokens: output, total_tokens: total, ...details }
    return { ...this.#response, status, output: this.output, usage: status === 'completed' ? usage : null }
  }
  #send(type: string, fields: Json): void {
    this.#emit({ type, sequence_number: this.#number++, ...fields })
  }
}
