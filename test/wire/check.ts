// The oracle for every byte this server sends: JSON schemas made from the openai package's types plus the named additions.
// Unknown fields, values and events are problems; [] means the value is as the types say.
import { isInheritable } from '../../src/protocol/lean.ts'
import { checkRecord } from '../../src/stores/record.ts'
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv'
import { loadSchema, type Transport } from './schema.ts'

const schema = loadSchema()
/** Version of the openai package whose types the schemas come from. */
export const openaiVersion = schema.openai
/** Every event type that may be sent. */
export const eventTypes = (transport: Transport): string[] => [...schema.events[transport].keys()]

const ajv = new Ajv({ strict: false, discriminator: true, inlineRefs: false, validateFormats: false, logger: false })
ajv.addSchema({ $id: 'wire', definitions: schema.definitions })

// Compiled at first use and kept: one validator takes milliseconds, all of them over a second.
const compiled = new Map<string, ValidateFunction>()
function validator(ref: string): ValidateFunction {
  const known = compiled.get(ref)
  if (known) return known
  const made = ajv.compile({ $ref: `wire${ref}` })
  compiled.set(ref, made)
  return made
}
function problems(ref: string, value: unknown, what: string): string[] {
  const validate = validator(ref)
  if (validate(value)) return []
  return (validate.errors ?? [])
    .slice(0, 8)
    .map((e) => `${what}${e.instancePath} ${e.message ?? 'is wrong'}${detail(e)}`)
}
function detail(e: ErrorObject): string {
  const { params } = e as { params: Record<string, unknown> }
  const said = params['additionalProperty'] ?? params['allowedValues'] ?? params['allowedValue'] ?? params['tagValue']
  return said === undefined ? '' : ` (${JSON.stringify(said).slice(0, 200)})`
}
const body =
  (name: string, what: string) =>
  (value: unknown): string[] =>
    problems(`#/definitions/Wire/properties/${name}`, value, what)

const settings = Object.entries(checkRecord('resp_check', 0).response).filter(([name]) => isInheritable(name))

/** One frame of a socket, or the data of one SSE event, already parsed. `lean`: its request wanted no echo. */
export function checkEvent(sent: unknown, on: { readonly transport: Transport; readonly lean?: boolean }): string[] {
  const { response } = (sent ?? {}) as { response?: unknown }
  if (on.lean !== true || typeof response !== 'object' || response === null) return checkWhole(sent, on)
  const echoed = Object.keys(response).filter(isInheritable)
  if (echoed.length > 0) return [`lean response echoes ${echoed.join(', ')}`]
  return checkWhole({ ...(sent as object), response: { ...Object.fromEntries(settings), ...response } }, on)
}
function checkWhole(frame: unknown, on: { readonly transport: Transport }): string[] {
  if (typeof frame !== 'object' || frame === null || Array.isArray(frame)) return ['event is no object']
  const { type } = frame as { type?: unknown }
  if (typeof type !== 'string') return ['event has no string type']
  const ref = schema.events[on.transport].get(type)
  if (ref === undefined) return [`${type} is no event of this transport`]
  const found = problems(ref, frame, type)
  // Stricter than the types: what clients hang or throw without.
  if (type === 'error' && on.transport === 'socket') found.push(...strictError(frame as Record<string, unknown>))
  return found
}
function strictError(frame: Record<string, unknown>): string[] {
  const { status, sequence_number, error } = frame
  const found: string[] = []
  if (typeof status !== 'number' || status < 400 || status > 599) found.push('error has no status from 400 to 599')
  if (!Number.isInteger(sequence_number)) found.push('error has no sequence_number')
  if (typeof (error as { code?: unknown } | undefined)?.code !== 'string') found.push('error has no code')
  return found
}

export const checkResponse = body('response', 'response')
export const checkItem = body('item', 'item')
export const checkItemList = body('itemList', 'list')
export const checkCompaction = body('compaction', 'compaction')
export const checkInputTokens = body('inputTokens', 'input_tokens')
export const checkModel = body('model', 'model')
/** An HTTP error: all four keys, and a code that is never null here. */
export function checkErrorBody(value: unknown): string[] {
  const found = body('error', 'error body')(value)
  if (found.length === 0 && typeof (value as { error: { code: unknown } }).error.code !== 'string')
    found.push('error body has no code')
  return found
}
/** The types have no list of models and no deletion: shapes of the reference pages. */
export function checkModels(value: unknown): string[] {
  const { object, data, ...rest } = (value ?? {}) as Record<string, unknown>
  const found = Object.keys(rest).map((key) => `models has unknown field ${key}`)
  if (object !== 'list') found.push("models: object is not 'list'")
  if (!Array.isArray(data)) return [...found, 'models: data is no array']
  return [...found, ...data.flatMap(checkModel)]
}
export function checkDeleted(value: unknown): string[] {
  const { id, object, deleted, ...rest } = (value ?? {}) as Record<string, unknown>
  const found = Object.keys(rest).map((key) => `deletion has unknown field ${key}`)
  if (typeof id !== 'string' || object !== 'response.deleted' || deleted !== true)
    found.push('deletion is not {id, object, deleted}')
  return found
}
