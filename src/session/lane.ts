// One lane: what runs on it and the user input that waits to steer it. Owned and moved by the session.
import { ApiError } from '../protocol/errors.ts'
import type { SteerErrorCode } from '../protocol/events.ts'
import type { Item } from '../protocol/items.ts'
import type { Create } from '../protocol/request.ts'
import type { Outlet } from '../turn/ports.ts'
import type { Turn } from '../turn/run.ts'
import type { Rollout } from './rollout.ts'

export type Steer = { readonly id: string; readonly input: readonly Item[]; readonly sent: unknown }
export type Active = { readonly turn: Turn; readonly outlet: Outlet; readonly rollout: Rollout | undefined }
export type Lane = {
  /** '' is the default lane. */
  readonly name: string
  running: Active | undefined
  /** Accepted, not applied: for the running response, or for the request that answers its calls. */
  steers: Steer[]
  /** The ended response whose calls must be answered before `steers` can be applied. */
  awaits: string | undefined
}
export const newLane = (name: string): Lane => ({ name, running: undefined, steers: [], awaits: undefined })

/** A request and the steers in it, which go back to the client if no response comes of it. */
export type Steered = { readonly request: Create; readonly steers: readonly Steer[] }

/** Steers that wait for exactly this request stand in front of its input. */
export function withSteers(lane: Lane, request: Create): Steered {
  const { steers, awaits } = lane
  if (steers.length === 0 || awaits === undefined || request.previous !== awaits) return { request, steers: [] }
  lane.steers = []
  lane.awaits = undefined
  return { request: { ...request, input: [...steers.flatMap((s) => s.input), ...request.input] }, steers }
}
/** The request that goes on by itself after a response was steered: the parent's settings, the user's words. */
export function successor(lane: Lane, parent: Turn): Steered {
  const { steers } = lane
  lane.steers = []
  const input = steers.flatMap((s) => s.input)
  return { request: { ...parent.request, previous: parent.id, generate: true, input }, steers }
}

/** A steer that was not taken. `code` is one of the protocol's own set, not of the error table. */
export class SteerError extends Error {
  readonly code: SteerErrorCode
  constructor(code: SteerErrorCode, message: string) {
    super(message)
    this.code = code
  }
  static of(e: unknown): SteerError {
    return e instanceof SteerError ? e : new SteerError('invalid_input', ApiError.of(e).message)
  }
}
