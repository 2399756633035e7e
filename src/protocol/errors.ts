// One error class and one table of every code that can leave this server. Only the doors turn an error into bytes.

/**
 * `status`: HTTP status. `type`: the wire's `error.type`. `transient`: on a socket the response is started and then
 * failed, because clients retry a failed response and give up on an error frame. `about`: what it means and what to do.
 */
type Row = { readonly status: number; readonly type: string; readonly transient?: true; readonly about: string }

const bad = (about: string, status = 400): Row => ({ status, type: 'invalid_request_error', about })

export const errorTable = {
  // the request itself
  invalid_request: bad('A field is missing or has the wrong shape; `param` names it.'),
  invalid_json: bad('The body or frame is no JSON object, or is nested past 128 levels.'),
  unsupported_parameter: bad('A field asks for something this server does not offer; leave it out or change it.'),
  unsupported_by_engine: bad('The engine behind this model cannot do what a field asks; the message names both.'),
  invalid_tool_schema: bad('A tool has `parameters` that are no JSON schema of an object.'),
  invalid_image: bad('An image is neither PNG, JPEG, GIF nor WebP.'),
  invalid_base64_image: bad('An image data URL does not hold valid base64.'),
  invalid_image_url: bad('Images and files by http(s) URL are not fetched; send a data URL.'),
  image_too_large: bad('An image is over the size limit.'),
  invalid_encrypted_content: bad('Sealed content was changed, or was sealed for another tenant or another key file.'),
  context_length_exceeded: bad("The prompt is longer than the model's context window; shorten or compact it."),
  invalid_prompt: bad('The safety check refused the input.'),
  // what a request refers to
  previous_response_not_found: bad('`previous_response_id` cannot be continued here; send the full input without it.'),
  item_not_found: bad('An `item_reference` names no stored item of this key.'),
  tool_call_not_found: bad('A tool output names a call that is neither in the conversation nor in the input.'),
  response_not_found: bad('No response with this id belongs to this key.', 404),
  response_not_active: bad('The response is not running on this connection.'),
  not_a_rollout: bad('The response was not started with `rollout: true`; answer its calls with a `response.create`.'),
  tool_call_already_answered: bad('This call of the rollout has its output; it takes no second one.'),
  events_gone: bad('The events asked for are no longer kept; retrieve the response without `stream`.', 410),
  model_not_found: bad('No model of this name is configured; `GET /v1/models` lists them.', 404),
  not_found: bad('There is no such path.', 404),
  method_not_allowed: bad('This path does not take this method.', 405),
  // the socket
  invalid_stream_id: bad('`stream_id` must match ^[A-Za-z0-9_.-]{1,256}$.'),
  websocket_stream_limit_reached: bad('This connection has named as many lanes as it may; reuse one of them.'),
  websocket_connection_limit_reached: bad('This connection takes no further responses; open a new one.'),
  upgrade_required: bad('WebSocket mode is switched off here, or this path needs an upgrade; use HTTP.', 426),
  // who asks
  invalid_api_key: bad('The API key is missing or unknown; send `Authorization: Bearer KEY`.', 401),
  permission_denied: bad('This key may not do this.', 403),
  origin_not_allowed: bad('Browser pages of this origin may not open sockets here; list it under `http.origins`.', 403),
  // size and encoding
  payload_too_large: bad('The body is over the size limit.', 413),
  unsupported_media_type: bad(
    'The body is not JSON, or its content encoding is unknown (gzip, deflate, br, zstd).',
    415,
  ),
  // what may pass if tried again
  rate_limit_exceeded: {
    status: 429,
    type: 'rate_limit_error',
    transient: true,
    about: 'Too many requests at once for this key or connection; try again in a moment.',
  },
  server_is_overloaded: {
    status: 503,
    type: 'service_unavailable_error',
    transient: true,
    about: 'The server or its engine takes no further work now; try again in a moment.',
  },
  server_error: {
    status: 500,
    type: 'server_error',
    transient: true,
    about: 'The engine or the server failed; the message says how. Trying again may help.',
  },
} as const satisfies Record<string, Row>

export type ErrorCode = keyof typeof errorTable
export type ErrorBody = { type: string; code: string; message: string; param: string | null }

/** `context_length_exceeded` is not in the types; clients know it all the same. */
const responseCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'server_error',
  'rate_limit_exceeded',
  'invalid_prompt',
  'context_length_exceeded',
  'invalid_image',
  'invalid_base64_image',
  'invalid_image_url',
  'image_too_large',
])

/** Everything that goes wrong and may be told to a client. Throw it anywhere below a door. */
export class ApiError extends Error {
  readonly code: ErrorCode
  readonly param: string | null
  /** Whole seconds after which a retry makes sense, where that is known. */
  readonly retryAfter: number | undefined
  constructor(code: ErrorCode, message?: string, param: string | null = null, retryAfter?: number) {
    super(message ?? errorTable[code].about)
    this.name = 'ApiError'
    this.code = code
    this.param = param
    this.retryAfter = retryAfter
  }
  get status(): number {
    return errorTable[this.code].status
  }
  get transient(): boolean {
    return (errorTable[this.code] as Row).transient === true
  }
  /** The wire's error object (protocol reference: error bodies), all four keys present. */
  get body(): ErrorBody {
    return { type: errorTable[this.code].type, code: this.code, message: this.message, param: this.param }
  }
  /**
   * The code of `response.error`, which has a set of its own (SDK type ResponseError). Clients retry `server_error` and
   * `rate_limit_exceeded`; what cannot pass becomes `invalid_prompt`, which they do not retry.
   */
  get responseCode(): ErrorCode {
    if (this.code === 'server_is_overloaded') return 'rate_limit_exceeded'
    return responseCodes.has(this.code) ? this.code : 'invalid_prompt'
  }
  /** What is no ApiError is ours, and its text may hold anything: the client gets a plain sentence. */
  static of(e: unknown): ApiError {
    return e instanceof ApiError ? e : new ApiError('server_error', 'The server failed inside; its log has the reason.')
  }
}
