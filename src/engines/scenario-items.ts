// Acts of a scenario as the items that they amount to, for engines whose output is ids.
import { ApiError } from '../protocol/errors.ts'
import type { Item } from '../protocol/items.ts'
import type { Finish } from '../turn/ports.ts'
import type { Act } from './scenario-act.ts'

export type Scripted = {
  readonly items: readonly Item[]
  /** Milliseconds before the first id. */
  readonly pause: number
  readonly finish: Finish | undefined
}
/** `turn`: what tells the calls of this turn from all others. Throws `unsupported_by_engine` for acts that are no output. */
export function itemsOf(acts: readonly Act[], turn: string): Scripted {
  const items: Item[] = []
  let pause = 0
  let finish: Finish | undefined
  for (const act of acts)
    switch (act.do) {
      case 'text':
        items.push({
          type: 'message',
          role: 'assistant',
          content: [{ type: 'output_text', text: [...act.pieces].join(''), annotations: [] }],
        })
        break
      case 'reasoning':
        items.push({
          type: 'reasoning',
          summary: [],
          content: [{ type: 'reasoning_text', text: [...act.pieces].join('') }],
        })
        break
      case 'call': {
        const path = {
          call_id: `call_${turn}_${items.length}`,
          name: act.name,
          ...(act.namespace === undefined ? {} : { namespace: act.namespace }),
        }
        items.push(
          act.kind === 'function'
            ? { type: 'function_call', ...path, arguments: act.input }
            : { type: 'custom_tool_call', ...path, input: act.input },
        )
        break
      }
      case 'pause':
        pause += act.ms
        break
      case 'finish':
        finish = act.finish
        break
      default:
        throw new ApiError(
          'unsupported_by_engine',
          `The scenario says '${act.do}', which a real model's sampler cannot be held to; use the simulated engine for it.`,
        )
    }
  return { items, pause, finish }
}
