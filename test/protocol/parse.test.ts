// Input items at the door: what real clients send gets through whole, what is wrong gets one sentence and its place.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ApiError } from '../../src/protocol/errors.ts'
import { itemShapes } from '../../src/protocol/item-shapes.ts'
import { parseItems } from '../../src/protocol/parse.ts'

const refusal = (value: unknown): Pick<ApiError, 'code' | 'param' | 'message'> => {
  try {
    parseItems(value, 'input')
  } catch (e) {
    if (e instanceof ApiError) return e
    throw e
  }
  throw new Error('nothing was refused')
}
const one = (item: unknown): unknown => parseItems([item], 'input')[0]
const png = `data:image/png;base64,${Buffer.from('\x89PNG\r\n\x1a\n', 'latin1').toString('base64')}`
const text = (t: string) => ({ type: 'input_text', text: t })

describe('input as a whole', () => {
  it('takes a string as one user message', () => {
    expect(parseItems('hi', 'input')).toEqual([{ type: 'message', role: 'user', content: [text('hi')] }])
  })
  it('takes an empty list', () => {
    expect(parseItems([], 'input')).toEqual([])
  })
  it.each([undefined, null, 3, {}, true])('refuses %s with param `input`', (value) => {
    expect(refusal(value)).toMatchObject({ code: 'invalid_request', param: 'input' })
  })
  it('refuses entries that are no objects, and types that are no strings', () => {
    for (const item of [null, 'x', 3, []])
      expect(refusal([text('x'), item].slice(1))).toMatchObject({ param: 'input.0' })
    for (const item of [{ type: 3, role: 'user', content: '' }, {}, { content: 'x' }])
      expect(refusal([item])).toMatchObject({ param: 'input.0.type' })
  })
  it('takes 100,000 items and no more', () => {
    const item = { role: 'user', content: '' }
    expect(
      parseItems(
        Array.from({ length: 100_000 }, () => item),
        'input',
      ),
    ).toHaveLength(100_000)
    expect(refusal(Array.from({ length: 100_001 }, () => item)).message).toContain('100000')
  })
  it('reads 200 items in a few milliseconds at most', () => {
    const items = Array.from({ length: 50 }, (_, i) => [
      {
        type: 'message',
        role: 'user',
        content: [text(`do ${i}`)],
        internal_chat_message_metadata_passthrough: { turn_id: 't' },
      },
      { type: 'reasoning', summary: [], encrypted_content: 'x' },
      { type: 'function_call', call_id: `c${i}`, name: 'shell', arguments: '{}' },
      { type: 'function_call_output', call_id: `c${i}`, output: 'ok' },
    ]).flat()
    parseItems(items, 'input')
    const best = Math.min(
      ...Array.from({ length: 9 }, () => {
        const start = performance.now()
        parseItems(items, 'input')
        return performance.now() - start
      }),
    )
    expect(best).toBeLessThan(5)
  })
  it('does not change what it was given', () => {
    const sent = [{ type: 'message', id: null, role: 'assistant', content: [{ type: 'output_text', text: 'a' }] }]
    const before = structuredClone(sent)
    parseItems(sent, 'input')
    expect(sent).toEqual(before)
  })
})

