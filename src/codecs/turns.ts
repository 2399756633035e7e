// Items → segments: which items belong to one message, what a call is named, which text a part has. Knows no format.
import { ApiError } from '../protocol/errors.ts'
import { type Naming, namingOf } from '../protocol/functions.ts'
import { type Item, textOf, type ToolOutput } from '../protocol/items.ts'
import type { Chain } from '../turn/chain.ts'
import type { Kind, Part, Segment, Turn, TurnCall, TurnPiece } from './family.ts'

/** The segment of one item that is not the model's; undefined for items that models are not shown. */
export function segmentOf(item: Item, name: (callId: string) => string | undefined): Segment | undefined {
  switch (item.type) {
    case 'message':
      if (item.role === 'system' || item.role === 'developer')
        return { kind: 'system', text: textOfParts(partsOf(item.content)) }
      return item.role === 'user' ? { kind: 'user', parts: partsOf(item.content) } : undefined
    case 'function_call_output':
    case 'custom_tool_call_output':
      return { kind: 'tool', callId: item.call_id, name: name(item.call_id), parts: partsOf(item.output) }
    default:
      // Items of hosted tools, references and settings-like items have no place in a chat format.
      return undefined
  }
}
/** Items that are the model's own, as one piece of a turn; undefined for all others, and for empty reasoning and text. */
export function pieceOf(item: Item, naming: Naming): TurnPiece | undefined {
  switch (item.type) {
    case 'message': {
      if (item.role !== 'assistant') return undefined
      const text = textOf(item.content)
      return text === '' ? undefined : { kind: 'text', text, phase: item.phase ?? undefined }
    }
    case 'reasoning': {
      const text = textOf(item.content?.length ? item.content : item.summary)
      return text === '' ? undefined : { kind: 'reasoning', text }
    }
    case 'function_call':
      return {
        kind: 'call',
        name: naming.flat(item.name, item.namespace),
        callId: item.call_id,
        arguments: item.arguments.trim() === '' ? '{}' : item.arguments,
      }
    case 'custom_tool_call':
      return {
        kind: 'call',
        name: naming.flat(item.name, item.namespace),
        callId: item.call_id,
        arguments: JSON.stringify({ input: item.input }),
      }
    default:
      return undefined
  }
}
/**
 * Does this piece begin a new turn behind these? Models reason first; reasoning behind something else was a new start, so
 * that all pieces of a turn but the newest need not be looked at.
 */
export const beginsAnew = (before: readonly TurnPiece[], piece: TurnPiece): boolean =>
  piece.kind === 'reasoning' && before.length > 0 && before.at(-1)?.kind !== 'reasoning'

/** `earlier`: calls of the conversation in front of it. */
export function turnOf(pieces: readonly TurnPiece[], earlier = 0): Turn {
  const reasonings: string[] = []
  const calls: TurnCall[] = []
  let text = ''
  for (const piece of pieces) {
    if (piece.kind === 'reasoning') reasonings.push(piece.text)
    else if (piece.kind === 'text') text += piece.text
    else calls.push(piece)
  }
  return { pieces, reasoning: reasonings.join('\n\n'), text, calls, earlier }
}

/** What a model that is asked goes on from: the kind of the newest segment. */
export function kindBehind(chain: Chain): Kind {
  let later = false
  for (let link: Chain | undefined = chain; link; link = link.parent)
    for (let n = link.items.length - 1; n >= 0; n--) {
      const item = link.items[n]
      if (!item) continue
      const kind = pieceOf(item, plainNames) ? 'assistant' : segmentOf(item, () => undefined)?.kind
      if (kind === 'system') later = true
      else if (kind !== undefined) return later ? 'system' : kind
    }
  // System messages that lead are part of the head.
  return 'head'
}
const plainNames = namingOf([])

/** Texts that touch become one, a line each; files have no place in a chat format and leave a note. */
function partsOf(content: ToolOutput | Extract<Item, { type: 'message' }>['content']): Part[] {
  if (typeof content === 'string') return [content]
  const parts: Part[] = []
  const say = (text: string): void => {
    const last = parts.length - 1
    const before = parts[last]
    if (typeof before === 'string') parts[last] = `${before}\n${text}`
    else parts.push(text)
  }
  for (const part of content) {
    if (part.type === 'input_image') parts.push({ image: part.image_url ?? '' })
    else if (part.type === 'input_file') say(`[File ${part.filename ?? part.file_id ?? ''} is not shown]`)
    else say(textOf([part]))
  }
  return parts.length === 0 ? [''] : parts
}
/** The text of parts, for formats without pictures. */
export const textOfParts = (parts: readonly Part[]): string => parts.filter((p) => typeof p === 'string').join('')
/** Data URLs of the pictures in segments of these kinds, oldest first. */
export function picturesIn(chain: Chain, kinds: readonly ('user' | 'tool')[]): string[] {
  if (kinds.length === 0) return []
  return (chain.since(undefined) ?? []).flatMap(({ pictures, parent, items }) =>
    pictures === (parent?.pictures ?? 0)
      ? []
      : items.flatMap((item) => {
          const segment = segmentOf(item, () => undefined)
          if (segment?.kind !== 'user' && segment?.kind !== 'tool') return []
          return kinds.includes(segment.kind)
            ? segment.parts.flatMap((p) => (typeof p === 'string' ? [] : p.image))
            : []
        }),
  )
}
/** `who` has no place for a picture where one stands. */
export function unsupportedPicture(who: string, places: readonly ('user' | 'tool')[]): ApiError {
  const where =
    places.length === 0 ? 'no place for images' : `a place for images in ${places.join(' and ')} messages only`
  return new ApiError(
    'unsupported_by_engine',
    `This model cannot do 'input_image': ${who} has ${where}. An engine of type chat passes images on.`,
    'input_image',
  )
}
