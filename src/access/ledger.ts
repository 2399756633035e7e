// The ledger where nobody is billed: counts what was used, holds the newest rows, and keeps each permit to one settling.
import type { EngineUsage, Ledger } from '../turn/ports.ts'

/** What one response used. Tokens; `estimated` where the engine reported none. */
export type LedgerRow = {
  readonly id: string
  readonly owner: string
  readonly model: string
  readonly usage: Required<EngineUsage>
}
/** Sums over all settled permits since the start, in tokens. */
export type Totals = { input: number; cached: number; output: number; reasoning: number }
export type CountingLedger = Ledger & {
  /** Permits given and not settled yet. */
  readonly open: number
  readonly settled: number
  /** Settlings beyond the first of a permit: always 0 unless a caller is wrong. They change nothing else. */
  readonly repeated: number
  readonly totals: Readonly<Totals>
  /** The newest rows, oldest first. */
  readonly rows: readonly LedgerRow[]
}

/** Refuses nothing. `maxRows`: rows that are kept. */
export function countingLedger({ maxRows = 1000 }: { readonly maxRows?: number } = {}): CountingLedger {
  let open = 0
  let settled = 0
  let repeated = 0
  const totals: Totals = { input: 0, cached: 0, output: 0, reasoning: 0 }
  const rows: LedgerRow[] = []

  return {
    get open() {
      return open
    },
    get settled() {
      return settled
    },
    get repeated() {
      return repeated
    },
    get totals() {
      return { ...totals }
    },
    get rows() {
      return rows.slice(-maxRows)
    },
    async reserve({ id, principal, settings }) {
      open++
      let done = false
      return {
        settle(used) {
          if (done) {
            repeated++
            return
          }
          done = true
          open--
          settled++
          const usage = {
            input: tokens(used.input),
            cached: tokens(used.cached),
            output: tokens(used.output),
            reasoning: tokens(used.reasoning),
            estimated: used.estimated === true,
          }
          totals.input += usage.input
          totals.cached += usage.cached
          totals.output += usage.output
          totals.reasoning += usage.reasoning
          if (maxRows > 0) rows.push({ id, owner: principal.owner, model: settings.model, usage })
          // Dropped in bulk: a shift per row would move all of them each time.
          if (rows.length >= maxRows * 2) rows.splice(0, rows.length - maxRows)
        },
      }
    },
  }
}

/** An engine's number may be anything; a sum must stay a sum. */
const tokens = (n: number): number => (Number.isFinite(n) && n > 0 ? Math.floor(n) : 0)
