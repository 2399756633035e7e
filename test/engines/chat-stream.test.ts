import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ChatStream, type StreamRules } from '../../src/engines/chat-stream.ts'
import { clean } from '../../src/engines/wire-words.ts'
import { usageOf } from '../../src/engines/chat-usage.ts'
import { SseReader } from '../../src/engines/sse.ts'
import { ThinkTags } from '../../src/engines/think-tags.ts'
import { ApiError } from '../../src/protocol/errors.ts'
import { callables, type Tool } from '../../src/protocol/tools.ts'
import type { Chunk, Delta } from '../../src/turn/ports.ts'
import { customTool, tool } from './simulated-generations.ts'

const who = { name: 'e', host: 'h:1', model: 'm' }
const tools: Tool[] = [
  tool('ls', {}),
  tool('get_weather', { city: {} }),
  { type: 'namespace', name: 'fs', description: '', tools: [tool('read', {})] },
  customTool('apply_patch'),
]
const byFlat = new Map(callables(tools).map((t) => [t.flat, t]))
const rules: StreamRules = { who, tools: byFlat, calls: 'many', thinkTags: false }

type Out = { deltas: Delta[]; last: Chunk | undefined; over: boolean }
function run(chunks: (Record<string, unknown> | string)[], some: Partial<StreamRules> = {}): Out {
  const stream = new ChatStream({ ...rules, ...some })
  const taken: Chunk[] = []
  for (const chunk of chunks) {
    if (stream.over) break
    stream.push(typeof chunk === 'string' ? chunk : JSON.stringify(chunk))
    const got = stream.take()
    if (got) taken.push(got)
  }
  const { over } = stream
  stream.end()
  const rest = stream.take()
  if (rest) taken.push(rest)
  return { deltas: joined(taken.flatMap((c) => c.deltas ?? [])), last: taken.at(-1), over }
}
/** Adjacent deltas of one kind as one; throws where items overlap. */
function joined(deltas: readonly Delta[]): Delta[] {
  const out: Delta[] = []
  let open: string | undefined
  for (const d of deltas) {
    const kind = d.type === 'refusal' ? 'text' : d.type === 'arguments' ? 'call' : d.type
    if (d.type === 'end') {
      if (open === undefined) throw new Error('end of nothing')
      open = undefined
    } else if (open !== undefined && (open !== kind || d.type === 'call'))
      throw new Error(`${d.type} while ${open} is open`)
    else open = kind
    const last = out.at(-1)
    if (last && 'text' in last && 'text' in d && last.type === d.type)
      out[out.length - 1] = { type: d.type, text: last.text + d.text } as Delta
    else out.push(d)
  }
  if (open !== undefined) throw new Error(`${open} was never ended`)
  return out
}
const delta = (d: Record<string, unknown>, finish: string | null = null) => ({
  choices: [{ index: 0, delta: d, finish_reason: finish }],
})
const calls = (...list: unknown[]) => delta({ tool_calls: list })
const stop = delta({}, 'stop')
const end = (whole = true): Delta => ({ type: 'end', whole })
const args = (text: string): Delta => ({ type: 'arguments', text })
const fn = (name: string, callId?: string, namespace?: string): Delta => ({
  type: 'call',
  kind: 'function',
  name,
  namespace,
  callId,
})
const errorOf = (act: () => unknown): ApiError => {
  try {
    act()
  } catch (e) {
    if (e instanceof ApiError) return e
    throw e
  }
  throw new Error('nothing was thrown')
}

