// `npm run check [-- types lint format tests]`: all four, or those named; the tests are the fast ones. Under a minute.
// Runs them all, then says which failed.
import { join } from 'node:path'
import { fail, ready, root, run, say } from './prepare.mjs'

const bin = (path) => join(root, 'node_modules', path)
// Left out: programs started and ended as programs, real clients, and what calls itself slow.
const slow = ['test/clients/**', 'test/cli/**', '**/*.slow.test.ts']
// Files of one worker share what they load: it halves the time, and `npm test` runs each on its own.
const fast = [...slow.flatMap((files) => ['--exclude', files]), '--no-isolate', '--reporter', 'minimal']
const steps = [
  ['types', bin('typescript/bin/tsc'), '--noEmit'],
  ['lint', bin('oxlint/bin/oxlint')],
  ['format', bin('oxfmt/bin/oxfmt'), '--check'],
  ['tests', bin('vitest/vitest.mjs'), 'run', ...fast],
]

// The laws with a few runs each; `npm test` gives them their full number.
process.env.RUNS ??= '5'

const chosen = process.argv.slice(2)
const unknown = chosen.find((name) => steps.every(([known]) => known !== name))
if (unknown) fail(`there is no check "${unknown}"; there are ${steps.map(([name]) => name).join(', ')}.`)

ready()
const failed = []
for (const [name, program, ...args] of steps) {
  if (chosen.length > 0 && !chosen.includes(name)) continue
  const start = performance.now()
  if (run(process.execPath, [program, ...args]) !== 0) failed.push(name)
  say(`${name}: ${failed.includes(name) ? 'FAILED' : 'passed'} in ${((performance.now() - start) / 1000).toFixed(1)} s`)
}
if (failed.length > 0) say(`failed: ${failed.join(', ')}`)
process.exit(failed.length > 0 ? 1 : 0)
