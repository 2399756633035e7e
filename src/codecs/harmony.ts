// Harmony, the format of gpt-oss: messages with a role, a channel and perhaps a recipient, several of them in one turn.
// https://cookbook.openai.com/articles/openai-harmony says what the parts mean; the model's own template how they stand.
import type { Constraint, Finish, Tag } from '../turn/ports.ts'
import { jsonTags } from './constrain.ts'
import type { Family, Out, Parser, Pen, Segment, Turn, Want } from './family.ts'
import { namespaceText } from './harmony-tools.ts'
import { pythonJson } from './python-json.ts'
import { textOfParts } from './turns.ts'

type Channel = 'analysis' | 'commentary' | 'final'
/** `to`: the function that is called. */
type Message = { readonly channel: Channel; readonly to: string | undefined; text: string }

/**
 * The template drops the reasoning in front of calls once an answer follows, and that of answers at once. That is a tool
 * cycle which ends with an answer, not with just any user message; that the reasoning of the newest answer stays until
 * the user speaks makes no difference to a model that is asked only then.
 */
export const gptOss: Family = {
  name: 'gpt-oss',
  retention: 'tool_cycle',
  untilAnswer: true,
  needs: ['<|start|>', '<|end|>', '<|message|>', '<|channel|>', '<|call|>', '<|return|>'],
  // As the model's generation_config.json has them.
  stops: ['<|return|>', '<|call|>', '<|endoftext|>'],
  markers: ['<|constrain|>'],
  head(pen, { system, tools, effort, date }) {
    pen.markup(
      `<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\nCurrent date: ${date}\n\nReasoning: ${effortOf(effort)}\n\n# Valid channels: analysis, commentary, final. Channel must be included for every message.`,
    )
    if (tools.length > 0) pen.markup("\nCalls to these tools must go to the commentary channel: 'functions'.")
    pen.markup('<|end|>')
    if (system === undefined && tools.length === 0) return
    pen.markup('<|start|>developer<|message|>')
    if (system !== undefined) {
      pen.markup('# Instructions\n\n')
      pen.text(`${system}\n\n`)
    }
    if (tools.length > 0) {
      pen.markup('# Tools\n\n')
      pen.text(namespaceText(tools))
    }
    pen.markup('<|end|>')
  },
  segment(pen, segment, _before, kept) {
    if (segment.kind !== 'assistant') return message(pen, segment)
    for (const one of messagesOf(segment.turn, kept)) {
      pen.markup('<|start|>assistant')
      if (one.to !== undefined) {
        pen.markup(' to=functions.')
        pen.text(one.to)
        pen.markup('<|channel|>commentary json<|message|>')
      } else pen.markup(`<|channel|>${one.channel}<|message|>`)
      pen.text(one.text)
      pen.control(one.to === undefined ? '<|end|>' : '<|call|>')
    }
  },
  opening(pen) {
    pen.markup('<|start|>assistant')
  },
  spoken(pen, turn) {
    const messages = messagesOf(turn, true)
    if (messages.length === 0) pen.markup('<|channel|>final<|message|>')
    for (const [n, { channel, to, text }] of messages.entries()) {
      // <|call|> ends the turn: of several calls only the last one can have it.
      if (n > 0) pen.markup('<|end|><|start|>assistant')
      pen.markup(`<|channel|>${channel}`)
      if (to !== undefined) {
        pen.markup(' to=functions.')
        pen.text(to)
        pen.markup(' <|constrain|>json')
      }
      pen.markup('<|message|>')
      pen.text(text)
    }
    pen.control(messages.at(-1)?.to === undefined ? '<|return|>' : '<|call|>')
  },
  closed(pen, turn, end) {
    // <|return|> is never shown to the model.
    pen.control(end === '<|call|>' || turn.pieces.at(-1)?.kind === 'call' ? '<|call|>' : '<|end|>')
  },
  parser: () => new HarmonyParser(),
  constrain,
}

/** The model knows three, and cannot do without reasoning. */
function effortOf(effort: string | null): 'low' | 'medium' | 'high' {
  if (effort === 'none' || effort === 'minimal' || effort === 'low') return 'low'
  return effort === 'high' || effort === 'xhigh' ? 'high' : 'medium'
}
function message(pen: Pen, segment: Exclude<Segment, { kind: 'assistant' }>): void {
  if (segment.kind === 'tool') {
    pen.markup('<|start|>functions.')
    pen.text(segment.name ?? 'unknown')
    pen.markup(' to=assistant<|channel|>commentary<|message|>')
    pen.text(pythonJson(textOfParts(segment.parts)))
  } else {
    // Templates of this model skip system messages that come later: they would be lost.
    pen.markup('<|start|>user<|message|>')
    pen.text(segment.kind === 'system' ? segment.text : textOfParts(segment.parts))
  }
  pen.markup('<|end|>')
}
/** Text in front of a call is a preamble, which belongs on the commentary channel; unless a phase says where it belongs. */
function messagesOf({ pieces }: Turn, kept: boolean): Message[] {
  const out: Message[] = []
  const lastCall = pieces.findLastIndex((piece) => piece.kind === 'call')
  const say = (channel: Channel, text: string, between: string): void => {
    const last = out.at(-1)
    if (last?.channel === channel && last.to === undefined) last.text += between + text
    else out.push({ channel, to: undefined, text })
  }
  for (const [n, piece] of pieces.entries()) {
    if (piece.kind === 'call') out.push({ channel: 'commentary', to: piece.name, text: piece.arguments })
    else if (piece.kind === 'text') {
      const phase = piece.phase ?? (n < lastCall ? 'commentary' : 'final_answer')
      say(phase === 'commentary' ? 'commentary' : 'final', piece.text, '')
    } else if (kept) say('analysis', piece.text, '\n\n')
  }
  return out
}