describe('a chat stream', () => {
  it.each(['reasoning_content', 'reasoning', 'reasoning_text', 'thinking'])('reads reasoning from %s', (field) => {
    const { deltas } = run([
      delta({ [field]: 'hm' }),
      delta({ [field]: 'm', content: null }),
      delta({ content: 'hi' }),
      stop,
    ])
    expect(deltas).toEqual([{ type: 'reasoning', text: 'hmm' }, end(), { type: 'text', text: 'hi' }, end()])
  })
  it('takes a thought that stands under two names once, and thoughts in parts', () => {
    expect(run([delta({ reasoning: 'a', reasoning_content: 'a' }), stop]).deltas).toEqual([
      { type: 'reasoning', text: 'a' },
      end(),
    ])
    const parts = [
      { type: 'thinking', thinking: [{ type: 'text', text: 'a' }] },
      { type: 'text', text: 'b' },
    ]
    expect(run([delta({ content: parts }), stop]).deltas).toEqual([
      { type: 'reasoning', text: 'a' },
      end(),
      { type: 'text', text: 'b' },
      end(),
    ])
  })
  it('splits think tags from the text, and leaves them alone when it is not told to', () => {
    const said = [delta({ content: '<thi' }), delta({ content: 'nk>a</think' }), delta({ content: '>\n\nb' }), stop]
    expect(run(said, { thinkTags: true }).deltas).toEqual([
      { type: 'reasoning', text: 'a' },
      end(),
      { type: 'text', text: 'b' },
      end(),
    ])
    expect(run(said).deltas).toEqual([{ type: 'text', text: '<think>a</think>\n\nb' }, end()])
    expect(run([delta({ content: 'a</think>b' }), stop], { thinkTags: 'open' }).deltas[0]).toEqual({
      type: 'reasoning',
      text: 'a',
    })
  })
  it('keeps a refusal and its text in one message', () => {
    expect(run([delta({ content: 'well' }), delta({ refusal: 'no' }), stop]).deltas).toEqual([
      { type: 'text', text: 'well' },
      { type: 'refusal', text: 'no' },
      end(),
    ])
  })
  it('raises calls to the tools they stand for', () => {
    const { deltas } = run([
      calls({ index: 0, id: 'a', function: { name: 'fs__read', arguments: '{"p":1}' } }),
      calls({ index: 1, id: 'b', function: { name: 'apply_patch', arguments: '{"input":"a\\n' } }),
      calls({ index: 1, function: { arguments: 'b"}' } }),
      calls({ index: 2, id: 'c', function: { name: 'functions.ls', arguments: '{}' } }),
      calls({ index: 3, id: 'd', function: { name: 'invented', arguments: '{}' } }),
      stop,
    ])
    expect(deltas).toEqual([
      fn('read', 'a', 'fs'),
      args('{"p":1}'),
      end(),
      { type: 'call', kind: 'custom', name: 'apply_patch', namespace: undefined, callId: 'b' },
      args('a\nb'),
      end(),
      fn('ls', 'c'),
      args('{}'),
      end(),
      fn('invented', 'd'),
      args('{}'),
      end(),
    ])
  })
  const two = [fn('ls', 'a'), args('{"x":"}{"}'), end(), fn('get_weather', 'b'), args('{"city":"Ulm"}'), end()]
  it.each<[string, unknown[]]>([
    [
      'one after the other',
      [
        { index: 0, id: 'a', function: { name: 'ls', arguments: '{"x":' } },
        { index: 0, function: { arguments: '"}{"}' } },
        { index: 1, id: 'b', function: { name: 'get_weather', arguments: '' } },
        { index: 1, function: { arguments: '{"city":"Ulm"}' } },
      ],
    ],
    [
      'interleaved',
      [
        { index: 0, id: 'a', function: { name: 'ls', arguments: '{"x":' } },
        { index: 1, id: 'b', function: { name: 'get_weather', arguments: '{"city"' } },
        { index: 0, function: { arguments: '"}{"}' } },
        { index: 1, function: { arguments: ':"Ulm"}' } },
      ],
    ],
    [
      'without indices',
      [
        { id: 'a', function: { name: 'ls', arguments: '{"x":' } },
        { function: { arguments: '"}{"}' } },
        { id: 'b', function: { name: 'get_weather', arguments: '{"city":"Ulm"}' } },
      ],
    ],
    [
      'all under index 0',
      [
        { index: 0, id: 'a', function: { name: 'ls', arguments: '{"x":"}{"}' } },
        { index: 0, id: 'b', function: { name: 'get_weather', arguments: '{"city":"Ulm"}' } },
      ],
    ],
    [
      'with names in pieces',
      [
        { index: 0, id: 'a', function: { name: 'l' } },
        { index: 0, function: { name: 's', arguments: '{"x":"}{"}' } },
        { index: 1, id: 'b', function: { name: 'get_' } },
        { index: 1, function: { name: 'weather' } },
        { index: 1, function: { arguments: '{"city":"Ulm"}' } },
      ],
    ],
    [
      'with id and name in every piece',
      [
        { index: 0, id: 'a', function: { name: 'ls', arguments: '{"x":' } },
        { index: 0, id: 'a', function: { name: 'ls', arguments: '"}{"}' } },
        { index: 1, id: 'b', function: { name: 'get_weather', arguments: '{"city":' } },
        { index: 1, id: 'b', function: { name: 'get_weather', arguments: '"Ulm"}' } },
      ],
    ],
    [
      'with arguments as objects',
      [
        { index: 0, id: 'a', function: { name: 'ls', arguments: { x: '}{' } } },
        { index: 1, id: 'b', function: { name: 'get_weather', arguments: { city: 'Ulm' } } },
      ],
    ],
    [
      'with a closing brace too many',
      [
        { index: 0, id: 'a', function: { name: 'ls', arguments: '{"x":"}{"}' } },
        { index: 0, function: { arguments: '}' } },
        { index: 1, id: 'b', function: { name: 'get_weather', arguments: '{"city":"Ulm"}' } },
      ],
    ],
  ])('reads parallel calls %s', (_, pieces) => {
    expect(run([...pieces.map((p) => calls(p)), delta({}, 'tool_calls')]).deltas).toEqual(two)
    expect(run([calls(...pieces), delta({}, 'tool_calls')]).deltas).toEqual(two)
  })
  it('says the second call while it comes, once the first is complete', () => {
    const stream = new ChatStream(rules)
    stream.push(JSON.stringify(calls({ index: 0, id: 'a', function: { name: 'ls', arguments: '{}' } })))
    stream.push(JSON.stringify(calls({ index: 1, id: 'b', function: { name: 'ls', arguments: '{"x"' } })))
    expect(stream.take()?.deltas).toEqual([fn('ls', 'a'), args('{}'), end(), fn('ls', 'b'), args('{"x"')])
  })
  it('reads calls without id, the legacy function_call and calls without arguments', () => {
    expect(
      run([calls({ function: { name: 'ls', arguments: '{}' } }, { function: { name: 'ls', arguments: '{}' } }), stop])
        .deltas,
    ).toEqual([fn('ls'), args('{}'), end(), fn('ls'), args('{}'), end()])
    expect(
      run([
        delta({ function_call: { name: 'ls', arguments: '' } }),
        delta({ function_call: { arguments: '{}' } }),
        delta({}, 'function_call'),
      ]).deltas,
    ).toEqual([fn('ls'), args('{}'), end()])
    expect(run([calls({ index: 0, id: 'a', function: { name: 'ls', arguments: '' } }), stop]).deltas).toEqual([
      fn('ls', 'a'),
      args('{}'),
      end(),
    ])
    expect(
      run([
        calls(
          { index: 0, id: 'a', function: { name: 'ls', arguments: '{}' } },
          { index: 1, id: 'a', function: { name: 'ls', arguments: '{}' } },
        ),
        stop,
      ]).deltas[3],
    ).toEqual(fn('ls'))
  })
  it('keeps words that come between calls until these are done', () => {
    const { deltas } = run([
      delta({ content: 'first' }),
      calls({ index: 0, id: 'a', function: { name: 'ls', arguments: '{' } }),
      delta({ content: 'mid' }),
      calls({ index: 0, function: { arguments: '}' } }),
      stop,
    ])
    expect(deltas).toEqual([
      { type: 'text', text: 'first' },
      end(),
      fn('ls', 'a'),
      args('{}'),
      end(),
      { type: 'text', text: 'mid' },
      end(),
    ])
  })
  it('reads the first call only where one was allowed, and then stops', () => {
    const { deltas, over, last } = run(
      [
        calls({ index: 0, id: 'a', function: { name: 'ls', arguments: '{' } }),
        calls({ index: 1, id: 'b', function: { name: 'ls', arguments: '{}' } }),
        calls({ index: 0, function: { arguments: '}' } }),
        'never read',
      ],
      { calls: 'one' },
    )
    expect(deltas).toEqual([fn('ls', 'a'), args('{}'), end()])
    expect(over).toBe(true)
    expect(last?.finish).toBe('stop')
    expect(
      run([calls({ index: 0, id: 'a', function: { name: 'ls', arguments: '{}' } }), delta({ content: 'x' }), stop], {
        calls: 'none',
      }).deltas,
    ).toEqual([{ type: 'text', text: 'x' }, end()])
  })
  it.each([
    ['stop', 'stop', true],
    ['eos', 'stop', true],
    ['length', 'length', false],
    ['content_filter', 'filter', false],
  ])('ends with finish_reason %s as %s', (reason, finish, whole) => {
    const { deltas, last } = run([delta({ content: 'a' }), delta({}, reason)])
    expect(deltas).toEqual([{ type: 'text', text: 'a' }, end(whole)])
    expect(last?.finish).toBe(finish)
    const call = run([calls({ index: 0, id: 'a', function: { name: 'ls', arguments: '{"a' } }), delta({}, reason)])
    expect(call.deltas.at(-1)).toEqual(end(false))
  })
  it('takes [DONE] for the end, and an end without it and without finish_reason for a cut', () => {
    expect(run([delta({ content: 'a' }), '[DONE]']).last?.finish).toBe('stop')
    const error = errorOf(() => run([delta({ content: 'a' })]))
    expect([error.code, error.message]).toEqual(['server_error', expect.stringContaining('cut its answer off')])
  })
  it.each<[string, string, string]>([
    ['no JSON', '{"choices":[', 'server_error'],
    ['no object', '[1]', 'server_error'],
    ['an error object', '{"error":{"message":"CUDA out of memory at 0x7f00","code":500}}', 'server_error'],
    ['an error string', '{"error":"boom"}', 'server_error'],
    ['a rate error', '{"error":{"message":"slow down","code":429}}', 'rate_limit_exceeded'],
    [
      'a context error',
      '{"error":{"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}',
      'context_length_exceeded',
    ],
    ['an aborted end', '{"choices":[{"delta":{},"finish_reason":"abort"}]}', 'server_error'],
    [
      'a call without a name',
      '{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]},"finish_reason":"stop"}]}',
      'server_error',
    ],
  ])('fails for %s', (_, data, code) => {
    const error = errorOf(() => run([data]))
    expect(error.code).toBe(code)
    expect(error.message).not.toContain('0x7f00')
  })
  it('gives the same deltas however the bytes are cut (law 3)', () => {
    const chunks = [
      delta({ reasoning: 'né' }),
      delta({ content: '日本🙂' }),
      calls({ index: 0, id: 'a', function: { name: 'apply_patch', arguments: '{"input":"ü\\u00e9🙂' } }),
      calls({ index: 0, function: { arguments: '"}' } }),
      stop,
      { choices: [], usage: { prompt_tokens: 9, completion_tokens: 3 } },
    ]
    const whole = run(chunks).deltas
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }),
        fc.constantFrom('\n', '\r\n'),
        (sizes, line) => {
          const bytes = Buffer.from(
            [...chunks.map((c) => JSON.stringify(c)), '[DONE]']
              .map((d) => `: ping${line}data: ${d}${line}${line}`)
              .join(''),
          )
          const got: string[] = []
          const reader = new SseReader((d) => got.push(d), 1 << 20)
          for (let at = 0, n = 0; at < bytes.length; n++) {
            const size = sizes[n % sizes.length] ?? 1
            reader.push(bytes.subarray(at, at + size))
            at += size
          }
          reader.end()
          expect(run(got).deltas).toEqual(whole)
        },
      ),
      { numRuns: 60 },
    )
  })
})

