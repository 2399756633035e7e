// What is taken from the openai package's types: every event and body that a Responses server may send.
import type {
  BetaResponseInjectCreatedEvent,
  BetaResponseInjectFailedEvent,
} from 'openai/resources/beta/responses/responses'
import type { Model } from 'openai/resources/models'
import type { ResponseItemList } from 'openai/resources/responses/input-items'
import type { InputTokenCountResponse } from 'openai/resources/responses/input-tokens'
import type {
  CompactedResponse,
  Response,
  ResponseItem,
  ResponsesServerEvent,
  ResponseStreamEvent,
} from 'openai/resources/responses/responses'
import type { ErrorObject } from 'openai/resources/shared'

/** One property per entry point; test/wire/check.ts validates against `#/definitions/Wire/properties/<name>`. */
export type Wire = {
  sse: ResponseStreamEvent
  socket: ResponsesServerEvent
  injectCreated: BetaResponseInjectCreatedEvent
  injectFailed: BetaResponseInjectFailedEvent
  response: Response
  item: ResponseItem
  itemList: ResponseItemList
  compaction: CompactedResponse
  inputTokens: InputTokenCountResponse
  model: Model
  error: { error: ErrorObject }
}