describe('messages', () => {
  it('may lack a type, also a null one', () => {
    const message = { type: 'message', role: 'user', content: [text('a')] }
    expect(one({ role: 'user', content: 'a' })).toEqual(message)
    expect(one({ type: null, role: 'user', content: 'a' })).toEqual(message)
  })
  it.each(['user', 'system', 'developer'])('of a %s have input text', (role) => {
    expect(one({ role, content: 'a' })).toMatchObject({ content: [text('a')] })
  })
  it('of the assistant have output text with annotations', () => {
    const part = { type: 'output_text', text: 'a', annotations: [] }
    expect(one({ role: 'assistant', content: 'a' })).toMatchObject({ content: [part] })
    expect(one({ role: 'assistant', content: [{ type: 'output_text', text: 'a' }] })).toMatchObject({ content: [part] })
    expect(one({ role: 'assistant', content: [{ type: 'output_text', text: 'a', annotations: null }] })).toMatchObject({
      content: [part],
    })
    const cited = { ...part, annotations: [{ type: 'url_citation', url: 'https://x.example' }], logprobs: [] }
    expect(one({ role: 'assistant', content: [cited] })).toMatchObject({ content: [cited] })
  })
  it('of the assistant keep input text as it was sent', () => {
    expect(one({ role: 'assistant', content: [text('a')] })).toMatchObject({ content: [text('a')] })
  })
  it('keep phase, id, status and every unknown field', () => {
    const sent = {
      type: 'message',
      id: 'msg_1',
      role: 'assistant',
      status: 'completed',
      phase: 'commentary',
      content: [{ type: 'refusal', refusal: 'no', extra: 1 }],
      internal_chat_message_metadata_passthrough: { turn_id: 't', content_item_kinds: ['a'] },
    }
    expect(one(sent)).toEqual(sent)
  })
  it('lose null ids and statuses, and statuses nobody knows', () => {
    expect(one({ type: 'message', id: null, status: null, role: 'user', content: [] })).toEqual({
      type: 'message',
      role: 'user',
      content: [],
    })
    expect(one({ type: 'message', status: 'thinking', role: 'user', content: [] })).not.toHaveProperty('status')
  })
  it('keep parts of unknown types, and read those of the chat API', () => {
    const strange = { type: 'input_hologram', data: [1] }
    expect(one({ role: 'user', content: [strange] })).toMatchObject({ content: [strange] })
    expect(one({ role: 'user', content: [{ type: 'text', text: 'a' }] })).toMatchObject({ content: [text('a')] })
    expect(one({ role: 'assistant', content: [{ type: 'text', text: 'a' }] })).toMatchObject({
      content: [{ type: 'output_text' }],
    })
  })
  it.each([
    ['input.0.role', { type: 'message', role: 'tool', content: '' }],
    ['input.0.role', { type: 'message', content: '' }],
    ['input.0.content', { role: 'user' }],
    ['input.0.content', { role: 'user', content: null }],
    ['input.0.content', { role: 'user', content: { type: 'input_text', text: '' } }],
    ['input.0.content.1', { role: 'user', content: [text('a'), 'b'] }],
    ['input.0.content.0', { role: 'user', content: [{ text: 'a' }] }],
    ['input.0.content.0.text', { role: 'user', content: [{ type: 'input_text' }] }],
    ['input.0.content.0.refusal', { role: 'assistant', content: [{ type: 'refusal', refusal: 3 }] }],
    [
      'input.0.content.0.annotations',
      { role: 'assistant', content: [{ type: 'output_text', text: '', annotations: {} }] },
    ],
    ['input.0.phase', { role: 'assistant', content: '', phase: 'encore' }],
    ['input.0.id', { role: 'user', content: '', id: 3 }],
    ['input.0.id', { role: 'user', content: '', id: 'x'.repeat(8193) }],
  ])('are refused with param %s', (param, item) => {
    expect(refusal([item])).toMatchObject({ code: 'invalid_request', param })
  })
})

