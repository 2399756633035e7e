// Tool calls as chat-completions servers stream them (interleaved, split, unnumbered) put into order: one call at a
// time, raised from flat function names to the tools they stand for.
import { ApiError } from '../protocol/errors.ts'
import { CustomInput } from '../protocol/custom-input.ts'
import { JsonEnd } from '../protocol/json-end.ts'
import type { Callable } from '../protocol/tools.ts'
import type { Delta } from '../turn/ports.ts'

type Slot = {
  readonly index: number | undefined
  id: string
  name: string
  /** Arguments that came before this call's turn. */
  held: string
  readonly end: JsonEnd
  state: 'waiting' | 'open' | 'closed'
  custom: CustomInput | undefined
  empty: boolean
}
const maxCalls = 128
const maxHeld = 16 * 1024 * 1024

export class ChatCalls {
  readonly #tools: ReadonlyMap<string, Callable>
  readonly #parallel: boolean
  readonly #emit: (delta: Delta) => void
  readonly #slots: Slot[] = []
  readonly #ids = new Set<string>()
  #held = 0
  #more = false

  /** `parallel: false`: all but the first call are dropped. */
  constructor(tools: ReadonlyMap<string, Callable>, parallel: boolean, emit: (delta: Delta) => void) {
    this.#tools = tools
    this.#parallel = parallel
    this.#emit = emit
  }
  get begun(): boolean {
    return this.#slots.length > 0
  }
  /** The only call that is wanted is complete, and the model goes on to another. */
  get satisfied(): boolean {
    return this.#more && this.#slots[0]?.end.complete === true
  }
  /** The `tool_calls` of one chunk. */
  push(calls: readonly unknown[]): void {
    for (const call of calls) this.#one(call)
    this.#advance(false)
  }
  /** The model has finished; `whole` is false where it was broken off inside the last call. */
  end(whole: boolean): void {
    this.#advance(true, whole)
    if (this.#slots.some((s) => s.state !== 'closed'))
      throw new ApiError('server_error', 'The engine made a call without a name.')
  }

  #one(value: unknown): void {
    if (typeof value !== 'object' || value === null) return
    const call = value as { index?: unknown; id?: unknown; function?: unknown }
    const fn = (typeof call.function === 'object' && call.function !== null ? call.function : {}) as {
      name?: unknown
      arguments?: unknown
    }
    const index = typeof call.index === 'number' ? call.index : undefined
    const id = typeof call.id === 'string' ? call.id : ''
    const name = typeof fn.name === 'string' ? fn.name : ''
    const args =
      typeof fn.arguments === 'string' ? fn.arguments : fn.arguments == null ? '' : JSON.stringify(fn.arguments)
    const slot = this.#find(index, id, name) ?? this.#add(index, id)
    if (slot === undefined) return
    if (slot.id === '') slot.id = id
    if (slot.state === 'waiting' && slot.empty) slot.name = joinName(slot.name, name)
    if (args !== '') this.#argue(slot, args)
  }
  /** The call that this piece goes on with; undefined where it begins another. */
  #find(index: number | undefined, id: string, name: string): Slot | undefined {
    if (index !== undefined) {
      const slot = this.#slots.findLast((s) => s.index === index)
      // Some servers number every call 0 and only the id tells them apart; others change the id in every piece.
      return slot && id !== '' && slot.id !== '' && slot.id !== id && name !== '' ? undefined : slot
    }
    if (id !== '') {
      const known = this.#slots.findLast((s) => s.id === id)
      if (known) return known
    }
    const last = this.#slots.at(-1)
    if (last === undefined || (id !== '' && last.id !== '')) return undefined
    if (name === '') return last
    return last.end.complete || (!last.empty && last.name !== name) ? undefined : last
  }
  #add(index: number | undefined, id: string): Slot | undefined {
    if (!this.#parallel && this.#slots.length > 0) {
      this.#more = true
      return undefined
    }
    if (this.#slots.length >= maxCalls)
      throw new ApiError('server_error', `The engine made more than ${maxCalls} calls at once.`)
    const slot: Slot = {
      index,
      id,
      name: '',
      held: '',
      end: new JsonEnd(),
      state: 'waiting',
      custom: undefined,
      empty: true,
    }
    this.#slots.push(slot)
    return slot
  }
  #argue(slot: Slot, args: string): void {
    // Behind a complete object only white space may come; servers that send the closing brace twice are not rare.
    if (slot.state === 'closed' || (slot.end.complete && /^[\s}]*$/.test(args))) return
    slot.empty = false
    slot.end.push(args)
    if (slot.state === 'open') return this.#say(slot, args)
    slot.held += args
    this.#held += args.length
    if (this.#held > maxHeld) throw new ApiError('server_error', 'The engine mixes calls that are too long.')
  }
  /** Lets the earliest call that is not closed speak, and the next ones after it. */
  #advance(ending: boolean, whole = true): void {
    for (const [n, slot] of this.#slots.entries()) {
      if (slot.state === 'closed') continue
      // The name may come in pieces: it is sure once arguments follow.
      if (slot.name === '' || (slot.empty && !ending)) return
      if (slot.state === 'waiting') this.#open(slot)
      const last = n === this.#slots.length - 1
      if (!ending && (last || !slot.end.complete)) return
      this.#close(slot, ending && last ? whole : true)
    }
  }
  #open(slot: Slot): void {
    slot.state = 'open'
    const tool = this.#tools.get(slot.name) ?? this.#tools.get(slot.name.replace(/^functions?[.:]/, ''))
    const callId = slot.id === '' || this.#ids.has(slot.id) ? undefined : slot.id
    if (callId !== undefined) this.#ids.add(callId)
    if (tool?.kind === 'custom') slot.custom = new CustomInput()
    // A name that was never offered goes on as it is: the client knows best what to answer.
    this.#emit({
      type: 'call',
      kind: tool?.kind ?? 'function',
      name: tool?.name ?? slot.name,
      namespace: tool?.namespace,
      callId,
    })
    const held = slot.held
    this.#held -= held.length
    slot.held = ''
    if (held !== '') this.#say(slot, held)
  }
  #say(slot: Slot, args: string): void {
    const text = slot.custom ? slot.custom.push(args) : args
    if (text !== '') this.#emit({ type: 'arguments', text })
  }
  #close(slot: Slot, whole: boolean): void {
    slot.state = 'closed'
    const rest = slot.custom ? slot.custom.end() : slot.empty && whole ? '{}' : ''
    if (rest !== '') this.#emit({ type: 'arguments', text: rest })
    this.#emit({ type: 'end', whole: whole && (slot.end.complete || slot.empty || slot.custom !== undefined) })
  }
}

/** A name may come whole each time, grow each time, or come in pieces. */
function joinName(known: string, piece: string): string {
  if (piece === '' || piece === known) return known
  return piece.startsWith(known) ? piece : known + piece
}
