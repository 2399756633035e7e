// What the server and the store's thread say to each other, and how an error gets from one to the other.
import { ApiError, type ErrorCode } from '../protocol/errors.ts'
import type { RowStore } from './rows.ts'

export type Operation = keyof RowStore
/** Answered by one `Answer` of the same number. */
export type Ask = { readonly call: number; readonly operation: Operation; readonly parameters: readonly unknown[] }
export type Answer =
  | { readonly call: number; readonly value: unknown }
  | { readonly call: number; readonly thrown: Thrown }
  /** First of all: the file is open, or cannot be opened. */
  | { readonly ready: true }
  | { readonly ready: false; readonly thrown: Thrown }

export type Thrown = {
  readonly message: string
  /** Of the file system or of SQLite, where the message is theirs. */
  readonly code: string | undefined
  readonly api: { readonly code: ErrorCode; readonly param: string | null } | undefined
}
export function thrownOf(error: unknown): Thrown {
  const message = error instanceof Error ? error.message : String(error)
  if (error instanceof ApiError) return { message, code: undefined, api: { code: error.code, param: error.param } }
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
  return { message, code, api: undefined }
}
export function errorOf({ message, code, api }: Thrown): Error {
  if (api) return new ApiError(api.code, message, api.param)
  return Object.assign(new Error(message), code === undefined ? {} : { code })
}