describe('think tags', () => {
  it('are found however the text is cut', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom('<', '/', 'think', '>', 'a', ' ', '</think>') }),
        fc.string({ unit: fc.constantFrom('<', 't', '>', 'b') }),
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
        (thought, text, sizes) => {
          fc.pre(!thought.includes('</think>'))
          const all = `\n<think>${thought}</think>\n${text}`
          const tags = new ThinkTags(false)
          const out = { reasoning: '', text: '' }
          for (let at = 0, n = 0; at < all.length; n++) {
            const size = sizes[n % sizes.length] ?? 1
            for (const s of tags.push(all.slice(at, at + size))) out[s.type] += s.text
            at += size
          }
          for (const s of tags.end()) out[s.type] += s.text
          expect(out).toEqual({ reasoning: thought, text })
        },
      ),
    )
  })
})

describe('server-sent events', () => {
  it('refuse a line past the limit, wherever it is cut', () => {
    const reader = new SseReader(() => {}, 100)
    reader.push(Buffer.from(`data: ${'x'.repeat(60)}`))
    expect(errorOf(() => reader.push(Buffer.from('x'.repeat(60)))).code).toBe('server_error')
    const many = new SseReader(() => {}, 100)
    expect(errorOf(() => many.push(Buffer.from(`data: ${'x'.repeat(60)}\n`.repeat(2)))).code).toBe('server_error')
  })
  it('join the data lines of one event, skip comments and other fields, and take the last one without its empty line', () => {
    const got: string[] = []
    const reader = new SseReader((d) => got.push(d), 1000)
    reader.push(Buffer.from('\ufeffevent: x\ndata: a\ndata:b\n\n: hm\nid: 3\n\ndata: c'))
    reader.end()
    expect(got).toEqual(['a\nb', 'c'])
  })
})

