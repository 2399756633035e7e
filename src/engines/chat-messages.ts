// Items of a conversation → chat messages, as kept JSON: a link is rendered once, a turn renders only what is new.
// A pure function of the flat item list: how the items are cut into links never shows (law 6).
import type { Item, Message, Role, ToolOutput } from '../protocol/items.ts'
import { textOf } from '../protocol/items.ts'
import type { Chain } from '../turn/chain.ts'
import { filesOf, inputContent, outputText, type Part } from './chat-content.ts'
import type { Naming } from '../protocol/functions.ts'

export type MessageStyle = {
  readonly developerRole: boolean
  /** See `system` in chat-options.ts. */
  readonly system: 'first' | 'any'
  readonly reasoningField: 'reasoning_content' | 'reasoning' | 'none'
  /** Pictures that tools returned are shown in a user message; otherwise a note stands for them. */
  readonly images: boolean
  readonly files: boolean
}
/** What the conversation holds beyond text, anywhere. `foreign`: an image or file that is no data URL, named by its field. */
export type Needs = { readonly images: boolean; readonly files: boolean; readonly foreign: string | undefined }
export type Rendered = {
  /** Texts of the system messages that lead the conversation, where they become one. */
  readonly lead: string
  /** Messages as JSON, one or more to a piece, to be joined by commas. */
  readonly pieces: readonly Buffer[]
  readonly needs: Needs
}

type Group = { reasoning: string; text: string; calls: string[]; ids: string[] }
/** Where a link left off: small, since all that is closed is in the pieces. */
type State = {
  lead: string
  led: boolean
  /** Adjacent reasoning, text and calls: one assistant message that may still grow. */
  group: Group | undefined
  /** Calls of the last closed assistant message that have no output yet. */
  waiting: string[]
  /** Messages that came before those outputs; servers want the outputs first. */
  deferred: string[]
  needs: Needs
}
type Memo = { readonly piece: Buffer; readonly state: State }
/** Sets of tool names out of the ordinary that are remembered at once. */
const maxNamings = 32

const empty: State = {
  lead: '',
  led: false,
  group: undefined,
  waiting: [],
  deferred: [],
  needs: { images: false, files: false, foreign: undefined },
}
const noOutput = '(no output)'

export class ChatMessages {
  readonly #style: MessageStyle
  /** By naming: where a link has a memo, all its ancestors have one. */
  readonly #memos = new Map<string, WeakMap<Chain, Memo>>()
  /** Items rendered since the start; a test holds it against the items sent. */
  rendered = 0

  constructor(style: MessageStyle) {
    this.#style = style
  }
  /** What the server is to be sent for `chain`, without the instructions. */
  render(chain: Chain, names: Naming): Rendered {
    const memo = this.#through(chain, names)
    const memos = this.#memosOf(names)
    const pieces: Buffer[] = []
    for (let link: Chain | undefined = chain; link; link = link.parent) {
      const piece = memos.get(link)?.piece
      if (piece && piece.length > 0) pieces.push(piece)
    }
    pieces.reverse()
    // The end is not kept: the next item may still belong to the open message.
    const writer = new Writer(this.#style, names, memo.state)
    writer.settle()
    if (writer.out.length > 0) pieces.push(Buffer.from(writer.out.join(',')))
    return { lead: memo.state.lead, pieces, needs: memo.state.needs }
  }
  needs(chain: Chain, names: Naming): Needs {
    return this.#through(chain, names).state.needs
  }
  /** Renders the links that have no memo under these names, oldest first. */
  #through(chain: Chain, names: Naming): { readonly state: State } {
    const memos = this.#memosOf(names)
    const fresh: Chain[] = []
    let memo: Memo | undefined
    for (let link: Chain | undefined = chain; link; link = link.parent) {
      memo = memos.get(link)
      if (memo) break
      fresh.push(link)
    }
    for (let link = fresh.pop(); link; link = fresh.pop()) {
      const writer = new Writer(this.#style, names, memo?.state ?? empty)
      for (const item of link.items) writer.item(item)
      this.rendered += link.items.length
      memo = { piece: Buffer.from(writer.out.join(',')), state: writer.state }
      memos.set(link, memo)
    }
    return memo ?? { state: empty }
  }
  #memosOf({ key }: Naming): WeakMap<Chain, Memo> {
    const memos = this.#memos.get(key) ?? new WeakMap<Chain, Memo>()
    // Put in again: the one that was used last is the last to go.
    this.#memos.delete(key)
    this.#memos.set(key, memos)
    for (const old of this.#memos.keys()) {
      if (this.#memos.size <= maxNamings) break
      this.#memos.delete(old)
    }
    return memos
  }
}

/** Takes items one by one and writes every message that can no longer change. */
class Writer {
  readonly out: string[] = []
  readonly state: State
  readonly #style: MessageStyle
  readonly #names: Naming

