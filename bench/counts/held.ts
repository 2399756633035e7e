// The counts that CI holds: bench/counts/counts.json, written by `npm run bench:counts -- --write`.
import { fileURLToPath } from 'node:url'
import type { Allocations, Counts } from './counts.ts'

export type Held = { readonly counts: Counts; readonly allocations: Allocations }
export const countsFile = fileURLToPath(new URL('./counts.json', import.meta.url))
/** Allocations may differ by so much from run to run, and from one Node to the next. */
export const allocationsWithin = 1.3