/** Characters of a header (role, channel, recipient); what is longer is none. */
const maxHeader = 1024
const recipient = /(?:^|\s)to=(\S+)/
/** A channel, a recipient and a content type, each perhaps. */
function isHeader(text: string): boolean {
  const words = text.trim().split(/\s+/)
  return words.length <= 3 && words.every((word) => /^(?:[a-z]*|to=.*)$/.test(word))
}

/** Headers and bodies. The prompt has opened the first header already. */
class HarmonyParser implements Parser {
  #where: 'role' | 'channel' | 'type' | 'body' = 'role'
  /** Behind <|start|>, where nothing but a header can stand. */
  #started = false
  #role = ''
  #channel = ''
  #kind: 'reasoning' | 'text' | 'arguments' = 'text'

  marker(name: string, out: Out): void {
    switch (name) {
      case '<|start|>':
      case '<|end|>':
        this.#leave(out)
        this.#started = name === '<|start|>'
        return
      case '<|channel|>':
        // Models forget what stands between a message and the next channel.
        if (this.#where === 'body') this.#leave(out)
        this.#where = 'channel'
        this.#channel = ''
        return
      case '<|constrain|>':
        if (this.#where !== 'body') this.#where = 'type'
        return
      case '<|message|>':
        if (this.#where !== 'body') this.#open(out)
        return
      case '<|return|>':
      case '<|call|>':
      case '<|endoftext|>':
        return this.#words(out)
      default:
      // Other control tokens say nothing.
    }
  }
  text(text: string, out: Out): void {
    switch (this.#where) {
      case 'body':
        return this.#say(text, out)
      case 'type':
        return
      case 'role':
        this.#role += text
        if (!this.#maybeRole()) this.#raise(this.#role, out)
        return
      case 'channel':
        this.#channel += text
        if (this.#channel.length > maxHeader) this.#raise(this.#channel, out)
    }
  }
  end(out: Out, _finish: Finish | undefined): void {
    this.#words(out)
  }

  /** The message ends in front of the marker: `closed` writes it anew where nothing that was kept follows. */
  #leave(out: Out): void {
    this.#words(out)
    out.endBefore()
    this.#where = 'role'
    this.#started = false
    this.#role = this.#channel = ''
  }
  #open(out: Out): void {
    const to = recipient.exec(this.#role)?.[1] ?? recipient.exec(this.#channel)?.[1]
    this.#where = 'body'
    if (to !== undefined && !['assistant', 'user', 'all'].includes(to)) {
      this.#kind = 'arguments'
      out.call(to.replace(/^functions\./, ''))
    } else this.#kind = /^\s*analysis\b/.test(this.#channel) ? 'reasoning' : 'text'
  }
  #say(text: string, out: Out): void {
    if (this.#kind === 'reasoning') out.reasoning(text)
    else if (this.#kind === 'text') out.text(text)
    else out.arguments(text)
  }
  /** What stands where a header should, and is none: a model that answers without one. */
  #raise(text: string, out: Out): void {
    this.#where = 'body'
    this.#kind = 'text'
    out.text(text)
  }
  #maybeRole(): boolean {
    if (this.#started) return this.#role.length <= maxHeader
    const rest = this.#role.trimStart().replace(/^assistant\s*/, '')
    return this.#role.length <= maxHeader && ('assistant'.startsWith(rest) || /^t(?:o(?:=\S*\s*)?)?$/.test(rest))
  }
  /** A header that was never finished says nothing, but words are not lost. */
  #words(out: Out): void {
    if (this.#where === 'role' && !this.#started && !/^\s*(?:assistant\b|to=|$)/.test(this.#role)) out.text(this.#role)
    else if (this.#where === 'channel' && !isHeader(this.#channel)) out.text(this.#channel)
  }
}

/**
 * Every message as a tag that begins with its channel and ends with what opens the next one, so that nothing else can be
 * written. Calls and answers end the turn.
 */
function constrain({ answer, tools, must }: Want): Constraint {
  const next = '<|end|><|start|>assistant'
  const tags: Tag[] = [{ begin: '<|channel|>analysis<|message|>', content: { type: 'text' }, end: next }]
  if (tools.length > 0) tags.push({ begin: '<|channel|>commentary<|message|>', content: { type: 'text' }, end: next })
  tags.push(
    ...jsonTags(tools, (name) => ({
      begin: `<|channel|>commentary to=functions.${name} <|constrain|>json<|message|>`,
      end: '<|call|>',
    })),
  )
  if (!must)
    tags.push({
      begin: '<|channel|>final<|message|>',
      content: answer ? { type: 'json', schema: answer } : { type: 'text' },
      end: '<|return|>',
    })
  return { after: undefined, rule: { type: 'tags', tags, must: true, one: false } }
}
