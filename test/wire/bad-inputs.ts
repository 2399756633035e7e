// Requests that must be refused, and how: the same on a socket and over HTTP.
import { hello } from './trouble.ts'

/** JSON nested so deep. */
export const deep = (levels: number): string => `${'[{"a":'.repeat(levels / 2)}1${'}]'.repeat(levels / 2)}`
const image = (url: string): unknown => [{ role: 'user', content: [{ type: 'input_image', image_url: url }] }]
const tool = (parameters: unknown): Record<string, unknown> => ({
  ...hello,
  tools: [{ type: 'function', name: 'f', parameters }],
})
const png = (bytes: string): string => `data:image/png;base64,${Buffer.from(bytes, 'latin1').toString('base64')}`

/** Bodies that both doors refuse in the same way: code, param, body. */
export const refusedBodies: [name: string, code: string, param: string | null, body: unknown][] = [
  ['no model', 'invalid_request', 'model', { input: 'hi' }],
  ['a model that is no text', 'invalid_request', 'model', { ...hello, model: 5 }],
  ['input that is none', 'invalid_request', 'input', { ...hello, input: 5 }],
  ['an item that is none', 'invalid_request', 'input.0', { ...hello, input: ['hi'] }],
  ['a temperature that melts', 'invalid_request', 'temperature', { ...hello, temperature: 9 }],
  ['a negative output limit', 'invalid_request', 'max_output_tokens', { ...hello, max_output_tokens: -1 }],
  ['metadata that is none', 'invalid_request', 'metadata', { ...hello, metadata: 'x' }],
  ['a tool schema that is a text', 'invalid_tool_schema', 'tools.0.parameters', tool('{}')],
  ['a tool schema that is a list', 'invalid_tool_schema', 'tools.0.parameters', tool([])],
  ['a tool schema of a list', 'invalid_tool_schema', 'tools.0.parameters', tool({ type: 'array' })],
  [
    'a tool schema of nothing known',
    'invalid_tool_schema',
    'tools.0.parameters',
    tool({ type: 'object', properties: { a: { type: 'thing' } } }),
  ],
  [
    'a tool schema with a property that is none',
    'invalid_tool_schema',
    'tools.0.parameters',
    tool({ type: 'object', properties: { a: 1 } }),
  ],
  [
    'an image that is a text',
    'invalid_image',
    'input.0.content.0.image_url',
    { ...hello, input: image(png('I am no image')) },
  ],
  [
    'an image that is no base64',
    'invalid_base64_image',
    'input.0.content.0.image_url',
    { ...hello, input: image('data:image/png;base64,@@@@') },
  ],
  [
    'an image elsewhere',
    'invalid_image_url',
    'input.0.content.0.image_url',
    { ...hello, input: image('http://127.0.0.1:9/cat.png') },
  ],
  [
    'an image in a file',
    'invalid_image_url',
    'input.0.content.0.image_url',
    { ...hello, input: image('file:///etc/passwd') },
  ],
  [
    'an unknown previous id',
    'previous_response_not_found',
    'previous_response_id',
    { ...hello, previous_response_id: 'resp_none' },
  ],
  ['background', 'unsupported_parameter', 'background', { ...hello, background: true }],
  ['a conversation', 'unsupported_parameter', 'conversation', { ...hello, conversation: 'conv_1' }],
  ['a stored prompt', 'unsupported_parameter', 'prompt', { ...hello, prompt: { id: 'p' } }],
  [
    'an unknown item',
    'item_not_found',
    'input.0.id',
    { ...hello, input: [{ type: 'item_reference', id: 'msg_none' }] },
  ],
  [
    'a sealed item that is forged',
    'invalid_encrypted_content',
    null,
    {
      ...hello,
      input: [{ type: 'compaction', encrypted_content: 'ctn1.k1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' }],
    },
  ],
]
/** Texts that are refused before they are read: the same for a frame and a body. */
export const refusedTexts: [name: string, text: string][] = [
  ['half of an object', '{"type":"response.create","model":'],
  ['words', 'hello'],
  ['nothing', ''],
  ['a list', '[1]'],
  ['a number', '5'],
  ['null', 'null'],
  ['a text', '"response.create"'],
  ['an object with a loose end', '{"type":"response.create"},'],
  ['nesting past 128 levels', `{"type":"response.create","model":"m","input":${deep(128)}}`],
  ['nesting past 100,000 levels', `{"type":"response.create","input":${'['.repeat(100_000)}`],
  [
    'a key that reaches for the prototype',
    '{"type":"response.create","model":"m","input":"a","metadata":{"__proto__":{"x":"y"}}}',
  ],
  [
    'the same key in other letters',
    '{"type":"response.create","model":"m","input":"a","metadata":{"\\u005f_proto__":{"x":"y"}}}',
  ],
]
