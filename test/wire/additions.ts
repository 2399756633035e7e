// Where this server's bytes differ from the types of the openai package, one row each; docs/protocol.md has the same rows.
// Nothing else may differ: check.ts applies these rows to the schemas and refuses every other field, value and event.

type Schema = { readonly [key: string]: unknown }
export type Change =
  /** A field that the types of these definitions do not have. */
  | { readonly field: string; readonly of: readonly string[]; readonly schema: Schema }
  /** A further value of a field's enumeration. */
  | { readonly value: string; readonly field: string; readonly of: readonly string[] }
  /** A further shape of a field, or of a definition itself. */
  | { readonly shape: Schema; readonly fields?: readonly string[]; readonly of: readonly string[] }
  /** A field that the types call required and that is not sent. */
  | { readonly without: string; readonly of: readonly string[] }
  /** An event that the types do not have, or not on this transport. */
  | { readonly event: string; readonly on: readonly ('sse' | 'socket')[]; readonly schema: Schema }
export type Addition = { readonly name: string; readonly where: string; readonly why: string; readonly change: Change }

const event = (type: string, properties: Schema, required: readonly string[]): Schema => ({
  type: 'object',
  properties: { type: { const: type }, sequence_number: { type: 'integer', minimum: 0 }, ...properties },
  required: ['type', 'sequence_number', ...required],
  additionalProperties: false,
})
/** What a client sent and gets back. */
const asItCame: Schema = { type: 'object', properties: { type: { type: 'string', minLength: 1 } }, required: ['type'] }
/** Tools that this server offers are echoed in their known shape. */
const hosted: Schema = {
  allOf: [asItCame, { not: { properties: { type: { enum: ['function', 'custom', 'namespace'] } } } }],
}
const own = (name: string, where: string, why: string, change: Change): Addition => ({ name, where, why, change })

