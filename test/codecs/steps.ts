// Random conversations with a codec, step by step: what users, tools and models do, forks and other settings among it.
import type { Item } from '../../src/protocol/items.ts'
import { Chain } from '../../src/turn/chain.ts'
import type { Codec } from '../../src/turn/ports.ts'
import { settingsOf, speakInto, spelt, writtenIds } from './talks.ts'

/** Calls: an object is the arguments of `ls`, a text the input of the custom tool `raw`. */
export type Said = { reasoning: string | undefined; text: string | undefined; calls: (object | string)[] }
export type Step =
  | { do: 'user'; text: string }
  | { do: 'system'; text: string }
  | { do: 'outputs'; text: string }
  | { do: 'speak'; said: Said; odd: boolean; cut: number | undefined }
  | { do: 'claim'; said: Said }
  | { do: 'fork'; back: number }
  | { do: 'settings'; instructions: string | null; effort: string | null }
export const user = (words: string): Item => ({
  type: 'message',
  role: 'user',
  content: [{ type: 'input_text', text: words }],
})
let calls = 0
export function itemsSaid({ reasoning, text: words, calls: made }: Said): Item[] {
  return [
    ...(reasoning === undefined
      ? []
      : [{ type: 'reasoning' as const, summary: [], content: [{ type: 'reasoning_text' as const, text: reasoning }] }]),
    ...(words === undefined
      ? []
      : [
          {
            type: 'message' as const,
            role: 'assistant' as const,
            content: [{ type: 'output_text' as const, text: words, annotations: [] }],
          },
        ]),
    ...made.map((given): Item => {
      const call_id = `call_${calls++}`
      return typeof given === 'string'
        ? { type: 'custom_tool_call', call_id, name: 'raw', input: given }
        : { type: 'function_call', call_id, name: 'ls', arguments: JSON.stringify(given) }
    }),
  ]
}
function outputsFor(chain: Chain, words: string): Item[] {
  return chain.items.flatMap((item): Item[] => {
    if (item.type === 'function_call') return [{ type: 'function_call_output', call_id: item.call_id, output: words }]
    if (item.type === 'custom_tool_call')
      return [{ type: 'custom_tool_call_output', call_id: item.call_id, output: words }]
    return []
  })
}
export const began = Date.parse('2026-07-26')

/** Takes the steps one by one and shows the chain, with the settings of that turn, whenever a model would be asked. */
export function hold(
  codec: Codec,
  tools: readonly object[],
  steps: readonly Step[],
  look: (chain: Chain, settings: ReturnType<typeof settingsOf>) => void,
) {
  let settings = settingsOf({ tools })
  let chain = Chain.root('o', began).add({ response: 'r', from: 'input', items: [user('begin')] })
  const past = [chain]
  const input = (items: Item[]): void =>
    void (items.length > 0 && (chain = chain.add({ response: 'r', from: 'input', items })))
  for (const one of steps) {
    if (one.do === 'user') input([user(one.text)])
    else if (one.do === 'system')
      input([{ type: 'message', role: 'developer', content: [{ type: 'input_text', text: one.text }] }])
    else if (one.do === 'outputs') input(outputsFor(chain, one.text))
    else if (one.do === 'claim') input(itemsSaid(one.said))
    else if (one.do === 'fork') chain = past.at(-1 - (one.back % past.length)) ?? chain
    else if (one.do === 'settings')
      settings = settingsOf({ tools, instructions: one.instructions, reasoning: { effort: one.effort } })
    else {
      const written = writtenIds(codec, itemsSaid(one.said), settings, chain)
      const ids = one.odd ? spelt(written, codec.tokenizer) : written
      chain = speakInto(
        chain,
        codec,
        settings,
        one.cut === undefined ? ids : ids.slice(0, one.cut),
        one.cut === undefined ? 'stop' : 'length',
      )
    }
    past.push(chain)
    look(chain, settings)
  }
}

/** Every id as a reader sees it, so that a difference can be read. */
export const shown = (codec: Codec, ids: readonly number[]): string =>
  ids.map((id) => codec.tokenizer.nameOf(id) ?? JSON.stringify(codec.tokenizer.decode([id]))).join(' ')