describe('images and files', () => {
  const places: readonly [string, (part: object) => unknown][] = [
    ['input.0.content.1', (part) => ({ role: 'user', content: [text('a'), part] })],
    ['input.0.output.0', (part) => ({ type: 'function_call_output', call_id: 'c', output: [part] })],
    ['input.0.output.0', (part) => ({ type: 'custom_tool_call_output', call_id: 'c', output: [part] })],
    [
      'input.0.output',
      (part) => ({ type: 'computer_call_output', call_id: 'c', output: { ...part, type: 'computer_screenshot' } }),
    ],
  ]
  it.each(places)('are checked at %s', (at, put) => {
    expect(() => one(put({ type: 'input_image', image_url: png }))).not.toThrow()
    const image = (more: object) => refusal([put({ type: 'input_image', ...more })])
    expect(image({ image_url: 'https://x.example/a.png' })).toMatchObject({
      code: 'invalid_image_url',
      param: `${at}.image_url`,
    })
    expect(image({ image_url: 'ftp://x.example/a.png' })).toMatchObject({
      code: 'invalid_image_url',
      param: `${at}.image_url`,
    })
    expect(image({ image_url: 'data:image/png;base64,AAAA' })).toMatchObject({
      code: 'invalid_image',
      param: `${at}.image_url`,
    })
    expect(image({ image_url: 'data:image/png;base64,A' })).toMatchObject({
      code: 'invalid_base64_image',
      param: `${at}.image_url`,
    })
    expect(image({ file_id: 'file_1' })).toMatchObject({ code: 'unsupported_parameter', param: `${at}.file_id` })
    expect(image({})).toMatchObject({ code: 'invalid_request', param: `${at}.image_url` })
  })
  it.each(places.slice(0, 3))('files are checked at %s', (at, put) => {
    const pdf = { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0=' }
    expect(() => one(put(pdf))).not.toThrow()
    const file = (more: object) => refusal([put({ type: 'input_file', ...more })])
    expect(file({ file_url: 'https://x.example/a.pdf' })).toMatchObject({
      code: 'invalid_image_url',
      param: `${at}.file_url`,
    })
    expect(file({ file_id: 'file_1' })).toMatchObject({ code: 'unsupported_parameter', param: `${at}.file_id` })
    expect(file({ file_data: '!' })).toMatchObject({ code: 'invalid_request', param: `${at}.file_data` })
    expect(file({})).toMatchObject({ code: 'invalid_request', param: `${at}.file_data` })
  })
  it('of older clients are read: nested URLs and sources', () => {
    const image = (part: object) => one({ role: 'user', content: [part] })
    const plain = { content: [{ type: 'input_image', image_url: png }] }
    expect(image({ type: 'input_image', image_url: { url: png, detail: 'high' } })).toMatchObject({
      content: [{ ...plain.content[0], detail: 'high' }],
    })
    expect(image({ type: 'image_url', image_url: { url: png } })).toMatchObject(plain)
    const data = png.slice(png.indexOf(',') + 1)
    expect(image({ type: 'input_image', source: { type: 'base64', media_type: 'image/png', data } })).toMatchObject(
      plain,
    )
    expect(image({ type: 'input_image', source: { type: 'url', url: png } })).toMatchObject(plain)
    expect(
      image({
        type: 'input_file',
        source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=', filename: 'a' },
      }),
    ).toMatchObject({
      content: [{ type: 'input_file', filename: 'a', file_data: 'data:application/pdf;base64,JVBERi0=' }],
    })
    for (const part of [
      { type: 'image_url', image_url: { url: 'https://x.example/a' } },
      { type: 'input_image', image_url: { url: 'http://x.example/a' } },
      { type: 'input_image', source: { type: 'url', url: 'http://x.example/a' } },
      { type: 'input_file', source: { type: 'url', url: 'http://x.example/a' } },
    ])
      expect(refusal([{ role: 'user', content: [part] }]).code).toBe('invalid_image_url')
  })
})

describe('calls and their outputs', () => {
  const calls = [
    { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
    { type: 'custom_tool_call', call_id: 'c', name: 'f', input: '' },
    { type: 'shell_call', call_id: 'c', action: { commands: ['ls'] } },
    { type: 'apply_patch_call', call_id: 'c', operation: { type: 'delete_file', path: 'a' }, status: 'completed' },
    { type: 'computer_call', call_id: 'c', action: { type: 'click', x: 1, y: 2 } },
    { type: 'program', call_id: 'c', code: '1', fingerprint: 'f' },
  ]
  const outputs = [
    { type: 'function_call_output', call_id: 'c', output: 'ok' },
    { type: 'custom_tool_call_output', call_id: 'c', output: [text('ok')] },
    {
      type: 'shell_call_output',
      call_id: 'c',
      output: [{ stdout: 'a', stderr: '', outcome: { type: 'exit', exit_code: 0 } }],
    },
    { type: 'apply_patch_call_output', call_id: 'c', status: 'failed', output: null },
    { type: 'computer_call_output', call_id: 'c', output: { type: 'computer_screenshot', image_url: png } },
    { type: 'program_output', call_id: 'c', result: '1', status: 'completed' },
  ]
  it.each([...calls, ...outputs])('%o passes, with and without an id', (item) => {
    expect(one({ ...item, extra: { kept: true } })).toEqual({ ...item, extra: { kept: true } })
    expect(one({ ...item, id: 'x_1' })).toEqual({ ...item, id: 'x_1' })
    expect(one({ ...item, id: null })).not.toHaveProperty('id')
  })
  it.each([...calls, ...outputs])('%o needs a call_id that is not empty', (item) => {
    for (const call_id of [undefined, null, '', 3])
      expect(
        refusal([
          { role: 'user', content: '' },
          { ...item, call_id },
        ]),
      ).toMatchObject({ code: 'invalid_request', param: 'input.1.call_id' })
  })
  it('keeps namespace, caller and async, and drops their nulls where they say nothing', () => {
    const call = { ...calls[0], namespace: 'n', async: true, caller: { type: 'program', caller_id: 'p' } }
    expect(one(call)).toEqual(call)
    expect(one({ ...calls[0], namespace: null, async: null })).toEqual(calls[0])
  })
  it('refuses outputs that are neither text nor parts, arguments that are no text, calls without a name', () => {
    for (const output of [undefined, null, 3, { a: 1 }])
      expect(refusal([{ ...outputs[0], output }]).param).toBe('input.0.output')
    expect(refusal([{ ...calls[0], arguments: {} }]).param).toBe('input.0.arguments')
    expect(refusal([{ ...calls[0], name: '' }]).param).toBe('input.0.name')
    expect(refusal([{ ...calls[2], action: { commands: 'ls' } }]).param).toBe('input.0.action.commands')
  })
  it('takes a local shell output with only an id, and a server-run tool search without a call', () => {
    const shell = { type: 'local_shell_call_output', id: 'ls_1', output: 'a' }
    expect(one(shell)).toEqual(shell)
    const search = { type: 'tool_search_output', id: 'ts_1', call_id: null, execution: 'server', tools: [] }
    expect(one(search)).toMatchObject({ type: 'tool_search_output', tools: [] })
  })
})

describe('other items', () => {
  it('reasoning may lack its id and its summary', () => {
    expect(one({ type: 'reasoning', encrypted_content: 'x', content: null, summary: null })).toEqual({
      type: 'reasoning',
      encrypted_content: 'x',
      summary: [],
    })
    const whole = {
      type: 'reasoning',
      id: 'rs_1',
      summary: [{ type: 'summary_text', text: 'a' }],
      content: [{ type: 'reasoning_text', text: 'b' }],
      encrypted_content: null,
    }
    expect(one(whole)).toEqual(whole)
    expect(refusal([{ type: 'reasoning', summary: [{ type: 'summary_text' }] }]).param).toBe('input.0.summary.0.text')
  })
  it('references may lack a type', () => {
    expect(one({ id: 'msg_1' })).toEqual({ type: 'item_reference', id: 'msg_1' })
    expect(one({ type: null, id: 'msg_1' })).toEqual({ type: 'item_reference', id: 'msg_1' })
    expect(refusal([{ type: 'item_reference' }]).param).toBe('input.0.id')
  })
  it('tools that a conversation brings along are parsed as tools', () => {
    const tools = [{ type: 'function', name: 'f' }]
    for (const item of [
      { type: 'additional_tools', role: 'developer', tools },
      { type: 'tool_search_output', call_id: 'c', tools },
    ])
      expect(one(item)).toMatchObject({ tools: [{ type: 'function', name: 'f', parameters: null, strict: null }] })
    expect(
      refusal([
        { type: 'additional_tools', role: 'developer', tools: [{ type: 'function', name: 'f', parameters: 3 }] },
      ]),
    ).toMatchObject({
      code: 'invalid_tool_schema',
      param: 'input.0.tools.0.parameters',
    })
    expect(one({ type: 'additional_tools' })).toEqual({ type: 'additional_tools', role: 'developer', tools: [] })
  })
  it('compaction needs its content', () => {
    expect(refusal([{ type: 'compaction', id: 'cmp_1' }]).param).toBe('input.0.encrypted_content')
    expect(one({ type: 'compaction_trigger' })).toEqual({ type: 'compaction_trigger' })
  })
  it('hosted items without ids, actions and statuses are kept', () => {
    for (const item of [
      { type: 'web_search_call', status: 'completed', action: { type: 'search', query: 'a' } },
      { type: 'web_search_call', id: 'ws_1', status: 'searching' },
      { type: 'image_generation_call', id: 'ig_1', result: 'AAAA', status: 'generating' },
      { type: 'file_search_call', queries: ['a'], results: null },
      {
        type: 'code_interpreter_call',
        id: 'ci_1',
        code: '1',
        container_id: 'c',
        outputs: [{ type: 'logs', logs: '' }],
        status: 'interpreting',
      },
      { type: 'mcp_call', server_label: 'l', name: 'n', arguments: '{}', output: 'x', error: null },
      { type: 'mcp_list_tools', server_label: 'l', tools: [{ name: 'n', input_schema: {} }] },
      { type: 'mcp_approval_request', server_label: 'l', name: 'n', arguments: '{}' },
      { type: 'mcp_approval_response', approval_request_id: 'a', approve: false },
      { type: 'tool_search_call', call_id: 'c', arguments: { q: 1 } },
      { type: 'configuration_update', reasoning: { effort: 'low' } },
      { type: 'local_shell_call', call_id: 'c', action: { type: 'exec', command: ['ls'], env: {} } },
    ])
      expect(one(item)).toEqual(item)
  })
  it('every known type is in the table', () => {
    expect(itemShapes.size).toBe(31)
  })
  it('unknown types are kept exactly as they came', () => {
    for (const item of [
      { type: 'agent_message', id: null, call_id: '', x: [null] },
      { type: 'slug:thing' },
      { type: '__proto__' },
      { type: 'constructor' },
    ])
      expect(one(item)).toEqual(item)
  })
})

describe('hostile input', () => {
  const keys = ['__proto__', 'constructor', 'prototype']
  const payload = (key: string) => `{"${key}":{"x":1,"prototype":{"x":1},"__proto__":{"x":1}}}`
  it('pollutes no prototype, whatever key stands where', () => {
    for (const key of keys) {
      const inner = payload(key).slice(1, -1)
      for (const text of [
        `[{"type":"message","role":"user","content":"a",${inner}}]`,
        `[{"type":"message","role":"user","content":[{"type":"input_text","text":"a",${inner}}]}]`,
        `[{"type":"input_image","role":"user",${inner}}]`,
        `[{"type":"function_call","call_id":"c","name":"f","arguments":"",${inner}}]`,
        `[{"type":"additional_tools","tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":${payload(key)}}}]}]`,
        `[{"type":"local_shell_call","action":{"type":"exec","command":[],"env":${payload(key)}}}]`,
        `[{"type":"unknown",${inner}}]`,
      ]) {
        let found: unknown[] = []
        try {
          found = parseItems(JSON.parse(text), 'input')
        } catch (e) {
          expect(e).toBeInstanceOf(ApiError)
        }
        for (const item of found) {
          expect(Object.getPrototypeOf(item)).toBe(Object.prototype)
          expect((item as Record<string, unknown>)['x']).toBeUndefined()
        }
        expect(({} as Record<string, unknown>)['x']).toBeUndefined()
      }
    }
  })
  it('never throws anything but an ApiError', () => {
    const type = fc.constantFrom(...itemShapes.keys(), 'unknown', undefined)
    const fields = fc.dictionary(
      fc.constantFrom(
        'id',
        'role',
        'content',
        'call_id',
        'output',
        'name',
        'arguments',
        'input',
        'summary',
        'tools',
        'status',
        'action',
        'image_url',
        'code',
      ),
      fc.oneof(
        fc.jsonValue({ maxDepth: 3 }),
        fc.constant('c'),
        fc.array(
          fc.record({
            type: fc.constantFrom('input_text', 'input_image', 'input_file', 'output_text', 'function'),
            text: fc.string(),
            image_url: fc.jsonValue(),
            source: fc.jsonValue(),
          }),
        ),
      ),
    )
    fc.assert(
      fc.property(type, fields, (t, rest) => {
        try {
          parseItems([{ type: t, ...rest }], 'input')
        } catch (e) {
          expect(e).toBeInstanceOf(ApiError)
        }
      }),
      { numRuns: 1000 },
    )
  })
})
