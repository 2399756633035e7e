// Real templates through our hands give what the reference made of them. TEMPLATES names folders of them, as they lie in
// models/templates of llama.cpp; they are not in this repository.
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type Mapping, messagesOf, toolsOf } from '../../src/codecs/jinja-messages.ts'
import { ChatTemplate } from '../../src/codecs/jinja-template.ts'
import { namingOf } from '../../src/protocol/functions.ts'
import { callables } from '../../src/protocol/tools.ts'
import { byteTokenizer } from '../../src/tokenizers/bytes.ts'
import { families, type Goldens, goldens } from './goldens.ts'
import { settingsOf } from './talks.ts'

const folders = process.env['TEMPLATES']?.split(':') ?? []
/** Undefined where no folder has it. */
function templateOf({ template }: Goldens): string | undefined {
  const path = folders.map((folder) => join(folder, template.file)).find((file) => existsSync(file))
  if (path === undefined) return undefined
  const raw = readFileSync(path, 'utf8')
  const config = path.endsWith('.json') ? (JSON.parse(raw) as { chat_template: string }) : undefined
  const text = config ? config.chat_template : raw
  expect(createHash('sha256').update(text).digest('hex')).toBe(template.sha256)
  return (template.edits ?? []).reduce((all, [from, to]) => all.replace(from, () => to), text)
}
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
const effortOf = (how: Goldens['mapping']['effort'], effort: string | null): Record<string, unknown> => {
  if (how === 'enable_thinking') return effort === 'none' ? { enable_thinking: false } : {}
  if (how === 'thinking') return { thinking: effort !== null && effort !== 'none' }
  return how === 'reasoning_effort' && effort !== null ? { reasoning_effort: effort } : {}
}

describe.each(families)('%s', (family) => {
  test.skipIf(folders.length === 0)('every golden turn is rendered as the reference does', (context) => {
    const all = goldens(family)
    const source = templateOf(all)
    if (source === undefined) return context.skip('its template is in no folder of TEMPLATES')
    const template = new ChatTemplate(source, byteTokenizer([]), all.variables)
    let turns = 0
    let wrong = 0
    for (const { settings, items, turns: points, text } of all.cases) {
      const { tools } = settingsOf({ tools: settings.tools })
      const offered = callables(tools)
      for (const { upto, sha256 } of points) {
        const messages = messagesOf(items.slice(0, upto), settings.instructions, namingOf(offered), mappingOf(all))
        const given = { messages, tools: toolsOf(offered), documents: null }
        const trusted = { add_generation_prompt: true, ...effortOf(all.mapping.effort, settings.effort) }
        const rendered = template.marks.shown(template.render(given, trusted, new Date(all.today)))
        if (createHash('sha256').update(rendered).digest('hex') !== sha256) {
          wrong++
          if (process.env["SHOW"] && wrong < 4 && upto === points.at(-1)?.upto) expect.soft(rendered).toBe(text)
        }
        turns++
      }
    }
    console.log(family, turns, wrong)
    expect(wrong).toBe(0)
    expect(turns).toBeGreaterThanOrEqual(1000)
  }, 300_000)
})
