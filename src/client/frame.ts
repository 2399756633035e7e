// The door for what a server sends: text of a frame in, an event out that the rest may rely on.
import type { Loose } from '../protocol/events.ts'
import type { StreamEvent } from '../protocol/stream-events.ts'

/** An event as a socket brings it. Types newer than this client are passed on under the same type. */
export type ServerEvent = (StreamEvent | Loose) & { stream_id?: string }

/** The event; undefined for what is none and can be passed over; a complaint for one that a call depends on. */
export function parseFrame(text: string): ServerEvent | string | undefined {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return undefined
  }
  if (typeof value !== 'object' || value === null || !('type' in value) || typeof value.type !== 'string')
    return undefined
  if (!readable(value)) return `unreadable ${value.type}`
  // What this client acts on was checked; the rest behind `type` is the server's promise.
  return value as ServerEvent
}

const withResponse = new Set(
  ['created', 'in_progress', 'queued', 'completed', 'incomplete', 'failed'].map((end) => `response.${end}`),
)

function readable(
  event: object & { type: unknown; response?: unknown; item?: unknown; output_index?: unknown },
): boolean {
  if (event.type === 'response.output_item.done')
    return (
      typeof event.output_index === 'number' &&
      typeof event.item === 'object' &&
      event.item !== null &&
      'type' in event.item
    )
  if (typeof event.type !== 'string' || !withResponse.has(event.type)) return true
  const { response } = event
  if (typeof response !== 'object' || response === null || !('id' in response) || typeof response.id !== 'string')
    return false
  return !('output' in response) || response.output == null || Array.isArray(response.output)
}
