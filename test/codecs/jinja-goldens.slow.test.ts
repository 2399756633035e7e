// Real templates through the codec give what the reference made of them, turn by turn. TEMPLATES names folders of them
// (a:b), as they lie in models/templates of llama.cpp; they are not in this repository.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { familyOf } from '../../src/codecs/detect.ts'
import type { Mapping } from '../../src/codecs/jinja-messages.ts'
import { jinjaCodec } from '../../src/codecs/jinja.ts'
import { mismatch } from '../../src/codecs/match.ts'
import { rows } from './families.ts'
import { type Goldens, goldens } from './goldens.ts'
import { bytesFor, fromScratch, resent, settingsOf } from './talks.ts'

const folders = process.env['TEMPLATES']?.split(':') ?? []
/** Undefined where no folder has it. */
function templateOf({ template }: Goldens): string | undefined {
  const path = folders.map((folder) => join(folder, template.file)).find((file) => existsSync(file))
  if (path === undefined) return undefined
  const raw = readFileSync(path, 'utf8')
  const source = path.endsWith('.json') ? (JSON.parse(raw) as { chat_template: string }).chat_template : raw
  expect(createHash('sha256').update(source).digest('hex')).toBe(template.sha256)
  return source
}
const edited = (source: string, { template }: Goldens): string =>
  (template.edits ?? []).reduce((all, [from, to]) => all.replace(from, () => to), source)
const mappingOf = ({ mapping, family }: Goldens): Mapping => ({
  arguments: mapping.arguments,
  system: 'system',
  laterSystem: mapping.laterSystem,
  reasoning: mapping.reasoning,
  calls: mapping.calls,
  users: mapping.users,
  ids: mapping.ids,
  noText: family === 'deepseek-v3' ? null : '',
})

describe.skipIf(folders.length === 0).each(rows)('$golden', ({ golden, family }) => {
  test('every golden turn is rendered as the reference does', (context) => {
    const all = goldens(golden)
    const source = templateOf(all)
    if (source === undefined) return context.skip('its template is in no folder of TEMPLATES')
    const mapping = mappingOf(all)
    const codec = jinjaCodec(edited(source, all), bytesFor(family), {
      dialect: family,
      variables: all.variables,
      mapping,
    })
    let turns = 0
    for (const { flags, settings, items, turns: points, text } of all.cases) {
      // Templates look for their own markers in what clients write; here they find none.
      if (flags.lookalike) continue
      const { instructions, tools, effort } = settings
      const asked = settingsOf({ instructions, tools, reasoning: { effort } })
      for (const { upto, sha256 } of points) {
        const chain = resent(items.slice(0, upto), Date.parse(all.today))
        const rendered = codec.tokenizer.decode(fromScratch(codec, chain, asked))
        if (upto === points.at(-1)?.upto) expect(rendered).toBe(text)
        expect(createHash('sha256').update(rendered).digest('hex')).toBe(sha256)
        turns++
      }
    }
    expect(turns).toBeGreaterThanOrEqual(1000)
  }, 300_000)
  test('its own template is known as the family', (context) => {
    const all = goldens(golden)
    const source = templateOf(all)
    if (source === undefined) return context.skip('its template is in no folder of TEMPLATES')
    expect(mismatch(source, family)).toBeUndefined()
    expect(mismatch(source, family, all.variables)).toBeUndefined()
  })
})

/** Templates that look like a family, and are another. */
const alike = /Laguna|Nemotron-3|V4|QwQ|MiMo|Bielik|StepFun|R1|functionary|ling-3|Spark/
test.skipIf(folders.length === 0)('templates that only look like a family are told apart', () => {
  let told = 0
  for (const folder of folders)
    for (const file of readdirSync(folder)) {
      if (!alike.test(file)) continue
      const source = readFileSync(join(folder, file), 'utf8')
      const row = rows.find(({ family }) => family.name === familyOf(source))
      if (!row) continue
      expect(`${file}: ${mismatch(source, row.family)}`).not.toBe(`${file}: undefined`)
      told++
    }
  expect(told).toBeGreaterThan(8)
})
