import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { isInheritable } from '../../src/protocol/lean.ts'
import { additionRows, additions } from './additions.ts'
import {
  checkCompaction,
  checkErrorBody,
  checkEvent,
  checkModels,
  checkResponse,
  eventTypes,
  openaiVersion,
} from './check.ts'
import { responseWith, streamOf, usage } from './good-stream.ts'
import { LeanWishes } from './lean.ts'

const installed = (
  JSON.parse(readFileSync(new URL('../../node_modules/openai/package.json', import.meta.url), 'utf8')) as {
    version: string
  }
).version
const socket = { transport: 'socket' } as const
const sse = { transport: 'sse' } as const

describe('the schemas', () => {
  test('are made from the openai package that is installed', () => {
    expect(openaiVersion, 'regenerate: npm --prefix test/schema ci && npm --prefix test/schema run generate').toBe(
      installed,
    )
  })
  // Missing, it is a skip with this name, and a failure where CI is set.
  const generator = existsSync(new URL('../schema/node_modules', import.meta.url))
  test.skipIf(!generator && ['', '0', 'false', undefined].includes(process.env['CI']))(
    'are what the types give, where the generator is installed',
    { timeout: 60_000 },
    () => {
      const { status, stderr } = spawnSync(
        process.execPath,
        [fileURLToPath(new URL('../schema/generate.mjs', import.meta.url)), '--check'],
        { encoding: 'utf8' },
      )
      expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    },
  )
  test('know the 59 stream events, those of the socket, and ours', () => {
    expect(eventTypes('sse')).toHaveLength(59 + 1)
    expect(eventTypes('socket')).toHaveLength(59 + 3 + 2 + 2)
  })
  test('stay below 3 MB', () => {
    expect(readFileSync(new URL('../schema/wire.json', import.meta.url)).length).toBeLessThan(3e6)
  })
})

describe('a lean response', () => {
  const whole = { type: 'response.created', sequence_number: 0, response: responseWith() }
  const lean = {
    ...whole,
    response: Object.fromEntries(Object.entries(whole.response).filter(([k]) => !isInheritable(k))),
  }
  test('is right where it was asked for, and nowhere else', () => {
    expect(checkEvent(lean, { ...socket, lean: true })).toEqual([])
    expect(checkEvent(lean, socket)).not.toEqual([])
    expect(checkEvent(whole, socket)).toEqual([])
    expect(checkEvent(whole, { ...socket, lean: true })).toEqual([expect.stringContaining('echoes')])
  })
  test('lacks nothing but settings', () => {
    const { id: _, ...response } = lean.response
    expect(checkEvent({ ...lean, response }, { ...socket, lean: true })).not.toEqual([])
  })
  test('follows from its request, lane by lane, and from the response that it follows by steering', () => {
    const wishes = new LeanWishes()
    const created = (id: string, stream_id: string, previous_response_id: string | null = null) =>
      wishes.of({ type: 'response.created', stream_id, response: { id, previous_response_id } })
    wishes.sent({ type: 'response.create', stream_id: 'a', continuo: { echo: false } })
    wishes.sent({ type: 'response.create', stream_id: 'b' })
    expect([created('r2', 'b'), created('r1', 'a')]).toEqual([false, true])
    wishes.of({ type: 'response.steer.accepted', steer: { previous_response_id: 'r1' } })
    wishes.sent({ type: 'response.create', stream_id: 'a' })
    expect([created('r3', 'a', 'r1'), created('r4', 'a', 'r3')]).toEqual([true, false])
    expect(wishes.of({ type: 'response.completed', response: { id: 'r3' } })).toBe(true)
  })
})

describe('named additions', () => {
  test('stand in docs/protocol.md as they stand in additions.ts', () => {
    const doc = readFileSync(new URL('../../docs/protocol.md', import.meta.url), 'utf8')
    const section = /^#+ Named additions\n([\s\S]*?)(?=^#+ |$(?![\s\S]))/m.exec(doc)?.[1] ?? ''
    const rows = section.split('\n').filter((line) => line.startsWith('| ') && !/^\| (addition|-)/.test(line))
    expect(rows).toEqual(additionRows())
  })
  test('are named once each', () => {
    expect(new Set(additions.map((a) => `${a.name} ${a.where}`)).size).toBe(additions.length)
  })
})

