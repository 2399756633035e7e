// `npm run bench:counts`: the counts of counts.ts beside those that are committed. `--write` commits to the new ones: a
// change of counts is then seen in review.
import { readFileSync, writeFileSync } from 'node:fs'
import { Command } from 'commander'
import { main } from '../figures.ts'
import { table } from '../../src/bench/columns.ts'
import { allocations, count } from './counts.ts'
import { countsFile, type Held } from './held.ts'

const program = new Command('counts')
  .description('what a turn costs in tokens, bytes, writes and allocations, beside the counts that CI holds')
  .option('--write', 'write them to bench/counts/counts.json')
  .option('--json', 'print one JSON object')
program.parse()
const options = program.opts<{ write?: true; json?: true }>()

await main(async () => {
  const now: Held = { counts: await count(), allocations: await allocations() }
  // Written by this program.
  const held = JSON.parse(readFileSync(countsFile, 'utf8')) as Held
  const of = ({ counts, allocations: bytes }: Held): Record<string, number> => ({ ...counts, ...bytes })
  const rows = Object.entries(of(now)).map(([name, n]) => [name, String(of(held)[name] ?? '–'), String(n)])
  if (options.write) writeFileSync(countsFile, `${JSON.stringify(now, undefined, 2)}\n`)
  process.stdout.write(options.json ? `${JSON.stringify(now)}\n` : `${table(['count', 'held', 'now'], rows)}\n`)
  return 0
})
