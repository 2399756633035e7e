// A scenario, or the simulated engine's behaviour, as items that the model is to write: what llama.cpp is then held to.
import type { Settings } from '../protocol/request.ts'
import { callables, chosen } from '../protocol/tools.ts'
import type { Chain } from '../turn/chain.ts'
import { behave } from './scenario-behaviour.ts'
import { itemsOf, type Scripted } from './scenario-items.ts'
import { seenOf } from './scenario-prompt.ts'
import { loadScenario, type Scenario } from './scenario.ts'

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
    return itemsOf(
      settings.parallel_tool_calls ? acts : acts.filter((act, n) => act.do !== 'call' || n === first),
      `${seen.turns}`,
    )
  }
}
