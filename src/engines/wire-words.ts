// What a server said of its trouble, as one short sentence that a client may read.

/** JSON, or undefined for what is none. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
/** The message in the shapes that servers use: {error: {message}}, {error: ""}, {message}, {detail}. */
export function messageOf(body: unknown): string | undefined {
  if (Array.isArray(body)) return messageOf(body[0])
  if (!isRecord(body)) return undefined
  const { error, message, detail } = body
  if (typeof error === 'string') return error
  if (isRecord(error) && typeof error['message'] === 'string') return error['message']
  if (typeof message === 'string') return message
  if (typeof detail === 'string') return detail
  return Array.isArray(detail) && isRecord(detail[0]) && typeof detail[0]['msg'] === 'string'
    ? detail[0]['msg']
    : undefined
}
export const isRecord = (v: unknown): v is Record<string, unknown> =>
  typeof v === 'object' && v !== null && !Array.isArray(v)
export const quote = (told: string): string => {
  const short = clean(told, 160)
  return short === '' ? '' : `: "${short}"`
}

/** One line of plain words: what could be a path, a URL, an address, a key or a control character is left out. */
export function clean(text: string, limit: number): string {
  const plain = text
    .slice(0, 4096)
    .replace(/\p{C}+/gu, ' ')
    .replace(/\b[a-z][a-z0-9+.-]*:\/\/\S+/gi, '…')
    .replace(/(?<![\w.])[A-Za-z]:\\\S+/g, '…')
    .replace(/(?<![\w<])~?\.{0,2}\/[\w.@+-]+(\/[\w.@+-]*)*/g, '…')
    .replace(/\b[\w.-]+(\/[\w.@+-]+){2,}/g, '…')
    .replace(/\b0x[0-9a-f]+/gi, '…')
    .replace(/\b(sk|key|pk)-[\w-]{8,}/gi, '…')
    .replace(/"/g, "'")
    .replace(/\s+/g, ' ')
    .trim()
    .replace(/[.\s]+$/, '')
  return plain.length <= limit ? plain : `${plain.slice(0, limit - 1)}…`
}
