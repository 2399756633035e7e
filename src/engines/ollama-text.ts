// Ids → the text that Ollama reads with special tokens on, as bytes of a JSON string that grow with the conversation.
// Owns that nothing but a control id becomes a control token there.
import type { Tokenizer } from '../turn/ports.ts'
import type { TokenRun } from '../turn/tokens.ts'

const joint = '\u200b'
/** Longest look-alike that is looked for; the longest control tokens of known families have half of it. */
const most = 64
const mistral =
  'INST|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|SYSTEM_PROMPT|MODEL_SETTINGS|ARGS|CALL_ID|THINK|IMG|IMG_BREAK|IMG_END|AUDIO|BEGIN_AUDIO|PREFIX|MIDDLE|SUFFIX|REFERENCE_DOC_\\d|CONTROL_\\d'
/** Shapes of control tokens in all known families, also those that this tokenizer does not list but the model may have. */
const shapes = [
  `<(?=[|｜][^<>\\s]{1,${most}}?[|｜]>)`,
  '<(?=/?(?:think|tools|tool_call|tool_response)>|(?:bos|eos|pad|unk|mask)>)',
  '<(?=(?:start|end)_of_[a-z]{1,16}>|unused\\d{1,4}>)',
  `\\[(?=/?(?:${mistral})|gMASK\\]|@[A-Z]{3}@\\])`,
]
/** What Ollama puts in front of a prompt by itself, where the model wants it. */
const beginnings = new Set(['<s>', '<bos>', '<|begin_of_text|>', '<|startoftext|>', '<｜begin▁of▁sentence｜>'])

const patterns = new WeakMap<Tokenizer, RegExp>()
/** Where a look-alike begins, each looked at by itself: breaking one leaves no other. Names of white space are no danger. */
function patternOf(tokenizer: Tokenizer): RegExp {
  const known = patterns.get(tokenizer)
  if (known) return known
  const listed = new RegExp(shapes.join('|'), 'u')
  const names = new Set<string>()
  for (let id = 0; id < tokenizer.size; id++) {
    const name = tokenizer.nameOf(id)
    if (name !== undefined && Array.from(name).length > 1 && name.trim() !== '' && name.search(listed) !== 0)
      names.add(name)
  }
  const own = [...names].map((name) => {
    const [first = '', ...rest] = Array.from(name)
    return `${escaped(first)}(?=${escaped(rest.join(''))})`
  })
  const pattern = new RegExp([...shapes, ...own].join('|'), 'gu')
  patterns.set(tokenizer, pattern)
  return pattern
}
const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/-]/gu, '\\$&')

/** Plain text with a zero-width space (U+200B) behind the first character of everything that looks like a control token. */
export const harmless = (text: string, tokenizer: Tokenizer): string => text.replace(patternOf(tokenizer), `$&${joint}`)

/** JSON of a string, without its quotes: of two pieces together it is that of one behind the other. */
const inner = (text: string): Buffer => {
  const json = Buffer.from(JSON.stringify(text))
  return json.subarray(1, -1)
}
/** Bytes that every text grown from one another has in common; written at the tip only. */
type Shared = { bytes: Buffer; used: number }

/**
 * The text of a prompt's beginning up to and with a control token; immutable, like TokenRun. What follows that token is
 * converted anew each time: a look-alike may have begun there.
 */
export class OllamaText {
  /** Ids that are in it. */
  readonly ids: number
  readonly #length: number
  readonly #shared: Shared
  /** Ids converted since the start, for tests. */
  static converted = 0

  private constructor(ids: number, length: number, shared: Shared) {
    this.ids = ids
    this.#length = length
    this.#shared = shared
  }
  // Not by its name: TypeScript 7.0 compiles that to a variable that is not set yet.
  static readonly empty: OllamaText = new this(0, 0, { bytes: Buffer.alloc(0), used: 0 })

  /** All of `run`, which begins with the ids of this text: what to keep for later, and the bytes behind that. */
  follow(run: TokenRun, tokenizer: Tokenizer): { readonly text: OllamaText; readonly rest: Buffer } {
    const ids = run.view()
    let head = ''
    let upTo = this.ids
    let plain = this.ids
    const flush = (end: number): string =>
      plain === end ? '' : harmless(tokenizer.decode(ids.subarray(plain, end)), tokenizer)
    for (let n = this.ids; n < ids.length; n++) {
      const name = tokenizer.nameOf(ids[n] ?? 0)
      if (name === undefined) continue
      head += flush(n) + (n === 0 && beginnings.has(name) ? '' : name)
      plain = upTo = n + 1
    }
    OllamaText.converted += ids.length - this.ids
    return { text: this.#append(upTo, inner(head)), rest: inner(flush(ids.length)) }
  }
  /** JSON of the text, without quotes. Valid for ever. */
  get bytes(): Buffer {
    return this.#shared.bytes.subarray(0, this.#length)
  }
  #append(ids: number, more: Buffer): OllamaText {
    if (ids === this.ids) return this
    const end = this.#length + more.length
    let shared = this.#shared
    if (shared.used !== this.#length || end > shared.bytes.length) {
      const bytes = Buffer.allocUnsafeSlow(Math.max(1024, Math.ceil(end * 1.25)))
      shared.bytes.copy(bytes, 0, 0, this.#length)
      // Grown at the tip, all that share it grow along; a fork goes its own way. Views of the old bytes stay as they are.
      if (shared.used === this.#length && shared.used > 0) shared.bytes = bytes
      else shared = { bytes, used: 0 }
    }
    more.copy(shared.bytes, this.#length)
    shared.used = end
    return new OllamaText(ids, end, shared)
  }
}
