// The client frames of WebSocket mode, one function each: the table is what a socket understands.
import { z } from 'zod'
import { ApiError } from '../protocol/errors.ts'
import type { Loose } from '../protocol/events.ts'
import { parseItems } from '../protocol/parse.ts'
import { type Create, lanePattern, parseCreate, type ParseTools } from '../protocol/request.ts'
import { SteerError } from '../session/lane.ts'
import type { Session } from '../session/session.ts'

export type Frame = Readonly<Record<string, unknown>>
export type Near = {
  readonly session: Session
  readonly tell: (frame: Loose) => void
  readonly submit: (request: Create) => void
  readonly parseTools: ParseTools
}
type Handler = (frame: Frame, lane: string | undefined, near: Near) => void

/** The lane a frame names. Throws `invalid_stream_id`, which is answered without one. */
export function laneOf(frame: Frame): string | undefined {
  const lane = frame['stream_id']
  if (lane === undefined) return undefined
  if (typeof lane !== 'string' || !lanePattern.test(lane))
    throw new ApiError('invalid_stream_id', undefined, 'stream_id')
  return lane
}
const idIn = (frame: Frame, field: string): string => {
  const id = frame[field]
  if (typeof id !== 'string' || id === '')
    throw new ApiError('invalid_request', `'${field}' must name a response.`, field)
  return id
}

const steered = z.union([
  z.string().min(1),
  z.array(z.looseObject({ type: z.literal('message').optional(), role: z.literal('user') })).min(1),
])
const steer: Handler = (frame, _lane, { session, tell }) => {
  const target = idIn(frame, 'previous_response_id')
  const { input } = frame
  try {
    if (!steered.safeParse(input).success)
      throw new SteerError('invalid_input', 'Steering takes a text or user messages.')
    session.steer(target, parseItems(input, 'input'), input)
  } catch (e) {
    const { code, message } = SteerError.of(e)
    const error = { type: 'invalid_request_error', code, message } as const
    tell({ type: 'response.steer.failed', sequence_number: 0, steer: { previous_response_id: target, input }, error })
  }
}

const handlers: Readonly<Record<string, Handler>> = {
  'response.create': (frame, lane, { submit, parseTools }) => submit(parseCreate(frame, lane, parseTools)),
  'response.steer': steer,
  'response.interrupt': (frame, _lane, { session }) => {
    // One that has just ended is no error: client and server raced, and an error frame would cost the client its socket.
    session.interrupt(idIn(frame, 'response_id'), frame['mode'] === 'discard_partial_items')
  },
  'response.inject': (frame, _lane, { tell }) => {
    const response_id = idIn(frame, 'response_id')
    const error = {
      code: 'response_not_found',
      message: 'Responses of this server do not wait for injected input.',
    } as const
    const input = Array.isArray(frame['input']) ? frame['input'] : []
    tell({ type: 'response.inject.failed', sequence_number: 0, response_id, input, error })
  },
  'response.append': (frame, _lane, { session }) => {
    if (!session.rollouts)
      throw new ApiError(
        'invalid_request',
        'response.append belongs to rollouts, which are switched off here (`rollouts.enabled`); send response.create with previous_response_id.',
        'type',
      )
    session.append(idIn(frame, 'response_id'), parseItems(frame['input'], 'input'))
  },
}
/** By type, and only by the types above: a plain object would also know `constructor`. */
export const frames: ReadonlyMap<string, Handler> = new Map(Object.entries(handlers))
