import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ChatMessages, type MessageStyle, type Needs } from '../../src/engines/chat-messages.ts'
import { namingOf } from '../../src/protocol/functions.ts'
import type { InputPart, Item } from '../../src/protocol/items.ts'
import { callables, type Tool } from '../../src/protocol/tools.ts'
import { Chain } from '../../src/turn/chain.ts'
import { assistant, chainOf, customTool, output, tool, user } from './simulated-generations.ts'

const style: MessageStyle = {
  developerRole: false,
  system: 'first',
  reasoningField: 'reasoning_content',
  images: true,
  files: true,
}
type Said = {
  role: string
  content: unknown
  tool_calls?: { id: string; function: { name: string; arguments: string } }[]
  tool_call_id?: string
}
const plain = namingOf([])

function jsonOf(messages: ChatMessages, chain: Chain, names = plain): string {
  const { lead, pieces } = messages.render(chain, names)
  return `${JSON.stringify(lead)}|[${pieces.map(String).join(',')}]`
}
function messagesOf(
  items: Item[],
  some: Partial<MessageStyle> = {},
  tools: Tool[] = [],
): { lead: string; messages: Said[]; needs: Needs } {
  const { lead, pieces, needs } = new ChatMessages({ ...style, ...some }).render(
    chainOf(items),
    namingOf(callables(tools)),
  )
  return { lead, messages: JSON.parse(`[${pieces.map(String).join(',')}]`) as Said[], needs }
}
const call = (id: string, name = 'ls', args = '{}', namespace?: string): Item => ({
  type: 'function_call',
  call_id: id,
  name,
  arguments: args,
  ...(namespace === undefined ? {} : { namespace }),
})
const custom = (id: string, input: string): Item => ({
  type: 'custom_tool_call',
  call_id: id,
  name: 'apply_patch',
  input,
})
const reasoning = (text: string): Item => ({
  type: 'reasoning',
  summary: [],
  content: [{ type: 'reasoning_text', text }],
})
const developer = (text: string): Item => ({
  type: 'message',
  role: 'developer',
  content: [{ type: 'input_text', text }],
})
const png = 'data:image/png;base64,iVBORw0KGgo='
const image: InputPart = { type: 'input_image', image_url: png }

// Few ids, so that outputs meet open calls, answered ones and ones that never were.
const callId = fc.constantFrom('a', 'b', 'c', 'd')
const anyItem: fc.Arbitrary<Item> = fc.oneof(
  { weight: 3, arbitrary: callId.map((id) => call(id)) },
  { weight: 3, arbitrary: fc.tuple(callId, fc.string()).map(([id, text]) => output(id, text)) },
  { weight: 2, arbitrary: fc.string().map(assistant) },
  { weight: 2, arbitrary: fc.string({ unit: 'grapheme' }).map(user) },
  fc.string().map(reasoning),
  fc.string().map(developer),
  fc.tuple(callId, fc.string()).map(([id, text]) => custom(id, text)),
  callId.map((id): Item => ({
    type: 'function_call_output',
    call_id: id,
    output: [{ type: 'input_text', text: 'seen' }, image],
  })),
  fc.constant<Item>({ type: 'item_reference', id: 'msg_1' }),
  fc.constant<Item>({ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'look' }, image] }),
)
const anyStyle: fc.Arbitrary<MessageStyle> = fc.record({
  developerRole: fc.boolean(),
  system: fc.constantFrom('first', 'any'),
  reasoningField: fc.constantFrom('reasoning_content', 'reasoning', 'none'),
  images: fc.boolean(),
  files: fc.boolean(),
})

