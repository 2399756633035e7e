// What an engine that takes tokens says when it will not: HTTP errors and error objects in streams, as our own errors.
// Its words reach clients only as one short sentence without paths, addresses or keys.
import { ApiError } from '../protocol/errors.ts'
import type { Answer } from './wire.ts'
import { clean, messageOf, parsed, quote } from './wire-words.ts'

/** The engine as its errors name it. */
export type Who = { readonly name: string; readonly host: string }

const contextWords =
  /(maximum|max) (context|model|input|allowed) length|context[ _-]?(length|window|size|limit)|max_model_len|longer than the (maximum )?model|too many (input |prompt )?tokens|(prompt|input) (is )?too long/i
/** Ids that the engine's vocabulary does not have: it is not the one the prompt was made with. */
const foreignWords = /out of (the )?vocabulary|invalid token/i

/** An HTTP answer that is no success. `does`: what was wanted of it, as in "does not …". */
export function refusal(who: Who, answer: Answer, does = 'take tokens under this URL'): ApiError {
  const { status, retryAfter } = answer
  const told = messageOf(parsed(answer.text)) ?? (answer.type === 'text/plain' ? answer.text : '')
  if (status === 413 || ([400, 422, 500].includes(status) && contextWords.test(told))) return tooLong(who)
  const engine = nameOf(who)
  const said = quote(told)
  if (status === 401 || status === 403)
    return failed(`${engine} refused its API key (HTTP ${status})${said}; the operator must set the right one.`)
  if (status === 404 || status === 405 || status === 501)
    return failed(`${engine} does not ${does} (HTTP ${status})${said}; the operator must correct its configuration.`)
  if (status === 429)
    return new ApiError('rate_limit_exceeded', `${engine} takes no more requests now${said}.`, null, retryAfter)
  if (status >= 500)
    return failed(`The engine '${who.name}' is down at ${who.host} (HTTP ${status})${said}.`, retryAfter)
  if (status === 408) return failed(`${engine} gave up waiting (HTTP 408)${said}.`)
  if (status >= 400) return foreignWords.test(told) ? foreign(who, told) : refused(who, `(HTTP ${status})${said}`)
  if (status >= 300) return failed(`${engine} redirects (HTTP ${status}); the operator must correct its URL.`)
  return failed(`${engine} answered with '${clean(answer.type, 60)}' and no event stream.`)
}
/** An error that came with HTTP 200, inside a stream or in place of one. `code`: an HTTP status, where it has one. */
export function streamError(who: Who, told: string, code?: unknown): ApiError {
  const status = Number(code)
  if (contextWords.test(told)) return tooLong(who)
  if (foreignWords.test(told)) return foreign(who, told)
  if (status === 429)
    return new ApiError('rate_limit_exceeded', `${nameOf(who)} takes no more requests now${quote(told)}.`)
  if (status === 503)
    return new ApiError('server_is_overloaded', `${nameOf(who)} takes no more requests now${quote(told)}.`)
  if (status >= 400 && status < 500) return refused(who, quote(told))
  return failed(`${nameOf(who)} failed while answering${quote(told)}.`)
}
export const garbage = (who: Who): ApiError => failed(`${nameOf(who)} sent what is no answer of its interface.`)
export const cut = (who: Who): ApiError => failed(`${nameOf(who)} cut its answer off before it was finished.`)
export const nameOf = (who: Who): string => `The engine '${who.name}' at ${who.host}`

const failed = (sentence: string, retryAfter?: number): ApiError =>
  new ApiError('server_error', sentence, null, retryAfter)
const refused = (who: Who, how: string): ApiError =>
  new ApiError('unsupported_by_engine', `${nameOf(who)} refused the request${how.startsWith('(') ? ' ' : ''}${how}.`)
const tooLong = (who: Who): ApiError =>
  new ApiError(
    'context_length_exceeded',
    `The prompt is longer than the context window of the engine '${who.name}'; shorten or compact it.`,
  )
const foreign = (who: Who, told: string): ApiError =>
  failed(
    `${nameOf(who)} does not know an id of the prompt${quote(told)}; the operator must give the model the tokenizer that the engine serves.`,
  )