describe('an event', () => {
  const [created] = streamOf({ items: [], ending: 'completed', lane: undefined })
  test('with an unknown field anywhere is refused', () => {
    expect(checkEvent({ ...created, more: 1 }, socket)).not.toEqual([])
    expect(checkEvent({ ...created, response: responseWith({ more: 1 }) }, socket)).not.toEqual([])
    const output = [
      {
        type: 'message',
        id: 'm',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: '', annotations: [], more: 1 }],
      },
    ]
    expect(checkEvent({ ...created, response: responseWith({ output }) }, socket)).not.toEqual([])
  })
  test('without a field that the types require is refused', () => {
    const { model: _, ...rest } = responseWith()
    expect(checkEvent({ ...created, response: rest }, socket)).toEqual([expect.stringContaining('model')])
  })
  test('may carry a lane on the socket, never null and never over SSE', () => {
    expect(checkEvent({ ...created, stream_id: 'a' }, socket)).toEqual([])
    expect(checkEvent({ ...created, stream_id: null }, socket)).not.toEqual([])
    expect(checkEvent({ ...created, stream_id: 'a' }, sse)).not.toEqual([])
  })
  test('of an unknown type, or none, is refused', () => {
    for (const bad of [null, [], 1, {}, { type: 1 }, { type: 'response.appended', sequence_number: 0 }])
      expect(checkEvent(bad, socket)).not.toEqual([])
  })
  test('of steering belongs to the socket only', () => {
    const steer = { type: 'response.steer.accepted', sequence_number: 3, steer: { id: 's', previous_response_id: 'r' } }
    expect(checkEvent(steer, socket)).toEqual([])
    expect(checkEvent(steer, sse)).not.toEqual([])
  })
  test('of a rollout belongs to the socket only, and says what it waits for', () => {
    const required_input = [{ type: 'function_call_output', call_id: 'c', name: 'n' }]
    const done = { type: 'response.done', sequence_number: 3, response_id: 'r', required_input, usage }
    expect(checkEvent(done, socket)).toEqual([])
    expect(checkEvent(done, sse)).not.toEqual([])
    for (const wrong of [{ required_input: [] }, { usage: null }, { response_id: undefined }, { more: 1 }])
      expect(checkEvent(JSON.parse(JSON.stringify({ ...done, ...wrong })), socket)).not.toEqual([])
  })
  test('of an error must have what clients hang without', () => {
    const error = { type: 'invalid_request_error', code: 'invalid_json', message: 'm', param: null }
    const good = { type: 'error', status: 400, sequence_number: 0, error }
    for (const on of [socket, sse]) expect(checkEvent(good, on)).toEqual([])
    expect(checkEvent({ ...good, status: undefined }, sse)).toEqual([])
    for (const bad of [
      { ...good, status: undefined },
      { ...good, status: 200 },
      { ...good, sequence_number: undefined },
      { ...good, error: { ...error, code: null } },
      { type: 'error', code: 'invalid_json', message: 'm', param: null, sequence_number: 0 },
    ])
      expect(checkEvent(JSON.parse(JSON.stringify(bad)), socket)).not.toEqual([])
  })
})

describe('a body', () => {
  test('of a response may have the named additions, and no other value in their place', () => {
    const interrupted = responseWith({
      status: 'incomplete',
      incomplete_details: { reason: 'interrupted' },
      end_turn: false,
      usage: { ...usage, estimated: true },
    })
    expect(checkResponse(interrupted)).toEqual([])
    expect(checkResponse({ ...interrupted, incomplete_details: { reason: 'bored' } })).not.toEqual([])
    expect(checkResponse({ ...interrupted, end_turn: true })).not.toEqual([])
    expect(
      checkResponse(responseWith({ status: 'failed', error: { code: 'context_length_exceeded', message: 'm' } })),
    ).toEqual([])
    expect(
      checkResponse(responseWith({ status: 'failed', error: { code: 'server_is_overloaded', message: 'm' } })),
    ).not.toEqual([])
  })
  test('may echo a newer tool, but not a known one in a wrong shape', () => {
    expect(checkResponse(responseWith({ tools: [{ type: 'telepathy', strength: 9 }] }))).toEqual([])
    expect(checkResponse(responseWith({ tools: [{ type: 'function', strength: 9 }] }))).not.toEqual([])
  })
  test('of an error has all four keys', () => {
    const error = { message: 'm', type: 'invalid_request_error', param: null, code: 'invalid_json' }
    expect(checkErrorBody({ error })).toEqual([])
    expect(checkErrorBody({ error: { ...error, code: null } })).not.toEqual([])
    expect(checkErrorBody({ error: { message: 'm', type: 't', code: 'c' } })).not.toEqual([])
    expect(checkErrorBody({ error, detail: 1 })).not.toEqual([])
  })
  test('of a compaction has user messages and one sealed item', () => {
    const output = [
      {
        type: 'message',
        id: 'msg_1',
        role: 'user',
        status: 'completed',
        content: [{ type: 'input_text', text: 'hi' }],
      },
      { type: 'compaction', id: 'cmp_1', encrypted_content: 'sealed' },
    ]
    expect(checkCompaction({ id: 'resp_1', object: 'response.compaction', created_at: 1, output, usage })).toEqual([])
    expect(
      checkCompaction({
        id: 'resp_1',
        object: 'response.compaction',
        created_at: 1,
        output: [{ type: 'item_reference', id: 'x' }],
        usage,
      }),
    ).not.toEqual([])
  })
  test('of models is a list of models', () => {
    const model = { id: 'm', object: 'model', created: 1, owned_by: 'o' }
    expect(checkModels({ object: 'list', data: [model] })).toEqual([])
    expect(checkModels({ object: 'list', data: [{ ...model, more: 1 }] })).not.toEqual([])
    expect(checkModels({ object: 'list' })).not.toEqual([])
  })
})
