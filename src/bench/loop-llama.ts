// What keeping a conversation's ids is worth to a real engine: llama.cpp with a tiny model. A strict tool leaves it one call to
// make; in which ids it spells that call is the sampler's choice, and not always an encoder's. A history that is rendered
// again from its text leaves the engine's cache there; one that is kept does not. The engine counts what it computes.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Fields, Seen } from './driver.ts'
import { temporaryFolder } from './leftovers.ts'
import { open } from './loop-drive.ts'
import { modeOf } from './loop-modes.ts'
import { answersTo, marker, roughly, type Task, taskOf } from './loop-task.ts'
import { packageFolder } from './packages.ts'
import { type OnProgress, quantile, type Table } from './report.ts'
import { both, type Served, serveApart } from './served.ts'
import { type TokenizerJson, writeTinyGguf } from './tiny-gguf.ts'

/** So few ids that the model is quick. */
const vocab = 4000
const context = 32_768
const sizes = { base: 2400, growth: 700, output: 50, toolMs: 0 }
const only = (words: string): Fields => ({ type: 'string', enum: [words] })
const strictTool: Fields = {
  type: 'function',
  name: 'show_part',
  description: 'Shows the next part.',
  parameters: {
    type: 'object',
    properties: {
      path: only('src/parts/the-next-one.ts'),
      why: only('I want to see how this part fits the rest and what it says about the next one'),
    },
    required: ['path', 'why'],
    additionalProperties: false,
  },
  strict: true,
}
const modes = { again: modeOf('http-own'), exact: modeOf('ws-chain') }
type Mode = (typeof modes)[keyof typeof modes]

/** `tokenizer`: folder with the tokenizer.json whose beginning the model gets. Throws where llama.cpp cannot be had. */
export async function prefillArm(
  { tokenizer, calls }: { readonly tokenizer: string; readonly calls: number },
  onProgress: OnProgress,
): Promise<{ readonly tables: readonly Table[]; readonly notes: readonly string[] }> {
  const modules = await packageFolder('node-llama-cpp', (what) => onProgress(0, what))
  const task = taskOf({ ...sizes, calls }, 0, roughly)
  const folder = await temporaryFolder('continuo-llama-')
  try {
    // Read as the file has it: merges are texts or pairs.
    const json = JSON.parse(await readFile(join(tokenizer, 'tokenizer.json'), 'utf8')) as TokenizerJson
    const shape = { layers: 1, width: 32, heads: 1, context, vocab, pre: 'qwen2', eos: '<|im_end|>' }
    const model = writeTinyGguf(join(folder.path, 'tiny.gguf'), { ...shape, tokenizer: json })
    // One sequence: whatever begins alike is found in the cache, in both arms.
    const kept = { gpu: 'off', threads: 1, context, sequences: 1, seed: 1 }
    const engine = { type: 'llama-embedded', model, modules, ...kept }
    onProgress(0, 'starting llama.cpp')
    // A server each, whose llama.cpp knows nothing yet; only one of them works at a time.
    const servers = await both(start(modes.again, engine), start(modes.exact, engine))
    try {
      onProgress(0.4, 'llama.cpp: history rendered again')
      const again = await loop(modes.again, task, servers[0].url)
      onProgress(0.7, 'llama.cpp: token-exact history')
      return told(again, await loop(modes.exact, task, servers[1].url))
    } finally {
      for (const server of servers) await server.stop()
    }
  } finally {
    await folder.remove()
  }
}
function start(mode: Mode, engine: object): Promise<Served> {
  const models = { m: { engine: 'llama', codec: 'qwen3' } }
  return serveApart({ set: { engines: { llama: engine }, models, caches: mode.caches } })
}
/** Throws an Error unless the model makes the one call each turn. */
async function loop(mode: Mode, task: Task, url: string): Promise<readonly Seen[]> {
  const client = await open(mode, { url })
  try {
    const turns: Seen[] = []
    const history: Fields[] = [marker(1), ...task.opening]
    let fresh: readonly Fields[] = history
    for (const step of task.steps.slice(0, -1)) {
      const last = turns.at(-1)
      const seen = await client.turn({
        model: 'm',
        instructions: task.instructions,
        tools: [strictTool],
        tool_choice: { type: 'function', name: strictTool['name'] },
        parallel_tool_calls: false,
        reasoning: { effort: 'none' },
        ...(mode.sends === 'all' ? { store: false } : last ? { previous_response_id: last.id } : {}),
        input: mode.sends === 'all' ? history : fresh,
      })
      turns.push(seen)
      fresh = answersTo(step, seen.calls, turns.length)
      history.push(...seen.items, ...fresh)
    }
    return turns
  } finally {
    await client.close()
  }
}

function told(
  rendered: readonly Seen[],
  exact: readonly Seen[],
): { readonly tables: readonly Table[]; readonly notes: readonly string[] } {
  const prefilled = (turns: readonly Seen[]): number[] => turns.map(({ usage }) => usage.input - usage.cached)
  const sum = (all: readonly number[]): number => all.reduce((a, b) => a + b, 0)
  const [again, once] = [prefilled(rendered), prefilled(exact)]
  const first = (turns: readonly Seen[]): number =>
    quantile(
      turns.slice(1).map(({ firstMs }) => firstMs),
      0.5,
    )
  return {
    tables: [
      {
        title: 'Prefill on llama.cpp: history rendered again, and token-exact',
        note: 'By the engine’s own count: tokens of the prompt, and those of them that it had to compute.',
        head: ['turn', 'prompt, again', 'prefilled', 'first sign, ms', 'prompt, exact', 'prefilled', 'first sign, ms'],
        rows: rendered.map((turn, n) => {
          const other = exact[n]
          return [
            String(n + 1),
            turn.usage.input,
            again[n] ?? NaN,
            turn.firstMs,
            other?.usage.input ?? NaN,
            once[n] ?? NaN,
            other?.firstMs ?? NaN,
          ]
        }),
      },
    ],
    notes: [
      `Prefill, on llama.cpp with a tiny model, prefix cache on in both arms: behind the first turn a history rendered again made it compute ${sum(again.slice(1))} tokens, a token-exact one ${sum(once.slice(1))}; the first sign of the model came after ${Math.round(first(rendered))} and ${Math.round(first(exact))} ms (median). What is computed again is what the model wrote the turn before, and all behind it: older calls are in the cache as they were rendered. The model is random, so it spells its calls in other ids than an encoder nearly always; real models do so now and then. A template that rewrites older turns, or an engine that gives up the sequence, costs the whole history.`,
    ],
  }
}
