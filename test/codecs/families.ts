// The families that tests run over: a new one is a row here.
import type { Family } from '../../src/codecs/family.ts'
import { hermes3, qwen25, qwen3, qwen3Instruct } from '../../src/codecs/hermes.ts'
import { deepseekV32 } from '../../src/codecs/deepseek-dsml.ts'
import { deepseekV3, deepseekV31 } from '../../src/codecs/deepseek.ts'
import { glm46, glm47 } from '../../src/codecs/glm.ts'
import { gptOss } from '../../src/codecs/harmony.ts'
import { kimiK2, kimiK2Instruct, kimiK2Thinking } from '../../src/codecs/kimi.ts'
import { llama3 } from '../../src/codecs/llama3.ts'
import { devstral, ministral, mistralNemo, mistralSmall } from '../../src/codecs/mistral.ts'
import { qwen35, qwen3Coder } from '../../src/codecs/qwen-xml.ts'
import type { Item } from '../../src/protocol/items.ts'
import type { Family as GoldenFamily, Golden } from './goldens.ts'

export type Row = {
  readonly golden: GoldenFamily
  readonly family: Family
  /** Golden cases in which the codec differs from the template on purpose, each kind with its reason. */
  readonly but: (golden: Golden) => boolean
}
export const rows: readonly Row[] = [
  { golden: 'qwen3', family: qwen3, but: () => false },
  // Arguments stay as the model wrote them.
  { golden: 'qwen2.5', family: qwen25, but: ({ flags }) => flags.args === 'odd' },
  // The template loses text beside calls.
  { golden: 'hermes-3', family: hermes3, but: ({ flags }) => flags.preamble === true },
  // Arguments stay as the model wrote them, and true, false and null are those of JSON.
  { golden: 'qwen3-coder', family: qwen3Coder, but: ({ flags }) => flags.args === 'odd' || flags.python === true },
  {
    golden: 'qwen3.5',
    family: qwen35,
    but: ({ flags, items }) =>
      flags.args === 'odd' ||
      flags.python === true ||
      // A late system message is written as a user's, but it is none: reasoning in front of it stays.
      items.some((item, n) => n > 0 && lateSystem(item) && !lateSystem(items[n - 1])),
  },
  {
    golden: 'gpt-oss',
    family: gptOss,
    but: ({ flags }) =>
      // The template turns text beside calls into reasoning; the codec keeps it as what it is, a preamble.
      flags.preamble === true ||
      // It names the last call at every output; the codec names the call that the output answers.
      flags.parallel === true ||
      // Arguments stay as the model wrote them.
      flags.args === 'odd' ||
      // An answer of reasoning alone is an empty final message there, and nothing here.
      flags.hollow === true,
  },
  ...(['llama3.1', 'llama3.2', 'llama3.3'] as const).map((golden) => ({
    golden,
    family: llama3,
    // The template loses text beside calls. Arguments stay as the model wrote them.
    but: ({ flags }: Golden) => flags.preamble === true || flags.args === 'odd',
  })),
  {
    golden: 'deepseek-v3',
    family: deepseekV3,
    // The template shows no tools and breaks calls; the codec writes both, as the model knows them.
    but: ({ flags }) => flags.undeclared === true || flags.broken === true,
  },
  {
    golden: 'deepseek-v3.1',
    family: deepseekV31,
    // The template shows no tools. Arguments stay as the model wrote them.
    but: ({ flags }) => flags.undeclared === true || flags.args === 'odd',
  },
  {
    golden: 'deepseek-v3.2',
    family: deepseekV32,
    // Arguments stay as the model wrote them. A late system message drops no reasoning.
    but: ({ flags, items }) =>
      flags.args === 'odd' || items.some((item, n) => n > 0 && lateSystem(item) && !lateSystem(items[n - 1])),
  },
  {
    golden: 'devstral',
    family: devstral,
    // The template brings the prompt of one agent along where a request has no system text.
    but: ({ settings, items }) => settings.instructions === null && !lateSystem(items[0]),
  },
  { golden: 'ministral-3', family: ministral, but: () => false },
  ...(
    [
      ['mistral-small-3.2', mistralSmall],
      ['mistral-nemo', mistralNemo],
    ] as const
  ).map(([golden, family]) => ({
    golden,
    family,
    // The template loses text beside calls. Arguments stay as the model wrote them.
    but: ({ flags }: Golden) => flags.preamble === true || flags.args === 'odd',
  })),
  ...([glm46, glm47] as const).map((family) => ({
    golden: family.name as 'glm-4.6' | 'glm-4.7-flash',
    family,
    // Arguments stay as the model wrote them.
    but: ({ flags }: Golden) => flags.args === 'odd',
  })),
  // Arguments stay as the model wrote them.
  { golden: 'kimi-k2', family: kimiK2, but: ({ flags }) => flags.args === 'odd' },
  ...([kimiK2Instruct, kimiK2Thinking] as const).map((family) => ({
    golden: family.name as 'kimi-k2-instruct' | 'kimi-k2-thinking',
    family,
    // The template names outputs in the order of the calls; the codec names the call that the output answers.
    but: ({ flags }: Golden) => flags.shuffled === true,
  })),
]
/** Every family, with or without a golden. */
export const families: readonly Family[] = [...new Set([...rows.map((row) => row.family), qwen3Instruct])]
const lateSystem = (item: Item | undefined): boolean =>
  item?.type === 'message' && (item.role === 'system' || item.role === 'developer')