describe('messages made from items', () => {
  it('are the same bytes however the items are cut into links (law 6)', () => {
    const cut = fc.tuple(fc.array(fc.tuple(anyItem, fc.boolean()), { maxLength: 24 }), anyStyle)
    fc.assert(
      fc.property(cut, ([cuts, some]) => {
        const items = cuts.map(([item]) => item)
        const whole = jsonOf(new ChatMessages(some), chainOf(items))
        const grown = new ChatMessages(some)
        let chain = Chain.root('local/k')
        let held: Item[] = []
        for (const [item, ends] of cuts) {
          held.push(item)
          if (!ends) continue
          chain = chain.add({ response: 'r', from: 'input', items: held })
          held = []
          // Asked at every step, as a session does; what is kept from it must not show later.
          jsonOf(grown, chain)
        }
        chain = chain.add({ response: 'r', from: 'input', items: held })
        expect(jsonOf(grown, chain)).toBe(whole)
      }),
      { numRuns: 400 },
    )
  })
  it('hold every call with exactly one output behind it, before anything else is said', () => {
    fc.assert(
      fc.property(fc.array(anyItem, { maxLength: 24 }), anyStyle, (items, some) => {
        const { messages } = messagesOf(items, some)
        let open: string[] = []
        for (const m of messages) {
          if (m.role === 'tool') {
            expect(open).toContain(m.tool_call_id)
            open.splice(open.indexOf(m.tool_call_id ?? ''), 1)
            continue
          }
          expect(open).toEqual([])
          open = (m.tool_calls ?? []).map((c) => c.id)
        }
        expect(open).toEqual([])
      }),
      { numRuns: 400 },
    )
  })
  it('render only what is new at step 200', () => {
    const messages = new ChatMessages(style)
    let chain = chainOf([user('go')])
    for (let step = 0; step < 200; step++) {
      chain = chain.add({ response: `r${step}`, from: 'model', items: [reasoning('hm'), call(`c${step}`)] })
      chain = chain.add({ response: `r${step}`, from: 'input', items: [output(`c${step}`, 'done')] })
      const before = messages.rendered
      messages.render(chain, plain)
      expect(messages.rendered - before).toBe(step === 0 ? 4 : 3)
    }
    const fork = chain.parent?.add({ response: 'f', from: 'input', items: [output('c199', 'otherwise')] }) ?? chain
    const before = messages.rendered
    expect(jsonOf(messages, fork)).toContain('otherwise')
    expect(messages.rendered - before).toBe(1)
  })
  it('join adjacent reasoning, text and calls into one assistant message', () => {
    const { messages } = messagesOf([
      user('go'),
      reasoning('think'),
      assistant('I look.'),
      call('a'),
      call('b', 'cat', '{"p":1}'),
      output('a', 'A'),
      output('b', 'B'),
    ])
    expect(messages).toEqual([
      { role: 'user', content: 'go' },
      {
        role: 'assistant',
        content: 'I look.',
        reasoning_content: 'think',
        tool_calls: [
          { id: 'a', type: 'function', function: { name: 'ls', arguments: '{}' } },
          { id: 'b', type: 'function', function: { name: 'cat', arguments: '{"p":1}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'a', content: 'A' },
      { role: 'tool', tool_call_id: 'b', content: 'B' },
    ])
  })
  it('give open calls a note, put words behind the outputs they came before, and keep outputs of unknown calls as text', () => {
    const { messages } = messagesOf([
      call('a'),
      call('b'),
      output('a', 'A'),
      user('hurry'),
      output('b', 'B'),
      output('z', 'late'),
      call('c'),
    ])
    expect(messages.map((m) => [m.role, m.content])).toEqual([
      ['assistant', null],
      ['tool', 'A'],
      ['tool', 'B'],
      ['user', 'hurry'],
      ['user', '[Output of tool call z]\nlate'],
      ['assistant', null],
      ['tool', '(no output)'],
    ])
  })
  it('show images of a tool output behind the outputs, or as a note where the server takes none', () => {
    const items: Item[] = [
      call('a'),
      call('b'),
      { type: 'function_call_output', call_id: 'a', output: [{ type: 'input_text', text: 'see' }, image] },
      output('b', 'B'),
    ]
    expect(messagesOf(items).messages.slice(1)).toEqual([
      { role: 'tool', tool_call_id: 'a', content: 'see\n[image]' },
      { role: 'tool', tool_call_id: 'b', content: 'B' },
      {
        role: 'user',
        content: [
          { type: 'text', text: '[From the output of tool call a]' },
          { type: 'image_url', image_url: { url: png } },
        ],
      },
    ])
    const blind = messagesOf(items, { images: false })
    expect(blind.messages.slice(1).map((m) => m.content)).toEqual(['see\n[image]', 'B'])
    expect(blind.needs.images).toBe(false)
  })
  it('carry images and files of users as parts, and never an URL', () => {
    const { messages, needs } = messagesOf([
      {
        type: 'message',
        role: 'user',
        content: [
          { type: 'input_text', text: 'look' },
          { type: 'input_image', image_url: png, detail: 'low' },
          { type: 'input_file', file_data: 'data:application/pdf;base64,JVBERi0=', filename: 'a.pdf' },
          { type: 'input_image', image_url: 'http://127.0.0.1/secret.png' },
        ],
      },
    ])
    expect(messages[0]?.content).toEqual([
      { type: 'text', text: 'look' },
      { type: 'image_url', image_url: { url: png, detail: 'low' } },
      { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0=' } },
      { type: 'text', text: '[image]' },
    ])
    expect(needs).toEqual({ images: true, files: true, foreign: 'image_url' })
  })
  it('put leading developer messages into one system text and later ones where the style allows', () => {
    const items = [developer('one'), developer('two'), user('go'), developer('three')]
    expect(messagesOf(items)).toMatchObject({
      lead: 'one\n\ntwo',
      messages: [{ role: 'user' }, { role: 'user', content: 'three' }],
    })
    const any = messagesOf(items, { system: 'any' })
    expect(any.lead).toBe('')
    expect(any.messages.map((m) => m.role)).toEqual(['system', 'system', 'user', 'system'])
    expect(messagesOf(items, { developerRole: true }).messages.map((m) => m.role)).toEqual([
      'developer',
      'developer',
      'user',
      'developer',
    ])
  })
  it('name namespaced and clashing tools as the definitions do, also when another turn offers other tools', () => {
    const inner = tool('read', {})
    const tools: Tool[] = [
      tool('fs__read', {}),
      { type: 'namespace', name: 'fs', description: '', tools: [inner, { ...inner, name: 'odd name!' }] },
      customTool('apply_patch'),
    ]
    const all = callables(tools)
    const items = [
      call('a', 'read', '{}', 'fs'),
      call('b', 'odd name!', '{}', 'fs'),
      custom('c', 'x"y'),
      call('d', 'gone', '{}', 'fs'),
    ]
    const calls = messagesOf(items, {}, tools).messages[0]?.tool_calls?.map((c) => c.function)
    const flat = (name: string, namespace?: string) =>
      all.find((t) => t.name === name && t.namespace === namespace)?.flat
    expect(calls).toEqual([
      { name: flat('read', 'fs'), arguments: '{}' },
      { name: flat('odd name!', 'fs'), arguments: '{}' },
      { name: 'apply_patch', arguments: '{"input":"x\\"y"}' },
      { name: 'fs__gone', arguments: '{}' },
    ])
    expect(flat('read', 'fs')).not.toBe('fs__read')
    const messages = new ChatMessages(style)
    const chain = chainOf(items)
    const clashing = jsonOf(messages, chain, namingOf(all))
    expect(jsonOf(messages, chain)).toContain('"fs__read"')
    expect(jsonOf(messages, chain, namingOf(all))).toBe(clashing)
  })
  it('repair arguments that broke off, which servers would refuse for ever', () => {
    const { messages } = messagesOf([call('a', 'ls', '{"path": "/ho'), call('b', 'ls', ''), call('c', 'ls', '[1]')])
    expect(messages[0]?.tool_calls?.map((c) => JSON.parse(c.function.arguments) as unknown)).toEqual([
      { arguments: '{"path": "/ho' },
      {},
      { arguments: '[1]' },
    ])
  })
  it('leave out what only hosted tools know, and thoughts where the server takes none back', () => {
    const search: Item = { type: 'web_search_call', id: 'ws_1', status: 'completed' } as Item
    expect(
      messagesOf([user('go'), search, { type: 'item_reference', id: 'x' }, assistant('ok')]).messages.map(
        (m) => m.role,
      ),
    ).toEqual(['user', 'assistant'])
    expect(messagesOf([user('go'), reasoning('secret')], { reasoningField: 'none' }).messages).toHaveLength(1)
  })
})
