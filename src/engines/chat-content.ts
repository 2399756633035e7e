// Content of messages and tool outputs in the parts that chat-completions servers take.
import type { InputPart, Message, ToolOutput } from '../protocol/items.ts'

export type Part =
  | { type: 'text'; text: string }
  | { type: 'image_url'; image_url: { url: string; detail?: 'low' | 'high' } }
  | { type: 'file'; file: { filename: string; file_data: string } }

/** A user message's content: one string where it is all text, since many servers take parts from vision models only. */
export function inputContent(content: Message['content']): string | Part[] {
  const parts: Part[] = []
  let text = true
  for (const part of content) {
    const lowered = lower(part)
    if (lowered.type !== 'text') text = false
    parts.push(lowered)
  }
  return text ? parts.map((p) => (p.type === 'text' ? p.text : '')).join('\n') : parts
}

/** A tool output as text, a note in the place of every image and file. */
export function outputText(output: ToolOutput): string {
  if (typeof output === 'string') return output
  return output.map((part) => (part.type === 'input_text' ? part.text : note(part))).join('\n')
}

/** The images and files of a tool output that the server can be shown; those it cannot are left to their notes. */
export function filesOf(
  output: readonly InputPart[],
  can: { readonly images: boolean; readonly files: boolean },
): Part[] {
  const parts: Part[] = []
  for (const part of output) {
    const lowered = lower(part)
    if ((lowered.type === 'image_url' && can.images) || (lowered.type === 'file' && can.files)) parts.push(lowered)
  }
  return parts
}

function lower(part: Message['content'][number]): Part {
  switch (part.type) {
    case 'input_text':
    case 'output_text':
      return { type: 'text', text: part.text }
    case 'refusal':
      return { type: 'text', text: part.refusal }
    case 'input_image': {
      const { image_url: url, detail } = part
      // Only data URLs leave this server; anything else has been refused before and shows as a note.
      if (!url?.startsWith('data:')) return { type: 'text', text: note(part) }
      return { type: 'image_url', image_url: { url, ...(detail === 'low' || detail === 'high' ? { detail } : {}) } }
    }
    case 'input_file': {
      const { file_data, filename } = part
      if (file_data === undefined) return { type: 'text', text: note(part) }
      return { type: 'file', file: { filename: filename ?? 'file', file_data } }
    }
    default:
      return { type: 'text', text: note(part) }
  }
}
const note = (part: { type: string; filename?: string }): string => {
  if (part.type === 'input_image') return '[image]'
  return part.type === 'input_file' ? `[file${part.filename ? ` ${part.filename}` : ''}]` : '[content]'
}
