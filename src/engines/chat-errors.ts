// What a chat-completions server says when it will not: HTTP errors and error objects in streams, as our own errors.
// Its words reach clients only as one short sentence without paths, addresses or keys.
import { ApiError } from '../protocol/errors.ts'
import type { Answer } from './wire.ts'
import { clean, isRecord, messageOf, parsed, quote } from './wire-words.ts'

/** The engine as its errors name it. */
export type Who = { readonly name: string; readonly host: string; readonly model: string }

const contextWords =
  /context[ _-]?(length|window|size|limit)|maximum (context|model|input) length|exceed\w* (the )?(available |maximum |max )?(context|number of tokens)|(prompt|input|request) (is )?too long|too many (input |prompt )?tokens|longer than the model|max_model_len|n_ctx/i

const engine = (who: Who): string => `The engine '${who.name}' at ${who.host}`

/** An HTTP answer that is no success. */
export function refusal(who: Who, answer: Answer): ApiError {
  const { status } = answer
  const told = messageOf(parsed(answer.text)) ?? ''
  const said = quote(told)
  if (isContext(status, told, answer.text)) return tooLong(who)
  if (status === 401 || status === 403)
    return new ApiError(
      'server_error',
      `${engine(who)} refused its API key (HTTP ${status}); the operator must set the right one.`,
    )
  if (status === 404) {
    const what = /model/i.test(told)
      ? `knows no model '${who.model}'`
      : `has no chat completions under this URL, or no model '${who.model}'`
    return new ApiError(
      'server_error',
      `${engine(who)} ${what} (HTTP 404); the operator must correct its configuration.`,
    )
  }
  if (status === 429)
    return new ApiError(
      'rate_limit_exceeded',
      `${engine(who)} takes no more requests now${said}.`,
      null,
      answer.retryAfter,
    )
  if (status >= 500)
    return new ApiError(
      'server_error',
      `The engine '${who.name}' is down at ${who.host} (HTTP ${status})${said}.`,
      null,
      answer.retryAfter,
    )
  if (status === 408) return new ApiError('server_error', `${engine(who)} gave up waiting (HTTP 408)${said}.`)
  if (status >= 400)
    return new ApiError('unsupported_by_engine', `${engine(who)} refused the request (HTTP ${status})${said}.`)
  if (status >= 300)
    return new ApiError('server_error', `${engine(who)} redirects (HTTP ${status}); the operator must correct its URL.`)
  return new ApiError('server_error', `${engine(who)} answered with '${clean(answer.type, 60)}' and no event stream.`)
}

/** An error object inside a stream that had begun well. */
export function streamError(who: Who, error: unknown): ApiError {
  const told = messageOf({ error }) ?? ''
  const fields = isRecord(error) ? error : {}
  const codes = [fields['code'], fields['status'], fields['type']].map(String)
  if (contextWords.test(told) || codes.some((c) => contextWords.test(c))) return tooLong(who)
  if (codes.includes('429') || codes.some((c) => /rate_?limit/i.test(c)))
    return new ApiError('rate_limit_exceeded', `${engine(who)} takes no more requests now${quote(told)}.`)
  return new ApiError('server_error', `${engine(who)} failed while answering${quote(told)}.`)
}
export const garbage = (who: Who): ApiError =>
  new ApiError('server_error', `${engine(who)} sent what is no chat completion chunk.`)
export const cut = (who: Who): ApiError =>
  new ApiError('server_error', `${engine(who)} cut its answer off before it was finished.`)

function tooLong(who: Who): ApiError {
  return new ApiError(
    'context_length_exceeded',
    `The prompt is longer than the context window of the engine '${who.name}'; shorten or compact it.`,
  )
}
function isContext(status: number, told: string, text: string): boolean {
  if (status === 413) return true
  if (status === 400 || status === 422) return contextWords.test(told) || contextWords.test(text.slice(0, 4096))
  // Some servers answer 500 for it; there the words must be the server's own message.
  return status === 500 && contextWords.test(told)
}