export const additions: readonly Addition[] = [
  own(
    'keepalive',
    'event, both transports',
    'sent in silence; repeats the last sequence number, 0 before `response.created`',
    {
      event: 'keepalive',
      on: ['sse', 'socket'],
      schema: event('keepalive', { stream_id: { type: 'string' } }, []),
    },
  ),
  own(
    'error (nested)',
    'event on SSE',
    'the nested shape of the socket, which every client reads; the types have a flat one',
    {
      event: 'error',
      on: ['sse'],
      schema: event(
        'error',
        {
          status: { type: 'integer' },
          error: { $ref: '#/definitions/ErrorObject' },
          headers: { type: 'object', additionalProperties: { type: 'string' } },
        },
        ['error'],
      ),
    },
  ),
  own(
    'headers',
    'event `error` on the socket',
    'what an HTTP answer would have said in headers (`retry-after`); Codex reads it there',
    {
      field: 'headers',
      of: ['ResponsesServerEvent.ResponseWsError'],
      schema: { type: 'object', additionalProperties: { type: 'string' } },
    },
  ),
  own(
    'interrupted',
    '`incomplete_details.reason`',
    '`response.interrupt` ended the response; Codex goes on with its id',
    {
      value: 'interrupted',
      field: 'reason',
      of: ['Response.IncompleteDetails'],
    },
  ),
  own('cancelled', '`incomplete_details.reason`', 'a cancel or a lost connection ended the response', {
    value: 'cancelled',
    field: 'reason',
    of: ['Response.IncompleteDetails'],
  }),
  own(
    'response.done',
    'event on the socket',
    'a rollout (experimental) waits for the outputs of its calls; never outside one',
    {
      event: 'response.done',
      on: ['socket'],
      schema: event(
        'response.done',
        {
          response_id: { type: 'string' },
          required_input: {
            type: 'array',
            minItems: 1,
            items: {
              anyOf: [
                {
                  type: 'object',
                  properties: {
                    type: { const: 'function_call_output' },
                    call_id: { type: 'string' },
                    name: { type: 'string' },
                  },
                  required: ['type', 'call_id', 'name'],
                  additionalProperties: false,
                },
                {
                  type: 'object',
                  properties: { type: { const: 'custom_tool_call_output' }, call_id: { type: 'string' } },
                  required: ['type', 'call_id'],
                  additionalProperties: false,
                },
              ],
            },
          },
          usage: { $ref: '#/definitions/ResponseUsage' },
          stream_id: { type: 'string' },
        },
        ['response_id', 'required_input', 'usage'],
      ),
    },
  ),
  own('append_timeout', '`incomplete_details.reason`', 'a rollout waited too long for the outputs of its calls', {
    value: 'append_timeout',
    field: 'reason',
    of: ['Response.IncompleteDetails'],
  }),
  own('max_rounds', '`incomplete_details.reason`', 'a rollout had as many generations as it may', {
    value: 'max_rounds',
    field: 'reason',
    of: ['Response.IncompleteDetails'],
  }),
  own('draining', '`incomplete_details.reason`', 'the server is about to stop and a rollout was at its calls', {
    value: 'draining',
    field: 'reason',
    of: ['Response.IncompleteDetails'],
  }),
  own('end_turn', 'response', 'false on a response that `response.interrupt` ended; Codex reads it', {
    field: 'end_turn',
    of: ['Response'],
    schema: { const: false },
  }),
  own('estimated', '`usage`', 'true where the engine reported nothing usable and the counts are ours', {
    field: 'estimated',
    of: ['ResponseUsage'],
    schema: { const: true },
  }),
  own(
    'context_length_exceeded',
    '`response.error.code`',
    'found after `response.created`; Codex ends the turn on it, and retries others',
    {
      value: 'context_length_exceeded',
      field: 'code',
      of: ['ResponseError'],
    },
  ),
  own('store', 'response', "on the original's wire, not in its types", {
    field: 'store',
    of: ['Response'],
    schema: { type: 'boolean' },
  }),
  own('frequency_penalty', 'response', "on the original's wire, not in its types", {
    field: 'frequency_penalty',
    of: ['Response'],
    schema: { type: 'number' },
  }),
  own('presence_penalty', 'response', "on the original's wire, not in its types", {
    field: 'presence_penalty',
    of: ['Response'],
    schema: { type: 'number' },
  }),
  own('status', '`custom_tool_call` items', 'as on function calls; the types have it on listed items only', {
    field: 'status',
    of: ['ResponseCustomToolCall'],
    schema: { enum: ['in_progress', 'completed', 'incomplete'] },
  }),
  own('usage: null', 'response', "until the terminal event, as on the original's wire; the types have it absent", {
    shape: { type: 'null' },
    fields: ['usage'],
    of: ['Response'],
  }),
  own('no output_text', 'response', 'the types require what the SDK computes; it is never sent', {
    without: 'output_text',
    of: ['Response'],
  }),
  own('no access_programs', 'response', 'hosted only; not on the recorded wire', {
    without: 'access_programs',
    of: ['Response'],
  }),
  own(
    'user messages',
    '`output` of `/responses/compact`',
    "as on the original's wire; the types only have output items",
    {
      shape: { $ref: '#/definitions/ResponseInputMessageItem' },
      fields: ['output'],
      of: ['CompactedResponse'],
    },
  ),
  own(
    'first_id: null, last_id: null',
    'list of input_items',
    'where the list is empty; the types have no word for it',
    {
      shape: { type: 'null' },
      fields: ['first_id', 'last_id'],
      of: ['ResponseItemList'],
    },
  ),
  own(
    'tools as they came',
    '`tools` of a response',
    'hosted and unknown ones are echoed as the client sent them, with types and fields that newer clients have',
    { shape: hosted, of: ['Tool'] },
  ),
  own(
    'items as they came',
    '`data` of input_items',
    'listed as the client sent them, with types and fields that newer clients have',
    { shape: asItCame, of: ['ResponseItem'] },
  ),
  own(
    'input as it came',
    '`response.steer.failed`, `response.inject.failed`',
    'refused input is handed back whatever it was',
    {
      shape: {},
      fields: ['input'],
      of: ['ResponseSteerFailedEvent.Steer', 'BetaResponseInjectFailedEvent'],
    },
  ),
]

/** Rows of the table in docs/protocol.md, section "Named additions". */
export const additionRows = (): string[] => additions.map((a) => `| ${a.name} | ${a.where} | ${a.why} |`)
