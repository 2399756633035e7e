// Scripts for engines that follow one (simulated, embedded): a YAML file that says what the model answers, turn by turn.
// Documented in docs/engines.md.
import { readFileSync, statSync } from 'node:fs'
import { parse } from 'yaml'
import { z } from 'zod'
import type { Callable } from '../protocol/tools.ts'
import { type Act, type Fault, faultSchema, filler, pieces, say, usageSchema } from './scenario-act.ts'
import { inputFor } from './scenario-behaviour.ts'
import type { Seen } from './scenario-prompt.ts'

const mostBytes = 1024 * 1024

const step = z.union(
  [
    z.strictObject({ text: z.string() }),
    z.strictObject({ tokens: z.number().int().min(1).max(10_000_000) }),
    z.strictObject({ reasoning: z.string() }),
    z.strictObject({ refusal: z.string() }),
    z.strictObject({ json: z.json() }),
    z.strictObject({
      call: z
        .strictObject({
          name: z.string().min(1),
          namespace: z.string().min(1).optional(),
          kind: z.enum(['function', 'custom']).optional(),
          arguments: z.union([z.string(), z.record(z.string(), z.json())]).optional(),
          input: z.string().optional(),
        })
        .refine((c) => c.arguments === undefined || c.input === undefined, 'give `arguments` or `input`, not both'),
    }),
    z.strictObject({ pause: z.number().min(0).max(3_600_000) }),
    z.strictObject({ finish: z.enum(['stop', 'length', 'filter']) }),
    z.strictObject({ usage: usageSchema }),
    z.strictObject({ fault: faultSchema }),
  ],
  { error: 'no step: expected one of text, tokens, reasoning, refusal, json, call, pause, finish, usage, fault' },
)
const turn = z.strictObject({
  /** All that is given must hold. */
  when: z
    .strictObject({
      contains: z.string().min(1).optional(),
      output: z.string().min(1).optional(),
      tool: z.string().min(1).optional(),
      model: z.string().min(1).optional(),
    })
    .refine((w) => Object.keys(w).length > 0, 'needs one of contains, output, tool, model')
    .optional(),
  /** Uses after which this turn no longer matches. */
  times: z.number().int().min(1).optional(),
  steps: z.array(step).min(1).max(1000),
})
export const scenarioSchema = z.strictObject({
  /** What the turns without `when` are counted by: a conversation's generations, or all requests to the engine. */
  by: z.enum(['conversation', 'requests']).default('conversation'),
  turns: z.array(turn).min(1).max(1000),
})
type Step = z.infer<typeof step>
type Script = z.infer<typeof scenarioSchema>

/** From a path or an inline object. Throws an Error whose message names the file, the place and what was expected. */
export function loadScenario(source: string | z.input<typeof scenarioSchema>): Scenario {
  if (typeof source !== 'string') return new Scenario(read(source, 'scenario'))
  let value: unknown
  try {
    if (statSync(source).size > mostBytes) throw new Error(`is larger than ${mostBytes} bytes`)
    value = parse(readFileSync(source, 'utf8'))
  } catch (e) {
    throw new Error(`Scenario file ${source}: ${e instanceof Error ? e.message : String(e)}`, { cause: e })
  }
  return new Scenario(read(value, `Scenario file ${source}`))
}
function read(value: unknown, where: string): Script {
  const parsed = scenarioSchema.safeParse(value)
  if (parsed.success) return parsed.data
  const issue = parsed.error.issues[0]
  throw new Error(`${where}: ${issue?.path.join('.') || 'the document'}: ${issue?.message ?? 'wrong shape'}`)
}

/** What a turn is matched by. */
export type Scene = { readonly seen: Seen; readonly model: string; readonly tools: readonly Callable[] }

export class Scenario {
  readonly #script: Script
  readonly #used: number[]
  #requests = 0

  constructor(script: Script) {
    this.#script = script
    this.#used = script.turns.map(() => 0)
  }
  /** The acts of the first turn whose `when` holds, else of the next in order; undefined where the script says nothing. */
  next(scene: Scene): Act[] | undefined {
    const { by, turns } = this.#script
    const place = by === 'conversation' ? scene.seen.turns : this.#requests
    this.#requests++
    let ordered = 0
    let inOrder: number | undefined
    for (const [n, { when, times }] of turns.entries()) {
      const free = (this.#used[n] ?? 0) < (times ?? Infinity)
      if (when === undefined) {
        if (ordered++ === place && free) inOrder = n
      } else if (free && holds(when, scene)) return this.#take(n, scene)
    }
    return inOrder === undefined ? undefined : this.#take(inOrder, scene)
  }
  #take(n: number, scene: Scene): Act[] {
    this.#used[n] = (this.#used[n] ?? 0) + 1
    return (this.#script.turns[n]?.steps ?? []).map((s) => actOf(s, scene))
  }
}

function holds(when: NonNullable<z.infer<typeof turn>['when']>, { seen, model, tools }: Scene): boolean {
  if (when.contains !== undefined && !seen.user.includes(when.contains)) return false
  if (when.output !== undefined && !seen.output.includes(when.output)) return false
  if (when.model !== undefined && when.model !== model) return false
  return when.tool === undefined || tools.some((t) => t.name === when.tool || t.flat === when.tool)
}

function actOf(s: Step, scene: Scene): Act {
  if ('text' in s) return say(s.text)
  if ('tokens' in s) return { do: 'text', pieces: filler(s.tokens) }
  if ('reasoning' in s) return { do: 'reasoning', pieces: pieces(s.reasoning) }
  if ('refusal' in s) return { do: 'refusal', pieces: pieces(s.refusal) }
  if ('json' in s) return say(JSON.stringify(s.json))
  if ('pause' in s) return { do: 'pause', ms: s.pause }
  if ('finish' in s) return { do: 'finish', finish: s.finish }
  if ('usage' in s) return { do: 'usage', usage: s.usage }
  if ('fault' in s) return { do: 'fault', fault: s.fault satisfies Fault }
  const { name, namespace, arguments: args, input } = s.call
  const tool = scene.tools.find((t) => t.name === name && (namespace === undefined || t.namespace === namespace))
  const kind = s.call.kind ?? (input !== undefined ? 'custom' : (tool?.kind ?? 'function'))
  const given = input ?? (typeof args === 'object' ? JSON.stringify(args) : args)
  // A script may call what is not offered; then there is no schema to make arguments from.
  const made = given ?? (tool ? inputFor(tool, scene.seen.rounds) : kind === 'function' ? '{}' : '')
  return { do: 'call', kind, name, namespace: namespace ?? tool?.namespace, input: made }
}