  constructor(style: MessageStyle, names: Naming, from: State) {
    this.#style = style
    this.#names = names
    const { group } = from
    this.state = {
      ...from,
      group: group && { ...group, calls: [...group.calls], ids: [...group.ids] },
      waiting: [...from.waiting],
      deferred: [...from.deferred],
    }
  }
  item(item: Item): void {
    switch (item.type) {
      case 'message':
        if (item.role !== 'assistant') return this.#message(item)
        this.#group().text += textOf(item.content)
        return
      case 'reasoning': {
        const text = textOf(item.content?.length ? item.content : item.summary)
        if (text === '') return
        const group = this.#group()
        group.reasoning += group.reasoning === '' ? text : `\n\n${text}`
        return
      }
      case 'function_call':
        return this.#call(item.call_id, this.#names.flat(item.name, item.namespace), objectJson(item.arguments))
      case 'custom_tool_call':
        return this.#call(
          item.call_id,
          this.#names.flat(item.name, item.namespace),
          JSON.stringify({ input: item.input }),
        )
      case 'function_call_output':
      case 'custom_tool_call_output':
        return this.#output(item.call_id, item.output)
      default:
        // Items of hosted tools, references and settings-like items have no place in chat messages.
        return
    }
  }
  /** The end of the conversation, or of what outputs can still join: calls without one get a note, servers refuse them bare. */
  settle(): void {
    this.#closeGroup()
    for (const id of this.state.waiting) this.out.push(toolMessage(id, noOutput))
    this.state.waiting = []
    this.out.push(...this.state.deferred)
    this.state.deferred = []
  }

  #group(): Group {
    if (this.state.group) return this.state.group
    this.settle()
    this.state.led = true
    return (this.state.group = { reasoning: '', text: '', calls: [], ids: [] })
  }
  #closeGroup(): void {
    const { group } = this.state
    if (!group) return
    this.state.group = undefined
    const field = this.#style.reasoningField
    const thought = field === 'none' || group.reasoning === '' ? {} : { [field]: group.reasoning }
    const said = group.text !== '' || 'reasoning' in thought || 'reasoning_content' in thought
    if (!said && group.calls.length === 0) return
    const content = group.text === '' && group.calls.length > 0 ? null : group.text
    const head = JSON.stringify({ role: 'assistant', content, ...thought })
    this.out.push(group.calls.length === 0 ? head : `${head.slice(0, -1)},"tool_calls":[${group.calls.join(',')}]}`)
    this.state.waiting = group.ids
  }
  #call(id: string, name: string, args: string): void {
    const group = this.#group()
    group.calls.push(JSON.stringify({ id, type: 'function', function: { name, arguments: args } }))
    group.ids.push(id)
  }
  #message(item: Message): void {
    this.#closeGroup()
    if (item.role === 'user') return this.#say('user', inputContent(this.#take(item.content)))
    const text = textOf(item.content)
    const { developerRole, system } = this.#style
    if (developerRole) return this.#say(item.role, text)
    if (system === 'any') return this.#say('system', text)
    if (this.state.led) return this.#say('user', text)
    this.state.lead += this.state.lead === '' ? text : `\n\n${text}`
  }
  #say(role: Role, content: string | readonly Part[]): void {
    this.state.led = true
    const json = JSON.stringify({ role, content })
    if (this.state.waiting.length > 0) this.state.deferred.push(json)
    else this.out.push(json)
  }
  #output(id: string, output: ToolOutput): void {
    this.#closeGroup()
    const text = outputText(output)
    const shown = this.#shown(id, output)
    const at = this.state.waiting.indexOf(id)
    if (at < 0) {
      // Its call is not in this history, or has been answered already: nothing a tool message could belong to.
      this.#say('user', `[Output of tool call ${id}]\n${text}`)
      if (shown) this.#say('user', shown)
      return
    }
    this.state.waiting.splice(at, 1)
    this.out.push(toolMessage(id, text))
    if (shown) this.state.deferred.push(JSON.stringify({ role: 'user', content: shown }))
    if (this.state.waiting.length > 0) return
    this.out.push(...this.state.deferred)
    this.state.deferred = []
  }
  /** Images and files of an output as parts of a user message: a tool message can only hold text. */
  #shown(id: string, output: ToolOutput): Part[] | undefined {
    if (typeof output === 'string') return undefined
    const parts = filesOf(output, this.#style)
    return parts.length === 0 ? undefined : [{ type: 'text', text: `[From the output of tool call ${id}]` }, ...parts]
  }
  /** Notes what a message needs of the server. */
  #take(content: Message['content']): Message['content'] {
    let { images, files, foreign } = this.state.needs
    for (const part of content) {
      if (part.type === 'input_image') {
        images = true
        if (!part.image_url?.startsWith('data:')) foreign ??= part.image_url ? 'image_url' : 'file_id'
      } else if (part.type === 'input_file') {
        files = true
        if (part.file_data === undefined) foreign ??= part.file_url ? 'file_url' : 'file_id'
      }
    }
    this.state.needs = { images, files, foreign }
    return content
  }
}

const toolMessage = (id: string, content: string): string => JSON.stringify({ role: 'tool', tool_call_id: id, content })

/** Arguments that a server can parse: a call that broke off would make every later turn fail. */
function objectJson(args: string): string {
  if (args.trim() === '') return '{}'
  try {
    const value: unknown = JSON.parse(args)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return args
  } catch {
    // falls through: the text itself is kept
  }
  return JSON.stringify({ arguments: args })
}