describe('reported usage', () => {
  it('is taken where it can be true', () => {
    expect(
      usageOf(
        {
          prompt_tokens: 10,
          completion_tokens: 4,
          prompt_tokens_details: { cached_tokens: 8 },
          completion_tokens_details: { reasoning_tokens: 1 },
        },
        true,
      ),
    ).toEqual({ input: 10, cached: 8, output: 4, reasoning: 1 })
    expect(
      usageOf(
        {
          prompt_tokens: 10,
          completion_tokens: 4,
          total_tokens: 20,
          completion_tokens_details: { reasoning_tokens: 6 },
        },
        true,
      ),
    ).toEqual({ input: 10, cached: 0, output: 10, reasoning: 6 })
  })
  it.each<unknown>([
    null,
    {},
    { prompt_tokens: 0, completion_tokens: 0 },
    { prompt_tokens: 5, completion_tokens: 0 },
    { prompt_tokens: -1, completion_tokens: 3 },
    { prompt_tokens: 1.5, completion_tokens: 3 },
    { prompt_tokens: 5, completion_tokens: 3, prompt_tokens_details: { cached_tokens: 6 } },
    { prompt_tokens: 5, completion_tokens: 3, completion_tokens_details: { reasoning_tokens: 4 } },
    { prompt_tokens: '5', completion_tokens: 3 },
  ])('is left to our own count for %j', (usage) => {
    expect(usageOf(usage, true)).toBeUndefined()
  })
})

describe("an engine's own words", () => {
  it('reach clients without paths, addresses, URLs and keys, as one short line', () => {
    const said = clean(
      'Error in /usr/lib/python3/vllm/engine.py:\n "boom" at 0x7fFF12 see http://10.0.0.1/x C:\\models\\a.gguf key sk-abcdefgh1234 models/org/name/file.bin',
      200,
    )
    expect(said).not.toMatch(/python3|0x|10\.0\.0\.1|gguf|sk-abc|file\.bin|\n/)
    expect(said).toContain("Error in …: 'boom' at … see")
    expect(clean('y'.repeat(500), 200)).toHaveLength(200)
  })
})
