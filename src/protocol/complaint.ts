// Turns what zod found into the one sentence that a client reads. Never quotes what was sent.
import type { z } from 'zod'
import { ApiError } from './errors.ts'

/** The first complaint of a schema as `invalid_request`; `under` is the path of the value that was checked. */
export function complain(error: z.ZodError, under = ''): ApiError {
  const issue = error.issues[0]
  const path = [...(under === '' ? [] : [under]), ...(issue?.path ?? [])].join('.')
  const where = path === '' ? 'The body' : `'${path}'`
  return new ApiError('invalid_request', `${where}: ${issue?.message ?? 'wrong shape'}.`, path === '' ? null : path)
}
