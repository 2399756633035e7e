// The committed schemas with the named additions applied: what check.ts compiles.
import { readFileSync } from 'node:fs'
import { additions, type Change } from './additions.ts'

export type Node = { [key: string]: unknown }
export type Transport = 'sse' | 'socket'
export type WireSchema = {
  readonly openai: string
  readonly definitions: Record<string, Node>
  /** Event type → reference of its schema, per transport. */
  readonly events: Record<Transport, Map<string, string>>
}

const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null && !Array.isArray(value)
function need(value: unknown, what: string): Node {
  if (!isNode(value)) throw new Error(`wire.json has no ${what}; run: npm --prefix test/schema run generate`)
  return value
}

export function loadSchema(): WireSchema {
  const file = need(JSON.parse(readFileSync(new URL('../schema/wire.json', import.meta.url), 'utf8')), 'object')
  const definitions = need(file['definitions'], 'definitions') as Record<string, Node>
  const events = {
    sse: eventsOf(definitions, 'ResponseStreamEvent'),
    socket: eventsOf(definitions, 'ResponsesServerEvent'),
  }
  for (const type of ['Created', 'Failed'])
    events.socket.set(`response.inject.${type.toLowerCase()}`, `#/definitions/BetaResponseInject${type}Event`)
  for (const union of ['Tool', 'ResponseItem']) definitions[`UnknownType.${union}`] = unknownType(definitions, union)
  for (const { change } of additions) apply(change, definitions, events)
  for (const definition of Object.values(definitions)) discriminate(definition, definitions)
  return { openai: String(file['openai']), definitions, events }
}

function eventsOf(definitions: Record<string, Node>, union: string): Map<string, string> {
  const found = new Map<string, string>()
  for (const ref of variants(definitions, union)) {
    const type = typesOf(deref(definitions, ref))[0]
    // The flat socket error: this server only sends the nested one (docs/protocol.md), so the flat one is no excuse.
    if (type !== undefined && !ref.endsWith('ResponseWsStreamingError')) found.set(type, ref)
  }
  return found
}
function variants(definitions: Record<string, Node>, union: string): string[] {
  const any = need(definitions[union], union)['anyOf']
  return (Array.isArray(any) ? any : []).flatMap((v: unknown) =>
    isNode(v) && typeof v['$ref'] === 'string' ? [v['$ref']] : [],
  )
}
function deref(definitions: Record<string, Node>, ref: string): Node {
  const found = need(definitions[decodeURIComponent(ref.slice('#/definitions/'.length))], ref)
  return typeof found['$ref'] === 'string' ? deref(definitions, found['$ref']) : found
}
function typesOf(definition: Node): string[] {
  const properties = isNode(definition['properties']) ? definition['properties'] : {}
  const type = isNode(properties['type']) ? properties['type'] : {}
  if (typeof type['const'] === 'string') return [type['const']]
  return Array.isArray(type['enum']) ? type['enum'].filter((t): t is string => typeof t === 'string') : []
}
/** An object whose `type` is none of the union's. */
function unknownType(definitions: Record<string, Node>, union: string): Node {
  const known = variants(definitions, union).flatMap((ref) => typesOf(deref(definitions, ref)))
  return {
    type: 'object',
    required: ['type'],
    properties: { type: { type: 'string', not: { enum: [...new Set(known)] } } },
  }
}

function apply(change: Change, definitions: Record<string, Node>, events: WireSchema['events']): void {
  if ('event' in change) {
    const name = `Own.${change.event}.${change.on.join('.')}`
    definitions[name] = { ...change.schema }
    for (const transport of change.on) events[transport].set(change.event, `#/definitions/${name}`)
    return
  }
  for (const name of change.of) {
    const definition = need(definitions[name], name)
    if ('without' in change) {
      const required = definition['required']
      if (!Array.isArray(required) || !required.includes(change.without))
        throw new Error(`${name}.${change.without} is not required`)
      definition['required'] = required.filter((field) => field !== change.without)
      delete need(definition['properties'], name)[change.without]
    } else if ('schema' in change) {
      const properties = need(definition['properties'], name)
      if (change.field in properties)
        throw new Error(`the types have ${name}.${change.field} by now: drop the addition`)
      properties[change.field] = change.schema
    } else if ('value' in change) {
      const field = need(need(definition['properties'], name)[change.field], change.field)
      const values = field['enum']
      if (!Array.isArray(values) || values.includes(change.value))
        throw new Error(`the types have '${change.value}' of ${name}.${change.field} by now: drop the addition`)
      field['enum'] = [...values, change.value]
    } else if (change.fields === undefined) {
      const any = definition['anyOf']
      if (!Array.isArray(any)) throw new Error(`${name} is no union`)
      definition['anyOf'] = [...any, change.shape]
    } else {
      const properties = need(definition['properties'], name)
      for (const key of change.fields) {
        const field = need(properties[key], key)
        // A list gets a further shape of its items, anything else a further shape of itself.
        if (field['type'] === 'array' && 'items' in field) field['items'] = { anyOf: [field['items'], change.shape] }
        else properties[key] = { anyOf: [field, change.shape] }
      }
    }
  }
}

/** Unions whose members differ in `type` name the member at fault instead of complaining about all of them. */
function discriminate(node: unknown, definitions: Record<string, Node>): void {
  if (Array.isArray(node)) for (const inner of node) discriminate(inner, definitions)
  if (!isNode(node)) return
  const any = node['anyOf']
  if (Array.isArray(any) && any.length > 1 && any.every((v) => isNode(v) && typeof v['$ref'] === 'string')) {
    const tags = any.map((v: Node) => typesOf(deref(definitions, String(v['$ref']))))
    const flat = tags.flat()
    if (tags.every((t) => t.length > 0) && new Set(flat).size === flat.length) {
      node['oneOf'] = any
      node['discriminator'] = { propertyName: 'type' }
      node['required'] = ['type']
      node['type'] = 'object'
      delete node['anyOf']
    }
  }
  for (const [key, inner] of Object.entries(node)) if (key !== 'discriminator') discriminate(inner, definitions)
}
