// A scenario, or the simulated engine's behaviour, as items that the model is to write: what llama.cpp is then held to.
import { ApiError } from '../protocol/errors.ts'
import type { Item } from '../protocol/items.ts'
import type { Settings } from '../protocol/request.ts'
import { callables, chosen } from '../protocol/tools.ts'
import type { Chain } from '../turn/chain.ts'
import type { Finish } from '../turn/ports.ts'
import type { Act } from './scenario-act.ts'
import { behave } from './scenario-behaviour.ts'
import { seenOf } from './scenario-prompt.ts'
import { loadScenario, type Scenario } from './scenario.ts'

export type Scripted = {
  readonly items: readonly Item[]
  /** Milliseconds before the first id. */
  readonly pause: number
  readonly finish: Finish | undefined
}
const rounds = 3

export class Script {
  readonly #scenario: Scenario | undefined

  /** Throws an Error with a sentence for a scenario that is wrong. */
  constructor(scenario: Parameters<typeof loadScenario>[0]) {
    this.#scenario = scenario === 'behaviour' ? undefined : loadScenario(scenario)
  }
  next(settings: Settings, chain: Chain): Scripted {
    const tools = callables(settings.tools, chain.tools)
    const choice = chosen(tools, settings.tool_choice)
    const seen = seenOf(chain)
    const scripted = this.#scenario?.next({ seen, model: settings.model, tools })
    const acts = scripted ?? behave(settings, choice, seen, { rounds, reasoning: false })
    const first = acts.findIndex((act) => act.do === 'call')
    return performed(
      settings.parallel_tool_calls ? acts : acts.filter((act, n) => act.do !== 'call' || n === first),
      `${seen.turns}`,
    )
  }
}

function performed(acts: readonly Act[], turn: string): Scripted {
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
