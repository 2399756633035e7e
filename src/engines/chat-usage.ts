// Token counts as chat-completions servers report them: trusted only where they can be true.
import type { EngineUsage } from '../turn/ports.ts'

/** Collects what a stream says of its usage. */
export class ChatUsage {
  /** Of chunks without choices: totals of the whole. */
  #totals: unknown[] = []
  /** Of chunks with choices: some servers count along, the last one is the total. */
  #running: unknown = undefined

  add(usage: unknown, alone: boolean): void {
    if (usage === null || typeof usage !== 'object') return
    if (!alone) this.#running = usage
    else if (this.#totals.length < 2) this.#totals.push(usage)
  }
  get seen(): boolean {
    return this.#totals.length > 0
  }
  /** Undefined where nothing, two totals or the impossible was reported: then the turn's own count holds. */
  take(spoke: boolean): EngineUsage | undefined {
    if (this.#totals.length > 1) return undefined
    return usageOf(this.#totals[0] ?? this.#running, spoke)
  }
}

const record = (v: unknown): Record<string, unknown> =>
  typeof v === 'object' && v !== null ? (v as Record<string, unknown>) : {}
const isCount = (v: unknown): v is number => typeof v === 'number' && Number.isInteger(v) && v >= 0 && v < 2 ** 31

/** `spoke`: the model has said something, so that zero tokens cannot be true. */
export function usageOf(value: unknown, spoke: boolean): EngineUsage | undefined {
  const u = record(value)
  const input = u['prompt_tokens']
  const said = u['completion_tokens']
  const cached = record(u['prompt_tokens_details'])['cached_tokens'] ?? 0
  const reasoning = record(u['completion_tokens_details'])['reasoning_tokens'] ?? 0
  if (!isCount(input) || !isCount(said) || !isCount(cached) || !isCount(reasoning)) return undefined
  if (input === 0 || cached > input || (spoke && said + reasoning === 0)) return undefined
  // Some servers count reasoning beside the completion, not as part of it; their total says so.
  const beside = u['total_tokens'] === input + said + reasoning
  if (reasoning > said && !beside) return undefined
  return { input, cached, output: beside ? said + reasoning : said, reasoning }
}
