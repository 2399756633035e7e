// `npm run bench:peers`: other servers of the Responses API and ours before the same engine, with the same task. Exit code
// 1 if nothing could be measured.
import { Command, Option } from 'commander'
import { amount, whole } from '../../src/bench/benchmark.ts'
import { reportJson } from '../../src/bench/report-json.ts'
import { reportText } from '../../src/bench/report-text.ts'
import { progressBar } from '../../src/cli/progress.ts'
import { compare, type ComparisonOptions } from './comparison.ts'
import { peers } from './peers.ts'

type Options = ComparisonOptions & { readonly peer?: string[]; readonly list?: true; readonly json?: true }

const program = new Command('npm run bench:peers --')
  .description(
    'other servers of the Responses API and ours before the same scripted engine, with the same task; bench/peers/README.md says how each is installed',
  )
  .addOption(new Option('--peer <name...>', 'only these').choices(peers.map(({ name }) => name)))
  .option('--list', 'say which there are and which are installed, and end')
  .option('--calls <n>', 'calls of a tool in the task', whole, 10)
  .option('--rounds <n>', 'runs that count of each server and way, interleaved', whole, 5)
  .option('--ttft-ms <ms>', "until the engine's first token", amount, 50)
  .option('--tokens-per-second <n>', 'pace of the engine; 0: at once', amount, 1000)
  .option('--output-tokens <n>', 'tokens of each answer', whole, 100)
  .option('--base-tokens <n>', 'tokens before the first turn', whole, 30_000)
  .option('--growth-tokens <n>', 'tokens that each turn adds', whole, 7000)
  .option('--json', 'print one JSON object')
program.parse()
const { peer: names, list, json, ...options } = program.opts<Options>()
const chosen = peers.filter(({ name }) => names?.includes(name) ?? true)

// A signal ends what was started too: see `startProgram`.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))

if (list)
  for (const peer of chosen) console.log(`${peer.name.padEnd(12)} ${await state(peer)}\n${' '.repeat(13)}${peer.what}`)
else {
  const bar = progressBar(process.stderr)
  const report = await compare(chosen, options, bar.onProgress)
  bar.end()
  process.stdout.write(json ? reportJson(report) : reportText(report, process.stdout.columns || 140))
  process.exitCode = Object.keys(report.ratios).length > 0 || report.plots.length > 0 ? 0 : 1
}

async function state(peer: (typeof peers)[number]): Promise<string> {
  return (await peer.available()) ?? `version ${await peer.version()}`
}
